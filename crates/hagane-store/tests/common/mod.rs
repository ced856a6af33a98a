//! Helpers of the store's tests. Values are texts `uid=…;owner=…`; the index is read from them.
#![allow(dead_code)]

use std::sync::Arc;

use bytes::Bytes;
use hagane_store::{Expect, Index, Key, Options, Store, Write};

/// Finds uid and owners in a value.
pub fn index(_: &Key, value: &[u8]) -> Index {
    let text = String::from_utf8_lossy(value);
    let mut index = Index::default();
    for part in text.split(';') {
        match part.split_once('=') {
            Some(("uid", uid)) => index.uid = uid.into(),
            Some(("owner", uid)) => index.owner_uids.push(uid.into()),
            _ => {}
        }
    }
    index
}

/// Opens the store `name` in a directory.
pub fn open(directory: &tempfile::TempDir, options: Options) -> Store {
    Store::open(directory.path().join("store.db"), options, index).expect("store opens")
}

pub fn key(resource: &str, namespace: &str, name: &str) -> Key {
    Key::new(resource, namespace, name)
}

pub fn put(key: &Key, value: &str, expect: Expect) -> Write {
    let index = index(key, value.as_bytes());
    Write::Put { key: key.clone(), value: Bytes::from(value.to_owned()), index, expect }
}

pub fn delete(key: &Key, expect: Expect) -> Write {
    Write::Delete { key: key.clone(), expect }
}

/// The names, values and revisions of a list.
pub fn rows(snapshot: &hagane_store::Snapshot) -> Vec<(String, String, u64)> {
    snapshot.iter().map(row).collect()
}

pub fn row(entry: &Arc<hagane_store::Entry>) -> (String, String, u64) {
    let place = format!("{}/{}", entry.key.namespace, entry.key.name);
    (place, String::from_utf8_lossy(&entry.value).into_owned(), entry.revision)
}
