//! What is planned: objects of files, and of an API as they would be once the files were applied.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

use kube::Client;
use kube::api::{DynamicObject, ListParams};
use serde_json::Value;

use crate::CliError;
use crate::args::Subject;
use crate::resource::{api, api_error, kinds_of};

/// The objects of the input, by kind.
#[derive(Default)]
pub(super) struct Input {
    /// With the file that each stands in.
    pub provisionings: Vec<(PathBuf, DynamicObject)>,
    /// In order of creation; those of files in order of appearance, after those of the API.
    pub hosts: Vec<DynamicObject>,
    source: PathBuf,
    /// Namespace of objects that name none.
    namespace: String,
}

impl Input {
    pub(super) fn new(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned(), ..Self::default() }
    }

    pub(super) fn read_file(&mut self, path: &Path) -> Result<(), CliError> {
        let file = |source| CliError::File { operation: "read", path: path.to_owned(), source };
        let text = if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(file)?;
            text
        } else {
            std::fs::read_to_string(path).map_err(file)?
        };
        let shown = if path.as_os_str() == "-" { Path::new("standard input") } else { path };
        self.source = shown.to_owned();
        let content = |problem: String| CliError::Content { path: shown.to_owned(), problem };
        let syntax = |error: String| content(error.strip_prefix("error: ").unwrap_or(&error).to_owned());
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).map_err(|error| syntax(error.to_string()))?;
        for document in documents {
            self.add_document(document, &content)?;
        }
        Ok(())
    }

    fn add_document(&mut self, document: Value, content: &impl Fn(String) -> CliError) -> Result<(), CliError> {
        if document.is_null() {
            return Ok(());
        }
        if let Some(items) = document.get("items").and_then(Value::as_array) {
            for item in items {
                self.add_document(item.clone(), content)?;
            }
            return Ok(());
        }
        let object =
            serde_json::from_value(document).map_err(|error| content(format!("is no Kubernetes object: {error}")))?;
        self.add(object);
        Ok(())
    }

    /// Other kinds than the two that matter are left alone: one file often holds a whole site.
    fn add(&mut self, object: DynamicObject) {
        match object.types.as_ref().map_or("", |types| types.kind.as_str()) {
            "Provisioning" => self.provisionings.push((self.source.clone(), object)),
            "BareMetalHost" if !self.hosts.iter().any(|host| self.is_same(host, &object)) => self.hosts.push(object),
            _ => {}
        }
    }

    fn is_same(&self, left: &DynamicObject, right: &DynamicObject) -> bool {
        left.metadata.name == right.metadata.name && self.namespace_of(left) == self.namespace_of(right)
    }

    pub(super) fn namespace_of<'a>(&'a self, object: &'a DynamicObject) -> &'a str {
        let named = object.metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty());
        named.unwrap_or(if self.namespace.is_empty() { "default" } else { &self.namespace })
    }

    /// Adds what the API has in the namespaces of the Provisionings.
    pub(super) async fn add_api(&mut self, client: &Client) -> Result<(), CliError> {
        let all = self.provisionings.iter().map(|(_, object)| self.namespace_of(object).to_owned());
        let namespaces: BTreeSet<String> = all.collect();
        for namespace in &namespaces {
            for kind in kinds_of(Subject::Host) {
                let listed = api(client, kind, namespace).list(&ListParams::default()).await;
                self.join_hosts(listed.map_err(|source| api_error("list BareMetalHosts", source))?.items);
            }
            for kind in kinds_of(Subject::Provisioning) {
                let listed = api(client, kind, namespace).list(&ListParams::default()).await;
                self.join_provisionings(&listed.map_err(|source| api_error("list Provisionings", source))?.items);
            }
        }
        Ok(())
    }

    /// A host that stands in a file too is as it would be once the file was applied: who uses it, its uid and its status
    /// stay.
    pub(super) fn join_hosts(&mut self, mut known: Vec<DynamicObject>) {
        known.sort_by_key(|host| {
            (host.metadata.creation_timestamp.as_ref().map(|time| time.0), host.metadata.name.clone())
        });
        let (again, new): (Vec<_>, Vec<_>) = std::mem::take(&mut self.hosts)
            .into_iter()
            .partition(|host| known.iter().any(|other| self.is_same(host, other)));
        for host in &mut known {
            if let Some(file) = again.iter().find(|file| self.is_same(file, host)) {
                *host = applied(host, file);
            }
        }
        self.hosts = known;
        self.hosts.extend(new);
    }

    /// A Provisioning that the API has too keeps uid and status: nodes that stand stay where they are. Its spec is that
    /// of the file alone.
    pub(super) fn join_provisionings(&mut self, known: &[DynamicObject]) {
        let mut files = std::mem::take(&mut self.provisionings);
        for (_, file) in &mut files {
            let Some(object) = known.iter().find(|object| self.is_same(object, file)) else { continue };
            file.metadata.uid.clone_from(&object.metadata.uid);
            file.metadata.generation = object.metadata.generation;
            let annotations = object.metadata.annotations.clone().unwrap_or_default();
            let own = file.metadata.annotations.take().unwrap_or_default();
            file.metadata.annotations = Some(annotations.into_iter().chain(own).collect::<BTreeMap<_, _>>());
            file.data["status"] = object.data.get("status").cloned().unwrap_or(Value::Null);
        }
        self.provisionings = files;
    }
}

/// The object once the file was applied.
fn applied(object: &DynamicObject, file: &DynamicObject) -> DynamicObject {
    let (Ok(mut whole), Ok(mut change)) = (serde_json::to_value(object), serde_json::to_value(file)) else {
        return file.clone();
    };
    if let Some(fields) = change.as_object_mut() {
        fields.remove("status");
    }
    json_patch::merge(&mut whole, &change);
    serde_json::from_value(whole).unwrap_or_else(|_| file.clone())
}
