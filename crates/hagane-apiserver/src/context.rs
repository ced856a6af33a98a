//! One request to one resource, with everything a handler needs to answer it.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use hagane_store::Key;
use http::HeaderMap;
use http::header::USER_AGENT;

use crate::error::{ApiError, ApiResult};
use crate::negotiate::Form;
use crate::query::Query;
use crate::registry::{Endpoint, Resource};
use crate::request::ResourcePath;
use crate::state::Core;

/// A request, checked as far as its path, query and headers go.
pub(crate) struct Context {
    pub core: Arc<Core>,
    pub endpoint: Endpoint,
    pub path: ResourcePath,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub form: Form,
    warnings: Mutex<Vec<String>>,
}

impl Context {
    pub(crate) fn new(
        core: Arc<Core>,
        endpoint: Endpoint,
        path: ResourcePath,
        query: Query,
        headers: HeaderMap,
        body: Bytes,
        form: Form,
    ) -> Self {
        let warnings = endpoint.version().deprecation.iter().cloned().collect();
        Self { core, endpoint, path, query, headers, body, form, warnings: Mutex::new(warnings) }
    }

    pub(crate) fn resource(&self) -> &Resource {
        &self.endpoint.resource
    }

    /// The namespace of the path; empty for cluster-wide resources and requests over all namespaces.
    pub(crate) fn namespace(&self) -> &str {
        self.path.namespace.as_deref().unwrap_or_default()
    }

    /// The name of the path; empty for collections.
    pub(crate) fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or_default()
    }

    /// The subresource of the path; empty for the object itself.
    pub(crate) fn subresource(&self) -> &str {
        self.path.subresource.as_deref().unwrap_or_default()
    }

    /// Where an object of the request's namespace is stored.
    pub(crate) fn key(&self, name: &str) -> Key {
        Key::new(Arc::clone(&self.resource().storage), self.namespace(), name)
    }

    /// The field manager: as asked for, else the first word of the user agent.
    pub(crate) fn manager(&self) -> String {
        if let Some(manager) = &self.query.field_manager {
            return manager.clone();
        }
        let agent = self.headers.get(USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let word = agent.split('/').next().unwrap_or_default();
        let word: String = word.chars().filter(|letter| !letter.is_control()).take(128).collect();
        if word.is_empty() { "unknown".to_owned() } else { word }
    }

    /// Adds a Warning header to the answer, whatever it will be.
    pub(crate) fn warn(&self, text: impl Into<String>) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let text = text.into();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    /// The warnings so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.resource().group, &self.resource().plural, name)
    }

    pub(crate) fn stale(&self, name: &str) -> ApiError {
        ApiError::stale(&self.resource().group, &self.resource().plural, name)
    }

    pub(crate) fn conflict(&self, name: &str, why: &str) -> ApiError {
        ApiError::conflict(&self.resource().group, &self.resource().plural, name, why)
    }

    /// Fails with 422 if there are errors.
    pub(crate) fn check(&self, name: &str, errors: &[hagane_api::field::FieldError]) -> ApiResult<()> {
        if errors.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(&self.resource().group, &self.resource().kind, name, errors))
    }
}
