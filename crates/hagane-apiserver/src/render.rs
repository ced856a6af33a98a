//! Answers as bytes.

use bytes::{Bytes, BytesMut};
use hagane_store::Entry;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use serde_json::{Map, Value};

use crate::body::ResponseBody;
use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::negotiate::{Encoding, Shape};
use crate::object;
use crate::registry::{Endpoint, Origin};
use crate::table::partial_metadata;

/// An answer of a handler.
pub(crate) type Answer = Response<ResponseBody>;

/// Most bytes of all warnings of an answer before each is cut.
const WARNINGS_SIZE_MAX: usize = 4096;
const WARNING_CUT: usize = 256;

/// Writes a value in an encoding.
pub(crate) fn encode(value: &Value, encoding: Encoding) -> ApiResult<Bytes> {
    match encoding {
        Encoding::Json => serde_json::to_vec(value).map(Into::into).map_err(ApiError::internal),
        Encoding::Yaml => serde_saphyr::to_string(value).map(Into::into).map_err(ApiError::internal),
    }
}

/// An answer with a body in an encoding.
pub(crate) fn respond(status: StatusCode, bytes: impl Into<Bytes>, content_type: &'static str) -> Answer {
    let mut response = Response::new(ResponseBody::whole(bytes));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    response
}

pub(crate) fn content_type(encoding: Encoding) -> &'static str {
    match encoding {
        Encoding::Json => "application/json",
        Encoding::Yaml => "application/yaml",
    }
}

/// A value as it is, without shape.
pub(crate) fn value(status: StatusCode, value: &Value, encoding: Encoding) -> ApiResult<Answer> {
    Ok(respond(status, encode(value, encoding)?, content_type(encoding)))
}

/// A failure.
pub(crate) fn failure(error: &ApiError, encoding: Encoding) -> Answer {
    let status = error.to_status();
    let bytes = encode(&status, encoding).unwrap_or_default();
    let mut response = respond(error.code, bytes, content_type(encoding));
    if let Some(seconds) = error.retry_after_seconds() {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Adds Warning headers.
pub(crate) fn warn(response: &mut Answer, warnings: &[String]) {
    let cut = warnings.iter().map(String::len).sum::<usize>() > WARNINGS_SIZE_MAX;
    for warning in warnings {
        let text: String = if cut { warning.chars().take(WARNING_CUT).collect() } else { warning.clone() };
        let text = text.replace(['\n', '\r', '\t'], " ").replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(header) = HeaderValue::from_bytes(format!("299 - \"{text}\"").as_bytes()) {
            response.headers_mut().append(WARNING, header);
        }
    }
}

/// A stored object in the form of an endpoint.
pub(crate) fn versioned(endpoint: &Endpoint, entry: &Entry) -> ApiResult<Value> {
    let mut object = object::from_entry(entry).map_err(ApiError::internal)?;
    if is_outdated(endpoint, entry) {
        let schema = &endpoint.version().schema;
        schema.prune(&mut object);
        schema.default(&mut object);
    }
    to_version(endpoint, &mut object);
    Ok(object)
}

/// Brings an object from its stored form into that of an endpoint.
pub(crate) fn to_version(endpoint: &Endpoint, object: &mut Value) {
    (endpoint.resource.conversion.from_stored)(object, &endpoint.version().name);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), endpoint.api_version().into());
    }
}

/// Whether the object was written under an older schema of its definition.
fn is_outdated(endpoint: &Endpoint, entry: &Entry) -> bool {
    endpoint.resource.origin == Origin::Defined && entry.revision < endpoint.resource.schema_since
}

/// Writes a stored object in the form of an endpoint, by copying where that form is the stored one.
pub(crate) fn write_object(endpoint: &Endpoint, entry: &Entry, out: &mut BytesMut) -> ApiResult<()> {
    if endpoint.is_stored_form() && !is_outdated(endpoint, entry) {
        object::write_entry(entry, out);
        return Ok(());
    }
    let object = versioned(endpoint, entry)?;
    out.extend_from_slice(&serde_json::to_vec(&object).map_err(ApiError::internal)?);
    Ok(())
}

/// A stored object in the shape that the client asked for.
pub(crate) fn entry(context: &Context, status: StatusCode, entry: &Entry) -> ApiResult<Answer> {
    if context.form.shape == Shape::Object && context.form.encoding == Encoding::Json {
        let mut bytes = BytesMut::new();
        write_object(&context.endpoint, entry, &mut bytes)?;
        return Ok(respond(status, bytes.freeze(), content_type(Encoding::Json)));
    }
    shaped(context, status, versioned(&context.endpoint, entry)?)
}

/// An object, already in the form of the endpoint, in the shape that the client asked for.
pub(crate) fn shaped(context: &Context, status: StatusCode, object: Value) -> ApiResult<Answer> {
    let shown = match context.form.shape {
        Shape::Object => object,
        Shape::Metadata { beta } => partial_metadata(&object, beta),
        Shape::Table { beta } => {
            let include = crate::rows::include(context.query.include_object.as_deref())?;
            let mut metadata = Map::new();
            if let Some(version) = object.pointer("/metadata/resourceVersion") {
                metadata.insert("resourceVersion".to_owned(), version.clone());
            }
            crate::rows::table(&context.endpoint, include, &[object], metadata, beta, true)
        }
    };
    value(status, &shown, context.form.encoding)
}
