//! PATCH.

use hagane_api::field::FieldError;
use http::StatusCode;
use serde_json::Value;

use super::{update, write};
use crate::context::Context;
use crate::decode;
use crate::error::{ApiError, ApiResult};
use crate::negotiate::{BodyType, content_type};
use crate::patch::{json, merge, strategic};
use crate::render::Answer;

/// Patch types of all kinds, and those of built-in kinds only.
const TYPES: &[&str] = &["application/json-patch+json", "application/merge-patch+json"];
const BUILT_IN_TYPES: &[&str] =
    &["application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json"];

/// A patch, read.
pub(super) enum Change {
    Json(json::Patch),
    Merge(Value),
    Strategic(Value),
}

pub(super) async fn patch(context: &Context) -> ApiResult<Answer> {
    if context.query.force {
        let error = FieldError::forbidden("force", "may not be specified for non-apply patch");
        return Err(ApiError::invalid("meta.k8s.io", "PatchOptions", "", &[error]));
    }
    let change = read(context)?;
    let outcome = update::patch_until_stored(context, &change).await?;
    write::answer(context, StatusCode::OK, outcome)
}

fn read(context: &Context) -> ApiResult<Change> {
    let built_in = context.resource().is_built_in();
    match content_type(&context.headers).as_str() {
        "application/json-patch+json" => json::Patch::read(&context.body).map(Change::Json),
        "application/merge-patch+json" => object(context).map(Change::Merge),
        "application/strategic-merge-patch+json" if built_in => object(context).map(Change::Strategic),
        "application/apply-patch+yaml" => {
            let mut error = ApiError::unsupported_media_type(if built_in { BUILT_IN_TYPES } else { TYPES });
            error.message = format!("server-side apply is not served: {}; use client-side apply", error.message);
            Err(error)
        }
        _ => Err(ApiError::unsupported_media_type(if built_in { BUILT_IN_TYPES } else { TYPES })),
    }
}

fn object(context: &Context) -> ApiResult<Value> {
    let (patch, problems) = decode::parse(&context.body, BodyType::Json)?;
    if !patch.is_object() {
        return Err(ApiError::bad_request("the patch must be a JSON object"));
    }
    match context.query.field_validation {
        crate::query::FieldValidation::Strict if !problems.is_empty() => {
            Err(ApiError::bad_request(format!("strict decoding error: {}", problems.join(", "))))
        }
        crate::query::FieldValidation::Ignore => Ok(patch),
        _ => {
            problems.into_iter().for_each(|problem| context.warn(problem));
            Ok(patch)
        }
    }
}

/// Names no object: kubectl prints the message only where the details have no kind.
fn refused(why: &str) -> ApiError {
    ApiError::unprocessable(format!("the server rejected our request due to an error in our request: {why}"))
}

impl Change {
    /// The object that comes out.
    pub(super) fn apply(&self, before: &Value) -> ApiResult<Value> {
        let mut after = before.clone();
        match self {
            Self::Json(patch) => patch.apply(&mut after).map_err(|why| refused(&why))?,
            Self::Merge(patch) => merge::apply(&mut after, patch),
            Self::Strategic(patch) => strategic::apply(&mut after, patch).map_err(|why| refused(&why))?,
        }
        if !after.is_object() {
            return Err(refused("the result is no object"));
        }
        Ok(after)
    }

    /// Whether the patch says which version it is for.
    pub(super) fn pins_version(&self) -> bool {
        match self {
            Self::Json(patch) => patch.touches("/metadata/resourceVersion"),
            Self::Merge(patch) | Self::Strategic(patch) => {
                patch.pointer("/metadata/resourceVersion").is_some_and(|version| !version.is_null())
            }
        }
    }
}
