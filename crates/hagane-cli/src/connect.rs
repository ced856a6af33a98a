//! A client from a kubeconfig.

use std::path::Path;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::CliError;

/// Connects by the kubeconfig at `path`.
pub(crate) async fn client(path: &Path) -> Result<Client, CliError> {
    let wrap =
        |source: Box<dyn std::error::Error + Send + Sync>| CliError::Kubeconfig { path: path.to_owned(), source };
    let owned = path.to_owned();
    let kubeconfig = tokio::task::spawn_blocking(move || Kubeconfig::read_from(owned))
        .await
        .map_err(|source| wrap(source.into()))?
        .map_err(|source| wrap(source.into()))?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|source| wrap(source.into()))?;
    Client::try_from(config).map_err(|source| wrap(source.into()))
}
