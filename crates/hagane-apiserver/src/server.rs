//! Opening and closing the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hagane_store::{Durability, Expect, Key, Store};
use serde_json::json;
use tokio::sync::mpsc;

use crate::error::ApiError;
use crate::identity::Identity;
use crate::registry::{DEFINITIONS, NAMESPACES, Registry};
use crate::service::InProcess;
use crate::state::{Core, index_stored};
use crate::{background, definitions, object};

/// Namespaces that are always there.
const NAMESPACES_AT_START: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];
const DATABASE: &str = "hagane.db";

/// How the server works.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How the store works.
    pub store: hagane_store::Options,
}

/// Why the server could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data directory could not be made.
    #[error("cannot make the data directory {}", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The store could not be opened.
    #[error("cannot open the store")]
    Store(#[source] hagane_store::OpenError),
    /// The namespaces that are always there could not be made.
    #[error("cannot make the namespace {name}")]
    Namespace {
        /// Its name.
        name: &'static str,
        /// The cause.
        #[source]
        source: ApiError,
    },
    /// The task that opens the store ended early.
    #[error("the task that opens the store ended early")]
    Task(#[source] tokio::task::JoinError),
}

/// The API server: a tower service. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
}

struct Inner {
    core: Arc<Core>,
    scratch: Option<PathBuf>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.core.stopping.cancel();
        if let Some(scratch) = &self.scratch {
            // It is below the directory for temporary files; what cannot be removed is left to its owner.
            let _ = std::fs::remove_dir_all(scratch);
        }
    }
}

impl ApiServer {
    /// Opens the server on a data directory, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// When the directory or the store in it cannot be used.
    pub async fn open(data_dir: impl AsRef<Path>, options: Options) -> Result<Self, OpenError> {
        Self::start(data_dir.as_ref().to_owned(), options, None).await
    }

    /// A server whose data is gone with it, for tests.
    ///
    /// # Errors
    ///
    /// When the directory for temporary files cannot be used.
    pub async fn in_memory() -> Result<Self, OpenError> {
        let scratch = std::env::temp_dir().join(format!("hagane-api-{}", uuid::Uuid::new_v4()));
        let store = hagane_store::Options { durability: Durability::Normal, ..hagane_store::Options::default() };
        Self::start(scratch.clone(), Options { store }, Some(scratch)).await
    }

    async fn start(data_dir: PathBuf, options: Options, scratch: Option<PathBuf>) -> Result<Self, OpenError> {
        let (store, registry) =
            tokio::task::spawn_blocking(move || load(&data_dir, options)).await.map_err(OpenError::Task)??;
        let (changes, received) = mpsc::unbounded_channel();
        let core = Arc::new(Core::new(store, registry, changes));
        make_namespaces(&core).await?;
        tokio::spawn(background::run(Arc::clone(&core), received));
        tokio::spawn(background::expire(Arc::clone(&core)));
        Ok(Self { inner: Arc::new(Inner { core, scratch }) })
    }

    /// The server as one caller in this process sees it: what `kube::Client::new` takes.
    #[must_use]
    pub fn client(&self, identity: Identity) -> InProcess {
        InProcess::new(self.clone(), identity)
    }

    /// Ends watches and background work, then closes the store after what was committed before.
    pub async fn stop(&self) {
        self.inner.core.stopping.cancel();
        self.inner.core.store.close().await;
    }

    /// The store below, for benchmarks and repair tools.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.core.store
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.inner.core
    }
}

fn load(data_dir: &Path, options: Options) -> Result<(Store, Registry), OpenError> {
    make_private_directory(data_dir).map_err(|source| OpenError::Directory { path: data_dir.to_owned(), source })?;
    let store = Store::open(data_dir.join(DATABASE), options.store, index_stored).map_err(OpenError::Store)?;
    let mut registry = Registry::new();
    for entry in store.list(DEFINITIONS, None).iter() {
        if let Ok(definition) = object::from_entry(entry) {
            definitions::serve(&mut registry, &definition, entry.revision);
        }
    }
    Ok((store, registry))
}

fn make_private_directory(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

async fn make_namespaces(core: &Core) -> Result<(), OpenError> {
    for name in NAMESPACES_AT_START {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "uid": uuid::Uuid::new_v4().to_string(), "creationTimestamp": core.now(),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        });
        let key = Key::new(NAMESPACES, "", name);
        if core.store.get(&key).is_some() {
            continue;
        }
        core.put(key, &namespace, Expect::Absent).await.map_err(|source| OpenError::Namespace { name, source })?;
    }
    Ok(())
}
