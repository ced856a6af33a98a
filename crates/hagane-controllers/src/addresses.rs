//! The `ConfigMap` with the addresses of a cluster's nodes by role, for programs that were written for the original agent.
//!
//! `<cluster>-configmap` has one entry a node and role: `MASTER_<node>` or `WORKER_<node>`, with the node's address. It is written
//! once the cluster stands and follows its nodes; it goes with its Provisioning, its owner. One of that name that is not ours is
//! left alone, and told.

use std::collections::BTreeMap;

use async_trait::async_trait;
use hagane_api::bpa::GROUP;
use hagane_api::bpa::provisioning::{ProvisioningSpec, ProvisioningStatus};
use hagane_api::keys::{FIELD_MANAGER, OWNER_UID_LABEL, PROVISIONING_CLUSTER_LABEL, addresses_config_map_name};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, DynamicObject, PostParams};

use crate::provisioning::observe::cluster_name;
use crate::runtime::{
    Change, Controller, EventDraft, Next, Pass, PassError, Resource, Seen, Severity, is_already_there,
};

/// The control loop of address `ConfigMaps`. It runs where that of Provisionings does.
pub struct AddressesController;

type SeenProvisioning = Seen<ProvisioningSpec, ProvisioningStatus>;

#[async_trait]
impl Controller for AddressesController {
    type Spec = ProvisioningSpec;
    type Status = ProvisioningStatus;

    fn name(&self) -> &'static str {
        "addresses"
    }

    fn resources(&self) -> Vec<Resource> {
        Resource::of(GROUP, "provisionings").into_iter().collect()
    }

    fn finalizer(&self) -> Option<&'static str> {
        None
    }

    /// The conditions of Provisionings are another loop's.
    fn has_conditions(&self) -> bool {
        false
    }

    fn own_change_matters(&self, change: &Change<'_>) -> bool {
        let standing = |object: &DynamicObject| object.data.pointer("/status/installed").cloned();
        change.beyond_status() || change.old.map(standing) != change.new.map(standing)
    }

    async fn reconcile(&self, seen: SeenProvisioning, pass: &Pass) -> Result<Next, PassError> {
        let entries = entries(&seen.status);
        if seen.is_deleting() || entries.is_empty() {
            return Ok(Next::AwaitChange);
        }
        let wanted = config_map(&seen, entries);
        let name = wanted.metadata.name.clone().unwrap_or_default();
        let api: Api<ConfigMap> = Api::namespaced(pass.context.client.clone(), &seen.key.namespace);
        let found =
            api.get_opt(&name).await.map_err(|error| PassError::api("read the ConfigMap of addresses", error))?;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        let written = match found {
            Some(found) if !is_ours(&found, seen.uid()) => {
                let message = format!("ConfigMap {name:?} is not of this Provisioning: the addresses are not written");
                let event =
                    EventDraft { severity: Severity::Warning, reason: "AddressesConfigMapTaken".to_owned(), message };
                pass.recorder(&seen).events(&[event]).await;
                return Ok(Next::AwaitChange);
            }
            Some(found) if found.data == wanted.data => return Ok(Next::AwaitChange),
            Some(found) => {
                let metadata =
                    ObjectMeta { resource_version: found.metadata.resource_version, ..wanted.metadata.clone() };
                api.replace(&name, &params, &ConfigMap { metadata, ..wanted }).await
            }
            None => api.create(&params, &wanted).await,
        };
        match written {
            Ok(_) => Ok(Next::AwaitChange),
            Err(error) if is_already_there(&error) => Err(PassError::Conflict),
            Err(error) => Err(PassError::api("write the ConfigMap of addresses", error)),
        }
    }
}

/// Addresses of the nodes that stand, by role and name.
fn entries(status: &ProvisioningStatus) -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    let assignments = status.plan.iter().flat_map(|plan| &plan.assignments);
    let addresses: BTreeMap<&str, &str> =
        assignments.map(|assignment| (assignment.host.as_str(), assignment.address.as_str())).collect();
    for node in status.installed.iter().flat_map(|installed| &installed.nodes) {
        let Some(address) = addresses.get(node.host.as_str()).filter(|address| !address.is_empty()) else { continue };
        for role in &node.roles {
            entries.insert(format!("{}_{}", role.to_uppercase(), node.node), (*address).to_owned());
        }
    }
    entries
}

fn is_ours(found: &ConfigMap, uid: &str) -> bool {
    found.metadata.labels.as_ref().and_then(|labels| labels.get(OWNER_UID_LABEL)).is_some_and(|owner| owner == uid)
}

fn config_map(seen: &SeenProvisioning, entries: BTreeMap<String, String>) -> ConfigMap {
    let cluster = cluster_name(&seen.raw);
    let owner = OwnerReference {
        api_version: seen.key.resource.api_version(),
        kind: seen.key.resource.kind.to_owned(),
        name: seen.key.name.clone(),
        uid: seen.uid().to_owned(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    };
    ConfigMap {
        metadata: ObjectMeta {
            name: Some(addresses_config_map_name(&cluster)),
            namespace: Some(seen.key.namespace.clone()),
            labels: Some(BTreeMap::from([
                (OWNER_UID_LABEL.to_owned(), seen.uid().to_owned()),
                (PROVISIONING_CLUSTER_LABEL.to_owned(), cluster),
            ])),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some(entries),
        ..ConfigMap::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Event;
    use kube::api::{ListParams, Patch, PatchParams};
    use serde_json::{Value, json};

    use super::*;
    use crate::testing::{NAMESPACE, World, gone};

    const CONFIG_MAPS: Resource = Resource { group: "", version: "v1", kind: "ConfigMap", plural: "configmaps" };

    fn provisionings() -> Resource {
        Resource::of(GROUP, "provisionings").expect("a kind of ours")
    }

    async fn stands(world: &World, nodes: &[(&str, &[&str], &str)]) {
        let node = |(node, roles, _): &(&str, &[&str], &str)| json!({"node": node, "roles": roles, "host": node, "hostUid": "u"});
        let assigned = |(node, roles, address): &(&str, &[&str], &str)| json!({"node": node, "roles": roles, "host": node, "hostUid": "u", "address": address});
        let status = json!({"status": {
            "plan": {"generation": 1, "assignments": nodes.iter().map(assigned).collect::<Vec<_>>()},
            "installed": {"run": "r", "nodes": nodes.iter().map(node).collect::<Vec<_>>()},
        }});
        let api = provisionings().api(&world.client, NAMESPACE);
        api.patch_status("a", &PatchParams::default(), &Patch::Merge(status)).await.expect("patched");
    }

    async fn world() -> World {
        let mut world = World::quiet().await;
        // Provisionings themselves are nobody's business here.
        let mut engine = crate::runtime::Engine::new(world.context());
        engine.add(AddressesController);
        tokio::spawn(engine.run(tokio_util::sync::CancellationToken::new()));
        world.selection = crate::Selection::None;
        let object = json!({"metadata": {"name": "a", "labels": {"cluster": "edge-1"}}, "spec": {"master": {}}});
        world.create(provisionings(), object).await;
        world
    }

    #[tokio::test]
    async fn is_written_once_the_cluster_stands_follows_its_nodes_and_goes_with_it() {
        let world = world().await;
        stands(&world, &[("m-1", &["master", "worker"], "192.0.2.1"), ("w-1", &["worker"], "192.0.2.2")]).await;
        let data = json!({"MASTER_m-1": "192.0.2.1", "WORKER_m-1": "192.0.2.1", "WORKER_w-1": "192.0.2.2"});
        let wanted = |object: &Value| object["data"] == data;
        let seen = world.until(CONFIG_MAPS, "edge-1-configmap", "three entries", wanted).await;
        assert_eq!(seen["metadata"]["ownerReferences"][0]["kind"], "Provisioning");
        stands(&world, &[("m-1", &["master"], "192.0.2.1")]).await;
        let fewer = |object: &Value| object["data"] == json!({"MASTER_m-1": "192.0.2.1"});
        world.until(CONFIG_MAPS, "edge-1-configmap", "one entry", fewer).await;
        world.delete(provisionings(), "a").await;
        gone(&world.client, CONFIG_MAPS, "edge-1-configmap").await;
    }

    #[tokio::test]
    async fn of_somebody_else_is_left_alone_and_told() {
        let world = world().await;
        world.create(CONFIG_MAPS, json!({"metadata": {"name": "edge-1-configmap"}, "data": {"theirs": "1"}})).await;
        stands(&world, &[("m-1", &["master"], "192.0.2.1")]).await;
        let events: Api<Event> = Api::namespaced(world.client.clone(), NAMESPACE);
        loop {
            let list = events.list(&ListParams::default()).await.expect("events");
            if list.items.iter().any(|event| event.reason.as_deref() == Some("AddressesConfigMapTaken")) {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let found = world.get(CONFIG_MAPS, "edge-1-configmap").await.expect("it is there");
        assert_eq!(found.data["data"], json!({"theirs": "1"}));
    }
}
