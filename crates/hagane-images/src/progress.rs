//! Progress of a running fetch, written by it and read by whoever asks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use hagane_ports::Progress;

/// Shared between a fetch and the askers.
#[derive(Debug)]
pub(crate) struct ProgressCell {
    what: Mutex<String>,
    done: AtomicU64,
    /// Zero while unknown: an empty answer is no image.
    total: AtomicU64,
}

impl ProgressCell {
    pub(crate) fn new(what: String) -> Self {
        Self { what: Mutex::new(what), done: AtomicU64::new(0), total: AtomicU64::new(0) }
    }

    /// A new stage begins: nothing of it is done.
    pub(crate) fn begin(&self, what: String, total: Option<u64>) {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(total.unwrap_or(0), Ordering::Relaxed);
        *self.what.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    pub(crate) fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> Progress {
        let total = self.total.load(Ordering::Relaxed);
        Progress {
            what: self.what.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            done: self.done.load(Ordering::Relaxed),
            total: (total > 0).then_some(total),
        }
    }
}
