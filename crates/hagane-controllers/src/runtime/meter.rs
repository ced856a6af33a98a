//! The seam for counters.

use std::time::Duration;

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PassEnd {
    /// It came to its end; nothing or something to do later.
    Done,
    /// It ended in a fault that will pass.
    Retry,
    /// The object had moved on.
    Stale,
    /// It ran out of time.
    TimedOut,
    /// It panicked: a bug of ours.
    Panicked,
    /// The object cannot be read.
    Unreadable,
}

/// Hears of passes. Implementations must be quick; labels are categories, never names of objects.
pub trait Meter: Send + Sync {
    /// A pass of `controller` ended.
    fn pass(&self, controller: &'static str, end: PassEnd, took: Duration);
}

/// Counts nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMeter;

impl Meter for NoMeter {
    fn pass(&self, _: &'static str, _: PassEnd, _: Duration) {}
}
