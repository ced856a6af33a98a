//! Objects as trees while they are worked on, and as bytes while they are kept.
//!
//! Kept bytes begin with `apiVersion`, `kind` and `metadata`, have no insignificant space and no resource version: that
//! is spliced in when they are read, so that reading never parses.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use hagane_store::{Entry, Index};
use jiff::Timestamp;
use serde_json::{Map, Value};

const METADATA_START: &[u8] = b"\"metadata\":{";

/// The text at a path of keys; empty if it is missing or no text.
pub(crate) fn text<'a>(object: &'a Value, path: &[&str]) -> &'a str {
    path.iter().try_fold(object, |at, key| at.get(key)).and_then(Value::as_str).unwrap_or_default()
}

/// A text of the metadata; empty if missing.
pub(crate) fn meta<'a>(object: &'a Value, key: &str) -> &'a str {
    text(object, &["metadata", key])
}

/// The metadata, made if it is missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_at(object, "metadata")
}

/// The map at `key`, made if it is missing or something else.
pub(crate) fn map_at<'a>(object: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    as_map(as_map(object).entry(key).or_insert_with(|| Value::Object(Map::new())))
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        // The branch above leaves nothing but a map.
        _ => unreachable!("a map was just put here"),
    }
}

/// Sets or, for `None`, removes a field of the metadata.
pub(crate) fn set_meta(object: &mut Value, key: &str, value: Option<Value>) {
    let metadata = metadata_mut(object);
    match value {
        Some(value) => {
            metadata.insert(key.to_owned(), value);
        }
        None => {
            metadata.remove(key);
        }
    }
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .map(|list| list.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

/// Replaces the finalizers; an empty list removes the field.
pub(crate) fn set_finalizers(object: &mut Value, finalizers: &[&str]) {
    let list = finalizers.iter().map(|finalizer| Value::from(*finalizer)).collect::<Vec<_>>();
    set_meta(object, "finalizers", (!list.is_empty()).then_some(Value::Array(list)));
}

/// Whether deletion was asked for.
pub(crate) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(Value::is_string)
}

/// The time as metadata carries it: whole seconds, UTC.
pub(crate) fn timestamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Puts apiVersion, kind and metadata first, removes the resource version, and writes the object.
pub(crate) fn to_stored(object: &Value) -> Bytes {
    let mut ordered = Map::new();
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.get(key) {
            ordered.insert(key.to_owned(), value.clone());
        }
    }
    let mut metadata = object.get("metadata").and_then(Value::as_object).cloned().unwrap_or_default();
    metadata.remove("resourceVersion");
    metadata.remove("selfLink");
    ordered.insert("metadata".to_owned(), Value::Object(metadata));
    for (key, value) in object.as_object().into_iter().flatten() {
        if !ordered.contains_key(key) {
            ordered.insert(key.clone(), value.clone());
        }
    }
    // A tree of strings, numbers and maps with text keys always has a JSON form.
    serde_json::to_vec(&Value::Object(ordered)).unwrap_or_default().into()
}

/// The object of a store entry as a tree, with its resource version.
pub(crate) fn from_entry(entry: &Entry) -> Result<Value, serde_json::Error> {
    let mut object: Value = serde_json::from_slice(&entry.value)?;
    set_meta(&mut object, "resourceVersion", Some(entry.revision.to_string().into()));
    Ok(object)
}

/// Writes the object of a store entry with its resource version, without parsing it.
pub(crate) fn write_entry(entry: &Entry, out: &mut BytesMut) {
    let stored = &entry.value;
    let Some(at) = find(stored, METADATA_START) else {
        out.extend_from_slice(stored);
        return;
    };
    let (head, tail) = stored.split_at(at + METADATA_START.len());
    out.reserve(stored.len() + 44);
    out.extend_from_slice(head);
    out.extend_from_slice(b"\"resourceVersion\":\"");
    out.extend_from_slice(entry.revision.to_string().as_bytes());
    out.put_u8(b'"');
    if tail.first() != Some(&b'}') {
        out.put_u8(b',');
    }
    out.extend_from_slice(tail);
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

/// What the store keeps beside an object: `fields` are pairs of a selector path and a JSON pointer; values are found by
/// the pointer, because a path may differ between versions.
pub(crate) fn index_of(object: &Value, fields: &[(&str, &str)]) -> Index {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    Index {
        uid: meta(object, "uid").into(),
        labels: labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((Arc::from(key.as_str()), Arc::from(value.as_str()?))))
            .collect(),
        owner_uids: owners.into_iter().flatten().map(|owner| Arc::from(text(owner, &["uid"]))).collect(),
        fields: fields
            .iter()
            .map(|(_, pointer)| (Arc::from(*pointer), Arc::from(scalar_text(object.pointer(pointer)).as_str())))
            .collect(),
    }
}

/// A scalar as selectors compare it.
pub(crate) fn scalar_text(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Bool(flag)) => flag.to_string(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hagane_store::Key;
    use serde_json::json;

    fn entry(object: &Value) -> Entry {
        Entry {
            key: Key::new("configmaps", "a", "b"),
            revision: 7,
            value: to_stored(object),
            index: Arc::new(index_of(object, &[("type", "/type")])),
        }
    }

    #[test]
    fn the_resource_version_is_spliced_in() {
        let object = json!({
            "data": {"k": "\"metadata\":{"}, "metadata": {"name": "b", "resourceVersion": "3"}, "kind": "ConfigMap", "apiVersion": "v1",
        });
        let entry = entry(&object);
        let mut out = BytesMut::new();
        write_entry(&entry, &mut out);
        let written: Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(written, from_entry(&entry).expect("JSON"));
        assert_eq!(meta(&written, "resourceVersion"), "7");
        assert_eq!(written["data"]["k"], "\"metadata\":{");
    }

    #[test]
    fn the_index_holds_labels_owners_and_fields() {
        let object = json!({
            "metadata": {"uid": "u", "labels": {"l": "v"}, "ownerReferences": [{"uid": "o"}]}, "type": "Opaque",
        });
        let index = index_of(&object, &[("type", "/type"), ("missing", "/missing")]);
        assert_eq!((index.uid.as_ref(), index.owner_uids.len()), ("u", 1));
        assert_eq!(index.labels, [(Arc::from("l"), Arc::from("v"))]);
        assert_eq!(index.fields, [(Arc::from("/type"), Arc::from("Opaque")), (Arc::from("/missing"), Arc::from(""))]);
    }
}
