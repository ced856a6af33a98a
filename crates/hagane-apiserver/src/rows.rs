//! Tables for people, as requests ask for them.

use serde_json::{Map, Value};

use crate::error::{ApiError, ApiResult};
use crate::registry::Endpoint;
use crate::table::{self, Include, Style};

/// Reads the query parameter `includeObject`.
pub(crate) fn include(text: Option<&str>) -> ApiResult<Include> {
    let text = text.unwrap_or_default();
    Include::parse(text)
        .ok_or_else(|| ApiError::bad_request(format!("includeObject: {text:?} is none of None, Metadata and Object")))
}

/// A table of objects; `metadata` is that of the list.
pub(crate) fn table(
    endpoint: &Endpoint,
    include: Include,
    objects: &[Value],
    metadata: Map<String, Value>,
    beta: bool,
    definitions: bool,
) -> Value {
    let style = Style { include, beta, definitions, now: crate::clock::now() };
    table::table(&endpoint.version().columns, objects, metadata, style)
}
