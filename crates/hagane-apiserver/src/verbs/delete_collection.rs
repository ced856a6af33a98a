//! DELETE of a collection: each selected object on its own.

use super::delete::options;
use super::list::{self, Page};
use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::removal;
use crate::render::Answer;

pub(super) async fn delete_collection(context: &Context) -> ApiResult<Answer> {
    let options = options(context)?;
    if options.uid.is_some() || options.resource_version.is_some() {
        return Err(ApiError::bad_request("preconditions are not allowed when a collection is deleted"));
    }
    let selected = list::page(context).await?;
    let mut deleted = Vec::new();
    for entry in selected.entries {
        match removal::delete(&context.core, context.resource(), &entry.key, &options).await {
            Ok(_) => deleted.push(entry),
            // Gone before its turn.
            Err(error) if error.code == http::StatusCode::NOT_FOUND => {}
            Err(error) => return Err(error),
        }
    }
    let page = Page {
        entries: deleted,
        revision: context.core.store.revision(),
        continue_token: selected.continue_token,
        remaining: None,
    };
    list::answer(context, &page)
}
