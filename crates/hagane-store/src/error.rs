//! What can go wrong.

use std::path::PathBuf;
use std::sync::Arc;

use crate::model::Key;

/// A cause inside the database.
pub(crate) type Cause = Arc<dyn std::error::Error + Send + Sync>;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file could not be created or opened.
    #[error("cannot open the database {}", path.display())]
    File {
        /// The database file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// Another process has the database open.
    #[error("the database {} is in use by another process", path.display())]
    InUse {
        /// The database file.
        path: PathBuf,
    },
    /// The database was written by a newer version of this program.
    #[error("the database {} has schema version {found}; this program knows versions up to {known}", path.display())]
    TooNew {
        /// The database file.
        path: PathBuf,
        /// The version in the file.
        found: u64,
        /// The newest version this program knows.
        known: u64,
    },
    /// Setting up, migrating or loading failed.
    #[error("cannot {operation} the database {}", path.display())]
    Database {
        /// What was being done.
        operation: &'static str,
        /// The database file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The writer thread could not be started.
    #[error("cannot start the writer thread of the database")]
    Thread(#[source] std::io::Error),
}

/// Why a commit did not happen. Nothing of it was stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// An expectation was not met.
    #[error("{key} is not as expected: {}", found(*current))]
    Conflict {
        /// The key of the failed expectation.
        key: Key,
        /// The revision of the value there; none if there is no value.
        current: Option<u64>,
    },
    /// The database refused, for example because the disk is full. Later commits are tried again.
    #[error("the database did not take the write")]
    Storage(#[source] Cause),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
}

fn found(current: Option<u64>) -> String {
    current.map_or_else(|| "there is no value".to_owned(), |revision| format!("its revision is {revision}"))
}

/// The revision asked for is no longer known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision {requested} is no longer known; the oldest known one is {oldest}")]
pub struct Compacted {
    /// The revision asked for.
    pub requested: u64,
    /// The oldest one that can be asked for.
    pub oldest: u64,
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The watcher was too slow: events after this revision are gone.
    #[error("the watch fell behind: events after revision {after} are no longer kept")]
    Lagged {
        /// The last revision the watcher has seen everything up to.
        after: u64,
    },
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
}
