//! Who wrote which field: `metadata.managedFields` for creates, updates and patches.
//!
//! Maps are followed to their leaves, lists are one leaf each. Applies (server-side) are not served yet; their entries,
//! should an object bring some along, are kept.

use serde_json::{Map, Value, json};

/// Most managers with entries of updates; the oldest beyond that become one.
const UPDATE_MANAGERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// A tree of `f:name`; an empty map is a leaf.
type Fields = Map<String, Value>;

/// Who writes, and how.
pub(crate) struct Writer<'a> {
    /// Field manager.
    pub manager: &'a str,
    /// `apiVersion` of the request.
    pub api_version: &'a str,
    /// `status` and the like; empty for the object itself.
    pub subresource: &'a str,
    /// Now, as metadata carries it.
    pub time: &'a str,
}

/// Updates `metadata.managedFields` of `new`, starting from those of `old`.
pub(crate) fn record(new: &mut Value, old: Option<&Value>, writer: &Writer<'_>) {
    let empty = json!({});
    let before = old.unwrap_or(&empty);
    let mut set = Fields::new();
    let mut gone = Fields::new();
    compare(&owned_part(before), &owned_part(new), &mut set, &mut gone);
    let mut entries = old.map(entries).unwrap_or_default();
    if old.is_some() && set.is_empty() && gone.is_empty() {
        put(new, entries);
        return;
    }
    for entry in &mut entries {
        let mine = is_of(entry, writer);
        if let Some(fields) = entry.get_mut("fieldsV1").and_then(Value::as_object_mut) {
            subtract(fields, &gone);
            if !mine {
                subtract(fields, &set);
            }
        }
    }
    entries.retain(|entry| entry.get("fieldsV1").and_then(Value::as_object).is_some_and(|fields| !fields.is_empty()));
    if !set.is_empty() {
        match entries.iter_mut().find(|entry| is_of(entry, writer)) {
            Some(entry) => add_to(entry, &set, writer.time),
            None => entries.push(entry(writer, set)),
        }
    }
    cap(&mut entries);
    put(new, entries);
}

fn entry(writer: &Writer<'_>, fields: Fields) -> Value {
    let mut entry = json!({
        "manager": writer.manager, "operation": "Update", "apiVersion": writer.api_version, "time": writer.time,
        "fieldsType": "FieldsV1", "fieldsV1": fields,
    });
    if let (false, Some(map)) = (writer.subresource.is_empty(), entry.as_object_mut()) {
        map.insert("subresource".to_owned(), writer.subresource.into());
    }
    entry
}

fn add_to(entry: &mut Value, set: &Fields, time: &str) {
    if let Some(fields) = entry.get_mut("fieldsV1").and_then(Value::as_object_mut) {
        merge(fields, set);
    }
    if let Some(map) = entry.as_object_mut() {
        map.insert("time".to_owned(), time.into());
    }
}

fn entries(object: &Value) -> Vec<Value> {
    object.pointer("/metadata/managedFields").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn put(object: &mut Value, entries: Vec<Value>) {
    crate::object::set_meta(object, "managedFields", (!entries.is_empty()).then_some(Value::Array(entries)));
}

fn is_of(entry: &Value, writer: &Writer<'_>) -> bool {
    let field = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    field("manager") == writer.manager
        && field("operation") == "Update"
        && field("apiVersion") == writer.api_version
        && field("subresource") == writer.subresource
}

/// The object without what nobody owns.
fn owned_part(object: &Value) -> Value {
    let mut owned = object.clone();
    if let Some(fields) = owned.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
        if let Some(metadata) = fields.get_mut("metadata").and_then(Value::as_object_mut) {
            let never = [
                "name",
                "namespace",
                "creationTimestamp",
                "selfLink",
                "uid",
                "generation",
                "managedFields",
                "resourceVersion",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
            ];
            metadata.retain(|key, _| !never.contains(&key.as_str()));
            if metadata.is_empty() {
                fields.remove("metadata");
            }
        }
    }
    owned
}

/// Collects leaves that are new or changed into `set`, and those that are no longer there into `gone`.
fn compare(before: &Value, after: &Value, set: &mut Fields, gone: &mut Fields) {
    let nothing = Map::new();
    let before = before.as_object().unwrap_or(&nothing);
    let after = after.as_object().unwrap_or(&nothing);
    for (key, value) in after {
        let name = format!("f:{key}");
        match (before.get(key), value) {
            (Some(old), new) if old == new => {}
            (Some(old @ Value::Object(_)), new @ Value::Object(_)) => {
                let (mut inner_set, mut inner_gone) = (Fields::new(), Fields::new());
                compare(old, new, &mut inner_set, &mut inner_gone);
                insert_unless_empty(set, &name, inner_set);
                insert_unless_empty(gone, &name, inner_gone);
            }
            (_, new) => {
                set.insert(name, Value::Object(leaves(new)));
            }
        }
    }
    for key in before.keys().filter(|key| !after.contains_key(*key)) {
        gone.insert(format!("f:{key}"), json!({}));
    }
}

fn insert_unless_empty(tree: &mut Fields, name: &str, inner: Fields) {
    if !inner.is_empty() {
        tree.insert(name.to_owned(), Value::Object(inner));
    }
}

fn leaves(value: &Value) -> Fields {
    let mut tree = Fields::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        tree.insert(format!("f:{key}"), Value::Object(leaves(value)));
    }
    tree
}

/// Takes the leaves of `taken` out of `tree`, and branches that become empty.
fn subtract(tree: &mut Fields, taken: &Fields) {
    for (key, branch) in taken {
        let leaf = branch.as_object().is_none_or(Map::is_empty);
        match tree.get_mut(key) {
            Some(Value::Object(inner)) if !leaf && !inner.is_empty() => {
                let only_itself = inner.len() == 1 && inner.contains_key(".");
                if let (false, Some(branch)) = (only_itself, branch.as_object()) {
                    subtract(inner, branch);
                }
                if inner.is_empty() {
                    tree.remove(key);
                }
            }
            Some(_) => {
                tree.remove(key);
            }
            None => {}
        }
    }
}

fn merge(tree: &mut Fields, more: &Fields) {
    for (key, branch) in more {
        match (tree.get_mut(key), branch) {
            (Some(Value::Object(inner)), Value::Object(branch)) => merge(inner, branch),
            _ => {
                tree.insert(key.clone(), branch.clone());
            }
        }
    }
}

/// Joins the oldest entries of updates when there are too many.
fn cap(entries: &mut Vec<Value>) {
    let is_update = |entry: &Value| entry.get("operation").is_some_and(|operation| operation == "Update");
    while entries.iter().filter(|entry| is_update(entry)).count() > UPDATE_MANAGERS_MAX {
        let time = |entry: &Value| entry.get("time").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut updates: Vec<usize> = (0..entries.len()).filter(|index| is_update(&entries[*index])).collect();
        updates.sort_by_key(|index| time(&entries[*index]));
        let (first, second) = (updates[0].min(updates[1]), updates[0].max(updates[1]));
        let older = entries.remove(second);
        if let (Some(fields), Some(more)) = (
            entries[first].get_mut("fieldsV1").and_then(Value::as_object_mut),
            older.get("fieldsV1").and_then(Value::as_object),
        ) {
            merge(fields, more);
        }
        if let Some(entry) = entries[first].as_object_mut() {
            entry.insert("manager".to_owned(), ANCIENT.into());
            entry.remove("subresource");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(manager: &str) -> Writer<'_> {
        Writer { manager, api_version: "v1", subresource: "", time: "t" }
    }

    fn fields(object: &Value, manager: &str) -> Value {
        let all = entries(object);
        all.iter().find(|entry| entry["manager"] == manager).map_or(Value::Null, |entry| entry["fieldsV1"].clone())
    }

    #[test]
    fn a_create_owns_everything_it_set() {
        let mut new =
            json!({"kind": "X", "metadata": {"name": "n", "labels": {"a": "1"}}, "spec": {"b": {"c": 1}, "d": [1]}});
        record(&mut new, None, &writer("m"));
        assert_eq!(
            fields(&new, "m"),
            json!({"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:b": {"f:c": {}}, "f:d": {}}})
        );
    }

    #[test]
    fn an_update_takes_changed_fields_over_and_drops_removed_ones() {
        let mut old = json!({"metadata": {"name": "n"}, "spec": {"a": 1, "b": 2, "c": 3}});
        record(&mut old, None, &writer("first"));
        let mut new = old.clone();
        new["spec"] = json!({"a": 1, "b": 5});
        record(&mut new, Some(&old), &writer("second"));
        assert_eq!(fields(&new, "first"), json!({"f:spec": {"f:a": {}}}));
        assert_eq!(fields(&new, "second"), json!({"f:spec": {"f:b": {}}}));
    }

    #[test]
    fn an_unchanged_object_keeps_its_entries() {
        let mut old = json!({"metadata": {"name": "n"}, "spec": {"a": 1}});
        record(&mut old, None, &writer("first"));
        let mut new = old.clone();
        record(&mut new, Some(&old), &writer("second"));
        assert_eq!(new, old);
    }

    #[test]
    fn many_managers_are_joined() {
        let mut object = json!({"metadata": {"name": "n"}, "spec": {}});
        for index in 0..15 {
            let old = object.clone();
            object["spec"][format!("k{index}")] = 1.into();
            let time = format!("t{index:02}");
            let manager = format!("m{index}");
            record(&mut object, Some(&old), &Writer { manager: &manager, time: &time, ..writer("") });
        }
        assert_eq!(entries(&object).len(), UPDATE_MANAGERS_MAX);
        assert_eq!(fields(&object, ANCIENT)["f:spec"].as_object().map(Map::len), Some(6));
    }
}
