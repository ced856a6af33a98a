//! Deletion: preconditions, finalizers, propagation, and the moment an object goes.

use hagane_api::field::FieldError;
use hagane_store::{Entry, Expect, Key};
use serde_json::Value;

use crate::error::{ApiError, ApiResult};
use crate::object::{self, finalizers, is_terminating, meta, set_finalizers, set_meta};
use crate::registry::{DEFINITIONS, NAMESPACES, Resource};
use crate::state::Core;

/// Finalizer of owners that wait for their dependents to be gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of owners whose dependents are to be let go first.
pub(crate) const ORPHAN: &str = "orphan";
/// Namespaces that stay.
const PERMANENT_NAMESPACES: [&str; 3] = ["default", "kube-system", "kube-public"];

/// What happens to dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Propagation {
    /// They are deleted after the owner.
    Background,
    /// They are deleted before the owner.
    Foreground,
    /// They stay, without the owner.
    Orphan,
}

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Option<Propagation>,
    pub dry_run: bool,
}

/// What a deletion came to.
pub(crate) enum Deleted {
    /// The object is gone; its last state in stored form.
    Gone(Value),
    /// The object waits for its finalizers.
    Pending(Entry),
    /// Only looked at; as it would be.
    Shown(Value),
}

/// Deletes an object, or asks for its deletion.
pub(crate) async fn delete(core: &Core, resource: &Resource, key: &Key, options: &DeleteOptions) -> ApiResult<Deleted> {
    let closes = matches!(resource.storage.as_ref(), NAMESPACES | DEFINITIONS);
    let _alone = if closes { Some(core.gate.write().await) } else { None };
    loop {
        let Some(entry) = core.store.get(key) else {
            return Err(ApiError::not_found(&resource.group, &resource.plural, &key.name));
        };
        check(resource, &entry, options)?;
        let old = object::from_entry(&entry).map_err(ApiError::internal)?;
        let mut new = old.clone();
        mark(core, resource, &mut new, options.propagation);
        let released = is_released(resource, &new);
        if options.dry_run {
            return Ok(Deleted::Shown(new));
        }
        if released {
            if let Some(last) = remove(core, resource, &entry, new).await? {
                return Ok(Deleted::Gone(last));
            }
            continue;
        }
        if new == old {
            return Ok(Deleted::Pending(Entry::clone(&entry)));
        }
        if let Some(stored) = core.put(key.clone(), &new, Expect::Revision(entry.revision)).await? {
            if resource.storage.as_ref() == DEFINITIONS {
                crate::definitions::stored(core, &stored);
            }
            return Ok(Deleted::Pending(stored));
        }
    }
}

fn check(resource: &Resource, entry: &Entry, options: &DeleteOptions) -> ApiResult<()> {
    let name = &entry.key.name;
    if resource.storage.as_ref() == NAMESPACES && PERMANENT_NAMESPACES.contains(&name.as_ref()) {
        return Err(ApiError::forbidden(&resource.group, &resource.plural, name, "this namespace may not be deleted"));
    }
    let failed = |what: &str, wanted: &str, found: &str| {
        let why = format!("Precondition failed: {what} in precondition: {wanted}, {what} in object meta: {found}");
        Err(ApiError::conflict(&resource.group, &resource.plural, name, &why))
    };
    if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != entry.index.uid.as_ref()) {
        return failed("UID", uid, &entry.index.uid);
    }
    let revision = entry.revision.to_string();
    if let Some(version) = options.resource_version.as_deref().filter(|version| *version != revision) {
        return failed("ResourceVersion", version, &revision);
    }
    Ok(())
}

/// Writes into an object that it is to be deleted.
fn mark(core: &Core, resource: &Resource, object: &mut Value, propagation: Option<Propagation>) {
    if let Some(propagation) = propagation {
        let wanted = match propagation {
            Propagation::Background => None,
            Propagation::Foreground => Some(FOREGROUND),
            Propagation::Orphan => Some(ORPHAN),
        };
        let mut list: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
        list.retain(|finalizer| {
            !matches!(finalizer.as_str(), FOREGROUND | ORPHAN) || Some(finalizer.as_str()) == wanted
        });
        if let Some(wanted) = wanted.filter(|wanted| !list.iter().any(|finalizer| finalizer == wanted)) {
            list.push(wanted.to_owned());
        }
        set_finalizers(object, &list.iter().map(String::as_str).collect::<Vec<_>>());
    }
    if is_terminating(object) {
        return;
    }
    set_meta(object, "deletionTimestamp", Some(core.now().into()));
    set_meta(object, "deletionGracePeriodSeconds", Some(0.into()));
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
    if generation > 0 {
        set_meta(object, "generation", Some((generation + 1).into()));
    }
    match resource.storage.as_ref() {
        NAMESPACES => {
            object::map_at(object, "status").insert("phase".to_owned(), "Terminating".into());
        }
        DEFINITIONS => crate::definitions::mark_terminating(core, object),
        _ => {}
    }
}

/// Whether deletion was asked for and nothing holds the object.
pub(crate) fn is_released(resource: &Resource, object: &Value) -> bool {
    let held_by_content = resource.storage.as_ref() == NAMESPACES
        && object.pointer("/spec/finalizers").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    is_terminating(object) && finalizers(object).is_empty() && !held_by_content
}

/// Takes an object away; answers its last state, or nothing if it changed meanwhile.
pub(crate) async fn remove(
    core: &Core,
    resource: &Resource,
    entry: &Entry,
    mut last: Value,
) -> ApiResult<Option<Value>> {
    let Some(revision) = core.remove(entry).await? else { return Ok(None) };
    set_meta(&mut last, "resourceVersion", Some(revision.to_string().into()));
    if resource.storage.as_ref() == DEFINITIONS {
        crate::definitions::removed(core, meta(&last, "name"));
    }
    Ok(Some(last))
}

/// Reads a propagation policy; `orphan` is the older way to say it.
pub(crate) fn propagation(policy: Option<&str>, orphan: Option<bool>) -> ApiResult<Option<Propagation>> {
    let refuse = |error: FieldError| Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &[error]));
    match (policy, orphan) {
        (Some(policy), Some(_)) => refuse(FieldError::invalid(
            "propagationPolicy",
            policy,
            "orphanDependents and deletionPropagation cannot be both set",
        )),
        (Some("Background"), None) => Ok(Some(Propagation::Background)),
        (Some("Foreground"), None) => Ok(Some(Propagation::Foreground)),
        (Some("Orphan"), None) => Ok(Some(Propagation::Orphan)),
        (Some(other), None) => refuse(FieldError::invalid(
            "propagationPolicy",
            other,
            "supported values: \"Background\", \"Foreground\", \"Orphan\"",
        )),
        (None, Some(true)) => Ok(Some(Propagation::Orphan)),
        (None, Some(false)) => Ok(Some(Propagation::Background)),
        (None, None) => Ok(None),
    }
}
