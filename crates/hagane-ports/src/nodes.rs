//! Nodes of a cluster that stands: pods moved away, scheduling stopped and allowed again.

use std::time::Duration;

use async_trait::async_trait;

use crate::ProbeError;

/// A node, as its cluster says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// Whether its condition `Ready` is true.
    pub ready: bool,
    /// Whether nothing is scheduled on it.
    pub unschedulable: bool,
}

/// What is on a node after one round of evictions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing that has to move.
    Empty,
    /// These pods, each as `namespace/name: what it waits for`.
    Waiting(Vec<String>),
}

/// Acts on the nodes of a cluster, with its kubeconfig. No call waits for pods to go: each is one round, and cheap to repeat.
#[async_trait]
pub trait ClusterNodes: Send + Sync {
    /// How a node is; nothing where the cluster has no such node.
    ///
    /// # Errors
    /// Any [`ProbeError`].
    async fn state(&self, kubeconfig: &[u8], node: &str, deadline: Duration) -> Result<Option<NodeState>, ProbeError>;

    /// Makes a node unschedulable and asks each of its pods to go through the eviction API, which respects disruption budgets.
    /// Pods of `DaemonSets`, mirror pods and pods that have ended stay. A pod without a controller would not come back: it is not
    /// evicted but named. A node that is not there is empty.
    ///
    /// # Errors
    /// Any [`ProbeError`].
    async fn drain(&self, kubeconfig: &[u8], node: &str, deadline: Duration) -> Result<Drained, ProbeError>;

    /// Makes a node schedulable; "already so" and "not there" are success.
    ///
    /// # Errors
    /// Any [`ProbeError`].
    async fn uncordon(&self, kubeconfig: &[u8], node: &str, deadline: Duration) -> Result<(), ProbeError>;
}
