//! The work queue of one controller.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use super::resource::ObjectKey;
use super::schedule::{Next, Periods, Schedule};

/// Wakes keys; handed to watches and other sources of wake-ups.
#[derive(Clone)]
pub struct Waker {
    queue: Arc<Queue>,
}

impl Waker {
    /// Has `key` looked at as soon as a worker is free.
    pub fn wake(&self, key: ObjectKey) {
        self.queue.lock().wake(key);
        self.queue.changed.notify_one();
    }
}

/// Keys that wait for a worker.
pub(crate) struct Queue {
    schedule: Mutex<Schedule<ObjectKey>>,
    changed: Notify,
}

impl Queue {
    pub(crate) fn new(periods: Periods) -> Arc<Self> {
        Arc::new(Self { schedule: Mutex::new(Schedule::new(periods)), changed: Notify::new() })
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker { queue: Arc::clone(self) }
    }

    /// Waits for a key to work on. Safe to drop at any point: a key is taken only when it is returned.
    pub(crate) async fn next(&self) -> ObjectKey {
        loop {
            let due = {
                let mut schedule = self.lock();
                if let Some(key) = schedule.take(Instant::now()) {
                    return key;
                }
                schedule.next_due()
            };
            match due {
                Some(at) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(at) => {}
                        () = self.changed.notified() => {}
                    }
                }
                None => self.changed.notified().await,
            }
        }
    }

    pub(crate) fn done(&self, key: &ObjectKey, next: Next) {
        self.lock().done(key, next, Instant::now());
        self.changed.notify_one();
    }

    pub(crate) fn failures(&self, key: &ObjectKey) -> u32 {
        self.lock().failures(key)
    }

    fn lock(&self) -> MutexGuard<'_, Schedule<ObjectKey>> {
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
