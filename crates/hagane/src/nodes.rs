//! Nodes of clusters that were installed, through their kubeconfigs.

use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;
use hagane_ports::{ClusterNodes, Drained, NodeState, ProbeError};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;

use crate::probe::client_of;

/// Annotation of pods that a kubelet made from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Evictions that are asked for at the same time.
const AT_ONCE: usize = 8;

/// The port by a Kubernetes client.
pub struct KubeNodes;

async fn within<T>(
    kubeconfig: &[u8],
    deadline: Duration,
    ask: impl AsyncFnOnce(Client) -> Result<T, kube::Error>,
) -> Result<T, ProbeError> {
    let client = client_of(kubeconfig).await?;
    match tokio::time::timeout(deadline, ask(client)).await {
        Ok(answer) => answer.map_err(|error| ProbeError::NoAnswer(error.into())),
        Err(elapsed) => Err(ProbeError::NoAnswer(elapsed.into())),
    }
}

fn state_of(node: &Node) -> NodeState {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    NodeState {
        ready: conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"),
        unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false),
    }
}

async fn set_unschedulable(client: &Client, node: &str, wanted: bool) -> Result<bool, kube::Error> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(found) = nodes.get_opt(node).await? else { return Ok(false) };
    if state_of(&found).unschedulable != wanted {
        let change = Patch::Merge(json!({"spec": {"unschedulable": wanted}}));
        nodes.patch(node, &PatchParams::default(), &change).await?;
    }
    Ok(true)
}

/// Whether a pod has to leave a node that is drained.
fn has_to_move(pod: &Pod) -> bool {
    let ended = ["Succeeded", "Failed"];
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let of_daemon_set = pod.owner_references().iter().any(|owner| owner.kind == "DaemonSet");
    !(ended.contains(&phase) || of_daemon_set || pod.annotations().contains_key(MIRROR))
}

/// Asks one pod to go and says what it waits for.
async fn evict(client: &Client, pod: &Pod) -> String {
    let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
    let why = if pod.metadata.deletion_timestamp.is_some() {
        "it is ending".to_owned()
    } else if pod.owner_references().iter().all(|owner| owner.controller != Some(true)) {
        "it has no controller that would start it elsewhere: delete it yourself".to_owned()
    } else {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        match pods.evict(&name, &EvictParams::default()).await {
            Ok(_) => "it is ending".to_owned(),
            // 429: a disruption budget allows none now; its message names the budget.
            Err(kube::Error::Api(status)) => status.message.clone(),
            Err(error) => error.to_string(),
        }
    };
    format!("{namespace}/{name}: {why}")
}

#[async_trait]
impl ClusterNodes for KubeNodes {
    async fn state(&self, kubeconfig: &[u8], node: &str, deadline: Duration) -> Result<Option<NodeState>, ProbeError> {
        within(kubeconfig, deadline, async |client| {
            let found = Api::<Node>::all(client).get_opt(node).await?;
            Ok(found.as_ref().map(state_of))
        })
        .await
    }

    async fn drain(&self, kubeconfig: &[u8], node: &str, deadline: Duration) -> Result<Drained, ProbeError> {
        within(kubeconfig, deadline, async |client| {
            if !set_unschedulable(&client, node, true).await? {
                return Ok(Drained::Empty);
            }
            let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
            let pods = Api::<Pod>::all(client.clone()).list(&on_node).await?.items;
            let moving: Vec<Pod> = pods.into_iter().filter(has_to_move).collect();
            let asked: Vec<_> = moving.iter().map(|pod| evict(&client, pod)).collect();
            let waiting: Vec<String> = futures::stream::iter(asked).buffered(AT_ONCE).collect().await;
            Ok(if waiting.is_empty() { Drained::Empty } else { Drained::Waiting(waiting) })
        })
        .await
    }

    async fn uncordon(&self, kubeconfig: &[u8], node: &str, deadline: Duration) -> Result<(), ProbeError> {
        within(kubeconfig, deadline, async |client| set_unschedulable(&client, node, false).await.map(drop)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(value: serde_json::Value) -> Pod {
        serde_json::from_value(value).expect("a pod")
    }

    #[test]
    fn pods_that_belong_to_the_node_or_have_ended_stay() {
        let owned =
            |kind: &str| json!([{"apiVersion": "apps/v1", "kind": kind, "name": "x", "uid": "u", "controller": true}]);
        for (object, moves) in [
            (json!({"metadata": {"ownerReferences": owned("ReplicaSet")}}), true),
            (json!({"metadata": {}}), true),
            (json!({"metadata": {"ownerReferences": owned("DaemonSet")}}), false),
            (json!({"metadata": {"annotations": {MIRROR: "x"}}}), false),
            (json!({"metadata": {}, "status": {"phase": "Succeeded"}}), false),
        ] {
            assert_eq!(has_to_move(&pod(object.clone())), moves, "{object}");
        }
    }

    #[test]
    fn a_node_is_ready_where_its_condition_says_so() {
        let node = |status: &str| -> Node {
            let object = json!({"spec": {"unschedulable": true}, "status": {"conditions": [
                {"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": status},
            ]}});
            serde_json::from_value(object).expect("a node")
        };
        assert_eq!(state_of(&node("True")), NodeState { ready: true, unschedulable: true });
        assert!(!state_of(&node("Unknown")).ready && !state_of(&Node::default()).unschedulable);
    }
}
