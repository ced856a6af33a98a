//! An object as a pass sees it: typed, with the metadata it was read with.

use std::sync::Arc;

use kube::api::{DynamicObject, ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::resource::ObjectKey;

/// One object of a kind with spec and status, as last seen in the cache.
#[derive(Clone, Debug)]
pub struct Seen<S, T> {
    /// Which object.
    pub key: ObjectKey,
    /// As it came, with everything the types do not know.
    pub raw: Arc<DynamicObject>,
    /// What the user wants. The default where the object is being deleted and its spec cannot be read.
    pub spec: S,
    /// What was recorded. The default where there is none, or none that can be read.
    pub status: T,
}

impl<S: DeserializeOwned + Default, T: DeserializeOwned + Default> Seen<S, T> {
    /// Reads an object. An object that is being deleted can always be read: deletion never depends on the spec.
    ///
    /// # Errors
    /// What is wrong with the spec.
    pub fn read(key: ObjectKey, raw: Arc<DynamicObject>) -> Result<Self, serde_json::Error> {
        let part = |name: &str| raw.data.get(name).filter(|value| !value.is_null()).cloned();
        let spec = part("spec").map_or_else(|| Ok(S::default()), serde_json::from_value);
        let spec = match spec {
            Err(_) if raw.metadata.deletion_timestamp.is_some() => S::default(),
            other => other?,
        };
        let status = part("status").and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default();
        Ok(Self { key, raw, spec, status })
    }
}

impl<S, T> Seen<S, T> {
    /// Its metadata.
    #[must_use]
    pub fn meta(&self) -> &ObjectMeta {
        &self.raw.metadata
    }

    /// Its uid; empty only for an object that no API server stored.
    #[must_use]
    pub fn uid(&self) -> &str {
        self.raw.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Generation of its spec.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.raw.metadata.generation
    }

    /// Whether it is being deleted.
    #[must_use]
    pub fn is_deleting(&self) -> bool {
        self.raw.metadata.deletion_timestamp.is_some()
    }

    /// A label's value.
    #[must_use]
    pub fn label(&self, name: &str) -> Option<&str> {
        self.raw.metadata.labels.as_ref()?.get(name).map(String::as_str)
    }

    /// An annotation's value.
    #[must_use]
    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.raw.metadata.annotations.as_ref()?.get(name).map(String::as_str)
    }

    /// The status as it came; null where there is none.
    #[must_use]
    pub fn raw_status(&self) -> &Value {
        self.raw.data.get("status").unwrap_or(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Resource;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Debug, Default, PartialEq, Deserialize)]
    struct Spec {
        #[serde(default)]
        count: u8,
    }

    fn read(object: &Value) -> Result<Seen<Spec, Option<Value>>, serde_json::Error> {
        let raw: DynamicObject = serde_json::from_value(object.clone())?;
        let resource = Resource::of("cluster.k8s.io", "machines").expect("a kind of ours");
        Seen::read(ObjectKey::of(resource, &raw), Arc::new(raw))
    }

    #[test]
    fn reads_an_object_without_a_spec() {
        let seen = read(&json!({"metadata": {"name": "a", "namespace": "b", "labels": {"x": "y"}}})).expect("readable");
        assert_eq!((seen.spec, seen.key.to_string().as_str()), (Spec::default(), "machines.cluster.k8s.io b/a"));
    }

    #[test]
    fn refuses_a_bad_spec_unless_the_object_is_being_deleted() {
        let mut object = json!({"metadata": {"name": "a", "namespace": "b"}, "spec": {"count": -1}});
        assert!(read(&object).is_err());
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(read(&object).expect("readable").spec, Spec::default());
    }
}
