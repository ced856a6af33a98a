//! The time, as a port: decisions get it as a value, tests set it.

use jiff::Timestamp;

/// A source of the current time.
pub trait Clock: Send + Sync {
    /// The current time in UTC.
    fn now(&self) -> Timestamp;
}

/// The machine's own clock: the one place that reads it for the control loops.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one adapter that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
