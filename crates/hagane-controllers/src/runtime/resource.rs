//! Names of kinds and objects, as the runtime uses them.

use std::fmt;

use hagane_api::KindDescriptor;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::{Client, ResourceExt as _};

/// A namespaced kind that the control loops watch or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind, singular camel case.
    pub kind: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
}

impl Resource {
    /// Secrets of the core group. Caches keep their metadata only; read the values with a GET.
    pub const SECRETS: Self = Self { group: "", version: "v1", kind: "Secret", plural: "secrets" };

    /// One of our kinds by group and plural; nothing where the table of kinds has no such row.
    #[must_use]
    pub fn of(group: &str, plural: &str) -> Option<Self> {
        hagane_api::kind_of(group, plural).map(Self::from)
    }

    /// `apiVersion` of its objects.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.to_owned() } else { format!("{}/{}", self.group, self.version) }
    }

    /// The form kube asks for.
    #[must_use]
    pub fn api_resource(&self) -> ApiResource {
        ApiResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            api_version: self.api_version(),
            kind: self.kind.to_owned(),
            plural: self.plural.to_owned(),
        }
    }

    /// A handle on its objects in one namespace.
    #[must_use]
    pub fn api(&self, client: &Client, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(client.clone(), namespace, &self.api_resource())
    }
}

impl From<&KindDescriptor> for Resource {
    fn from(kind: &KindDescriptor) -> Self {
        Self { group: kind.group, version: kind.version, kind: kind.kind, plural: kind.plural }
    }
}

/// Names one object. The queue holds keys, never objects.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// Its kind.
    pub resource: Resource,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ObjectKey {
    /// A key from its parts.
    #[must_use]
    pub fn new(resource: Resource, namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { resource, namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object of `resource`.
    #[must_use]
    pub fn of(resource: Resource, object: &DynamicObject) -> Self {
        Self::new(resource, object.namespace().unwrap_or_default(), object.name_any())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{} {}/{}", self.resource.plural, self.resource.group, self.namespace, self.name)
    }
}
