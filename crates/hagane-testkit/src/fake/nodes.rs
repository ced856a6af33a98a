//! Nodes of clusters in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{ClusterNodes, Drained, NodeState, ProbeError};

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FakeNode {
    /// Whether it is ready.
    pub ready: bool,
    /// Whether nothing is scheduled on it.
    pub unschedulable: bool,
    /// Pods that do not go, each with what it waits for.
    pub pods: Vec<String>,
}

/// The nodes of every cluster, whatever the kubeconfig. Nodes that were not added are not there.
#[derive(Debug, Default)]
pub struct FakeNodes {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<String, FakeNode>,
    silent: Option<String>,
    calls: Vec<String>,
}

impl FakeNodes {
    /// A cluster without nodes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a ready, schedulable node without pods that have to move.
    pub fn add(&self, name: &str) {
        let node = FakeNode { ready: true, unschedulable: false, pods: Vec::new() };
        self.lock().nodes.insert(name.to_owned(), node);
    }

    /// Changes a node; nothing happens where it is not there.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut FakeNode)) {
        if let Some(node) = self.lock().nodes.get_mut(name) {
            change(node);
        }
    }

    /// A node as it is now.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<FakeNode> {
        self.lock().nodes.get(name).cloned()
    }

    /// Makes the cluster not answer, for this reason, or answer again.
    pub fn set_silent(&self, why: Option<&str>) {
        self.lock().silent = why.map(str::to_owned);
    }

    /// Calls that changed something, as `drain NODE` and `uncordon NODE`, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<String> {
        self.lock().calls.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn answer(&self) -> Result<(), ProbeError> {
        self.silent.as_ref().map_or(Ok(()), |why| Err(ProbeError::NoAnswer(why.clone().into())))
    }
}

#[async_trait]
impl ClusterNodes for FakeNodes {
    async fn state(&self, _: &[u8], node: &str, _: Duration) -> Result<Option<NodeState>, ProbeError> {
        let state = self.lock();
        state.answer()?;
        Ok(state.nodes.get(node).map(|node| NodeState { ready: node.ready, unschedulable: node.unschedulable }))
    }

    async fn drain(&self, _: &[u8], node: &str, _: Duration) -> Result<Drained, ProbeError> {
        let mut state = self.lock();
        state.answer()?;
        state.calls.push(format!("drain {node}"));
        let Some(node) = state.nodes.get_mut(node) else { return Ok(Drained::Empty) };
        node.unschedulable = true;
        Ok(if node.pods.is_empty() { Drained::Empty } else { Drained::Waiting(node.pods.clone()) })
    }

    async fn uncordon(&self, _: &[u8], node: &str, _: Duration) -> Result<(), ProbeError> {
        let mut state = self.lock();
        state.answer()?;
        state.calls.push(format!("uncordon {node}"));
        if let Some(node) = state.nodes.get_mut(node) {
            node.unschedulable = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn drains_and_gives_back() {
        let (nodes, limit) = (FakeNodes::new(), Duration::from_secs(1));
        nodes.add("a");
        nodes.change("a", |node| node.pods.push("default/db: its budget".to_owned()));
        let waiting = nodes.drain(b"", "a", limit).await.expect("it answers");
        assert_eq!(waiting, Drained::Waiting(vec!["default/db: its budget".to_owned()]));
        nodes.change("a", |node| node.pods.clear());
        assert_eq!(nodes.drain(b"", "a", limit).await.expect("it answers"), Drained::Empty);
        assert!(nodes.get("a").is_some_and(|node| node.unschedulable));
        nodes.uncordon(b"", "a", limit).await.expect("it answers");
        let state = nodes.state(b"", "a", limit).await.expect("it answers");
        assert_eq!(state, Some(NodeState { ready: true, unschedulable: false }));
        nodes.set_silent(Some("refused"));
        assert!(matches!(nodes.state(b"", "a", limit).await, Err(ProbeError::NoAnswer(_))));
        assert_eq!(nodes.calls(), ["drain a", "drain a", "uncordon a"]);
    }
}
