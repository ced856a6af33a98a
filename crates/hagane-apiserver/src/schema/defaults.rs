//! Filling in defaults.

use serde_json::Value;

use super::node::{Additional, Node};

pub(super) fn fill(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in &node.properties {
                match (fields.get(name), &inner.default) {
                    (None, Some(default)) => drop(fields.insert(name.clone(), default.clone())),
                    (Some(Value::Null), Some(default)) if !inner.nullable => {
                        fields.insert(name.clone(), default.clone());
                    }
                    // Without a default, a null says as little as a field that is not there.
                    (Some(Value::Null), None) if refuses_null(inner) => drop(fields.shift_remove(name)),
                    _ => {}
                }
            }
            if let Additional::Schema(inner) = &node.additional {
                match &inner.default {
                    Some(default) if !inner.nullable => {
                        fields.values_mut().filter(|value| value.is_null()).for_each(|value| *value = default.clone());
                    }
                    None if refuses_null(inner) => fields.retain(|_, value| !value.is_null()),
                    _ => {}
                }
            }
            for (name, value) in fields.iter_mut() {
                match (node.properties.get(name), &node.additional) {
                    (Some(inner), _) => fill(inner, value),
                    (None, Additional::Schema(inner)) => fill(inner, value),
                    _ => {}
                }
            }
        }
        Value::Array(elements) => {
            if let Some(inner) = &node.items {
                elements.iter_mut().for_each(|element| fill(inner, element));
            }
        }
        _ => {}
    }
}

/// A schema without a type takes nulls.
fn refuses_null(node: &Node) -> bool {
    !node.nullable && (node.kind.is_some() || node.int_or_string)
}
