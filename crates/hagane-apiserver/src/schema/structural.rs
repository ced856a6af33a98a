//! Whether a schema is structural, as `apiextensions.k8s.io/v1` demands of definitions.

use hagane_api::field::FieldError;
use regex::Regex;
use serde_json::{Map, Value};

use super::node::{Node, Type};
use super::{prune, validate};

/// Keys that no schema may have, with what clients are told.
const UNSUPPORTED: [&str; 5] = ["$ref", "definitions", "dependencies", "id", "patternProperties"];

/// Keys that may not stand inside `allOf`, `anyOf`, `oneOf` and `not`.
const OUTER_ONLY: [&str; 9] = [
    "additionalProperties",
    "default",
    "description",
    "nullable",
    "title",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-preserve-unknown-fields",
];

/// What keeps a schema from being structural; `path` is where the schema stands,
/// `spec.versions[0].schema.openAPIV3Schema`.
pub(crate) fn structural_problems(raw: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match raw.get("type").and_then(Value::as_str) {
        None | Some("") => errors.push(FieldError::required(format!("{path}.type"), "must not be empty at the root")),
        Some("object") => {}
        Some(other) => {
            errors.push(FieldError::invalid(format!("{path}.type"), other, "must be object at the root"));
        }
    }
    if let Some(raw) = raw.as_object() {
        check(raw, path, Place::Root, &mut errors);
        check_metadata(raw, path, &mut errors);
    }
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Element,
    Map,
}

impl Place {
    fn type_missing(self) -> &'static str {
        match self {
            Self::Root => "must not be empty at the root",
            Self::Field | Self::Map => "must not be empty for specified object fields",
            Self::Element => "must not be empty for specified array items",
        }
    }
}

fn flag(raw: &Map<String, Value>, key: &str) -> bool {
    raw.get(key).and_then(Value::as_bool).unwrap_or(false)
}

fn check(raw: &Map<String, Value>, path: &str, place: Place, errors: &mut Vec<FieldError>) {
    check_type(raw, path, place, errors);
    check_unsupported(raw, path, errors);
    check_values(raw, path, errors);
    if let Some(Value::Object(fields)) = raw.get("properties") {
        for (name, inner) in fields {
            check_child(inner, &format!("{path}.properties[{name}]"), Place::Field, errors);
        }
    }
    match raw.get("items") {
        Some(Value::Array(_)) => {
            errors
                .push(FieldError::forbidden(format!("{path}.items"), "items must be a schema object and not an array"));
        }
        Some(inner) => check_child(inner, &format!("{path}.items"), Place::Element, errors),
        None if raw.get("type").and_then(Value::as_str) == Some("array") => {
            errors.push(FieldError::required(format!("{path}.items"), "must be specified"));
        }
        None => {}
    }
    check_additional(raw, path, errors);
    check_lists(raw, path, errors);
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in raw.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            check_logic(inner, &format!("{path}.{key}[{index}]"), raw, errors);
        }
    }
    if let Some(inner) = raw.get("not") {
        check_logic(inner, &format!("{path}.not"), raw, errors);
    }
}

fn check_child(raw: &Value, path: &str, place: Place, errors: &mut Vec<FieldError>) {
    match raw.as_object() {
        Some(raw) => check(raw, path, place, errors),
        None => errors.push(FieldError::invalid(path, raw, "must be a schema object")),
    }
}

fn check_type(raw: &Map<String, Value>, path: &str, place: Place, errors: &mut Vec<FieldError>) {
    let field = format!("{path}.type");
    let free = flag(raw, "x-kubernetes-int-or-string") || flag(raw, "x-kubernetes-preserve-unknown-fields");
    match raw.get("type") {
        // The root has been looked at already.
        _ if place == Place::Root => {}
        None if !free => errors.push(FieldError::required(field, place.type_missing())),
        None => {}
        Some(Value::String(name)) if Type::parse(name).is_none() => errors.push(FieldError::with_value(
            field,
            hagane_api::field::FieldProblem::NotSupported,
            name,
            r#"supported values: "array", "boolean", "integer", "number", "object", "string""#,
        )),
        Some(Value::String(_)) if flag(raw, "x-kubernetes-int-or-string") => errors.push(FieldError::invalid(
            field,
            raw.get("type"),
            "must be empty if x-kubernetes-int-or-string is true",
        )),
        Some(Value::String(_)) => {}
        Some(other) => errors.push(FieldError::invalid(field, other, "must be one type name")),
    }
    if flag(raw, "x-kubernetes-embedded-resource") {
        if raw.get("type").and_then(Value::as_str) != Some("object") {
            errors.push(FieldError::invalid(
                format!("{path}.type"),
                raw.get("type"),
                "must be object if x-kubernetes-embedded-resource is true",
            ));
        }
        if !raw.contains_key("properties") && !flag(raw, "x-kubernetes-preserve-unknown-fields") {
            errors.push(FieldError::required(
                format!("{path}.properties"),
                "must not be empty if x-kubernetes-embedded-resource is true without \
                 x-kubernetes-preserve-unknown-fields",
            ));
        }
    }
}

fn check_unsupported(raw: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    for key in UNSUPPORTED.into_iter().filter(|key| raw.contains_key(*key)) {
        errors.push(FieldError::forbidden(format!("{path}.{key}"), format!("{key} is not supported")));
    }
    if flag(raw, "uniqueItems") {
        errors.push(FieldError::forbidden(
            format!("{path}.uniqueItems"),
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        ));
    }
    if raw.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        errors.push(FieldError::invalid(
            format!("{path}.x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        ));
    }
}

fn check_additional(raw: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(additional) = raw.get("additionalProperties") else { return };
    let field = format!("{path}.additionalProperties");
    if raw.contains_key("properties") {
        errors.push(FieldError::forbidden(field.clone(), "additionalProperties and properties are mutual exclusive"));
    }
    match additional {
        Value::Bool(false) => {
            errors.push(FieldError::forbidden(field, "additionalProperties cannot be set to false"));
        }
        Value::Bool(true) => {}
        inner => check_child(inner, &field, Place::Map, errors),
    }
}

fn check_lists(raw: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let list_type = raw.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys = raw.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let field = format!("{path}.x-kubernetes-list-map-keys");
    match (list_type, keys) {
        (Some("map"), None) => {
            errors.push(FieldError::required(field, "must not be empty if x-kubernetes-list-type is map"));
        }
        (Some("map"), Some(keys)) => {
            let properties = raw.get("items").and_then(|items| items.get("properties"));
            for key in keys {
                let known = key.as_str().and_then(|key| properties?.get(key)).is_some();
                if !known {
                    errors.push(FieldError::invalid(
                        field.clone(),
                        key,
                        "entries have to be names of the elements' properties",
                    ));
                }
            }
        }
        (None | Some("atomic" | "set"), None) => {}
        (None | Some("atomic" | "set"), Some(_)) => {
            errors.push(FieldError::forbidden(field, "must be empty if x-kubernetes-list-type is not map"));
        }
        (Some(other), _) => errors.push(FieldError::with_value(
            format!("{path}.x-kubernetes-list-type"),
            hagane_api::field::FieldProblem::NotSupported,
            other,
            r#"supported values: "atomic", "map", "set""#,
        )),
    }
}

fn check_values(raw: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(pattern) = raw.get("pattern").and_then(Value::as_str)
        && let Err(problem) = Regex::new(pattern)
    {
        let reason = problem.to_string();
        let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
        errors.push(FieldError::invalid(
            format!("{path}.pattern"),
            pattern,
            format!("must be a valid regular expression, but isn't: {reason}"),
        ));
    }
    let Some(default) = raw.get("default").filter(|default| !default.is_null()) else { return };
    let node = Node::compile(&Value::Object(raw.clone()));
    let field = format!("{path}.default");
    let mut pruned = default.clone();
    if !prune::prune(&node, &mut pruned).is_empty() {
        errors.push(FieldError::invalid(field.clone(), default, "must not have unknown fields"));
    }
    for error in validate::validate(&node, default, None) {
        let inner = if error.field.is_empty() { field.clone() } else { format!("{field}.{}", error.field) };
        errors.push(FieldError { field: inner, ..error });
    }
}

/// Inside a logical combination only values are described; every field named there must be known outside.
fn check_logic(raw: &Value, path: &str, outer: &Map<String, Value>, errors: &mut Vec<FieldError>) {
    let Some(raw) = raw.as_object() else {
        errors.push(FieldError::invalid(path, raw, "must be a schema object"));
        return;
    };
    // The one pattern with types that is allowed: what int-or-string means.
    let types_allowed = flag(outer, "x-kubernetes-int-or-string");
    for key in OUTER_ONLY.into_iter().filter(|key| raw.contains_key(*key)) {
        if !(types_allowed && key == "type") {
            errors.push(FieldError::forbidden(format!("{path}.{key}"), "must be empty to be structural"));
        }
    }
    check_unsupported(raw, path, errors);
    if let Some(Value::Object(fields)) = raw.get("properties") {
        let known = outer.get("properties").and_then(Value::as_object);
        let empty = Map::new();
        for (name, inner) in fields {
            let outside = known.and_then(|known| known.get(name)).and_then(Value::as_object);
            if outside.is_none() && !matches!(outer.get("additionalProperties"), Some(Value::Object(_))) {
                errors.push(FieldError::required(
                    format!("{path}.properties[{name}]").replacen(path, &parent(path), 1),
                    "because it is defined in a logical combination, it must be specified outside too",
                ));
            }
            check_logic(inner, &format!("{path}.properties[{name}]"), outside.unwrap_or(&empty), errors);
        }
    }
    if let Some(inner) = raw.get("items") {
        let outside = outer.get("items").and_then(Value::as_object).cloned().unwrap_or_default();
        check_logic(inner, &format!("{path}.items"), &outside, errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in raw.get(key).and_then(Value::as_array).into_iter().flatten().enumerate() {
            check_logic(inner, &format!("{path}.{key}[{index}]"), outer, errors);
        }
    }
    if let Some(inner) = raw.get("not") {
        check_logic(inner, &format!("{path}.not"), outer, errors);
    }
}

/// The path of the schema that a combination stands in.
fn parent(path: &str) -> String {
    path.rsplit_once('.').map_or_else(String::new, |(parent, _)| parent.to_owned())
}

fn check_metadata(raw: &Map<String, Value>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(metadata) = raw.get("properties").and_then(|fields| fields.get("metadata")) else { return };
    let path = format!("{path}.properties[metadata]");
    if metadata.get("type").and_then(Value::as_str).is_some_and(|kind| kind != "object") {
        errors.push(FieldError::invalid(format!("{path}.type"), &metadata["type"], "must be object"));
    }
    for name in metadata.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        if name != "name" && name != "generateName" {
            errors.push(FieldError::forbidden(
                format!("{path}.properties[{name}]"),
                "must not specify anything other than name and generateName, but metadata is implicitly specified",
            ));
        }
    }
}
