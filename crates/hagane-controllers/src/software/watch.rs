//! What wakes a Software beside itself.

use hagane_api::keys::PROVISIONING_CLUSTER_LABEL;
use hagane_api::{bpa, metal3};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::provisioning::observe::cluster_name;
use crate::runtime::{Caches, Change, ObjectKey, Resource, Watch};

pub(super) fn watches() -> Vec<Watch> {
    let watch = |group: &str, plural: &str, concerns: fn(&Change<'_>, &Caches) -> Vec<ObjectKey>| {
        Resource::of(group, plural).map(|resource| Watch::new(resource, concerns))
    };
    [
        watch(bpa::GROUP, "provisionings", of_provisioning),
        watch(bpa::GROUP, "softwares", of_other),
        watch(metal3::GROUP, "baremetalhosts", of_host),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Softwares of the cluster, when its nodes change or its installer begins or ends.
fn of_provisioning(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    let matters = |object: &DynamicObject| {
        let part = |path: &str| object.data.pointer(path).cloned().unwrap_or_default();
        (part("/status/installed"), part("/status/run/state"), object.metadata.deletion_timestamp.is_some())
    };
    if change.old.map(matters) == change.new.map(matters) {
        return Vec::new();
    }
    let Some(cluster) = change.object().map(cluster_name) else { return Vec::new() };
    softwares(change, caches, |object| label(object) == Some(&cluster))
}

/// Other Softwares of the cluster, when one comes, goes, or gives back its turn.
fn of_other(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    let matters = |object: &DynamicObject| {
        let turn = object.data.pointer("/status/turnSince").cloned().unwrap_or_default();
        (turn, object.data.get("spec").cloned().unwrap_or_default(), object.metadata.deletion_timestamp.is_some())
    };
    if change.old.map(matters) == change.new.map(matters) {
        return Vec::new();
    }
    let cluster = change.object().and_then(label);
    softwares(change, caches, |object| label(object) == cluster && object.name_any() != change.key.name)
}

/// All Softwares of the namespace, when a host object comes or goes.
fn of_host(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    if change.old.is_some() && change.new.is_some() {
        return Vec::new();
    }
    softwares(change, caches, |_| true)
}

fn label(object: &DynamicObject) -> Option<&String> {
    object.labels().get(PROVISIONING_CLUSTER_LABEL)
}

fn softwares(change: &Change<'_>, caches: &Caches, concerned: impl Fn(&DynamicObject) -> bool) -> Vec<ObjectKey> {
    let Some(resource) = Resource::of(bpa::GROUP, "softwares") else { return Vec::new() };
    let objects = caches.list(resource, &change.key.namespace);
    objects.iter().filter(|object| concerned(object)).map(|object| ObjectKey::of(resource, object)).collect()
}
