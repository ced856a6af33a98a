//! The SQLite side: opening, loading, writing one group of changes, compacting.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use crate::error::OpenError;
use crate::migrations;
use crate::model::{Entry, Event, EventKind, Index, Key};
use crate::state::{Change, RingLimits, State};
use crate::store::{Durability, Keep, Options};

/// Reads the index of a value.
pub(crate) type Indexer = Arc<dyn Fn(&Key, &[u8]) -> Index + Send + Sync>;

/// How long an opener waits for a process that is just ending.
const BUSY: Duration = Duration::from_millis(500);

/// Log rows deleted in one transaction, so that compaction never holds commits up for long.
const COMPACTION_BATCH: u64 = 1000;

/// A change on its way to the disk.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    pub(crate) change: Change,
    /// The revision it replaces; 0 if there was no value.
    pub(crate) previous: u64,
}

#[derive(Debug)]
pub(crate) struct Database {
    connection: Connection,
}

impl Database {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        create_private(path).map_err(|source| OpenError::File { path: path.to_owned(), source })?;
        let wrap = |operation: &'static str| {
            move |error: rusqlite::Error| match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => OpenError::InUse { path: path.to_owned() },
                _ => OpenError::Database { operation, path: path.to_owned(), source: Arc::new(error) },
            }
        };
        let mut connection = Connection::open(path).map_err(wrap("open"))?;
        configure(&connection, options).map_err(wrap("configure"))?;
        let found = migrations::version(&connection).map_err(wrap("read the version of"))?;
        let known = migrations::known();
        if found > known {
            return Err(OpenError::TooNew { path: path.to_owned(), found, known });
        }
        migrations::migrate(&mut connection, found).map_err(wrap("migrate"))?;
        Ok(Self { connection })
    }

    /// Reads everything that is kept in memory.
    pub(crate) fn load(&self, limits: RingLimits, resume: u64, indexer: &Indexer) -> rusqlite::Result<State> {
        let compacted = self.compacted()?;
        let revision = self.revision()?.max(compacted);
        let wanted_floor = compacted.max(revision.saturating_sub(resume));
        let mut state = State::new(revision, compacted, revision, limits);
        let mut statement = self.connection.prepare(
            "SELECT resource, namespace, name, revision, value FROM current ORDER BY resource, namespace, name",
        )?;
        let mut rows = statement.query(())?;
        let mut names = Names::default();
        let mut entries: Vec<Arc<Entry>> = Vec::new();
        while let Some(row) = rows.next()? {
            let key = names.key(row.get_ref(0)?.as_str()?, row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?);
            if let Some(last) = entries.last().filter(|last| last.key.resource != key.resource) {
                let resource = last.key.resource.clone();
                state.load(&resource, std::mem::take(&mut entries));
            }
            entries.push(Arc::new(entry(key, row.get(3)?, row.get::<_, Vec<u8>>(4)?.into(), indexer)));
        }
        if let Some(resource) = entries.last().map(|last| last.key.resource.clone()) {
            state.load(&resource, entries);
        }
        self.load_events(&mut state, wanted_floor, indexer)?;
        Ok(state)
    }

    /// Fills the rings from the end of the log, so that watches survive a restart.
    fn load_events(&self, state: &mut State, after: u64, indexer: &Indexer) -> rusqlite::Result<()> {
        let mut known: HashMap<u64, Arc<Entry>> = HashMap::new();
        let mut events = Vec::new();
        let mut floor = after;
        for row in self.log_after(after)? {
            let previous = match row.previous {
                0 => None,
                revision => match known.remove(&revision) {
                    Some(entry) => Some(entry),
                    None => self.logged_entry(&row.change.key, revision, indexer)?,
                },
            };
            let revision = row.change.revision;
            if row.previous != 0 && previous.is_none() {
                // What was there before is compacted: this event cannot be told any more.
                floor = revision;
            }
            let key = row.change.key;
            let (kind, entry) = match (row.change.value, &previous) {
                (Some((value, _)), _) => {
                    let current = state.get(&key).filter(|current| current.revision == revision).cloned();
                    let entry = current.unwrap_or_else(|| Arc::new(entry(key, revision, value, indexer)));
                    known.insert(revision, entry.clone());
                    (if row.previous == 0 { EventKind::Added } else { EventKind::Modified }, entry)
                }
                (None, Some(last)) => (EventKind::Deleted, Arc::new(Entry { revision, ..Entry::clone(last) })),
                (None, None) => continue,
            };
            events.push(Event { kind, entry, previous, revision });
        }
        state.lower_floor(floor);
        for event in events.into_iter().filter(|event| event.revision > floor) {
            state.load_event(event);
        }
        Ok(())
    }

    fn logged_entry(&self, key: &Key, revision: u64, indexer: &Indexer) -> rusqlite::Result<Option<Arc<Entry>>> {
        let mut statement = self.connection.prepare_cached("SELECT value FROM log WHERE revision = ?1")?;
        let value: Option<Vec<u8>> = match statement.query_row((revision,), |row| row.get(0)) {
            Err(rusqlite::Error::QueryReturnedNoRows) => None,
            other => other?,
        };
        Ok(value.map(|value| Arc::new(entry(key.clone(), revision, value.into(), indexer))))
    }

    /// The rows of the log after a revision, oldest first; puts come without an index.
    fn log_after(&self, revision: u64) -> rusqlite::Result<Vec<Staged>> {
        let mut statement = self.connection.prepare_cached(
            "SELECT revision, resource, namespace, name, previous_revision, value FROM log
             WHERE revision > ?1 ORDER BY revision",
        )?;
        let mut names = Names::default();
        let rows = statement.query_map((revision,), |row| {
            let key = names.key(row.get_ref(1)?.as_str()?, row.get_ref(2)?.as_str()?, row.get_ref(3)?.as_str()?);
            let value: Option<Vec<u8>> = row.get(5)?;
            let value = value.map(|value| (Bytes::from(value), Arc::default()));
            Ok(Staged { change: Change { key, revision: row.get(0)?, value }, previous: row.get(4)? })
        })?;
        rows.collect()
    }

    /// Changes that are on the disk although memory does not know them: a commit whose answer was an error.
    pub(crate) fn unseen(&self, revision: u64, indexer: &Indexer) -> rusqlite::Result<Vec<Change>> {
        let mut changes: Vec<Change> = self.log_after(revision)?.into_iter().map(|staged| staged.change).collect();
        for Change { key, value, .. } in &mut changes {
            if let Some((bytes, index)) = value {
                *index = Arc::new(indexer(key, bytes));
            }
        }
        Ok(changes)
    }

    fn revision(&self) -> rusqlite::Result<u64> {
        self.connection.query_row("SELECT coalesce(max(revision), 0) FROM log", (), |row| row.get(0))
    }

    fn compacted(&self) -> rusqlite::Result<u64> {
        self.connection.query_row("SELECT value FROM meta WHERE key = 'compacted_revision'", (), |row| row.get(0))
    }

    /// Stores one group of changes, all or none.
    pub(crate) fn write<'a>(
        &mut self,
        changes: impl IntoIterator<Item = &'a Staged>,
        written_at: u64,
    ) -> rusqlite::Result<()> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for Staged { change, previous } in changes {
            write_one(&transaction, change, *previous, written_at)?;
        }
        transaction.commit()
    }

    /// The revision up to which `keep` lets the log go.
    pub(crate) fn compaction_target(&self, keep: Keep, now: u64) -> rusqlite::Result<u64> {
        let newest = self.revision()?.saturating_sub(keep.revisions);
        let before = now.saturating_sub(u64::try_from(keep.age.as_millis()).unwrap_or(u64::MAX));
        let found = self.connection.query_row(
            "SELECT revision FROM log WHERE revision <= ?1 AND written_at <= ?2 ORDER BY revision DESC LIMIT 1",
            (newest, before),
            |row| row.get(0),
        );
        match found {
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(0),
            other => other,
        }
    }

    /// Deletes some of the log up to `target`; true when nothing is left to delete.
    pub(crate) fn compact_some(&mut self, target: u64) -> rusqlite::Result<bool> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        transaction.execute("UPDATE meta SET value = max(value, ?1) WHERE key = 'compacted_revision'", (target,))?;
        let deleted = transaction.execute(
            "DELETE FROM log WHERE revision IN
                 (SELECT revision FROM log WHERE revision <= ?1 ORDER BY revision LIMIT ?2)",
            (target, COMPACTION_BATCH),
        )?;
        transaction.commit()?;
        let done = (deleted as u64) < COMPACTION_BATCH;
        if done {
            self.connection.execute_batch("PRAGMA incremental_vacuum;")?;
        }
        Ok(done)
    }

    /// Moves the write-ahead log into the database file.
    pub(crate) fn checkpoint(&self) -> rusqlite::Result<()> {
        self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()))
    }
}

fn write_one(connection: &Connection, change: &Change, previous: u64, written_at: u64) -> rusqlite::Result<()> {
    let Change { key, revision, value } = change;
    let (resource, namespace, name) = (&*key.resource, &*key.namespace, &*key.name);
    let value = value.as_ref().map(|(bytes, _)| bytes.as_ref());
    match value {
        Some(value) => connection
            .prepare_cached(
                "INSERT INTO current (resource, namespace, name, revision, value) VALUES (?1, ?2, ?3, ?4, ?5)
                 ON CONFLICT (resource, namespace, name)
                 DO UPDATE SET revision = excluded.revision, value = excluded.value",
            )?
            .execute(params![resource, namespace, name, revision, value])?,
        None => connection
            .prepare_cached("DELETE FROM current WHERE resource = ?1 AND namespace = ?2 AND name = ?3")?
            .execute(params![resource, namespace, name])?,
    };
    connection
        .prepare_cached(
            "INSERT INTO log (revision, resource, namespace, name, previous_revision, value, written_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?
        .execute(params![revision, resource, namespace, name, previous, value, written_at])?;
    Ok(())
}

fn entry(key: Key, revision: u64, value: Bytes, indexer: &Indexer) -> Entry {
    let index = Arc::new(indexer(&key, &value));
    Entry { key, revision, value, index }
}

/// Values may be secrets: only the owner of the process may read the file. SQLite gives its other files the same mode.
fn create_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(path).map(drop)
}

fn configure(connection: &Connection, options: &Options) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY)?;
    let synchronous = match options.durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    // Exclusive before anything reads the file: one process at a time, and no shared-memory file, for which a full disk
    // has no room. The size limit gives the disk back after a burst.
    connection.execute_batch(&format!(
        "PRAGMA locking_mode = EXCLUSIVE;
         PRAGMA page_size = 4096;
         PRAGMA auto_vacuum = INCREMENTAL;
         PRAGMA journal_mode = WAL;
         PRAGMA synchronous = {synchronous};
         PRAGMA journal_size_limit = 16777216;"
    ))?;
    if let Some(pages) = options.max_pages {
        connection.execute_batch(&format!("PRAGMA max_page_count = {pages};"))?;
    }
    Ok(())
}

/// Shares the text of resources and namespaces that follow each other.
#[derive(Default)]
struct Names {
    resource: Option<Arc<str>>,
    namespace: Option<Arc<str>>,
}

impl Names {
    fn key(&mut self, resource: &str, namespace: &str, name: &str) -> Key {
        Key {
            resource: shared(&mut self.resource, resource),
            namespace: shared(&mut self.namespace, namespace),
            name: name.into(),
        }
    }
}

fn shared(last: &mut Option<Arc<str>>, text: &str) -> Arc<str> {
    match last {
        Some(same) if **same == *text => same.clone(),
        _ => last.insert(text.into()).clone(),
    }
}
