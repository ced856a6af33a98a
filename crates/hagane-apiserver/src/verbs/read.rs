//! GET of one object.

use std::time::Duration;

use http::StatusCode;

use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::render::{self, Answer};

/// How long a request waits for a revision that is not there yet.
const REVISION_WAIT: Duration = Duration::from_secs(3);

/// Reads a resource version; empty and "0" mean any.
pub(crate) fn revision(text: Option<&str>) -> ApiResult<u64> {
    match text {
        None | Some("") => Ok(0),
        Some(text) => text
            .parse()
            .map_err(|_| ApiError::bad_request(format!("Invalid value: resourceVersion: {text:?} is not a number"))),
    }
}

/// Waits a little for a revision of the future.
pub(crate) async fn reach(context: &Context, revision: u64) -> ApiResult<()> {
    let store = &context.core.store;
    if revision <= store.revision() {
        return Ok(());
    }
    match tokio::time::timeout(REVISION_WAIT, store.wait_for(revision)).await {
        Ok(()) if store.revision() >= revision => Ok(()),
        _ => Err(ApiError::future_revision(revision, store.revision())),
    }
}

pub(super) async fn get(context: &Context) -> ApiResult<Answer> {
    reach(context, revision(context.query.resource_version.as_deref())?).await?;
    let name = context.name();
    match context.core.store.get(&context.key(name)) {
        Some(entry) => render::entry(context, StatusCode::OK, &entry),
        None => Err(context.not_found(name)),
    }
}
