//! What wakes a Provisioning beside itself.

use std::sync::Arc;

use hagane_api::keys::{DEFAULT_SSH_SECRET, kubeconfig_secret_name};
use hagane_api::{bpa, metal3};
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use serde_json::Value;

use super::observe::cluster_name;
use crate::runtime::{Caches, Change, ObjectKey, Resource, Watch};

pub(super) fn watches() -> Vec<Watch> {
    let mut watches = vec![Watch::new(Resource::SECRETS, of_secret)];
    watches.extend(Resource::of(metal3::GROUP, "baremetalhosts").map(|resource| Watch::new(resource, of_host)));
    watches.extend(provisionings().map(|resource| Watch::new(resource, of_namesake)));
    watches
}

pub(super) fn provisionings() -> Option<Resource> {
    Resource::of(bpa::GROUP, "provisionings")
}

/// Every Provisioning of the host's namespace: any of them may wait for this one.
fn of_host(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    keys(caches, |object| object.namespace().as_deref() == Some(change.key.namespace.as_str()))
}

/// Provisionings that log in with this Secret, or keep their kubeconfig in it.
fn of_secret(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    let name = change.key.name.as_str();
    keys(caches, |object| {
        object.namespace().as_deref() == Some(change.key.namespace.as_str())
            && (ssh_secret(object) == name || kubeconfig_secret_name(&cluster_name(object)) == name)
    })
}

/// Provisionings of the same cluster name in any namespace, when one comes, goes, or changes its name; and when one is gone
/// all of its namespace, since it may have held a machine whose host object is gone.
fn of_namesake(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    let names = [change.old.map(cluster_name), change.new.map(cluster_name)];
    let leaving = change.new.is_none_or(|object| object.metadata.deletion_timestamp.is_some());
    if names[0] == names[1] && !leaving {
        return Vec::new();
    }
    let freed = |object: &DynamicObject| {
        change.new.is_none() && object.namespace().as_deref() == Some(change.key.namespace.as_str())
    };
    keys(caches, |object| {
        (freed(object) || names.contains(&Some(cluster_name(object))))
            && (object.name_any() != change.key.name || object.namespace().as_deref() != Some(&change.key.namespace))
    })
}

fn keys(caches: &Caches, concerned: impl Fn(&DynamicObject) -> bool) -> Vec<ObjectKey> {
    let Some(resource) = provisionings() else { return Vec::new() };
    let objects: Vec<Arc<DynamicObject>> = caches.list_all(resource);
    objects.iter().filter(|object| concerned(object)).map(|object| ObjectKey::of(resource, object)).collect()
}

fn ssh_secret(object: &DynamicObject) -> &str {
    let named = object.data.pointer("/spec/ssh/secretName").and_then(Value::as_str);
    named.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_SSH_SECRET)
}
