//! `/openapi/v3`: the index, and a document per group and version. `/openapi/v2`: an empty one.

use http::header::{ACCEPT, CACHE_CONTROL, ETAG, IF_NONE_MATCH, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};

use crate::error::{ApiError, ApiResult};
use crate::negotiate::{Encoding, form};
use crate::openapi::{self, Document, ResourceDoc};
use crate::registry::{DEFINITIONS, Registry};
use crate::render::{self, Answer};

/// The documents of everything that is served, in the order of discovery.
pub(crate) fn documents(registry: &Registry) -> Vec<Document> {
    let mut documents = Vec::new();
    for (group, versions) in registry.groups() {
        for version in versions {
            let resources: Vec<ResourceDoc<'_>> = registry
                .rows()
                .iter()
                .filter(|row| row.group == group)
                .filter_map(|row| row.served().find(|served| served.name == version).map(|served| (row, served)))
                .map(|(row, served)| ResourceDoc {
                    group: &row.group,
                    version: &served.name,
                    kind: &row.kind,
                    list_kind: &row.list_kind,
                    plural: &row.plural,
                    namespaced: row.namespaced,
                    schema: served.schema.raw(),
                    status: served.status,
                    builtin: row.is_built_in(),
                    // Schemas inside definitions have no fields that clients could merge by.
                    strategic_merge: row.is_built_in() && row.storage.as_ref() != DEFINITIONS,
                    apply: false,
                })
                .collect();
            documents.push(openapi::document(&group, &version, &resources));
        }
    }
    documents
}

/// Answers the index, or the document at `path`.
pub(crate) fn answer(registry: &Registry, headers: &HeaderMap, path: Option<&str>, query: &str) -> ApiResult<Answer> {
    form(headers, false)?;
    let documents = registry.documents();
    let Some(path) = path else {
        return render::value(StatusCode::OK, &openapi::index(documents), Encoding::Json);
    };
    let Some(document) = documents.iter().find(|document| document.path == path) else {
        return Err(ApiError::no_such_resource());
    };
    let hash = url::form_urlencoded::parse(query.as_bytes())
        .find(|(key, _)| key == "hash")
        .map(|(_, value)| value.into_owned());
    let tag = format!("\"{}\"", document.hash);
    let mut answer = if hash.as_ref().is_some_and(|hash| !hash.is_empty() && *hash != document.hash) {
        let mut moved = render::respond(StatusCode::MOVED_PERMANENTLY, Vec::new(), "application/json");
        let location = format!("/openapi/v3/{}?hash={}", document.path, document.hash);
        moved.headers_mut().insert(LOCATION, header(&location)?);
        moved
    } else if headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        render::respond(StatusCode::NOT_MODIFIED, Vec::new(), "application/json")
    } else {
        render::respond(StatusCode::OK, document.bytes.clone(), "application/json")
    };
    answer.headers_mut().insert(ETAG, header(&tag)?);
    if hash.is_some_and(|hash| hash == document.hash) {
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, immutable, max-age=31536000"));
    }
    Ok(answer)
}

/// Answers the older document, in the form that the client asks for.
pub(crate) fn answer_old(headers: &HeaderMap) -> ApiResult<Answer> {
    let accepted = headers.get(ACCEPT).and_then(|accepted| accepted.to_str().ok()).unwrap_or_default();
    if [openapi::old::ASKED_FOR, openapi::old::MEDIA_TYPE].iter().any(|form| accepted.contains(form)) {
        return Ok(render::respond(StatusCode::OK, openapi::old::protobuf(), openapi::old::MEDIA_TYPE));
    }
    form(headers, false)?;
    render::value(StatusCode::OK, &openapi::old::json(), Encoding::Json)
}

fn header(text: &str) -> ApiResult<HeaderValue> {
    HeaderValue::from_str(text).map_err(ApiError::internal)
}
