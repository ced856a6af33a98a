//! The smallest merge patch between two documents.

use serde_json::{Map, Value};

/// The JSON merge patch that turns `old` into `new`; nothing where they are equal. Fields that a typed reading of `old`
/// dropped are in neither document, so the patch never touches them.
#[must_use]
pub fn merge_patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old_fields), Value::Object(new_fields)) = (old, new) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for (name, value) in new_fields {
        if let Some(change) = merge_patch(old_fields.get(name).unwrap_or(&Value::Null), value) {
            patch.insert(name.clone(), change);
        }
    }
    for name in old_fields.keys().filter(|name| !new_fields.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_only_what_differs() {
        let old = json!({"phase": "Pending", "same": [1, 2], "deep": {"kept": 1, "gone": true}, "gone": 1});
        let new = json!({"phase": "Running", "same": [1, 2], "deep": {"kept": 1}, "added": {"x": null}});
        let patch = merge_patch(&old, &new).expect("they differ");
        assert_eq!(patch, json!({"phase": "Running", "deep": {"gone": null}, "added": {"x": null}, "gone": null}));
    }

    #[test]
    fn says_nothing_of_equal_documents() {
        assert_eq!(merge_patch(&json!({"a": {"b": [1]}}), &json!({"a": {"b": [1]}})), None);
    }

    #[test]
    fn replaces_lists_whole() {
        assert_eq!(merge_patch(&json!({"a": [1, 2]}), &json!({"a": [1]})), Some(json!({"a": [1]})));
    }
}
