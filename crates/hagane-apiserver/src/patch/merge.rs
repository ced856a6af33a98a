//! Merge patches (RFC 7396).

use serde_json::{Map, Value};

/// Merges a patch into a value: maps are merged, null deletes, everything else replaces.
pub(crate) fn apply(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return };
    for (key, change) in changes {
        if change.is_null() {
            fields.remove(key);
        } else {
            apply(fields.entry(key.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_merge_nulls_delete_and_lists_replace() {
        let mut target = json!({"a": {"b": 1, "c": 2}, "d": [1, 2], "e": "x"});
        apply(&mut target, &json!({"a": {"b": null, "f": {"g": null}}, "d": [3], "e": {"h": 1}}));
        assert_eq!(target, json!({"a": {"c": 2, "f": {}}, "d": [3], "e": {"h": 1}}));
    }
}
