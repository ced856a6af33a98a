//! One line a phase, with the time it took.

use std::time::Instant;

use anyhow::Result;

/// Where progress lines go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Standard error.
    Shown,
    /// Nowhere.
    Silent,
}

impl Progress {
    /// Does one phase and tells of its start, its end and its time.
    ///
    /// # Errors
    /// Those of the phase.
    pub fn phase<T>(self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        self.line(&format!("lab: {name} ..."));
        let outcome = work();
        let word = if outcome.is_ok() { "done" } else { "FAILED" };
        self.line(&format!("lab: {name} {word} ({:.1} s)", begin.elapsed().as_secs_f64()));
        outcome
    }

    /// Tells one thing.
    pub fn line(self, text: &str) {
        if self == Self::Shown {
            eprintln!("{text}");
        }
    }
}
