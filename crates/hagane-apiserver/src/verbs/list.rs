//! Lists: consistent at one revision, in pages.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::BytesMut;
use hagane_api::field::FieldError;
use hagane_store::{Entry, Snapshot};
use http::StatusCode;
use serde_json::{Map, Value, json};

use super::read::{reach, revision};
use super::selection::Selection;
use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::negotiate::{Encoding, Shape};
use crate::query::Query;
use crate::render::{self, Answer};
use crate::table::partial_metadata;

const TOKEN_VERSION: &str = "meta.k8s.io/v1";
const LOST_PAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new \
                         list without the continue parameter, or use the continue token in this response to retrieve the \
                         remainder of the results. Continuing with the provided token results in an inconsistent list - \
                         objects that were created, modified, or deleted between the time the first chunk was returned and \
                         now may show up in the list.";

/// Where a page begins.
struct Start {
    /// Revision of all pages; none means the latest.
    revision: Option<u64>,
    namespace: String,
    name: String,
}

/// One page.
pub(super) struct Page {
    pub entries: Vec<Arc<Entry>>,
    pub revision: u64,
    pub continue_token: Option<String>,
    pub remaining: Option<usize>,
}

pub(super) async fn list(context: &Context) -> ApiResult<Answer> {
    let page = page(context).await?;
    answer(context, &page)
}

/// Selects a page of objects.
pub(super) async fn page(context: &Context) -> ApiResult<Page> {
    check_version_match(&context.query)?;
    let selection = Selection::of(context)?;
    let asked = revision(context.query.resource_version.as_deref());
    if let Some(token) = &context.query.continue_token {
        if asked? > 0 {
            return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
        }
        let start = parse_token(token)?;
        let snapshot = match start.revision {
            Some(revision) => at(context, revision).map_err(|()| {
                ApiError::expired(LOST_PAGE).with_continue(token_of(-1, &start.namespace, &start.name))
            })?,
            None => latest(context),
        };
        return Ok(cut(context, &snapshot, &selection, Some(&start)));
    }
    let asked = asked?;
    reach(context, asked).await?;
    let exact = context.query.resource_version_match.as_deref() == Some("Exact")
        || (context.query.resource_version_match.is_none() && context.query.limit > 0 && asked > 0);
    let snapshot = if exact {
        at(context, asked).map_err(|()| ApiError::expired("The resourceVersion for the provided list is too old."))?
    } else {
        latest(context)
    };
    Ok(cut(context, &snapshot, &selection, None))
}

fn latest(context: &Context) -> Snapshot {
    context.core.store.list(&context.resource().storage, context.path.namespace.as_deref())
}

fn at(context: &Context, revision: u64) -> Result<Snapshot, ()> {
    context.core.store.list_at(&context.resource().storage, context.path.namespace.as_deref(), revision).map_err(|_| ())
}

fn cut(context: &Context, snapshot: &Snapshot, selection: &Selection, start: Option<&Start>) -> Page {
    let revision = start.and_then(|start| start.revision).unwrap_or(snapshot.revision);
    match start {
        Some(start) => take(context, snapshot.after(&start.namespace, &start.name), selection, revision),
        None => take(context, snapshot.iter(), selection, revision),
    }
}

fn take<'a>(
    context: &Context,
    entries: impl Iterator<Item = &'a Arc<Entry>>,
    selection: &Selection,
    revision: u64,
) -> Page {
    let limit = if context.query.limit == 0 { usize::MAX } else { context.query.limit };
    let mut page = Page { entries: Vec::new(), revision, continue_token: None, remaining: None };
    let mut entries = entries.filter(|entry| selection.matches(entry));
    page.entries.extend(entries.by_ref().take(limit).cloned());
    if page.entries.len() == limit
        && let Some(last) = page.entries.last()
    {
        let rest = entries.count();
        if rest > 0 {
            let revision = i64::try_from(revision).unwrap_or(-1);
            page.continue_token = Some(token_of(revision, &last.key.namespace, &last.key.name));
            page.remaining = selection.is_everything().then_some(rest);
        }
    }
    page
}

fn check_version_match(query: &Query) -> ApiResult<()> {
    if query.send_initial_events.is_some() {
        return Err(options_error(&FieldError::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        )));
    }
    let Some(wanted) = &query.resource_version_match else { return Ok(()) };
    let field = "resourceVersionMatch";
    let error = if query.continue_token.is_some() {
        FieldError::forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
    } else if query.resource_version.is_none() {
        FieldError::forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    } else if !matches!(wanted.as_str(), "Exact" | "NotOlderThan") {
        FieldError::invalid(field, wanted, "supported values: \"Exact\", \"NotOlderThan\"")
    } else if wanted == "Exact" && query.resource_version.as_deref() == Some("0") {
        FieldError::forbidden(field, "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"")
    } else {
        return Ok(());
    };
    Err(options_error(&error))
}

pub(super) fn options_error(error: &FieldError) -> ApiError {
    ApiError::invalid("meta.k8s.io", "ListOptions", "", std::slice::from_ref(error))
}

fn token_of(revision: i64, namespace: &str, name: &str) -> String {
    let start = if namespace.is_empty() { format!("{name}\0") } else { format!("{namespace}/{name}\0") };
    URL_SAFE_NO_PAD.encode(json!({"v": TOKEN_VERSION, "rv": revision, "start": start}).to_string())
}

fn parse_token(token: &str) -> ApiResult<Start> {
    let bad = |why: &str| ApiError::bad_request(format!("continue key is not valid: {why}"));
    let bytes = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|error| bad(&error.to_string()))?;
    let token: Value = serde_json::from_slice(&bytes).map_err(|error| bad(&error.to_string()))?;
    if token.get("v").and_then(Value::as_str) != Some(TOKEN_VERSION) {
        return Err(bad("server does not recognize this encoded version"));
    }
    let (Some(revision), Some(start)) =
        (token.get("rv").and_then(Value::as_i64), token.get("start").and_then(Value::as_str))
    else {
        return Err(bad("rv and start must be given"));
    };
    let start = start.strip_suffix('\0').ok_or_else(|| bad("start is cut off"))?;
    let (namespace, name) = start.split_once('/').unwrap_or(("", start));
    let revision = match revision {
        -1 => None,
        1.. => u64::try_from(revision).ok(),
        _ => return Err(bad("rv must be positive")),
    };
    Ok(Start { revision, namespace: namespace.to_owned(), name: name.to_owned() })
}

fn list_metadata(page: &Page) -> Map<String, Value> {
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), page.revision.to_string().into());
    if let Some(token) = &page.continue_token {
        metadata.insert("continue".to_owned(), token.clone().into());
    }
    if let Some(remaining) = page.remaining {
        metadata.insert("remainingItemCount".to_owned(), remaining.into());
    }
    metadata
}

/// Writes a page in the shape that the client asked for.
pub(super) fn answer(context: &Context, page: &Page) -> ApiResult<Answer> {
    let endpoint = &context.endpoint;
    let metadata = list_metadata(page);
    if context.form.shape == Shape::Object && context.form.encoding == Encoding::Json {
        let head =
            json!({"kind": endpoint.resource.list_kind, "apiVersion": endpoint.api_version(), "metadata": metadata});
        let head = head.to_string();
        let size: usize = page.entries.iter().map(|entry| entry.value.len() + 48).sum();
        let mut bytes = BytesMut::with_capacity(size + head.len() + 16);
        bytes.extend_from_slice(head.trim_end_matches('}').as_bytes());
        bytes.extend_from_slice(b"},\"items\":[");
        for (index, entry) in page.entries.iter().enumerate() {
            if index > 0 {
                bytes.extend_from_slice(b",");
            }
            render::write_object(endpoint, entry, &mut bytes)?;
        }
        bytes.extend_from_slice(b"]}");
        return Ok(render::respond(StatusCode::OK, bytes.freeze(), render::content_type(Encoding::Json)));
    }
    let objects: Vec<Value> =
        page.entries.iter().map(|entry| render::versioned(endpoint, entry)).collect::<ApiResult<_>>()?;
    let list = match context.form.shape {
        Shape::Table { beta } => {
            let include = crate::rows::include(context.query.include_object.as_deref())?;
            crate::rows::table(endpoint, include, &objects, metadata, beta, true)
        }
        Shape::Metadata { beta } => {
            let version = if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" };
            let items: Vec<Value> = objects.iter().map(|object| partial_metadata(object, beta)).collect();
            json!({"kind": "PartialObjectMetadataList", "apiVersion": version, "metadata": metadata, "items": items})
        }
        Shape::Object => {
            json!({"kind": endpoint.resource.list_kind, "apiVersion": endpoint.api_version(), "metadata": metadata, "items": objects})
        }
    };
    render::value(StatusCode::OK, &list, context.form.encoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_says_where_to_go_on() {
        let start = parse_token(&token_of(7, "a", "b")).expect("own token");
        assert_eq!((start.revision, start.namespace.as_str(), start.name.as_str()), (Some(7), "a", "b"));
        let start = parse_token(&token_of(-1, "", "b")).expect("own token");
        assert_eq!((start.revision, start.namespace.as_str(), start.name.as_str()), (None, "", "b"));
    }

    #[test]
    fn foreign_tokens_are_refused() {
        for token in
            ["garbage", "", "e30", &URL_SAFE_NO_PAD.encode(r#"{"v":"meta.k8s.io/v1","rv":0,"start":"a\u0000"}"#)]
        {
            let error = parse_token(token).err().expect("refused");
            assert_eq!(error.code.as_u16(), 400, "{token}");
        }
    }
}
