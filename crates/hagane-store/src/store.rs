//! The face of the store.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::{mpsc, oneshot};

use crate::database::{Database, Indexer};
use crate::error::{CommitError, Compacted, OpenError};
use crate::model::{Entry, Index, Key, Write};
use crate::snapshot::Snapshot;
use crate::state::{RingLimits, Shared};
use crate::watch::Watch;
use crate::writer::{Command, Writer};

/// How many commits may wait for the writer before committers wait to be let in.
const QUEUE: usize = 1024;

/// When a commit counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is synced to the disk: it survives a power loss.
    #[default]
    Full,
    /// When the operating system has it: it survives a crash of the process; a power loss may take the last commits.
    Normal,
}

/// What compaction leaves in the log; both hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// At least so many of the latest revisions.
    pub revisions: u64,
    /// At least what was written in this time.
    pub age: Duration,
}

impl Default for Keep {
    fn default() -> Self {
        Self { revisions: 1000, age: Duration::from_secs(300) }
    }
}

/// How a store works.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When a commit counts as stored.
    pub durability: Durability,
    /// The most commits stored in one transaction.
    pub group: usize,
    /// Recent events a resource keeps in memory for watches and old lists.
    pub ring_events: usize,
    /// Bytes of values in those events.
    pub ring_bytes: usize,
    /// Events of the log that are read at the start, so that watches go on after a restart.
    pub resume_events: u64,
    /// What compaction leaves.
    pub keep: Keep,
    /// How often the log is compacted while there are commits.
    pub compact_every: Duration,
    /// The most pages of 4 KiB the file may have; a commit beyond is refused as if the disk were full.
    pub max_pages: Option<u32>,
    /// Milliseconds since 1970.
    pub clock: fn() -> u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            group: 128,
            ring_events: 4096,
            ring_bytes: 8 << 20,
            resume_events: 1000,
            keep: Keep::default(),
            compact_every: Duration::from_secs(300),
            max_pages: None,
            clock: system_clock,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the default of a clock that callers may replace")]
fn system_clock() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// A store that is open. Clones share it; it closes when the last one is dropped or [`Store::close`] is called.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
}

impl Store {
    /// Opens the database file, making it if there is none. Blocks while it reads everything: call it off an async
    /// runtime or before one is busy. `indexer` finds the index of each stored value.
    ///
    /// # Errors
    ///
    /// When the file cannot be used, is in use, or comes from a newer program.
    pub fn open(
        path: impl AsRef<Path>,
        options: Options,
        indexer: impl Fn(&Key, &[u8]) -> Index + Send + Sync + 'static,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let indexer: Indexer = Arc::new(indexer);
        let database = Database::open(path, &options)?;
        let limits = RingLimits { events: options.ring_events, bytes: options.ring_bytes };
        let state = database.load(limits, options.resume_events, &indexer).map_err(|source| OpenError::Database {
            operation: "load",
            path: path.to_owned(),
            source: Arc::new(source),
        })?;
        let shared = Arc::new(Shared::new(state));
        let (commands, receiver) = mpsc::channel(QUEUE);
        let writer = Writer::new(database, shared.clone(), indexer, options);
        std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run(receiver))
            .map_err(OpenError::Thread)?;
        Ok(Self { shared, commands })
    }

    /// The current value.
    #[must_use]
    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        self.shared.read().get(key).cloned()
    }

    /// The current entries of a resource, of one namespace or of all.
    #[must_use]
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Snapshot {
        self.shared.read().list(resource, namespace)
    }

    /// The entries as they were at `revision`; the current ones if that is not over yet.
    ///
    /// # Errors
    ///
    /// When the events since are no longer all known.
    pub fn list_at(&self, resource: &str, namespace: Option<&str>, revision: u64) -> Result<Snapshot, Compacted> {
        self.shared.read().list_at(resource, namespace, revision)
    }

    /// Stores all writes or none. Each write gets a revision of its own, one after the other; the answer is the
    /// last of them (the current revision if there are no writes). When it comes, the writes are on the disk and every
    /// read sees them. A future dropped half way may or may not have committed.
    ///
    /// # Errors
    ///
    /// When an expectation is not met, or the database refuses.
    pub async fn commit(&self, writes: Vec<Write>) -> Result<u64, CommitError> {
        self.ask(|answer| Command::Commit { writes, answer }).await
    }

    /// The changes of a resource after the revision `from`.
    ///
    /// # Errors
    ///
    /// When events after `from` are no longer all known.
    pub fn watch(
        &self,
        resource: impl Into<Arc<str>>,
        namespace: Option<String>,
        from: u64,
    ) -> Result<Watch, Compacted> {
        let resource = resource.into();
        let changed = self.shared.write().subscribe(&resource, from)?;
        Ok(Watch::new(self.shared.clone(), resource, namespace, from, changed))
    }

    /// The revision of the last write, above 0 from the start.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.shared.read().revision
    }

    /// Waits until the store has reached the revision, or is closed.
    pub async fn wait_for(&self, revision: u64) {
        let mut reached = self.shared.revision.subscribe();
        // The sender lives as long as `self`.
        let _ = reached.wait_for(|now| *now >= revision || self.shared.read().closed).await;
    }

    /// The revision up to which the log is compacted.
    #[must_use]
    pub fn compacted(&self) -> u64 {
        self.shared.read().compacted
    }

    /// The entries, of any resource, that name this uid as an owner, ordered by key.
    #[must_use]
    pub fn by_owner(&self, uid: &str) -> Vec<Arc<Entry>> {
        self.shared.read().by_owner(uid)
    }

    /// The entry with this uid.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<Arc<Entry>> {
        self.shared.read().by_uid(uid)
    }

    /// The resources that have entries, ordered.
    #[must_use]
    pub fn resources(&self) -> Vec<Arc<str>> {
        self.shared.read().resources()
    }

    /// Lets go of old revisions in the log; answers up to which.
    ///
    /// # Errors
    ///
    /// When the database refuses.
    pub async fn compact(&self, keep: Keep) -> Result<u64, CommitError> {
        self.ask(|answer| Command::Compact { keep, answer }).await
    }

    /// Moves everything committed into the main database file. Commits are durable without it.
    ///
    /// # Errors
    ///
    /// When the database refuses.
    pub async fn flush(&self) -> Result<(), CommitError> {
        self.ask(|answer| Command::Flush { answer }).await
    }

    /// Closes the database after the commits that came before; ends all watches. Reads go on working.
    pub async fn close(&self) {
        let (answer, closed) = oneshot::channel();
        if self.commands.send(Command::Close { answer }).await.is_ok() {
            // An error means that the writer has ended already.
            let _ = closed.await;
        }
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, CommitError>>) -> Command,
    ) -> Result<T, CommitError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| CommitError::Closed)?;
        answered.await.map_err(|_| CommitError::Closed)?
    }
}
