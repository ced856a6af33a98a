//! When each key is worked on: pure bookkeeping, the time is an argument.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasher as _, Hash};
use std::time::Duration;

use tokio::time::Instant;

/// What a pass wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing to do until something changes (or the resync period is over).
    AwaitChange,
    /// Look again after this time, because something outside the API is on its way.
    After(Duration),
    /// A passing fault: try again after this key's back-off.
    Retry,
    /// The object moved on while it was worked on: look again soon, without back-off.
    Stale,
    /// The object is gone: forget all about the key.
    Forget,
}

/// The periods of the work queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Periods {
    /// First back-off.
    pub backoff_first: Duration,
    /// Longest back-off.
    pub backoff_longest: Duration,
    /// Every object is looked at again after this time, whatever happens.
    pub resync: Duration,
    /// Longest wait that a pass may ask for with [`Next::After`].
    pub after_longest: Duration,
    /// Wait before a stale object is looked at again; the cache catches up meanwhile.
    pub stale: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            backoff_first: Duration::from_millis(500),
            backoff_longest: Duration::from_secs(300),
            resync: Duration::from_secs(600),
            after_longest: Duration::from_secs(600),
            stale: Duration::from_millis(100),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Idle,
    Ready,
    Running,
    /// A wake came while it ran: it runs once more.
    RunningAgain,
}

#[derive(Debug, Default)]
struct Entry {
    place: Place,
    due: Option<(Instant, u64)>,
    failures: u32,
}

/// The state of a work queue: each key is worked on by one worker at a time, and a wake is never lost.
#[derive(Debug)]
pub struct Schedule<K> {
    periods: Periods,
    ready: VecDeque<K>,
    entries: HashMap<K, Entry>,
    delayed: BTreeSet<(Instant, u64, K)>,
    sequence: u64,
    random: RandomState,
}

impl<K: Clone + Ord + Hash> Schedule<K> {
    /// An empty schedule.
    #[must_use]
    pub fn new(periods: Periods) -> Self {
        Self {
            periods,
            ready: VecDeque::new(),
            entries: HashMap::new(),
            delayed: BTreeSet::new(),
            sequence: 0,
            random: RandomState::new(),
        }
    }

    /// Something about `key` may have changed: it is worked on as soon as a worker is free.
    pub fn wake(&mut self, key: K) {
        let entry = self.entries.entry(key.clone()).or_default();
        match entry.place {
            Place::Ready | Place::RunningAgain => {}
            Place::Running => entry.place = Place::RunningAgain,
            Place::Idle => {
                entry.place = Place::Ready;
                if let Some((at, sequence)) = entry.due.take() {
                    self.delayed.remove(&(at, sequence, key.clone()));
                }
                self.ready.push_back(key);
            }
        }
    }

    /// The next key to work on, now marked as running.
    pub fn take(&mut self, now: Instant) -> Option<K> {
        while self.delayed.first().is_some_and(|(at, _, _)| *at <= now) {
            if let Some((_, _, key)) = self.delayed.pop_first() {
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.due = None;
                }
                self.wake(key);
            }
        }
        let key = self.ready.pop_front()?;
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.place = Place::Running;
        }
        Some(key)
    }

    /// When the next delayed key is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.delayed.first().map(|(at, _, _)| *at)
    }

    /// A worker is done with `key`.
    pub fn done(&mut self, key: &K, next: Next, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        let again = entry.place == Place::RunningAgain;
        entry.place = Place::Idle;
        match next {
            Next::Retry => entry.failures = entry.failures.saturating_add(1),
            Next::Stale => {}
            Next::AwaitChange | Next::After(_) | Next::Forget => entry.failures = 0,
        }
        let failures = entry.failures;
        if again {
            self.wake(key.clone());
            return;
        }
        let wait = match next {
            Next::Forget => {
                self.entries.remove(key);
                return;
            }
            Next::AwaitChange => self.jittered(self.periods.resync),
            Next::After(wait) => wait.min(self.periods.after_longest),
            Next::Stale => self.periods.stale,
            Next::Retry => self.jittered(self.backoff(failures)),
        };
        self.delay(key, now + wait);
    }

    /// Failures in a row of `key`.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    fn delay(&mut self, key: &K, at: Instant) {
        self.sequence += 1;
        let sequence = self.sequence;
        if let Some(entry) = self.entries.get_mut(key) {
            entry.due = Some((at, sequence));
            self.delayed.insert((at, sequence, key.clone()));
        }
    }

    fn backoff(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.periods.backoff_first.saturating_mul(1 << doublings).min(self.periods.backoff_longest)
    }

    /// 80 to 100 percent of `period`, so that many objects do not come back at the same moment.
    fn jittered(&self, period: Duration) -> Duration {
        let percent = 80 + self.random.hash_one(self.sequence) % 21;
        period.mul_f64(f64::from(u32::try_from(percent).unwrap_or(100)) / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn schedule() -> (Schedule<&'static str>, Instant) {
        (Schedule::new(Periods { backoff_first: SECOND, ..Periods::default() }), Instant::now())
    }

    #[test]
    fn one_worker_a_key_and_no_wake_is_lost() {
        let (mut schedule, now) = schedule();
        schedule.wake("a");
        schedule.wake("a");
        schedule.wake("b");
        assert_eq!((schedule.take(now), schedule.take(now), schedule.take(now)), (Some("a"), Some("b"), None));
        schedule.wake("a");
        assert_eq!(schedule.take(now), None);
        schedule.done(&"a", Next::AwaitChange, now);
        assert_eq!((schedule.take(now), schedule.take(now)), (Some("a"), None));
    }

    #[test]
    fn backs_off_doubling_up_to_the_cap_and_forgets_on_success() {
        let (mut schedule, now) = schedule();
        schedule.wake("a");
        let mut waits = Vec::new();
        let mut at = now;
        for _ in 0..12 {
            assert_eq!(schedule.take(at), Some("a"));
            schedule.done(&"a", Next::Retry, at);
            let due = schedule.next_due().expect("a retry is due");
            waits.push(due - at);
            at = due;
        }
        let first_within = |wait: Duration, full: Duration| wait >= full.mul_f64(0.8) && wait <= full;
        assert!(first_within(waits[0], SECOND) && first_within(waits[3], 8 * SECOND), "{waits:?}");
        assert!(first_within(waits[11], 300 * SECOND), "{waits:?}");
        assert_eq!((schedule.take(at), schedule.failures(&"a")), (Some("a"), 12));
        schedule.done(&"a", Next::AwaitChange, at);
        assert_eq!(schedule.failures(&"a"), 0);
    }

    #[test]
    fn a_wake_ends_a_delay_and_the_old_delay_does_not_run_it_again() {
        let (mut schedule, now) = schedule();
        schedule.wake("a");
        schedule.take(now);
        schedule.done(&"a", Next::After(SECOND), now);
        assert_eq!((schedule.take(now), schedule.next_due()), (None, Some(now + SECOND)));
        schedule.wake("a");
        assert_eq!((schedule.take(now), schedule.next_due()), (Some("a"), None));
        schedule.done(&"a", Next::Forget, now);
        assert_eq!((schedule.take(now + 700 * SECOND), schedule.next_due()), (None, None));
    }

    #[test]
    fn comes_back_after_the_resync_period() {
        let (mut schedule, now) = schedule();
        schedule.wake("a");
        schedule.take(now);
        schedule.done(&"a", Next::AwaitChange, now);
        assert_eq!(schedule.take(now + 400 * SECOND), None);
        assert_eq!(schedule.take(now + 600 * SECOND), Some("a"));
    }
}
