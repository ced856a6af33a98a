//! Failures as Kubernetes clients read them: a `v1 Status` with a reason, a code and a message in the known wording.

use hagane_api::field::FieldError;
use http::StatusCode;
use serde_json::{Map, Value, json};

/// A refused or failed request. It is rendered as a `Status` object.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// HTTP code, repeated in the body.
    pub code: StatusCode,
    /// One word that clients switch on, `NotFound`.
    pub reason: &'static str,
    /// One line for people.
    pub message: String,
    more: Box<More>,
}

/// What most errors do not have; boxed, because results are passed around a lot.
#[derive(Clone, Debug, Default)]
struct More {
    details: Map<String, Value>,
    continue_token: Option<String>,
}

/// Result of everything that can end in a `Status`.
pub type ApiResult<T> = Result<T, ApiError>;

/// `widgets.example.com`, or `configmaps` in the core group.
#[must_use]
pub fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{name}.{group}") }
}

impl ApiError {
    /// A failure without details.
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), more: Box::default() }
    }

    /// No such object.
    #[must_use]
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(resource, group));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(group, resource, name)
    }

    /// No such path.
    #[must_use]
    pub fn no_such_resource() -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", "the server could not find the requested resource")
    }

    /// An object of that name stands already.
    #[must_use]
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(resource, group));
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(group, resource, name)
    }

    /// The object changed since the caller read it, or a precondition does not hold.
    #[must_use]
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", qualified(resource, group));
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(group, resource, name)
    }

    /// The stored object is newer than the one sent.
    #[must_use]
    pub fn stale(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    /// Fields are wrong.
    #[must_use]
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        let all = if let [only] = texts.as_slice() { only.clone() } else { format!("[{}]", texts.join(", ")) };
        let message = format!("{} \"{name}\" is invalid: {all}", qualified(kind, group));
        let mut error = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(group, kind, name);
        let causes: Vec<Value> = errors
            .iter()
            .map(|cause| {
                json!({"reason": cause.problem.cause_reason(), "message": cause.message(), "field": cause.field})
            })
            .collect();
        error.more.details.insert("causes".to_owned(), Value::Array(causes));
        error
    }

    /// The request cannot be understood.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// Well-formed, but it cannot be done as asked.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// No valid credentials.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// Not allowed on this object.
    #[must_use]
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", qualified(resource, group));
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(group, resource, name)
    }

    /// The revision asked for is no longer kept.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// The revision asked for does not exist yet.
    #[must_use]
    pub fn future_revision(wanted: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {wanted}, current: {current}");
        let mut error = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {message}"));
        let cause = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        error.more.details.insert("causes".to_owned(), cause);
        error.retry_after(1)
    }

    /// The method does not exist on this path.
    #[must_use]
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// None of the media types the client takes is spoken here.
    #[must_use]
    pub fn not_acceptable(allowed: &[&str]) -> Self {
        let message = format!("only the following media types are accepted: {}", allowed.join(", "));
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// The body is in a media type not spoken here.
    #[must_use]
    pub fn unsupported_media_type(allowed: &[&str]) -> Self {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {}",
            allowed.join(", ")
        );
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The body is larger than the cap.
    #[must_use]
    pub fn too_large(limit: usize) -> Self {
        let message = format!("Request entity is too large: limit is {limit}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// Something of ours failed.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        let mut error =
            Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", format!("Internal error occurred: {cause}"));
        error.more.details.insert("causes".to_owned(), json!([{"message": cause.to_string()}]));
        error
    }

    /// The server is stopping or the store is closed.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// Names the object in the details.
    #[must_use]
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.more.details.insert(key.to_owned(), Value::String(value.to_owned()));
            }
        }
        self
    }

    /// Adds a cause without a field value.
    #[must_use]
    pub fn cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        let cause = json!({"reason": reason, "message": message, "field": field});
        match self.more.details.get_mut("causes").and_then(Value::as_array_mut) {
            Some(causes) => causes.push(cause),
            None => {
                self.more.details.insert("causes".to_owned(), Value::Array(vec![cause]));
            }
        }
        self
    }

    /// Tells the client when to try again, in seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.more.details.insert("retryAfterSeconds".to_owned(), seconds.into());
        self
    }

    /// Seconds after which the client may try again.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.more.details.get("retryAfterSeconds").and_then(Value::as_u64)
    }

    /// Hands back a token with which the list can go on.
    #[must_use]
    pub fn with_continue(mut self, token: String) -> Self {
        self.more.continue_token = Some(token);
        self
    }

    /// The `Status` object.
    #[must_use]
    pub fn to_status(&self) -> Value {
        let metadata = match &self.more.continue_token {
            Some(token) => json!({"continue": token}),
            None => json!({}),
        };
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": metadata, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if let (false, Some(fields)) = (self.more.details.is_empty(), status.as_object_mut()) {
            fields.insert("details".to_owned(), Value::Object(self.more.details.clone()));
        }
        status
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_objects_list_every_field_with_its_cause() {
        let errors = [FieldError::required("spec.a", ""), FieldError::invalid("spec.b", 7, "must be less than 5")];
        let status = ApiError::invalid("example.com", "Widget", "w", &errors).to_status();
        assert_eq!(
            status["message"],
            "Widget.example.com \"w\" is invalid: [spec.a: Required value, spec.b: Invalid value: 7: must be less than 5]"
        );
        assert_eq!(status["details"]["causes"][1]["field"], "spec.b");
        assert_eq!((status["code"].as_u64(), status["reason"].as_str()), (Some(422), Some("Invalid")));
    }

    #[test]
    fn core_resources_are_named_without_a_group() {
        assert_eq!(ApiError::not_found("", "configmaps", "c").message, "configmaps \"c\" not found");
        assert_eq!(ApiError::not_found("a.b", "widgets", "c").message, "widgets.a.b \"c\" not found");
    }
}
