//! What names, labels and annotations may look like.

use hagane_api::field::FieldError;
use serde_json::Value;

pub(crate) use hagane_api::names::{label_value_problem, qualified_name_problem};

/// Most bytes of all annotations of an object.
const ANNOTATIONS_SIZE_MAX: usize = 256 * 1024;

/// Checks labels, annotations, finalizers and owner references of an object.
pub(crate) fn metadata_problems(metadata: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in metadata.get("labels").and_then(Value::as_object).into_iter().flatten() {
        if let Some(problem) = qualified_name_problem(key) {
            errors.push(FieldError::invalid("metadata.labels", key, problem));
        }
        if let Some(problem) = value.as_str().and_then(label_value_problem) {
            errors.push(FieldError::invalid("metadata.labels", value, problem));
        }
    }
    annotation_problems(metadata, &mut errors);
    for finalizer in metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten() {
        let text = finalizer.as_str().unwrap_or_default();
        if let Some(problem) = qualified_name_problem(text) {
            errors.push(FieldError::invalid("metadata.finalizers", text, problem));
        }
    }
    owner_problems(metadata, &mut errors);
    errors
}

fn annotation_problems(metadata: &Value, errors: &mut Vec<FieldError>) {
    let mut size = 0;
    for (key, value) in metadata.get("annotations").and_then(Value::as_object).into_iter().flatten() {
        if let Some(problem) = qualified_name_problem(&key.to_ascii_lowercase()) {
            errors.push(FieldError::invalid("metadata.annotations", key, problem));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_SIZE_MAX {
        let detail = format!("must have at most {ANNOTATIONS_SIZE_MAX} bytes");
        errors.push(FieldError::invalid("metadata.annotations", size, detail));
    }
}

fn owner_problems(metadata: &Value, errors: &mut Vec<FieldError>) {
    let mut controllers = 0;
    let owners = metadata.get("ownerReferences").and_then(Value::as_array);
    for (index, owner) in owners.into_iter().flatten().enumerate() {
        let field = |name: &str| format!("metadata.ownerReferences[{index}].{name}");
        let text = |name: &str| owner.get(name).and_then(Value::as_str).unwrap_or_default();
        for (name, detail) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if text(name).is_empty() {
                errors.push(FieldError::invalid(field(name), "", detail));
            }
        }
        if text("kind") == "Event" && matches!(text("apiVersion"), "v1" | "events.k8s.io/v1") {
            errors.push(FieldError::invalid(field("kind"), "Event", "is disallowed from being an owner"));
        }
        controllers += usize::from(owner.get("controller") == Some(&Value::Bool(true)));
    }
    if controllers > 1 {
        let detail = "Only one reference can have Controller set to true";
        errors.push(FieldError::invalid("metadata.ownerReferences", controllers, detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn accepts_what_kubernetes_accepts() {
        let metadata = json!({
            "labels": {"a.b/c_d": "X.y", "e": ""}, "annotations": {"Any.Thing/x": "free\ntext"},
            "finalizers": ["foregroundDeletion", "a.b/c"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "1", "controller": true}],
        });
        assert_eq!(metadata_problems(&metadata), []);
    }

    #[test]
    fn names_every_wrong_field() {
        let long = "x".repeat(64);
        let metadata = json!({
            "labels": {"-a": "b", "c": long}, "finalizers": ["a/b/c"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "s", "uid": ""}],
        });
        let fields: Vec<_> = metadata_problems(&metadata).into_iter().map(|error| error.field).collect();
        assert_eq!(
            fields,
            [
                "metadata.labels",
                "metadata.labels",
                "metadata.finalizers",
                "metadata.ownerReferences[0].uid",
                "metadata.ownerReferences[0].kind"
            ]
        );
    }
}
