//! Clusters that answer as a test says.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{ClusterProbe, ProbeError};

/// How a cluster answers to a kubeconfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// It tells this version.
    Version(String),
    /// It does not answer, for this reason.
    NoAnswer(String),
    /// The kubeconfig cannot be used, for this reason.
    Unusable(String),
}

/// Answers to every kubeconfig alike, unless a test sets an answer for one.
#[derive(Debug)]
pub struct FakeProbe {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    usual: ProbeAnswer,
    special: BTreeMap<Vec<u8>, ProbeAnswer>,
    calls: Vec<Vec<u8>>,
}

impl Default for FakeProbe {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeProbe {
    /// Every cluster answers.
    #[must_use]
    pub fn new() -> Self {
        let usual = ProbeAnswer::Version("v1.36.3".to_owned());
        Self { state: Mutex::new(State { usual, special: BTreeMap::new(), calls: Vec::new() }) }
    }

    /// Sets the answer to every kubeconfig without an answer of its own.
    pub fn set(&self, answer: ProbeAnswer) {
        self.lock().usual = answer;
    }

    /// Sets the answer to one kubeconfig.
    pub fn set_for(&self, kubeconfig: &[u8], answer: ProbeAnswer) {
        self.lock().special.insert(kubeconfig.to_vec(), answer);
    }

    /// Every kubeconfig that was tried so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<Vec<u8>> {
        self.lock().calls.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ClusterProbe for FakeProbe {
    async fn version(&self, kubeconfig: &[u8], _: Duration) -> Result<String, ProbeError> {
        let mut state = self.lock();
        state.calls.push(kubeconfig.to_vec());
        match state.special.get(kubeconfig).unwrap_or(&state.usual).clone() {
            ProbeAnswer::Version(version) => Ok(version),
            ProbeAnswer::NoAnswer(why) => Err(ProbeError::NoAnswer(why.into())),
            ProbeAnswer::Unusable(why) => Err(ProbeError::Unusable(why.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_as_told_and_remembers_what_was_tried() {
        let probe = FakeProbe::new();
        probe.set_for(b"bad", ProbeAnswer::Unusable("no YAML".to_owned()));
        let limit = Duration::from_secs(1);
        assert!(probe.version(b"good", limit).await.is_ok());
        assert!(matches!(probe.version(b"bad", limit).await, Err(ProbeError::Unusable(_))));
        probe.set(ProbeAnswer::NoAnswer("refused".to_owned()));
        assert!(matches!(probe.version(b"good", limit).await, Err(ProbeError::NoAnswer(_))));
        assert_eq!(probe.calls(), [b"good".to_vec(), b"bad".to_vec(), b"good".to_vec()]);
    }
}
