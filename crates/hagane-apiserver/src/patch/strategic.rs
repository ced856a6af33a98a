//! Strategic merge patches, as far as the built-in kinds need them: maps merge, lists with a merge key merge by it,
//! lists of plain values that are sets merge as sets, all other lists are replaced.

use serde_json::{Map, Value};

/// How the lists under a field name merge; the names are unique among the built-in kinds that are served.
fn merge_key(field: &str) -> Option<ListMerge> {
    match field {
        "ownerReferences" => Some(ListMerge::ByKey("uid")),
        "secrets" | "imagePullSecrets" => Some(ListMerge::ByKey("name")),
        "conditions" => Some(ListMerge::ByKey("type")),
        "finalizers" => Some(ListMerge::Set),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum ListMerge {
    ByKey(&'static str),
    Set,
}

const DIRECTIVE: &str = "$patch";
const RETAIN: &str = "$retainKeys";
const ORDER: &str = "$setElementOrder/";
const DELETE_FROM: &str = "$deleteFromPrimitiveList/";

/// Merges a patch into an object.
pub(crate) fn apply(target: &mut Value, patch: &Value) -> Result<(), String> {
    let Value::Object(changes) = patch else { return Err("a strategic merge patch must be an object".to_owned()) };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else { return Ok(()) };
    merge_map(fields, changes)
}

fn merge_map(fields: &mut Map<String, Value>, changes: &Map<String, Value>) -> Result<(), String> {
    match changes.get(DIRECTIVE).map(|directive| directive.as_str().unwrap_or_default()) {
        None | Some("merge") => {}
        Some("replace") => {
            *fields = changes
                .iter()
                .filter(|(key, _)| *key != DIRECTIVE)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect();
            return Ok(());
        }
        Some("delete") => {
            fields.clear();
            return Ok(());
        }
        Some(other) => return Err(format!("unknown {DIRECTIVE} {other:?}, allowed are merge, replace and delete")),
    }
    if let Some(Value::Array(kept)) = changes.get(RETAIN) {
        fields.retain(|key, _| kept.iter().any(|kept| kept == key));
    }
    for (key, change) in changes {
        if let Some(list) = key.strip_prefix(DELETE_FROM) {
            delete_from(fields, list, change);
        }
    }
    for (key, change) in changes.iter().filter(|(key, _)| !key.starts_with('$')) {
        merge_field(fields, key, change)?;
    }
    for (key, order) in changes {
        if let (Some(list), Some(order)) = (key.strip_prefix(ORDER), order.as_array()) {
            sort(fields, list, order);
        }
    }
    Ok(())
}

fn merge_field(fields: &mut Map<String, Value>, key: &str, change: &Value) -> Result<(), String> {
    match change {
        Value::Null => {
            fields.remove(key);
        }
        Value::Object(inner) => {
            let deleted = inner.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
            if deleted {
                fields.remove(key);
                return Ok(());
            }
            let target = fields.entry(key.to_owned()).or_insert_with(|| Value::Object(Map::new()));
            apply(target, change)?;
        }
        Value::Array(items) => {
            let merged = match merge_key(key) {
                Some(rule) => {
                    let current = fields.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
                    merge_list(current, items, rule)?
                }
                None => items.clone(),
            };
            fields.insert(key.to_owned(), Value::Array(merged));
        }
        plain => {
            fields.insert(key.to_owned(), plain.clone());
        }
    }
    Ok(())
}

fn merge_list(mut current: Vec<Value>, items: &[Value], rule: ListMerge) -> Result<Vec<Value>, String> {
    let ListMerge::ByKey(key) = rule else {
        for item in items {
            if !current.contains(item) {
                current.push(item.clone());
            }
        }
        return Ok(current);
    };
    let replace = items.iter().any(|item| item.get(DIRECTIVE).is_some_and(|directive| directive == "replace"));
    if replace {
        return Ok(items.iter().filter(|item| item.get(DIRECTIVE).is_none()).cloned().collect());
    }
    for item in items {
        let id = item.get(key).ok_or_else(|| format!("an item of the list has no merge key {key:?}"))?;
        let at = current.iter().position(|present| present.get(key) == Some(id));
        let deleted = item.get(DIRECTIVE).is_some_and(|directive| directive == "delete");
        match (at, deleted) {
            (Some(at), true) => {
                current.remove(at);
            }
            (None, true) => {}
            (Some(at), false) => apply(&mut current[at], item)?,
            (None, false) => current.push(item.clone()),
        }
    }
    Ok(current)
}

fn delete_from(fields: &mut Map<String, Value>, list: &str, gone: &Value) {
    let Some(Value::Array(items)) = fields.get_mut(list) else { return };
    let gone = gone.as_array().map(Vec::as_slice).unwrap_or_default();
    items.retain(|item| !gone.contains(item));
    if items.is_empty() {
        fields.remove(list);
    }
}

fn sort(fields: &mut Map<String, Value>, list: &str, order: &[Value]) {
    let Some(Value::Array(items)) = fields.get_mut(list) else { return };
    let key = match merge_key(list) {
        Some(ListMerge::ByKey(key)) => Some(key),
        _ => None,
    };
    let place = |item: &Value| {
        order.iter().position(|wanted| match key {
            Some(key) => wanted.get(key) == item.get(key),
            None => wanted == item,
        })
    };
    items.sort_by_key(|item| place(item).unwrap_or(usize::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(mut target: Value, patch: &Value) -> Value {
        apply(&mut target, patch).expect("applies");
        target
    }

    #[test]
    fn lists_merge_by_their_key() {
        let target = json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "a"}, {"uid": "2", "name": "b"}]}});
        let patch = json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "c"}, {"$patch": "delete", "uid": "2"}, {"uid": "3"}]}});
        assert_eq!(
            patched(target, &patch),
            json!({"metadata": {"ownerReferences": [{"uid": "1", "name": "c"}, {"uid": "3"}]}})
        );
    }

    #[test]
    fn sets_merge_and_lose_named_values() {
        let target = json!({"finalizers": ["a", "b"]});
        let patch = json!({"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"], "$setElementOrder/finalizers": ["c", "b"]});
        assert_eq!(patched(target, &patch), json!({"finalizers": ["c", "b"]}));
    }

    #[test]
    fn directives_replace_and_delete_maps() {
        let target = json!({"data": {"a": "1", "b": "2"}, "binaryData": {"c": "3"}});
        let patch = json!({"data": {"$patch": "replace", "d": "4"}, "binaryData": {"$patch": "delete"}});
        assert_eq!(patched(target, &patch), json!({"data": {"d": "4"}}));
        assert_eq!(patched(json!({"a": 1, "b": 2}), &json!({"$retainKeys": ["a"], "a": 3})), json!({"a": 3}));
        assert!(apply(&mut json!({}), &json!({"$patch": "explode"})).is_err());
    }
}
