//! Media types: what the client takes and what it sends.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

use crate::error::{ApiError, ApiResult};

/// Media types that are spoken, for messages.
pub(crate) const SPOKEN: &[&str] = &["application/json", "application/yaml"];

/// How a body is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// JSON.
    #[default]
    Json,
    /// YAML.
    Yaml,
}

/// What of an object is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All of it.
    #[default]
    Object,
    /// Rows for people; the flag asks for the older `v1beta1` spelling.
    Table { beta: bool },
    /// Metadata only; the flag asks for the older `v1beta1` spelling.
    Metadata { beta: bool },
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Form {
    pub encoding: Encoding,
    pub shape: Shape,
}

/// The form of a discovery answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiscoveryForm {
    /// One list at a time.
    Plain(Encoding),
    /// Everything in one document, of the given version.
    Aggregated(&'static str),
}

/// How a request body is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyType {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
    /// The protobuf envelope of built-in kinds.
    Protobuf,
}

struct Clause<'a> {
    media: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl Clause<'_> {
    fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    fn encoding(&self) -> Option<Encoding> {
        match self.media {
            "application/json" | "*/*" | "application/*" => Some(Encoding::Json),
            "application/yaml" | "application/x-yaml" | "text/yaml" => Some(Encoding::Yaml),
            _ => None,
        }
    }
}

/// Clauses of the Accept header, best first: by `q`, then as written.
fn clauses(text: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<(Clause<'_>, f32)> = text
        .split(',')
        .filter_map(|clause| {
            let mut parts = clause.split(';').map(str::trim);
            let media = parts.next().filter(|media| !media.is_empty())?;
            let parameters: Vec<_> = parts.filter_map(|part| part.split_once('=')).collect();
            let quality =
                parameters.iter().find(|(key, _)| *key == "q").and_then(|(_, value)| value.parse().ok()).unwrap_or(1.0);
            Some((Clause { media, parameters }, quality))
        })
        .filter(|(_, quality)| *quality > 0.0)
        .collect();
    clauses.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    clauses.into_iter().map(|(clause, _)| clause).collect()
}

fn accept(headers: &HeaderMap) -> String {
    let texts: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    texts.join(",")
}

/// Chooses the form of an object or list; `tables` says whether the resource has rows.
pub(crate) fn form(headers: &HeaderMap, tables: bool) -> ApiResult<Form> {
    let accept = accept(headers);
    if accept.trim().is_empty() {
        return Ok(Form::default());
    }
    for clause in clauses(&accept) {
        let Some(encoding) = clause.encoding() else { continue };
        let beta = match clause.parameter("v") {
            None | Some("v1") => false,
            Some("v1beta1") => true,
            Some(_) => continue,
        };
        let meta = clause.parameter("g").is_none_or(|group| group == "meta.k8s.io");
        let shape = match clause.parameter("as") {
            None => Shape::Object,
            Some("Table") if meta && tables => Shape::Table { beta },
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") if meta && tables => Shape::Metadata { beta },
            Some(_) => continue,
        };
        return Ok(Form { encoding, shape });
    }
    Err(ApiError::not_acceptable(SPOKEN))
}

/// Chooses the form of `/api` and `/apis`.
pub(crate) fn discovery_form(headers: &HeaderMap) -> ApiResult<DiscoveryForm> {
    let accept = accept(headers);
    if accept.trim().is_empty() {
        return Ok(DiscoveryForm::Plain(Encoding::Json));
    }
    for clause in clauses(&accept) {
        let Some(encoding) = clause.encoding() else { continue };
        if clause.parameter("as").is_none() {
            return Ok(DiscoveryForm::Plain(encoding));
        }
        let aggregated = clause.parameter("as") == Some("APIGroupDiscoveryList")
            && clause.parameter("g") == Some("apidiscovery.k8s.io")
            && encoding == Encoding::Json;
        match clause.parameter("v") {
            Some("v2") if aggregated => return Ok(DiscoveryForm::Aggregated("v2")),
            Some("v2beta1") if aggregated => return Ok(DiscoveryForm::Aggregated("v2beta1")),
            _ => {}
        }
    }
    Err(ApiError::not_acceptable(SPOKEN))
}

/// The media type of the request body without parameters, in lower case; empty without the header.
pub(crate) fn content_type(headers: &HeaderMap) -> String {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// How the body of a create, update or delete is written.
pub(crate) fn body_type(headers: &HeaderMap) -> ApiResult<BodyType> {
    match content_type(headers).as_str() {
        "" | "application/json" | "*/*" => Ok(BodyType::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(BodyType::Yaml),
        crate::protobuf::MEDIA_TYPE => Ok(BodyType::Protobuf),
        _ => Err(ApiError::unsupported_media_type(&[
            "application/json",
            "application/yaml",
            crate::protobuf::MEDIA_TYPE,
        ])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(accept: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().expect("a header value"));
        headers
    }

    #[test]
    fn kubectl_get_receives_a_table() {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(form(&headers(accept), true).expect("spoken").shape, Shape::Table { beta: false });
        assert_eq!(form(&headers(accept), false).expect("spoken").shape, Shape::Object);
    }

    #[test]
    fn protobuf_clients_receive_json_when_they_take_it() {
        let both = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(form(&headers(both), true).expect("spoken"), Form::default());
        let error = form(&headers("application/vnd.kubernetes.protobuf"), true).expect_err("nothing spoken");
        assert_eq!(error.code.as_u16(), 406);
        assert!(form(&headers("application/json;as=Table;v=v1;g=meta.k8s.io"), false).is_err());
    }

    #[test]
    fn aggregated_discovery_is_chosen_by_its_parameters() {
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
        assert_eq!(discovery_form(&headers(accept)).expect("spoken"), DiscoveryForm::Aggregated("v2"));
        assert_eq!(discovery_form(&headers("application/json")).expect("spoken"), DiscoveryForm::Plain(Encoding::Json));
    }
}
