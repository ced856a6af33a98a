//! Objects in request bodies, up to their stored form.

use serde_json::Value;

use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::metadata;
use crate::negotiate::{BodyType, body_type};
use crate::query::FieldValidation;
use crate::registry::Endpoint;
use crate::{protobuf, strict};

/// The object in a create or update, not yet checked.
pub(crate) fn body(context: &Context) -> ApiResult<(Value, Vec<String>)> {
    if context.body.is_empty() {
        return Err(ApiError::bad_request("the request has no body"));
    }
    parse(&context.body, body_type(&context.headers)?)
}

/// Reads a body; answers also the fields that are given more than once.
pub(crate) fn parse(bytes: &[u8], r#type: BodyType) -> ApiResult<(Value, Vec<String>)> {
    match r#type {
        BodyType::Json => strict::json(bytes).map_err(unreadable),
        BodyType::Yaml => {
            let text = std::str::from_utf8(bytes).map_err(unreadable)?;
            strict::yaml(text).map_err(unreadable)
        }
        BodyType::Protobuf => protobuf::decode(bytes).map(|object| (object, Vec::new())).map_err(unreadable),
    }
}

pub(crate) fn unreadable(error: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("couldn't read the object in the request body: {error}"))
}

/// Checks an object in the form of the endpoint, takes out what does not belong there, and brings it into its stored
/// form. `problems` are what reading found; with unknown fields they are refused, warned about or ignored.
pub(crate) fn accept(context: &Context, object: &mut Value, mut problems: Vec<String>) -> ApiResult<()> {
    let endpoint = &context.endpoint;
    check_kind(endpoint, object)?;
    let mut unknown = metadata::sanitize(object)?;
    unknown.extend(endpoint.version().schema.prune(object));
    problems.extend(unknown.iter().map(|path| strict::unknown(path)));
    match context.query.field_validation {
        FieldValidation::Strict if !problems.is_empty() => {
            return Err(ApiError::bad_request(format!("strict decoding error: {}", problems.join(", "))));
        }
        FieldValidation::Warn => problems.into_iter().for_each(|problem| context.warn(problem)),
        _ => {}
    }
    if endpoint.resource.is_built_in() {
        let errors = endpoint.version().schema.validate(object, None);
        let types = errors.iter().filter(|error| error.problem == hagane_api::field::FieldProblem::TypeInvalid);
        let texts: Vec<String> = types.map(ToString::to_string).collect();
        if !texts.is_empty() {
            let (kind, version) = (&endpoint.resource.kind, &endpoint.version().name);
            let why = texts.join(", ");
            return Err(ApiError::bad_request(format!(
                "{kind} in version \"{version}\" cannot be handled as a {kind}: {why}"
            )));
        }
    }
    to_stored_form(endpoint, object);
    Ok(())
}

/// Brings an object from the form of an endpoint into its stored form, with defaults.
pub(crate) fn to_stored_form(endpoint: &Endpoint, object: &mut Value) {
    endpoint.version().schema.default(object);
    (endpoint.resource.conversion.to_stored)(object, &endpoint.version().name);
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), endpoint.resource.stored_api_version.clone().into());
        fields.insert("kind".to_owned(), endpoint.resource.kind.clone().into());
    }
    (endpoint.resource.strategy.default)(object);
}

fn check_kind(endpoint: &Endpoint, object: &mut Value) -> ApiResult<()> {
    let Some(fields) = object.as_object_mut() else {
        return Err(ApiError::bad_request("the body must be a JSON object"));
    };
    let expected = [("apiVersion", endpoint.api_version()), ("kind", endpoint.resource.kind.clone())];
    for (field, wanted) in expected {
        let what = if field == "kind" { "kind" } else { "API version" };
        match fields.get(field) {
            Some(Value::String(given)) if *given == wanted => {}
            // Bodies of built-in kinds may leave both out.
            None | Some(Value::Null) if endpoint.resource.is_built_in() => {
                fields.insert(field.to_owned(), wanted.into());
            }
            None | Some(Value::Null) => {
                return Err(ApiError::bad_request(format!("Object '{field}' is missing: expected {wanted:?}")));
            }
            Some(Value::String(given)) => {
                return Err(ApiError::bad_request(format!(
                    "the {what} in the data ({given}) does not match the expected {what} ({wanted})"
                )));
            }
            Some(other) => return Err(ApiError::bad_request(format!("{field}: {other} is not a string"))),
        }
    }
    Ok(())
}
