//! The one table of resources: built-in kinds, our own kinds, and kinds that users define. Everything that differs
//! between kinds is data in a row here; handlers are the same for all.

mod builtin;
mod builtin_schemas;
mod defined;
mod events;
mod ours;
mod strategies;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use hagane_api::field::FieldError;
use serde_json::Value;

use crate::openapi::Document;
use crate::schema::Schema;
use crate::table::Columns;

pub(crate) use builtin::{DEFINITIONS, EVENTS, NAMESPACES, indexed_fields};
pub(crate) use defined::from_definition;
pub(crate) use strategies::{copy_field, name_problem};

/// What may name an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// An RFC 1123 subdomain.
    Subdomain,
    /// An RFC 1123 label.
    Label,
}

/// What of a kind is not the same for all kinds.
#[derive(Clone, Copy)]
pub(crate) struct Strategy {
    /// Fills defaults beyond the schema's; idempotent.
    pub default: fn(&mut Value),
    /// Brings a new object, or an update of `old`, into the form that is stored.
    pub prepare: fn(new: &mut Value, old: Option<&Value>),
    /// Checks what the schema cannot; `old` is given on updates.
    pub validate: fn(new: &Value, old: Option<&Value>) -> Vec<FieldError>,
    /// A PUT of a missing object creates it.
    pub create_on_update: bool,
    /// A PUT without a resource version overwrites.
    pub unconditional_update: bool,
    /// An immediate delete answers with the object instead of a Status.
    pub return_deleted: bool,
    /// metadata.generation counts changes of the wish.
    pub has_generation: bool,
    /// A write of /status may change labels and annotations too.
    pub status_keeps_metadata: bool,
    /// What may name an object.
    pub names: NameRule,
}

impl Default for Strategy {
    fn default() -> Self {
        Self {
            default: |_| {},
            prepare: |_, _| {},
            validate: |_, _| Vec::new(),
            create_on_update: false,
            unconditional_update: false,
            return_deleted: false,
            has_generation: true,
            status_keeps_metadata: false,
            names: NameRule::Subdomain,
        }
    }
}

/// How objects of one version are brought into the stored form and back. `apiVersion` is rewritten elsewhere.
#[derive(Clone, Copy)]
pub(crate) struct Conversion {
    /// From the given version.
    pub to_stored: fn(&mut Value, version: &str),
    /// To the given version.
    pub from_stored: fn(&mut Value, version: &str),
}

impl Default for Conversion {
    fn default() -> Self {
        Self { to_stored: |_, _| {}, from_stored: |_, _| {} }
    }
}

/// Where a resource comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A kind of Kubernetes.
    BuiltIn,
    /// A kind of ours.
    Ours,
    /// Defined by a `CustomResourceDefinition`.
    Defined,
}

/// One version of a resource.
pub(crate) struct Version {
    pub name: String,
    pub served: bool,
    /// Text of the Warning that every use answers with.
    pub deprecation: Option<String>,
    /// What objects look like.
    pub schema: Schema,
    /// Columns of tables.
    pub columns: Columns,
    /// Whether `/status` is a subresource.
    pub status: bool,
    /// Paths that field selectors may name beyond metadata, with their JSON pointers.
    pub selectable: Vec<(String, String)>,
}

/// A row of the table.
pub(crate) struct Resource {
    pub group: String,
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    /// The store's name of the collection; two rows that share it show the same objects.
    pub storage: Arc<str>,
    /// `apiVersion` of stored objects.
    pub stored_api_version: String,
    /// Version whose schema stored objects obey.
    pub versions: Vec<Version>,
    /// How objects are brought into the stored form and back.
    pub conversion: Conversion,
    pub strategy: Strategy,
    pub origin: Origin,
    /// The uid of the definition, for rows that come from one.
    pub definition_uid: String,
    /// The generation of that definition.
    pub definition_generation: i64,
    /// The definition is being deleted: no new objects.
    pub terminating: bool,
    /// Revision of the definition's last change of schema; older objects are brought up to it when read.
    pub schema_since: u64,
}

impl Resource {
    /// `group/version`, or `version` in the core group.
    pub(crate) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    /// `plural.group`.
    pub(crate) fn full_name(&self) -> String {
        crate::error::qualified(&self.plural, &self.group)
    }

    /// Whether the kind is of Kubernetes itself: other patch types, other error codes.
    pub(crate) fn is_built_in(&self) -> bool {
        self.origin == Origin::BuiltIn
    }

    /// Versions that are served, the preferred one first.
    pub(crate) fn served(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter().filter(|version| version.served)
    }
}

/// A resource in one of its versions: what a path leads to.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub resource: Arc<Resource>,
    version: usize,
}

impl Endpoint {
    /// The version.
    pub(crate) fn version(&self) -> &Version {
        // The index was taken from this very list, which never changes.
        &self.resource.versions[self.version]
    }

    /// `apiVersion` of objects here.
    pub(crate) fn api_version(&self) -> String {
        self.resource.api_version(&self.version().name)
    }

    /// Whether objects look here exactly as they are stored.
    pub(crate) fn is_stored_form(&self) -> bool {
        self.api_version() == self.resource.stored_api_version
    }
}

/// All resources at one moment. Replaced as a whole when a definition changes.
pub(crate) struct Registry {
    rows: Vec<Arc<Resource>>,
    by_name: BTreeMap<(String, String), usize>,
    /// Made when first asked for.
    documents: OnceLock<Vec<Document>>,
}

impl Clone for Registry {
    /// A copy to be changed: what is made from the rows is left out.
    fn clone(&self) -> Self {
        Self { rows: self.rows.clone(), by_name: self.by_name.clone(), documents: OnceLock::new() }
    }
}

impl Registry {
    /// The built-in kinds and ours.
    pub(crate) fn new() -> Self {
        let mut registry = Self { rows: Vec::new(), by_name: BTreeMap::new(), documents: OnceLock::new() };
        for resource in builtin::rows().into_iter().chain(ours::rows()) {
            registry.put(resource);
        }
        registry
    }

    /// Adds a row or replaces the one of the same name.
    pub(crate) fn put(&mut self, resource: Resource) {
        let name = (resource.group.clone(), resource.plural.clone());
        let resource = Arc::new(resource);
        match self.by_name.get(&name) {
            Some(index) => self.rows[*index] = resource,
            None => {
                self.by_name.insert(name, self.rows.len());
                self.rows.push(resource);
            }
        }
    }

    /// Takes a row out.
    pub(crate) fn remove(&mut self, group: &str, plural: &str) {
        self.rows.retain(|row| row.group != group || row.plural != plural);
        let names = self.rows.iter().enumerate();
        self.by_name = names.map(|(index, row)| ((row.group.clone(), row.plural.clone()), index)).collect();
    }

    /// All rows, in the order of discovery.
    pub(crate) fn rows(&self) -> &[Arc<Resource>] {
        &self.rows
    }

    /// The `OpenAPI` documents of all groups and versions.
    pub(crate) fn documents(&self) -> &[Document] {
        self.documents.get_or_init(|| crate::documents::documents(self))
    }

    /// The row of this name.
    pub(crate) fn find(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        let index = self.by_name.get(&(group.to_owned(), plural.to_owned()))?;
        self.rows.get(*index)
    }

    /// What `/apis/group/version/…/plural` leads to, if it is served.
    pub(crate) fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<Endpoint> {
        let resource = self.find(group, plural)?;
        let version = resource.versions.iter().position(|row| row.served && row.name == version)?;
        Some(Endpoint { resource: Arc::clone(resource), version })
    }

    /// The preferred endpoint of a kind, for following owner references.
    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.rows.iter().find(|row| {
            row.group == group && row.kind == kind && row.versions.iter().any(|served| served.name == version)
        })
    }

    /// The groups in the order of discovery, each with its served versions, the preferred one first.
    pub(crate) fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for row in &self.rows {
            let at = groups.iter().position(|(group, _)| *group == row.group).unwrap_or_else(|| {
                groups.push((row.group.clone(), Vec::new()));
                groups.len() - 1
            });
            for version in row.served() {
                if !groups[at].1.contains(&version.name) {
                    groups[at].1.push(version.name.clone());
                }
            }
        }
        groups.retain(|(_, versions)| !versions.is_empty());
        put_before(&mut groups, "cluster.x-k8s.io", "cluster.k8s.io");
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| version_rank(version));
        }
        groups
    }
}

/// Moves a group in front of another, so that short resource names mean the newer one.
fn put_before(groups: &mut Vec<(String, Vec<String>)>, newer: &str, older: &str) {
    let place = |groups: &[(String, Vec<String>)], name: &str| groups.iter().position(|(group, _)| group == name);
    if let (Some(from), Some(to)) = (place(groups, newer), place(groups, older))
        && from > to
    {
        let group = groups.remove(from);
        groups.insert(to, group);
    }
}

/// Sorts versions as Kubernetes does: released ones first, then beta, then alpha, each newest first, then other names.
pub(crate) fn version_rank(version: &str) -> (u8, std::cmp::Reverse<u32>, std::cmp::Reverse<u32>, String) {
    use std::cmp::Reverse;
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        let (major, stage) = rest.split_at(digits);
        let major: u32 = major.parse().ok()?;
        if stage.is_empty() {
            return Some((0, Reverse(major), Reverse(0)));
        }
        let beta = stage.strip_prefix("beta").map(|minor| (1, minor));
        let (rank, minor) = beta.or_else(|| stage.strip_prefix("alpha").map(|minor| (2, minor)))?;
        Some((rank, Reverse(major), Reverse(minor.parse().ok()?)))
    });
    match parsed {
        Some((rank, major, minor)) => (rank, major, minor, String::new()),
        None => (3, Reverse(0), Reverse(0), version.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_sorted_by_maturity() {
        let mut versions = ["v1alpha1", "v2beta1", "foo", "v1", "v10", "v1beta2", "v2"];
        versions.sort_by_key(|version| version_rank(version));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }

    #[test]
    fn serves_the_old_machine_groups_in_the_order_users_expect() {
        let groups: Vec<String> = Registry::new().groups().into_iter().map(|(group, _)| group).collect();
        let place = |name: &str| groups.iter().position(|group| group == name).expect("served");
        assert_eq!(place(""), 0);
        assert!(place("cluster.k8s.io") < place("cluster-api.k8s.io"));
    }

    #[test]
    fn both_event_groups_lead_to_one_collection() {
        let registry = Registry::new();
        let core = registry.endpoint("", "v1", "events").expect("served");
        let new = registry.endpoint("events.k8s.io", "v1", "events").expect("served");
        assert_eq!(core.resource.storage, new.resource.storage);
        assert!(core.is_stored_form() && !new.is_stored_form());
        assert!(registry.endpoint("", "v2", "events").is_none());
    }
}
