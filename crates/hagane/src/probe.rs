//! Asks a new cluster for its version, with the kubeconfig that its installation left.

use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{ClusterProbe, ProbeError};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// The probe by a Kubernetes client.
pub struct KubeProbe;

/// A client for the cluster that a kubeconfig leads to.
pub async fn client_of(kubeconfig: &[u8]) -> Result<kube::Client, ProbeError> {
    let text = std::str::from_utf8(kubeconfig).map_err(|error| ProbeError::Unusable(error.into()))?;
    let parsed = Kubeconfig::from_yaml(text).map_err(|error| ProbeError::Unusable(error.into()))?;
    let config = kube::Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| ProbeError::Unusable(error.into()))?;
    kube::Client::try_from(config).map_err(|error| ProbeError::Unusable(error.into()))
}

#[async_trait]
impl ClusterProbe for KubeProbe {
    async fn version(&self, kubeconfig: &[u8], deadline: Duration) -> Result<String, ProbeError> {
        let client = client_of(kubeconfig).await?;
        match tokio::time::timeout(deadline, client.apiserver_version()).await {
            Ok(Ok(version)) => Ok(version.git_version),
            Ok(Err(error)) => Err(ProbeError::NoAnswer(error.into())),
            Err(elapsed) => Err(ProbeError::NoAnswer(elapsed.into())),
        }
    }
}
