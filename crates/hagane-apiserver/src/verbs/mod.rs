//! What can be done with resources.

mod create;
mod delete;
mod delete_collection;
mod list;
mod patch;
mod read;
mod selection;
mod update;
mod watch;
mod write;

use http::Method;

use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::render::Answer;

/// Subresources that an endpoint has.
pub(crate) fn has_subresource(context: &Context) -> bool {
    match context.subresource() {
        "" => true,
        "status" => context.endpoint.version().status,
        "finalize" => context.resource().is_built_in() && context.resource().plural == "namespaces",
        _ => false,
    }
}

/// Answers a request to a resource.
pub(crate) async fn handle(context: &Context, method: &Method) -> ApiResult<Answer> {
    if !has_subresource(context) {
        return Err(ApiError::no_such_resource());
    }
    if context.resource().namespaced
        && context.path.namespace.is_none()
        && (context.path.name.is_some() || method == Method::POST)
    {
        // An object of a namespaced kind has no path outside its namespace.
        return Err(ApiError::no_such_resource());
    }
    if !context.resource().namespaced && context.path.namespace.is_some() {
        return Err(ApiError::no_such_resource());
    }
    let named = context.path.name.is_some();
    let watching = context.query.watch || context.path.legacy_watch;
    match (method.as_str(), named, context.subresource()) {
        ("GET", _, "") if watching => watch::watch(context).await,
        ("GET", true, "" | "status") => read::get(context).await,
        ("GET", false, "") => list::list(context).await,
        ("POST", false, "") => create::create(context).await,
        ("PUT", true, _) => update::update(context).await,
        ("PATCH", true, "" | "status") => patch::patch(context).await,
        ("DELETE", true, "") => delete::delete(context).await,
        ("DELETE", false, "") => delete_collection::delete_collection(context).await,
        _ => Err(ApiError::method_not_allowed()),
    }
}
