//! Whether a cluster answers to a kubeconfig.

use std::time::Duration;

use async_trait::async_trait;

/// Why a kubeconfig does not lead to a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The kubeconfig cannot be used at all.
    #[error("the kubeconfig cannot be used")]
    Unusable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The cluster does not answer, or refuses; try again later.
    #[error("the cluster does not answer")]
    NoAnswer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Asks a cluster for its version, with a kubeconfig.
#[async_trait]
pub trait ClusterProbe: Send + Sync {
    /// Gives the version that the cluster's API tells.
    ///
    /// # Errors
    /// Any [`ProbeError`]; secrets of the kubeconfig are in none of them.
    async fn version(&self, kubeconfig: &[u8], deadline: Duration) -> Result<String, ProbeError>;
}
