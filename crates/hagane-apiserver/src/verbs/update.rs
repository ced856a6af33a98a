//! PUT, and what PATCH does after it has made the new object.

use hagane_api::field::FieldError;
use hagane_store::Entry;
use http::StatusCode;
use serde_json::Value;

use super::write::{self, Outcome, stored_value};
use super::{create, patch};
use crate::context::Context;
use crate::decode;
use crate::error::{ApiError, ApiResult};
use crate::object::{meta, set_meta};
use crate::registry::copy_field;
use crate::render::Answer;

pub(super) async fn update(context: &Context) -> ApiResult<Answer> {
    let (mut object, problems) = decode::body(context)?;
    decode::accept(context, &mut object, problems)?;
    let name = context.name();
    check_place(context, &object)?;
    let version = meta(&object, "resourceVersion").to_owned();
    if version.is_empty() && !context.resource().strategy.unconditional_update && exists(context) {
        let detail = "must be specified for an update";
        let error =
            FieldError { value: "0x0".to_owned(), ..FieldError::invalid("metadata.resourceVersion", 0, detail) };
        context.check(name, &[error])?;
    }
    loop {
        let Some(entry) = context.core.store.get(&context.key(name)) else {
            let creates = context.resource().strategy.create_on_update && context.subresource().is_empty();
            if creates && version.is_empty() {
                set_meta(&mut object, "name", Some(name.into()));
                return create::create_object(context, object).await;
            }
            return Err(context.not_found(name));
        };
        match apply(context, &entry, object.clone()).await? {
            Outcome::Raced if version.is_empty() => {}
            outcome => return write::answer(context, StatusCode::OK, outcome),
        }
    }
}

fn exists(context: &Context) -> bool {
    context.core.store.get(&context.key(context.name())).is_some()
}

/// The name and namespace of the object must be those of the path.
pub(super) fn check_place(context: &Context, object: &Value) -> ApiResult<()> {
    let name = meta(object, "name");
    if !name.is_empty() && name != context.name() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            context.name()
        )));
    }
    let namespace = meta(object, "namespace");
    if context.resource().namespaced && !namespace.is_empty() && namespace != context.namespace() {
        return Err(ApiError::bad_request(format!(
            "the namespace of the object ({namespace}) does not match the namespace on the URL ({})",
            context.namespace()
        )));
    }
    Ok(())
}

/// Brings an accepted object over the stored one.
pub(super) async fn apply(context: &Context, entry: &Entry, mut new: Value) -> ApiResult<Outcome> {
    let name = context.name();
    let old = stored_value(entry)?;
    let version = meta(&new, "resourceVersion");
    if !version.is_empty() && version != entry.revision.to_string() {
        return Err(context.stale(name));
    }
    let (uid, stored_uid) = (meta(&new, "uid"), meta(&old, "uid"));
    if !uid.is_empty() && uid != stored_uid {
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {stored_uid}");
        return Err(context.conflict(name, &why));
    }
    let mut new = isolate(context, &old, &mut new);
    keep_metadata(&mut new, &old);
    // Definitions and their kinds change together, with nothing in between.
    let _alone = if context.resource().storage.as_ref() == crate::registry::DEFINITIONS {
        Some(context.core.gate.write().await)
    } else {
        None
    };
    write::finish(context, &mut new, Some(&old))?;
    write::replace(context, entry, &old, new).await
}

/// Takes from `new` only what may be written through this path.
fn isolate(context: &Context, old: &Value, new: &mut Value) -> Value {
    match context.subresource() {
        "status" => {
            let mut result = old.clone();
            copy_field(&mut result, new, "status");
            if context.resource().strategy.status_keeps_metadata {
                for field in ["labels", "annotations"] {
                    let value = new.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
                    set_meta(&mut result, field, value);
                }
            }
            result
        }
        "finalize" => {
            let mut result = old.clone();
            let finalizers = new.pointer("/spec/finalizers").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
            crate::object::map_at(&mut result, "spec").insert("finalizers".to_owned(), finalizers);
            result
        }
        _ => {
            let mut result = std::mem::take(new);
            if context.endpoint.version().status {
                copy_field(&mut result, old, "status");
            }
            result
        }
    }
}

/// Restores what no client may change.
fn keep_metadata(new: &mut Value, old: &Value) {
    let fields = [
        "name",
        "namespace",
        "generateName",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "resourceVersion",
    ];
    for field in fields {
        let value = old.get("metadata").and_then(|metadata| metadata.get(field)).cloned();
        set_meta(new, field, value);
    }
    set_meta(new, "selfLink", None);
}

/// Applies a patch again and again until nothing comes between.
pub(super) async fn patch_until_stored(context: &Context, change: &patch::Change) -> ApiResult<Outcome> {
    let name = context.name();
    loop {
        let Some(entry) = context.core.store.get(&context.key(name)) else {
            return Err(context.not_found(name));
        };
        let before = crate::render::versioned(&context.endpoint, &entry)?;
        let mut after = change.apply(&before)?;
        decode::accept(context, &mut after, Vec::new())?;
        check_place(context, &after)?;
        if meta(&after, "name") != name {
            let error = FieldError::invalid("metadata.name", meta(&after, "name"), "field is immutable");
            context.check(name, &[error])?;
        }
        // A patch that leaves the version alone applies to whatever is there.
        let pinned = change.pins_version();
        match apply(context, &entry, after).await? {
            Outcome::Raced if !pinned => {}
            outcome => return Ok(outcome),
        }
    }
}
