//! What every write has in common: from an accepted object to a committed one.

use hagane_api::field::FieldError;
use hagane_store::{Entry, Expect};
use http::StatusCode;
use serde_json::{Map, Value};

use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::managed_fields::{self, Writer};
use crate::names::metadata_problems;
use crate::object::{self, finalizers, is_terminating, meta, set_meta, text};
use crate::registry::DEFINITIONS;
use crate::removal::{is_released, remove};
use crate::render::{self, Answer};

/// What a write came to.
pub(super) enum Outcome {
    /// Stored, or found to be so already.
    Stored(Entry),
    /// Removed, because nothing held it any more; the last state.
    Removed(Value),
    /// Not stored because of `dryRun`; as it would be, in stored form.
    Shown(Value),
    /// Something else was stored meanwhile.
    Raced,
}

/// Answers with the outcome of a write; `Raced` must have been dealt with.
pub(super) fn answer(context: &Context, status: StatusCode, outcome: Outcome) -> ApiResult<Answer> {
    match outcome {
        Outcome::Stored(entry) => render::entry(context, status, &entry),
        Outcome::Removed(mut object) | Outcome::Shown(mut object) => {
            render::to_version(&context.endpoint, &mut object);
            render::shaped(context, status, object)
        }
        Outcome::Raced => Err(context.stale(context.name())),
    }
}

/// Completes and checks a new object, or an update of `old`. Both are in stored form.
pub(super) fn finish(context: &Context, new: &mut Value, old: Option<&Value>) -> ApiResult<()> {
    let strategy = &context.resource().strategy;
    if context.subresource().is_empty() {
        (strategy.prepare)(new, old);
    }
    if context.resource().storage.as_ref() == DEFINITIONS {
        crate::definitions::prepare(context, new, old)?;
    }
    drop_duplicate_owners(context, new);
    set_generation(context, new, old);
    let time = context.core.now();
    let manager = context.manager();
    let writer = Writer {
        manager: &manager,
        api_version: &context.endpoint.api_version(),
        subresource: context.subresource(),
        time: &time,
    };
    managed_fields::record(new, old, &writer);
    context.check(meta(new, "name"), &problems(context, new, old))
}

fn problems(context: &Context, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = new.get("metadata").map(metadata_problems).unwrap_or_default();
    if let Some(old) = old.filter(|old| is_terminating(old)) {
        let before = finalizers(old);
        let added: Vec<_> = finalizers(new).into_iter().filter(|finalizer| !before.contains(finalizer)).collect();
        if !added.is_empty() {
            let list = added.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
            let detail = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{list}}}"
            );
            errors.push(FieldError::forbidden("metadata.finalizers", detail));
        }
    }
    if context.resource().is_built_in() {
        let stored = &context.resource().stored_api_version;
        let schema =
            context.resource().versions.iter().find(|row| context.resource().api_version(&row.name) == *stored);
        errors.extend(schema.map(|row| row.schema.validate(new, old)).unwrap_or_default());
    } else {
        errors.extend(context.endpoint.version().schema.validate(new, old));
    }
    // Hand-written checks may rely on the types that the schema asks for.
    if errors.is_empty() {
        errors.extend((context.resource().strategy.validate)(new, old));
    }
    errors
}

fn drop_duplicate_owners(context: &Context, new: &mut Value) {
    let Some(owners) = new.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) else { return };
    let count = owners.len();
    let mut seen = Vec::new();
    owners.retain(|owner| {
        let uid = text(owner, &["uid"]).to_owned();
        let fresh = uid.is_empty() || !seen.contains(&uid);
        seen.push(uid);
        fresh
    });
    if owners.len() < count {
        context.warn(".metadata.ownerReferences contains duplicate entries; API server dedups owner references");
    }
}

fn set_generation(context: &Context, new: &mut Value, old: Option<&Value>) {
    if !context.resource().strategy.has_generation {
        set_meta(new, "generation", None);
        return;
    }
    let generation = match old {
        None => 1,
        Some(old) => {
            let before = generation_of(old).max(1);
            let same = wish(new, context.endpoint.version().status) == wish(old, context.endpoint.version().status);
            if same { before } else { before + 1 }
        }
    };
    set_meta(new, "generation", Some(generation.into()));
}

pub(super) fn generation_of(object: &Value) -> i64 {
    object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0)
}

/// What counts as the wish: everything but metadata, and status where that is a subresource.
fn wish(object: &Value, status_apart: bool) -> Map<String, Value> {
    let mut wish = object.as_object().cloned().unwrap_or_default();
    wish.remove("metadata");
    wish.remove("apiVersion");
    if status_apart {
        wish.remove("status");
    }
    wish
}

/// Stores `new` over `old` at `entry`, unless nothing changed; removes it if it only waited for that.
pub(super) async fn replace(context: &Context, entry: &Entry, old: &Value, mut new: Value) -> ApiResult<Outcome> {
    set_meta(&mut new, "resourceVersion", None);
    let mut before = old.clone();
    set_meta(&mut before, "resourceVersion", None);
    if new == before {
        return Ok(Outcome::Stored(entry.clone()));
    }
    if context.query.dry_run {
        set_meta(&mut new, "resourceVersion", Some(entry.revision.to_string().into()));
        return Ok(Outcome::Shown(new));
    }
    if is_released(context.resource(), &new) {
        let removed = remove(&context.core, context.resource(), entry, new).await?;
        return Ok(removed.map_or(Outcome::Raced, Outcome::Removed));
    }
    let put = context.core.put(entry.key.clone(), &new, Expect::Revision(entry.revision)).await?;
    let Some(stored) = put else { return Ok(Outcome::Raced) };
    after_commit(context, &stored);
    Ok(Outcome::Stored(stored))
}

/// What has to follow a commit before the client is answered.
pub(super) fn after_commit(context: &Context, entry: &Entry) {
    if context.resource().storage.as_ref() == DEFINITIONS {
        crate::definitions::stored(&context.core, entry);
    }
}

/// The entry's object in stored form, with its resource version.
pub(super) fn stored_value(entry: &Entry) -> ApiResult<Value> {
    object::from_entry(entry).map_err(ApiError::internal)
}
