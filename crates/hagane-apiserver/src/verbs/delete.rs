//! DELETE of one object.

use http::StatusCode;
use serde_json::{Value, json};

use crate::context::Context;
use crate::decode;
use crate::error::{ApiError, ApiResult};
use crate::negotiate::body_type;
use crate::object::meta;
use crate::removal::{self, DeleteOptions, Deleted, propagation};
use crate::render::{self, Answer};

pub(super) async fn delete(context: &Context) -> ApiResult<Answer> {
    let options = options(context)?;
    match removal::delete(&context.core, context.resource(), &context.key(context.name()), &options).await? {
        Deleted::Pending(entry) => render::entry(context, StatusCode::OK, &entry),
        Deleted::Gone(object) | Deleted::Shown(object) if context.resource().strategy.return_deleted => {
            show(context, object)
        }
        Deleted::Gone(object) | Deleted::Shown(object) => {
            render::value(StatusCode::OK, &success(context, &object), context.form.encoding)
        }
    }
}

fn show(context: &Context, mut object: Value) -> ApiResult<Answer> {
    render::to_version(&context.endpoint, &mut object);
    render::shaped(context, StatusCode::OK, object)
}

fn success(context: &Context, object: &Value) -> Value {
    let resource = context.resource();
    let mut details = json!({"name": meta(object, "name"), "kind": resource.plural, "uid": meta(object, "uid")});
    if !resource.group.is_empty() {
        details["group"] = resource.group.clone().into();
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Reads options from the body, else from the query.
pub(super) fn options(context: &Context) -> ApiResult<DeleteOptions> {
    let query = &context.query;
    if context.body.is_empty() {
        return Ok(DeleteOptions {
            propagation: propagation(query.propagation_policy.as_deref(), query.orphan_dependents)?,
            dry_run: query.dry_run,
            ..DeleteOptions::default()
        });
    }
    let (body, _) = decode::parse(&context.body, body_type(&context.headers)?)?;
    if !body.is_object() {
        return Err(ApiError::bad_request("the body of a delete must be a DeleteOptions object"));
    }
    let text = |pointer: &str| -> ApiResult<Option<String>> {
        match body.pointer(pointer) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(ApiError::bad_request(format!("DeleteOptions: {pointer}: {other} is not a string"))),
        }
    };
    let kind = text("/kind")?;
    if kind.as_deref().is_some_and(|kind| kind != "DeleteOptions") {
        return Err(ApiError::bad_request(format!(
            "the body of a delete must be DeleteOptions, not {}",
            kind.unwrap_or_default()
        )));
    }
    let orphan = match body.get("orphanDependents") {
        None | Some(Value::Null) => None,
        Some(Value::Bool(orphan)) => Some(*orphan),
        Some(other) => {
            return Err(ApiError::bad_request(format!("DeleteOptions: orphanDependents: {other} is not a boolean")));
        }
    };
    let dry_run = body.get("dryRun").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    Ok(DeleteOptions {
        uid: text("/preconditions/uid")?,
        resource_version: text("/preconditions/resourceVersion")?,
        propagation: propagation(text("/propagationPolicy")?.as_deref(), orphan)?,
        dry_run: dry_run || query.dry_run,
    })
}
