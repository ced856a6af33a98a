//! A file by HTTP.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Client, StatusCode};
use rustls::{ClientConfig, RootCertStore};

/// Until a server takes a connection.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// Most time without a byte.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// Why a file did not come.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// No client.
    #[error("failed to prepare an HTTP client")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server was not reached, or stopped in the middle.
    #[error("the transfer failed")]
    Transfer(#[source] reqwest::Error),
    /// The server has something else to say.
    #[error("the server answers {0}")]
    Status(StatusCode),
    /// It is too large.
    #[error("it has more than {0} bytes")]
    TooLarge(u64),
}

/// Fetches a file into memory. Blocks; not to be called on the runtime.
pub(super) fn download(url: &str, limit: u64, progress: &mut dyn FnMut(&str)) -> Result<Vec<u8>, DownloadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| DownloadError::Client(Box::new(error)))?;
    runtime.block_on(fetch(url, limit, progress))
}

async fn fetch(url: &str, limit: u64, progress: &mut dyn FnMut(&str)) -> Result<Vec<u8>, DownloadError> {
    progress("waiting for the server");
    let mut response = client()?.get(url).send().await.map_err(DownloadError::Transfer)?;
    if !response.status().is_success() {
        return Err(DownloadError::Status(response.status()));
    }
    let total = response.content_length();
    let mut content = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(DownloadError::Transfer)? {
        content.extend_from_slice(&chunk);
        let length = content.len() as u64;
        if length > limit {
            return Err(DownloadError::TooLarge(limit));
        }
        let of = total.map(|total| format!(" of {}", total / 1024)).unwrap_or_default();
        progress(&format!("{}{of} KiB", length / 1024));
    }
    Ok(content)
}

fn client() -> Result<Client, DownloadError> {
    let failed = |error: Box<dyn std::error::Error + Send + Sync>| DownloadError::Client(error);
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| failed(Box::new(error)))?.with_root_certificates(roots).with_no_client_auth();
    let client = Client::builder().tls_backend_preconfigured(config);
    let client = client.connect_timeout(CONNECT_LIMIT).read_timeout(SILENCE_LIMIT);
    client.build().map_err(|error| failed(Box::new(error)))
}
