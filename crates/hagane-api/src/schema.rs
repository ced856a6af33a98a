//! From Rust types to the structural schemas of Kubernetes, and to CRDs.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::KindDescriptor;

/// The structural schema of `T`: everything inlined, no nulls, no combinators where a plain form says the same.
#[must_use]
pub fn structural<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = SchemaGenerator::new(settings).into_root_schema_for::<T>().to_value();
    simplify(&mut schema);
    schema
}

/// The schema of a whole object with the given parts.
#[must_use]
pub(crate) fn object_schema(description: &str, spec: Value, status: Value) -> Value {
    let mut properties = Map::new();
    properties
        .insert("apiVersion".into(), json!({"type": "string", "description": "Group and version of this object."}));
    properties.insert("kind".into(), json!({"type": "string", "description": "Kind of this object."}));
    properties.insert("metadata".into(), json!({"type": "object"}));
    properties.insert("spec".into(), spec);
    properties.insert("status".into(), status);
    json!({"description": description, "type": "object", "properties": properties})
}

/// A field that may hold any object.
pub(crate) fn any_object(_: &mut SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn simplify(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    for noise in ["$schema", "title", "nullable", "definitions", "$defs", "components"] {
        fields.remove(noise);
    }
    // Said where null means something else than absent, which `Option` alone does not say.
    if fields.remove("x-hagane-nullable").is_some() {
        fields.insert("nullable".into(), Value::Bool(true));
    }
    let int_or_string = fields.contains_key("x-kubernetes-int-or-string");
    if !int_or_string {
        unwrap_combinators(fields);
    }
    drop_null_type(fields);
    plain_number_format(fields);
    if fields.get("default").is_some_and(Value::is_null) {
        fields.remove("default");
    }
    for key in ["properties"] {
        if let Some(Value::Object(children)) = fields.get_mut(key) {
            children.values_mut().for_each(simplify);
        }
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = fields.get_mut(key) {
            simplify(child);
        }
    }
    // `additionalProperties: false` is not structural beside `properties`: pruning does that work.
    if fields.get("additionalProperties").is_some_and(Value::is_boolean) {
        let open = fields.remove("additionalProperties") == Some(Value::Bool(true));
        if open {
            fields.insert("x-kubernetes-preserve-unknown-fields".into(), Value::Bool(true));
        }
    }
}

/// `anyOf [X, null]` and single `allOf` become X; `oneOf` of constants becomes an enumeration.
fn unwrap_combinators(fields: &mut Map<String, Value>) {
    for key in ["anyOf", "allOf", "oneOf"] {
        let Some(Value::Array(mut choices)) = fields.remove(key) else { continue };
        choices.retain(|choice| {
            choice.get("type") != Some(&json!("null")) && choice != &json!({"enum": [null], "nullable": true})
        });
        choices.iter_mut().for_each(simplify);
        if choices.len() == 1 {
            if let Some(Value::Object(only)) = choices.pop() {
                for (name, value) in only {
                    fields.entry(name).or_insert(value);
                }
            }
            continue;
        }
        if let Some(words) = words_of(&choices) {
            fields.insert("type".into(), json!("string"));
            fields.insert("enum".into(), Value::Array(words));
            continue;
        }
        fields.insert(key.into(), Value::Array(choices));
    }
}

fn words_of(choices: &[Value]) -> Option<Vec<Value>> {
    let mut words = Vec::new();
    for choice in choices {
        match (choice.get("const"), choice.get("enum")) {
            (Some(word), _) => words.push(word.clone()),
            (None, Some(Value::Array(list))) => words.extend(list.iter().cloned()),
            _ => return None,
        }
    }
    Some(words)
}

fn drop_null_type(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = fields.get("type") {
        let named: Vec<Value> = types.iter().filter(|name| *name != "null").cloned().collect();
        if let [only] = named.as_slice() {
            let only = only.clone();
            fields.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(words)) = fields.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
}

/// Rust's integer formats become those of OpenAPI; the sign of unsigned ones lives on as `minimum`.
fn plain_number_format(fields: &mut Map<String, Value>) {
    let format = fields.get("format").and_then(Value::as_str).map(str::to_owned);
    match format.as_deref() {
        Some("uint8" | "uint16" | "int8" | "int16" | "uint32" | "int32") => {
            let wide = format.as_deref() == Some("uint32");
            fields.insert("format".into(), json!(if wide { "int64" } else { "int32" }));
        }
        Some("uint64" | "uint" | "int64" | "int") => {
            fields.insert("format".into(), json!("int64"));
        }
        _ => {}
    }
}

/// The `apiextensions.k8s.io/v1` CRD of a kind.
#[must_use]
pub fn crd(kind: &KindDescriptor) -> Value {
    let columns: Vec<Value> = kind
        .columns
        .iter()
        .map(|column| {
            let mut fields = json!({
                "name": column.name, "type": column.r#type, "jsonPath": column.json_path, "description": column.description,
            });
            if column.priority != 0 {
                fields["priority"] = json!(column.priority);
            }
            fields
        })
        .collect();
    let mut version = json!({
        "name": kind.version, "served": true, "storage": true,
        "schema": {"openAPIV3Schema": (kind.schema)()},
        "additionalPrinterColumns": columns,
    });
    if kind.status_subresource {
        version["subresources"] = json!({"status": {}});
    }
    let mut names = json!({
        "kind": kind.kind, "listKind": kind.list_kind(), "plural": kind.plural, "singular": kind.singular,
    });
    if !kind.short_names.is_empty() {
        names["shortNames"] = json!(kind.short_names);
    }
    if !kind.categories.is_empty() {
        names["categories"] = json!(kind.categories);
    }
    let mut metadata = json!({"name": kind.full_name()});
    if kind.group.ends_with(".k8s.io") {
        metadata["annotations"] =
            json!({"api-approved.kubernetes.io": "unapproved, a released API that is served for compatibility"});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": metadata,
        "spec": {
            "group": kind.group, "names": names,
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "versions": [version],
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds;

    fn walk(schema: &Value, path: &str, problems: &mut Vec<String>) {
        let Some(fields) = schema.as_object() else {
            problems.push(format!("{path}: not an object"));
            return;
        };
        let typed = fields.contains_key("type")
            || fields.contains_key("x-kubernetes-int-or-string")
            || fields.contains_key("x-kubernetes-preserve-unknown-fields");
        if !typed {
            problems.push(format!("{path}: no type"));
        }
        for forbidden in ["$ref", "oneOf", "allOf", "const", "definitions", "$defs"] {
            if fields.contains_key(forbidden) {
                problems.push(format!("{path}: {forbidden}"));
            }
        }
        if fields.get("type").is_some_and(|name| !name.is_string()) {
            problems.push(format!("{path}: several types"));
        }
        if let Some(Value::Object(children)) = fields.get("properties") {
            for (name, child) in children {
                walk(child, &format!("{path}.{name}"), problems);
            }
        }
        for key in ["items", "additionalProperties"] {
            if let Some(child) = fields.get(key) {
                walk(child, &format!("{path}[{key}]"), problems);
            }
        }
    }

    #[test]
    fn every_schema_is_structural() {
        let mut problems = Vec::new();
        for kind in kinds() {
            walk(&(kind.schema)(), kind.kind, &mut problems);
        }
        assert_eq!(problems, Vec::<String>::new());
    }
}
