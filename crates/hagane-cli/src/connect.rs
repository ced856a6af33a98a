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
    let read = move || -> Result<Kubeconfig, Box<dyn std::error::Error + Send + Sync>> {
        // The parser names the file once more in its own error; this one does not.
        std::fs::File::open(&owned)?;
        Ok(Kubeconfig::read_from(owned)?)
    };
    let kubeconfig = tokio::task::spawn_blocking(read).await.map_err(|source| wrap(source.into()))?.map_err(wrap)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|source| wrap(source.into()))?;
    Client::try_from(config).map_err(|source| wrap(source.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::print_chain;

    #[tokio::test]
    async fn names_a_missing_kubeconfig_once() {
        let Err(error) = client(Path::new("/nonexistent/kubeconfig")).await else {
            unreachable!("there is no such file")
        };
        let text = print_chain(&error);
        assert_eq!(text.matches("/nonexistent/kubeconfig").count(), 1, "{text}");
        assert!(text.contains("No such file"), "{text}");
    }
}
