//! Query parameters, checked once.

use std::time::Duration;

use hagane_api::field::FieldError;

use crate::error::{ApiError, ApiResult};

/// What to do with unknown and repeated fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    /// Nothing.
    Ignore,
    /// A Warning header each.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

/// Parameters of every verb; each verb reads those that it knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Query {
    pub watch: bool,
    pub label_selector: String,
    pub field_selector: String,
    pub limit: usize,
    pub continue_token: Option<String>,
    pub resource_version: Option<String>,
    pub resource_version_match: Option<String>,
    pub allow_bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
    pub dry_run: bool,
    pub field_manager: Option<String>,
    pub field_validation: FieldValidation,
    pub pretty: Option<bool>,
    pub force: bool,
    pub include_object: Option<String>,
    pub propagation_policy: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub grace_period_seconds: Option<i64>,
    /// Time limit of the whole request, other than watches.
    pub timeout: Option<Duration>,
}

impl Query {
    /// Reads a query string.
    pub(crate) fn parse(text: &str) -> ApiResult<Self> {
        let mut query = Self::default();
        for (key, value) in url::form_urlencoded::parse(text.as_bytes()) {
            query.set(&key, &value)?;
        }
        Ok(query)
    }

    fn set(&mut self, key: &str, value: &str) -> ApiResult<()> {
        let given = || (!value.is_empty()).then(|| value.to_owned());
        match key {
            "watch" => self.watch = flag(key, value)?,
            "labelSelector" => value.clone_into(&mut self.label_selector),
            "fieldSelector" => value.clone_into(&mut self.field_selector),
            "limit" => self.limit = limit(value)?,
            "continue" => self.continue_token = given(),
            "resourceVersion" => self.resource_version = given(),
            "resourceVersionMatch" => self.resource_version_match = given(),
            "allowWatchBookmarks" => self.allow_bookmarks = flag(key, value)?,
            "sendInitialEvents" => self.send_initial_events = Some(flag(key, value)?),
            "timeoutSeconds" => self.timeout_seconds = Some(number(key, value)?),
            "dryRun" => self.dry_run = dry_run(value)?,
            "fieldManager" => self.field_manager = field_manager(value)?,
            "fieldValidation" => self.field_validation = field_validation(value)?,
            "pretty" => self.pretty = Some(flag(key, value)?),
            "force" => self.force = flag(key, value)?,
            "includeObject" => self.include_object = given(),
            "propagationPolicy" => self.propagation_policy = given(),
            "orphanDependents" => self.orphan_dependents = Some(flag(key, value)?),
            "gracePeriodSeconds" => self.grace_period_seconds = Some(number(key, value)?),
            "timeout" => self.timeout = timeout(value)?,
            _ => {}
        }
        Ok(())
    }
}

fn flag(key: &str, value: &str) -> ApiResult<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "1" | "t" | "true" => Ok(true),
        "0" | "f" | "false" => Ok(false),
        _ => Err(ApiError::bad_request(format!("{key}: {value:?} is not true or false"))),
    }
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> ApiResult<T> {
    value.parse().map_err(|_| ApiError::bad_request(format!("{key}: {value:?} is not a number in range")))
}

fn limit(value: &str) -> ApiResult<usize> {
    let limit: i64 = if value.is_empty() { 0 } else { number("limit", value)? };
    // Negative limits mean none, as everywhere in the API.
    Ok(usize::try_from(limit).unwrap_or(0))
}

fn dry_run(value: &str) -> ApiResult<bool> {
    match value {
        "" => Ok(false),
        "All" => Ok(true),
        other => {
            let field = FieldError::invalid("dryRun", other, "supported values: \"All\"");
            Err(ApiError::unprocessable(format!("invalid options: {field}")))
        }
    }
}

fn field_manager(value: &str) -> ApiResult<Option<String>> {
    if value.chars().count() > 128 || value.chars().any(char::is_control) {
        let field = FieldError::invalid("fieldManager", value, "must be at most 128 printable characters");
        return Err(ApiError::unprocessable(field.to_string()));
    }
    Ok((!value.is_empty()).then(|| value.to_owned()))
}

fn field_validation(value: &str) -> ApiResult<FieldValidation> {
    match value {
        "" | "Warn" => Ok(FieldValidation::Warn),
        "Ignore" => Ok(FieldValidation::Ignore),
        "Strict" => Ok(FieldValidation::Strict),
        other => {
            let field =
                FieldError::invalid("fieldValidation", other, "supported values: \"Ignore\", \"Strict\", \"Warn\"");
            Err(ApiError::unprocessable(field.to_string()))
        }
    }
}

/// Go durations of one or more parts: `5s`, `1m30s`, `500ms`; a plain number is seconds.
fn timeout(value: &str) -> ApiResult<Option<Duration>> {
    let bad = || ApiError::bad_request("invalid timeout specified in the request URL");
    if value.is_empty() {
        return Ok(None);
    }
    let mut total = 0.0_f64;
    let mut rest = value;
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (amount, tail) = rest.split_at(digits);
        let amount: f64 = amount.parse().map_err(|_| bad())?;
        let unit_length = tail.find(|letter: char| letter.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, after) = tail.split_at(unit_length);
        let seconds = match unit {
            "" | "s" => 1.0,
            "ms" => 0.001,
            "us" | "µs" => 0.000_001,
            "ns" => 0.000_000_001,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(bad()),
        };
        total += amount * seconds;
        rest = after;
    }
    let duration = Duration::try_from_secs_f64(total).map_err(|_| bad())?;
    Ok((!duration.is_zero()).then_some(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_kubectl_sends() {
        let query = Query::parse(
            "fieldManager=kubectl-edit&fieldValidation=Strict&limit=500&timeout=5s&labelSelector=a%3Db%2Cc",
        )
        .expect("valid");
        assert_eq!(query.field_manager.as_deref(), Some("kubectl-edit"));
        assert_eq!(query.field_validation, FieldValidation::Strict);
        assert_eq!((query.limit, query.timeout), (500, Some(Duration::from_secs(5))));
        assert_eq!(query.label_selector, "a=b,c");
    }

    #[test]
    fn refuses_values_out_of_range_by_name() {
        for (text, word) in [
            ("limit=x", "limit"),
            ("timeout=soon", "timeout"),
            ("dryRun=Some", "dryRun"),
            ("fieldValidation=strict", "fieldValidation"),
            ("watch=maybe", "watch"),
        ] {
            let error = Query::parse(text).expect_err(text);
            assert!(error.message.contains(word), "{text}: {}", error.message);
        }
    }
}
