//! What is served: groups, versions, resources.

use http::header::{ETAG, IF_NONE_MATCH, VARY};
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::error::{ApiError, ApiResult};
use crate::negotiate::{DiscoveryForm, discovery_form, form};
use crate::registry::{Registry, Resource, Version};
use crate::render::{self, Answer};

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const STATUS_VERBS: [&str; 3] = ["get", "patch", "update"];

/// `/api`
pub(crate) fn core_versions(registry: &Registry, headers: &HeaderMap) -> ApiResult<Answer> {
    let plain = || json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []});
    answer(registry, headers, true, plain)
}

/// `/apis`
pub(crate) fn groups(registry: &Registry, headers: &HeaderMap) -> ApiResult<Answer> {
    let plain = || {
        let groups: Vec<Value> =
            named_groups(registry).map(|(group, versions)| group_value(&group, &versions)).collect();
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
    };
    answer(registry, headers, false, plain)
}

fn answer(registry: &Registry, headers: &HeaderMap, core: bool, plain: impl Fn() -> Value) -> ApiResult<Answer> {
    let mut response = match discovery_form(headers)? {
        DiscoveryForm::Plain(encoding) => render::value(StatusCode::OK, &plain(), encoding)?,
        DiscoveryForm::Aggregated(version) => {
            let bytes = serde_json::to_vec(&aggregated(registry, core, version)).map_err(ApiError::internal)?;
            let tag = format!("\"{}\"", hex(&Sha256::digest(&bytes)));
            let content_type = if version == "v2" {
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
            } else {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            };
            let known = headers.get(IF_NONE_MATCH).is_some_and(|known| known.as_bytes() == tag.as_bytes());
            let mut response = if known {
                render::respond(StatusCode::NOT_MODIFIED, Vec::new(), content_type)
            } else {
                render::respond(StatusCode::OK, bytes, content_type)
            };
            if let Ok(tag) = HeaderValue::from_str(&tag) {
                response.headers_mut().insert(ETAG, tag);
            }
            response
        }
    };
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    Ok(response)
}

/// `/apis/<group>`
pub(crate) fn group(registry: &Registry, headers: &HeaderMap, name: &str) -> ApiResult<Answer> {
    let encoding = form(headers, false)?.encoding;
    let Some((group, versions)) = named_groups(registry).find(|(group, _)| group == name) else {
        return Err(ApiError::no_such_resource());
    };
    let mut value = group_value(&group, &versions);
    if let Some(fields) = value.as_object_mut() {
        fields.insert("kind".to_owned(), "APIGroup".into());
        fields.insert("apiVersion".to_owned(), "v1".into());
    }
    render::value(StatusCode::OK, &value, encoding)
}

/// `/api/v1` and `/apis/<group>/<version>`
pub(crate) fn resources(registry: &Registry, headers: &HeaderMap, group: &str, version: &str) -> ApiResult<Answer> {
    let encoding = form(headers, false)?.encoding;
    let list: Vec<Value> =
        rows(registry, group, version).flat_map(|(row, version)| resource_values(row, version)).collect();
    if list.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let value =
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": list});
    render::value(StatusCode::OK, &value, encoding)
}

fn named_groups(registry: &Registry) -> impl Iterator<Item = (String, Vec<String>)> {
    registry.groups().into_iter().filter(|(group, _)| !group.is_empty())
}

fn rows<'a>(
    registry: &'a Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Resource, &'a Version)> {
    registry
        .rows()
        .iter()
        .filter(move |row| row.group == group)
        .filter_map(move |row| row.served().find(|served| served.name == version).map(|served| (row.as_ref(), served)))
}

fn group_value(group: &str, versions: &[String]) -> Value {
    let version = |name: &String| json!({"groupVersion": format!("{group}/{name}"), "version": name});
    let list: Vec<Value> = versions.iter().map(version).collect();
    json!({"name": group, "versions": list, "preferredVersion": list.first()})
}

fn resource_values(row: &Resource, version: &Version) -> Vec<Value> {
    let mut main = json!({
        "name": row.plural, "singularName": row.singular, "namespaced": row.namespaced, "kind": row.kind, "verbs": VERBS,
    });
    if !row.short_names.is_empty() {
        main["shortNames"] = json!(row.short_names);
    }
    if !row.categories.is_empty() {
        main["categories"] = json!(row.categories);
    }
    main["storageVersionHash"] = storage_hash(row).into();
    let mut values = vec![main];
    for (subresource, verbs) in subresources(row, version) {
        values.push(json!({
            "name": format!("{}/{subresource}", row.plural), "singularName": "", "namespaced": row.namespaced,
            "kind": row.kind, "verbs": verbs,
        }));
    }
    values
}

fn subresources(row: &Resource, version: &Version) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut list = Vec::new();
    if row.is_built_in() && row.plural == "namespaces" {
        list.push(("finalize", vec!["update"]));
    }
    if version.status {
        list.push(("status", STATUS_VERBS.to_vec()));
    }
    list
}

fn storage_hash(row: &Resource) -> String {
    use base64::Engine;
    let digest = Sha256::digest(format!("{}/{}", row.stored_api_version, row.kind));
    base64::engine::general_purpose::STANDARD.encode(&digest[..8])
}

fn aggregated(registry: &Registry, core: bool, api: &str) -> Value {
    let groups: Vec<Value> = registry
        .groups()
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> =
                versions.iter().map(|version| aggregated_version(registry, &group, version)).collect();
            let metadata = if group.is_empty() { json!({}) } else { json!({"name": group}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{api}"), "metadata": {}, "items": groups,
    })
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let resources: Vec<Value> = rows(registry, group, version)
        .map(|(row, served)| {
            let kind = json!({"group": group, "version": version, "kind": row.kind});
            let mut value = json!({
                "resource": row.plural, "responseKind": kind, "scope": if row.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": row.singular, "verbs": VERBS,
            });
            if !row.short_names.is_empty() {
                value["shortNames"] = json!(row.short_names);
            }
            if !row.categories.is_empty() {
                value["categories"] = json!(row.categories);
            }
            let subresources: Vec<Value> = subresources(row, served)
                .into_iter()
                .map(|(name, verbs)| json!({"subresource": name, "responseKind": kind, "verbs": verbs}))
                .collect();
            if !subresources.is_empty() {
                value["subresources"] = subresources.into();
            }
            value
        })
        .collect();
    json!({"version": version, "freshness": "Current", "resources": resources})
}

/// `/version`
pub(crate) fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "gitVersion": concat!("v1.36.0+hagane.", env!("CARGO_PKG_VERSION")),
        "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "none", "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, if std::env::consts::ARCH == "x86_64" { "amd64" } else { std::env::consts::ARCH }),
    })
}

/// `/`
pub(crate) fn paths(registry: &Registry) -> Value {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in named_groups(registry) {
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    paths.extend(["/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"].map(str::to_owned));
    json!({"paths": paths})
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_is_listed_where_it_is_served() {
        let registry = Registry::new();
        let names = |group: &str, version: &str| -> Vec<String> {
            rows(&registry, group, version)
                .flat_map(|(row, version)| resource_values(row, version))
                .map(|value| value["name"].as_str().unwrap_or_default().to_owned())
                .collect()
        };
        let core = names("", "v1");
        assert!(core.contains(&"namespaces/finalize".to_owned()) && core.contains(&"namespaces/status".to_owned()));
        assert!(!core.contains(&"configmaps/status".to_owned()));
        assert!(names("apiextensions.k8s.io", "v1beta1").contains(&"customresourcedefinitions".to_owned()));
    }

    #[test]
    fn the_newer_version_is_preferred() {
        let groups = aggregated(&Registry::new(), false, "v2");
        let items = groups["items"].as_array().expect("a list");
        let definitions =
            items.iter().find(|group| group["metadata"]["name"] == "apiextensions.k8s.io").expect("served");
        assert_eq!(definitions["versions"][0]["version"], "v1");
        assert_eq!(definitions["versions"][1]["version"], "v1beta1");
    }
}
