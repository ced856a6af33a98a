//! What all handlers share: the store, the table of resources, and the order of things.

use std::sync::Arc;

use hagane_store::{CommitError, Entry, Expect, Index, Key, Store, Write};
use serde_json::Value;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::error::{ApiError, ApiResult};
use crate::object;
use crate::registry::{NAMESPACES, Registry, Resource, indexed_fields};

/// Most bytes of a stored object: as much as a request body may have.
const OBJECT_SIZE_MAX: usize = crate::service::BODY_SIZE_MAX;

/// A change that the background tasks may have to act on.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The object is no longer there.
    Gone { key: Key, index: Arc<Index> },
    /// The object has owners, or waits to be deleted.
    Touched { key: Key },
}

/// Shared state of the server.
pub(crate) struct Core {
    pub store: Store,
    registry: watch::Sender<Arc<Registry>>,
    /// Creates hold it shared from the look at their namespace and definition to their commit; what closes a namespace
    /// or changes a definition holds it alone. So nothing is created behind a deletion's back.
    pub gate: tokio::sync::RwLock<()>,
    /// Ends watches and background tasks.
    pub stopping: CancellationToken,
    changes: mpsc::UnboundedSender<Change>,
}

impl Core {
    pub(crate) fn new(store: Store, registry: Registry, changes: mpsc::UnboundedSender<Change>) -> Self {
        Self {
            store,
            registry: watch::Sender::new(Arc::new(registry)),
            gate: tokio::sync::RwLock::new(()),
            stopping: CancellationToken::new(),
            changes,
        }
    }

    /// The table of resources as it is now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.borrow())
    }

    /// Replaces the table, with everything that is made from it.
    pub(crate) fn replace_registry(&self, registry: Registry) {
        self.registry.send_replace(Arc::new(registry));
    }

    /// Hears of every replacement of the table.
    pub(crate) fn registry_changes(&self) -> watch::Receiver<Arc<Registry>> {
        self.registry.subscribe()
    }

    /// The time, as metadata carries it.
    pub(crate) fn now(&self) -> String {
        object::timestamp(crate::clock::now())
    }

    /// Stores an object in its stored form; answers the entry, or nothing if `expect` does not hold.
    pub(crate) async fn put(&self, key: Key, object: &Value, expect: Expect) -> ApiResult<Option<Entry>> {
        let value = object::to_stored(object);
        if value.len() > OBJECT_SIZE_MAX {
            return Err(ApiError::too_large(OBJECT_SIZE_MAX));
        }
        let index = object::index_of(object, indexed_fields(&key.resource));
        let write = Write::Put { key: key.clone(), value: value.clone(), index: index.clone(), expect };
        let Some(revision) = unless_raced(self.store.commit(vec![write]).await)? else { return Ok(None) };
        if !index.owner_uids.is_empty() || object::is_terminating(object) {
            self.tell(Change::Touched { key: key.clone() });
        }
        Ok(Some(Entry { key, revision, value, index: Arc::new(index) }))
    }

    /// Removes an object; answers the revision of the removal, or nothing if the object has changed.
    pub(crate) async fn remove(&self, entry: &Entry) -> ApiResult<Option<u64>> {
        let write = Write::Delete { key: entry.key.clone(), expect: Expect::Revision(entry.revision) };
        let revision = unless_raced(self.store.commit(vec![write]).await)?;
        if revision.is_some() {
            self.tell(Change::Gone { key: entry.key.clone(), index: Arc::clone(&entry.index) });
        }
        Ok(revision)
    }

    /// Asks the background tasks to look at something.
    pub(crate) fn tell(&self, change: Change) {
        // Nobody listens only while the server stops; the scan at the next start finds what is left.
        let _ = self.changes.send(change);
    }

    /// Refuses creates in a namespace that is missing or going away.
    pub(crate) fn check_namespace(&self, resource: &Resource, namespace: &str, name: &str) -> ApiResult<()> {
        let Some(entry) = self.store.get(&Key::new(NAMESPACES, "", namespace)) else {
            return Err(ApiError::not_found("", NAMESPACES, namespace));
        };
        let terminating =
            serde_json::from_slice::<Value>(&entry.value).is_ok_and(|object| object::is_terminating(&object));
        if !terminating {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let message = format!("namespace {namespace} is being terminated");
        Err(ApiError::forbidden(&resource.group, &resource.plural, name, &why).cause(
            "NamespaceTerminating",
            &message,
            "metadata.namespace",
        ))
    }
}

/// How the store finds the index of a value when it opens.
pub(crate) fn index_stored(key: &Key, value: &[u8]) -> Index {
    serde_json::from_slice::<Value>(value)
        .map(|object| object::index_of(&object, indexed_fields(&key.resource)))
        .unwrap_or_default()
}

/// The revision of a commit, or nothing if an expectation was not met.
fn unless_raced(committed: Result<u64, CommitError>) -> ApiResult<Option<u64>> {
    match committed {
        Ok(revision) => Ok(Some(revision)),
        Err(CommitError::Conflict { .. }) => Ok(None),
        Err(CommitError::Closed) => Err(ApiError::unavailable("the server is shutting down").retry_after(1)),
        Err(error) => {
            tracing::error!(error = %chain(&error), "the store did not take a write");
            Err(ApiError::internal(chain(&error)))
        }
    }
}

/// An error with its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
