//! `OpenAPI` v3: a document per group and version, from which clients validate, explain and choose patch types.

pub(crate) mod old;
mod paths;
mod schemas;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

/// What a document needs to know of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceDoc<'a> {
    /// API group, empty for the core.
    pub group: &'a str,
    /// API version.
    pub version: &'a str,
    /// Kind of the objects.
    pub kind: &'a str,
    /// Kind of lists.
    pub list_kind: &'a str,
    /// Name in paths.
    pub plural: &'a str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Schema of whole objects.
    pub schema: &'a Value,
    /// Whether `/status` is a subresource.
    pub status: bool,
    /// Whether the kind is one of Kubernetes.
    pub builtin: bool,
    /// Whether strategic merge patches are taken.
    pub strategic_merge: bool,
    /// Whether server-side apply is taken.
    pub apply: bool,
}

/// A document as it is served.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    /// The path below `/openapi/v3/`: `api/v1` or `apis/group/version`.
    pub path: String,
    /// JSON.
    pub bytes: Bytes,
    /// SHA-512 of the bytes, hexadecimal in capitals.
    pub hash: String,
}

/// `api/v1` or `apis/group/version`.
pub(crate) fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

/// The document of one group and version; `resources` are all of it.
pub(crate) fn document(group: &str, version: &str, resources: &[ResourceDoc<'_>]) -> Document {
    let path = path(group, version);
    let mut paths = Map::new();
    let prefix = format!("/{path}");
    for resource in resources {
        paths::add(&mut paths, &prefix, resource);
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "unversioned"},
        "paths": paths,
        "components": {"schemas": schemas::schemas(resources)},
    });
    // Maps with text keys always have a JSON form.
    let bytes = Bytes::from(serde_json::to_vec(&document).unwrap_or_default());
    let hash = Sha512::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
    Document { path, bytes, hash }
}

/// What `/openapi/v3` answers.
pub(crate) fn index<'a>(documents: impl IntoIterator<Item = &'a Document>) -> Value {
    let entry = |document: &Document| {
        let url = format!("/openapi/v3/{}?hash={}", document.path, document.hash);
        (document.path.clone(), json!({"serverRelativeURL": url}))
    };
    let paths: Map<String, Value> = documents.into_iter().map(entry).collect();
    json!({"paths": paths})
}
