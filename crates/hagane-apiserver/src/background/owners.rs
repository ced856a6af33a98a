//! Garbage collection by owner references.

use hagane_store::{Entry, Key};
use serde_json::Value;

use super::{edit, release, row_of};
use crate::error::ApiResult;
use crate::object::{self, finalizers, is_terminating, text};
use crate::registry::Resource;
use crate::removal::{self, DeleteOptions, FOREGROUND, ORPHAN, Propagation};
use crate::state::Core;

/// What has become of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// It is there.
    Solid,
    /// It waits for its dependents to be gone.
    Waiting,
    /// It is not there, or another object has its name.
    Dangling,
    /// Its kind is not served now, or the reference crosses namespaces in a way that says nothing: never act on it.
    Unknown,
}

fn owners(object: &Value) -> &[Value] {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn state_of(core: &Core, dependent: &Key, reference: &Value) -> Owner {
    let registry = core.registry();
    let Some(row) = registry.by_kind(text(reference, &["apiVersion"]), text(reference, &["kind"])) else {
        return Owner::Unknown;
    };
    if row.namespaced && dependent.namespace.is_empty() {
        return Owner::Unknown;
    }
    let namespace = if row.namespaced { dependent.namespace.as_ref() } else { "" };
    let key = Key::new(row.storage.clone(), namespace, text(reference, &["name"]));
    let Some(owner) = core.store.get(&key).filter(|owner| owner.index.uid.as_ref() == text(reference, &["uid"])) else {
        return Owner::Dangling;
    };
    match object::from_entry(&owner) {
        Ok(object) if is_terminating(&object) && finalizers(&object).contains(&FOREGROUND) => Owner::Waiting,
        _ => Owner::Solid,
    }
}

/// Deletes an object that has lost all its owners, or drops references to owners that are gone.
pub(super) async fn check(core: &Core, resource: &Resource, entry: &Entry, object: &Value) -> ApiResult<()> {
    let states: Vec<Owner> = owners(object).iter().map(|reference| state_of(core, &entry.key, reference)).collect();
    if states.is_empty() || states.contains(&Owner::Unknown) {
        return Ok(());
    }
    if states.contains(&Owner::Solid) {
        if states.iter().all(|state| *state == Owner::Solid) {
            return Ok(());
        }
        return edit(core, resource, &entry.key, |object| {
            let kept = |reference: &Value| state_of(core, &entry.key, reference) == Owner::Solid;
            retain_owners(object, kept)
        })
        .await;
    }
    let blocks_owner = states.contains(&Owner::Waiting) && !core.store.by_owner(&entry.index.uid).is_empty();
    let options = DeleteOptions {
        uid: Some(entry.index.uid.to_string()),
        // The references that were judged must still be there.
        resource_version: Some(entry.revision.to_string()),
        propagation: if blocks_owner { Some(Propagation::Foreground) } else { None },
        ..DeleteOptions::default()
    };
    match removal::delete(core, resource, &entry.key, &options).await {
        Err(error) if error.code == http::StatusCode::NOT_FOUND => Ok(()),
        result => result.map(|_| ()),
    }
}

fn retain_owners(object: &mut Value, kept: impl Fn(&Value) -> bool) -> bool {
    let before = owners(object).to_vec();
    let after: Vec<Value> = before.iter().filter(|reference| kept(reference)).cloned().collect();
    let changed = after.len() < before.len();
    if changed {
        object::set_meta(object, "ownerReferences", (!after.is_empty()).then_some(Value::Array(after)));
    }
    changed
}

/// Lets go of the dependents of an owner that is deleted without them.
pub(super) async fn orphan_dependents(core: &Core, resource: &Resource, owner: &Entry) -> ApiResult<()> {
    let uid = owner.index.uid.as_ref();
    for dependent in core.store.by_owner(uid) {
        let Some(row) = row_of(core, &dependent.key) else { continue };
        edit(core, &row, &dependent.key, |object| retain_owners(object, |reference| text(reference, &["uid"]) != uid))
            .await?;
    }
    release(core, resource, &owner.key, ORPHAN).await
}

/// Deletes the dependents of an owner that goes last.
pub(super) async fn delete_dependents(core: &Core, resource: &Resource, owner: &Entry) -> ApiResult<()> {
    let uid = owner.index.uid.as_ref();
    for dependent in core.store.by_owner(uid) {
        let Some(row) = row_of(core, &dependent.key) else { continue };
        let Ok(object) = object::from_entry(&dependent) else { continue };
        if !is_terminating(&object) {
            Box::pin(check(core, &row, &dependent, &object)).await?;
        }
    }
    let blocked = core.store.by_owner(uid).iter().any(|dependent| {
        object::from_entry(dependent).is_ok_and(|object| {
            owners(&object).iter().any(|reference| {
                text(reference, &["uid"]) == uid && reference.get("blockOwnerDeletion") == Some(&Value::Bool(true))
            })
        })
    });
    if blocked { Ok(()) } else { release(core, resource, &owner.key, FOREGROUND).await }
}
