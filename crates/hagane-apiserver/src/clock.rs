//! The only place that reads the time of day.

use jiff::Timestamp;

/// Now.
#[expect(clippy::disallowed_methods, reason = "this is the one place")]
pub(crate) fn now() -> Timestamp {
    Timestamp::now()
}
