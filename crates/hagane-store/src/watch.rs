//! Ordered events of one resource.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use crate::error::WatchError;
use crate::model::{Event, Key};
use crate::state::Shared;

/// How many events a watch takes over at once.
const BATCH: usize = 128;

/// The changes of one resource after a revision, each once and in order. Holds no queue of its own that could grow: a
/// watcher that is too slow is told so by [`WatchError::Lagged`].
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    resource: Arc<str>,
    namespace: Option<String>,
    buffer: VecDeque<Arc<Event>>,
    /// Everything up to here was taken over or not wanted.
    cursor: u64,
    /// The last revision the caller has seen everything up to.
    delivered: u64,
    changed: watch::Receiver<u64>,
}

impl Watch {
    pub(crate) fn new(
        shared: Arc<Shared>,
        resource: Arc<str>,
        namespace: Option<String>,
        from: u64,
        changed: watch::Receiver<u64>,
    ) -> Self {
        Self { shared, resource, namespace, buffer: VecDeque::new(), cursor: from, delivered: from, changed }
    }

    /// The next event; waits for one. May be dropped and called again without losing an event.
    ///
    /// # Errors
    ///
    /// When the watch fell behind or the store was closed; it stays so.
    pub async fn next(&mut self) -> Result<Arc<Event>, WatchError> {
        loop {
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            // The sender lives in the state, which this watch holds.
            if self.changed.changed().await.is_err() {
                return Err(WatchError::Closed);
            }
        }
    }

    /// The next event if there is one now.
    ///
    /// # Errors
    ///
    /// As [`Watch::next`].
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, WatchError> {
        if self.buffer.is_empty() {
            self.fill()?;
        }
        let event = self.buffer.pop_front();
        self.delivered = match &event {
            Some(event) => event.revision,
            None => self.delivered.max(self.cursor),
        };
        Ok(event)
    }

    fn fill(&mut self) -> Result<(), WatchError> {
        // Before looking, so that a change after the look wakes the next wait.
        self.changed.mark_unchanged();
        let state = self.shared.read();
        let wanted = |event: &Event| wants(self.namespace.as_deref(), &event.entry.key);
        let Some(batch) = state.events(&self.resource, self.cursor, BATCH, wanted) else {
            return Err(WatchError::Lagged { after: self.delivered });
        };
        if batch.events.is_empty() && state.closed {
            return Err(WatchError::Closed);
        }
        self.cursor = batch.through;
        self.buffer.extend(batch.events);
        Ok(())
    }

    /// A revision up to which the caller has got every event, for telling idle watchers where they are.
    pub fn progress(&mut self) -> u64 {
        // An error shows at the next call of `next`.
        if self.buffer.is_empty() && self.fill().is_ok() && self.buffer.is_empty() {
            self.delivered = self.delivered.max(self.cursor);
        }
        self.delivered
    }
}

fn wants(namespace: Option<&str>, key: &Key) -> bool {
    namespace.is_none_or(|namespace| *key.namespace == *namespace)
}
