//! POST.

use hagane_api::field::FieldError;
use hagane_store::Expect;
use http::StatusCode;
use serde_json::Value;

use super::write::{self, Outcome};
use crate::context::Context;
use crate::decode;
use crate::error::{ApiError, ApiResult};
use crate::object::{meta, metadata_mut, set_meta};
use crate::registry::{DEFINITIONS, name_problem};
use crate::render::Answer;

/// Letters of generated names: no vowels, so no words.
const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const BASE_LENGTH_MAX: usize = 58;
const NAME_ATTEMPTS: usize = 8;

pub(super) async fn create(context: &Context) -> ApiResult<Answer> {
    let (mut object, problems) = decode::body(context)?;
    decode::accept(context, &mut object, problems)?;
    create_object(context, object).await
}

/// Creates an accepted object.
pub(super) async fn create_object(context: &Context, mut object: Value) -> ApiResult<Answer> {
    place(context, &mut object)?;
    if !meta(&object, "resourceVersion").is_empty() {
        return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
    }
    let definition = context.resource().storage.as_ref() == DEFINITIONS;
    // A definition changes what may be created, everything else only must not slip past such a change.
    let (_alone, _shared) = if definition {
        (Some(context.core.gate.write().await), None)
    } else {
        (None, Some(context.core.gate.read().await))
    };
    check_open(context, meta(&object, "name"))?;
    let base = meta(&object, "generateName").to_owned();
    let generate = meta(&object, "name").is_empty();
    if generate && base.is_empty() {
        let error = FieldError::required("metadata.name", "name or generateName is required");
        return context.check("", &[error]).and_then(|()| Err(ApiError::internal("unreachable")));
    }
    for _ in 0..NAME_ATTEMPTS {
        if generate {
            set_meta(&mut object, "name", Some(generated_name(&base).into()));
        }
        match attempt(context, object.clone()).await? {
            Outcome::Raced if !generate => break,
            Outcome::Raced => {}
            outcome => return write::answer(context, StatusCode::CREATED, outcome),
        }
    }
    let name = meta(&object, "name");
    let mut error = ApiError::already_exists(&context.resource().group, &context.resource().plural, name);
    if generate {
        error.message.push_str(", the server was not able to generate a unique name for the object");
        error = error.retry_after(1);
    }
    Err(error)
}

/// Makes the object's place agree with the path.
fn place(context: &Context, object: &mut Value) -> ApiResult<()> {
    if context.resource().namespaced {
        let given = meta(object, "namespace");
        if !given.is_empty() && given != context.namespace() {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        set_meta(object, "namespace", Some(context.namespace().into()));
    } else {
        set_meta(object, "namespace", None);
    }
    Ok(())
}

/// Refuses creates where everything is going away.
fn check_open(context: &Context, name: &str) -> ApiResult<()> {
    let resource = context.resource();
    if resource.namespaced {
        context.core.check_namespace(resource, context.namespace(), name)?;
    }
    // The row of this request may be older than the gate that was just passed.
    let registry = context.core.registry();
    let Some(now) = registry.find(&resource.group, &resource.plural) else {
        return Err(ApiError::no_such_resource());
    };
    if now.terminating {
        let why = "create not allowed while custom resource definition is terminating";
        return Err(ApiError::forbidden(&resource.group, &resource.plural, name, why));
    }
    Ok(())
}

async fn attempt(context: &Context, mut object: Value) -> ApiResult<Outcome> {
    let name = meta(&object, "name").to_owned();
    if let Some(problem) = name_problem(context.resource().strategy.names, &name) {
        context.check(&name, &[FieldError::invalid("metadata.name", &name, problem)])?;
    }
    let metadata = metadata_mut(&mut object);
    for field in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "managedFields"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
    metadata.insert("creationTimestamp".to_owned(), context.core.now().into());
    if context.endpoint.version().status
        && let Some(fields) = object.as_object_mut()
    {
        fields.remove("status");
    }
    let key = context.key(&name);
    if context.core.store.get(&key).is_some() {
        return Ok(Outcome::Raced);
    }
    write::finish(context, &mut object, None)?;
    if context.query.dry_run {
        return Ok(Outcome::Shown(object));
    }
    let Some(entry) = context.core.put(key, &object, Expect::Absent).await? else { return Ok(Outcome::Raced) };
    write::after_commit(context, &entry);
    Ok(Outcome::Stored(entry))
}

fn generated_name(base: &str) -> String {
    let mut end = base.len().min(BASE_LENGTH_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let random = uuid::Uuid::new_v4();
    let suffix = random
        .as_bytes()
        .iter()
        .take(SUFFIX_LENGTH)
        .map(|byte| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]));
    base[..end].chars().chain(suffix).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_are_cut_to_a_label() {
        let name = generated_name(&"a".repeat(80));
        assert_eq!(name.len(), 63);
        assert!(generated_name("x-").starts_with("x-") && generated_name("x-") != generated_name("x-"));
    }
}
