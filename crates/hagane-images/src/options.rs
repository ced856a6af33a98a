//! What the operator sets, and why a store cannot be opened.

use std::path::PathBuf;
use std::time::Duration;

use hagane_api::quantity::{ByteSize, GIB};

/// Settings of an [`ImageStore`](crate::ImageStore).
#[derive(Clone, Debug)]
pub struct ImageOptions {
    /// Directory of the store's own; made where it is missing. Never shared with another process.
    pub cache_dir: PathBuf,
    /// The one directory that `file:` URIs may name (after resolving links). Without it they are refused.
    pub image_dir: Option<PathBuf>,
    /// Largest file that is fetched.
    pub max_size: ByteSize,
    /// Whether URLs may lead to this machine's loopback addresses.
    pub allow_loopback: bool,
    /// Whether URLs may lead to link-local addresses (where clouds answer with credentials).
    pub allow_link_local: bool,
    /// PEM file with certificates that are trusted besides the system's.
    pub extra_ca: Option<PathBuf>,
    /// Most time for a connection to be made.
    pub connect_timeout: Duration,
    /// Most time between two pieces of an answer; what comes in it must be more than a trickle.
    pub stall_timeout: Duration,
    /// Most time for a whole fetch.
    pub fetch_timeout: Duration,
    /// A fetch nobody asked about for so long is given up: whoever wanted it is gone. Who waits asks far more often.
    pub abandon_after: Duration,
    /// So long an image known by URI alone is used without asking the server whether it has changed.
    pub revalidate_after: Duration,
    /// Most fetches at the same time; others wait.
    pub parallel_fetches: usize,
}

impl ImageOptions {
    /// Defaults: no `file:` URIs, 64 GiB, nothing on loopback or link-local addresses.
    #[must_use]
    pub fn new(cache_dir: impl Into<PathBuf>) -> Self {
        Self {
            cache_dir: cache_dir.into(),
            image_dir: None,
            max_size: ByteSize(64 * GIB),
            allow_loopback: false,
            allow_link_local: false,
            extra_ca: None,
            connect_timeout: Duration::from_secs(20),
            stall_timeout: Duration::from_secs(60),
            fetch_timeout: Duration::from_secs(6 * 3600),
            abandon_after: Duration::from_secs(600),
            revalidate_after: Duration::from_secs(600),
            parallel_fetches: 4,
        }
    }
}

/// Why an [`ImageStore`](crate::ImageStore) cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The cache directory cannot be made, read or written.
    #[error("the image cache {} cannot be used", path.display())]
    Cache {
        /// The directory or file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another process has it open.
    #[error("the image cache {} is in use by another process", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// The file with further certificates is unreadable or has none.
    #[error("the certificates in {} cannot be used", path.display())]
    ExtraCa {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The HTTP client cannot be set up.
    #[error("the HTTP client cannot be set up")]
    Client {
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}
