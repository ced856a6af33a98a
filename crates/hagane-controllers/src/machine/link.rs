//! Machine and Cluster: which belong together.

use std::sync::Arc;

use hagane_api::keys::CLUSTER_NAME_LABEL;
use hagane_api::machine::{GROUP, SLIDES_GROUP};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::runtime::{Caches, ObjectKey, Resource};

/// The two spellings of a resource of the old machine API.
pub(crate) fn spellings(plural: &str) -> Vec<Resource> {
    [GROUP, SLIDES_GROUP].into_iter().filter_map(|group| Resource::of(group, plural)).collect()
}

/// The same kind of object in the other spelling of the group.
fn other_group(group: &str) -> &'static str {
    if group == GROUP { SLIDES_GROUP } else { GROUP }
}

/// The Cluster that a Machine belongs to: the one its label names, in its own group, else in the other.
pub(crate) fn cluster_of(
    caches: &Caches,
    machine: Resource,
    object: &DynamicObject,
) -> Option<(ObjectKey, Arc<DynamicObject>)> {
    let name = object.labels().get(CLUSTER_NAME_LABEL)?;
    let namespace = object.namespace()?;
    [machine.group, other_group(machine.group)].into_iter().find_map(|group| {
        let key = ObjectKey::new(Resource::of(group, "clusters")?, &namespace, name);
        let cluster = caches.get(&key)?;
        Some((key, cluster))
    })
}

/// The Machines that belong to a Cluster, of both groups, by group and name.
pub(crate) fn machines_of(caches: &Caches, cluster: &ObjectKey) -> Vec<(ObjectKey, Arc<DynamicObject>)> {
    let machines = spellings("machines").into_iter().flat_map(|resource| {
        caches.list(resource, &cluster.namespace).into_iter().map(move |object| (resource, object))
    });
    machines
        .filter(|(resource, object)| cluster_of(caches, *resource, object).is_some_and(|(key, _)| key == *cluster))
        .map(|(resource, object)| (ObjectKey::of(resource, &object), object))
        .collect()
}

/// Keys of Clusters that a change of a Machine may concern.
pub(crate) fn clusters_named_by(object: &DynamicObject) -> Vec<ObjectKey> {
    let Some(name) = object.labels().get(CLUSTER_NAME_LABEL) else { return Vec::new() };
    let namespace = object.namespace().unwrap_or_default();
    spellings("clusters").into_iter().map(|resource| ObjectKey::new(resource, &namespace, name)).collect()
}

/// Keys of Machines whose label names a Cluster.
pub(crate) fn machines_naming(caches: &Caches, cluster: &ObjectKey) -> Vec<ObjectKey> {
    let machines = spellings("machines").into_iter().flat_map(|resource| {
        caches.list(resource, &cluster.namespace).into_iter().map(move |object| (resource, object))
    });
    machines
        .filter(|(_, object)| object.labels().get(CLUSTER_NAME_LABEL) == Some(&cluster.name))
        .map(|(resource, object)| ObjectKey::of(resource, &object))
        .collect()
}

/// The owner references a Machine should have, where they differ from those it has: its Cluster, where that is of the
/// same group. References of others stay.
pub(super) fn owner_references(
    machine: &ObjectKey,
    object: &DynamicObject,
    cluster: Option<&(ObjectKey, Arc<DynamicObject>)>,
) -> Option<Vec<OwnerReference>> {
    let (key, cluster) = cluster.filter(|(key, _)| key.resource.group == machine.resource.group)?;
    let uid = cluster.metadata.uid.clone()?;
    let known = object.owner_references();
    if known.iter().any(|reference| reference.uid == uid) {
        return None;
    }
    let owner = OwnerReference {
        api_version: key.resource.api_version(),
        kind: key.resource.kind.to_owned(),
        name: key.name.clone(),
        uid,
        controller: None,
        block_owner_deletion: Some(true),
    };
    Some(known.iter().cloned().chain([owner]).collect())
}
