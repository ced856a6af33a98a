//! The thread that owns the database: takes commits, groups them, stores them, makes them visible, answers.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::{mpsc, oneshot};

use crate::database::{Database, Indexer, Staged};
use crate::error::CommitError;
use crate::model::{Expect, Key, Write};
use crate::state::{Change, Shared, State};
use crate::store::{Keep, Options};

pub(crate) type Answer<T> = oneshot::Sender<Result<T, CommitError>>;

#[derive(Debug)]
pub(crate) enum Command {
    Commit { writes: Vec<Write>, answer: Answer<u64> },
    Compact { keep: Keep, answer: Answer<u64> },
    Flush { answer: Answer<()> },
    Close { answer: oneshot::Sender<()> },
}

struct Compaction {
    target: u64,
    answer: Option<Answer<u64>>,
}

pub(crate) struct Writer {
    database: Database,
    shared: Arc<Shared>,
    indexer: Indexer,
    options: Options,
    /// Set after a failed write: the disk may hold changes that memory does not know.
    suspect: bool,
    compaction: Option<Compaction>,
    compacted_at: Instant,
}

/// One commit with its outcome, waiting for the group to be stored.
struct Pending {
    answer: Answer<u64>,
    outcome: Result<u64, CommitError>,
}

impl Writer {
    pub(crate) fn new(database: Database, shared: Arc<Shared>, indexer: Indexer, options: Options) -> Self {
        Self { database, shared, indexer, options, suspect: false, compaction: None, compacted_at: Instant::now() }
    }

    /// Serves commands until the store is closed or dropped.
    pub(crate) fn run(mut self, mut commands: mpsc::Receiver<Command>) {
        let closer = self.serve(&mut commands);
        commands.close();
        if let Err(error) = self.database.checkpoint() {
            tracing::warn!(%error, "cannot checkpoint the database; the next start reads its write-ahead log");
        }
        self.shared.close();
        drop(self.database);
        if let Some(closer) = closer {
            // The closer may have stopped waiting.
            let _ = closer.send(());
        }
    }

    fn serve(&mut self, commands: &mut mpsc::Receiver<Command>) -> Option<oneshot::Sender<()>> {
        loop {
            let first = match &self.compaction {
                None => Some(commands.blocking_recv()?),
                Some(_) => match commands.try_recv() {
                    Ok(command) => Some(command),
                    Err(mpsc::error::TryRecvError::Empty) => None,
                    Err(mpsc::error::TryRecvError::Disconnected) => return None,
                },
            };
            let mut group = Vec::new();
            let mut next = first;
            while let Some(command) = next.take() {
                match command {
                    Command::Commit { writes, answer } => group.push((writes, answer)),
                    other => {
                        self.commit(std::mem::take(&mut group));
                        if let Some(closer) = self.other(other) {
                            return Some(closer);
                        }
                    }
                }
                if group.len() < self.options.group {
                    next = commands.try_recv().ok();
                }
            }
            self.commit(group);
            self.compact_on_schedule();
            self.compact_some();
        }
    }

    fn other(&mut self, command: Command) -> Option<oneshot::Sender<()>> {
        match command {
            Command::Commit { writes, answer } => self.commit(vec![(writes, answer)]),
            Command::Compact { keep, answer } => self.start_compaction(keep, Some(answer)),
            Command::Flush { answer } => {
                let flushed = self.database.checkpoint().map_err(storage);
                let _ = answer.send(flushed);
            }
            Command::Close { answer } => return Some(answer),
        }
        None
    }

    fn commit(&mut self, group: Vec<(Vec<Write>, Answer<u64>)>) {
        if group.is_empty() {
            return;
        }
        let (mut pending, staged) = if let Err(error) = self.resync() {
            let failed = group.into_iter().map(|(_, answer)| Pending { answer, outcome: Err(error.clone()) });
            (failed.collect(), Vec::new())
        } else {
            stage(&self.shared.read(), group)
        };
        if !staged.is_empty() {
            match self.database.write(&staged, (self.options.clock)()) {
                Ok(()) => self.shared.apply(staged.into_iter().map(|staged| staged.change)),
                Err(error) => {
                    tracing::error!(%error, commits = pending.len(), "the database did not take a group of commits");
                    self.suspect = true;
                    let error = storage(error);
                    // Conflicts too: they may have been with commits of this very group.
                    pending.iter_mut().for_each(|pending| pending.outcome = Err(error.clone()));
                }
            }
        }
        for Pending { answer, outcome } in pending {
            // Whoever stopped waiting finds the result by reading.
            let _ = answer.send(outcome);
        }
    }

    /// Takes over what a failed write may have stored after all.
    fn resync(&mut self) -> Result<(), CommitError> {
        if !self.suspect {
            return Ok(());
        }
        let revision = self.shared.read().revision;
        let changes = self.database.unseen(revision, &self.indexer).map_err(storage)?;
        if !changes.is_empty() {
            tracing::warn!(changes = changes.len(), "the database had stored commits that it reported as failed");
            self.shared.apply(changes);
        }
        self.suspect = false;
        Ok(())
    }

    fn compact_on_schedule(&mut self) {
        if self.compaction.is_none() && self.compacted_at.elapsed() >= self.options.compact_every {
            self.compacted_at = Instant::now();
            self.start_compaction(self.options.keep, None);
        }
    }

    fn start_compaction(&mut self, keep: Keep, answer: Option<Answer<u64>>) {
        match self.database.compaction_target(keep, (self.options.clock)()) {
            Ok(target) => {
                let target = target.max(self.shared.read().compacted);
                self.end_compaction(Ok(target));
                self.compaction = Some(Compaction { target, answer });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot compact the database");
                if let Some(answer) = answer {
                    let _ = answer.send(Err(storage(error)));
                }
            }
        }
    }

    fn compact_some(&mut self) {
        let Some(Compaction { target, .. }) = self.compaction else { return };
        match self.database.compact_some(target) {
            Ok(done) => {
                self.shared.write().compact(target);
                if done {
                    self.end_compaction(Ok(target));
                }
            }
            Err(error) => {
                tracing::warn!(%error, "cannot compact the database");
                self.end_compaction(Err(storage(error)));
            }
        }
    }

    fn end_compaction(&mut self, result: Result<u64, CommitError>) {
        if let Some(Compaction { answer: Some(answer), .. }) = self.compaction.take() {
            let _ = answer.send(result);
        }
    }
}

fn storage(error: rusqlite::Error) -> CommitError {
    CommitError::Storage(Arc::new(error))
}

/// Checks every commit against memory and the commits before it, and gives revisions to those that pass.
fn stage(state: &State, group: Vec<(Vec<Write>, Answer<u64>)>) -> (Vec<Pending>, Vec<Staged>) {
    let mut revision = state.revision;
    let mut touched: HashMap<Key, Option<u64>> = HashMap::new();
    let mut staged = Vec::new();
    let mut pending = Vec::with_capacity(group.len());
    for (writes, answer) in group {
        let outcome = stage_one(state, &touched, revision, writes).map(|changes| {
            for Staged { change, .. } in &changes {
                revision = revision.max(change.revision);
                touched.insert(change.key.clone(), change.value.as_ref().map(|_| change.revision));
            }
            staged.extend(changes);
            revision
        });
        pending.push(Pending { answer, outcome });
    }
    (pending, staged)
}

fn stage_one(
    state: &State,
    touched: &HashMap<Key, Option<u64>>,
    mut revision: u64,
    writes: Vec<Write>,
) -> Result<Vec<Staged>, CommitError> {
    let mut changes: Vec<Staged> = Vec::with_capacity(writes.len());
    for write in writes {
        let own = changes.iter().rev().find(|staged| staged.change.key == *write.key());
        let own = own.map(|staged| staged.change.value.as_ref().map(|_| staged.change.revision));
        let current = own
            .or_else(|| touched.get(write.key()).copied())
            .unwrap_or_else(|| state.get(write.key()).map(|entry| entry.revision));
        let (expect, needs_value) = match &write {
            Write::Put { expect, .. } => (*expect, false),
            Write::Delete { expect, .. } => (*expect, true),
        };
        let met = match expect {
            Expect::Absent => current.is_none(),
            Expect::Revision(wanted) => current == Some(wanted),
            Expect::Any => true,
        };
        if !met || (needs_value && current.is_none()) {
            return Err(CommitError::Conflict { key: write.key().clone(), current });
        }
        revision += 1;
        let (key, value) = match write {
            Write::Put { key, value, index, .. } => (key, Some((value, Arc::new(index)))),
            Write::Delete { key, .. } => (key, None),
        };
        changes.push(Staged { change: Change { key, revision, value }, previous: current.unwrap_or(0) });
    }
    Ok(changes)
}
