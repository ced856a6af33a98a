//! What the demo prints: each phase with its own time and the time since the start.

use std::time::Instant;

use anyhow::Result;

/// Prints phases.
pub struct Show {
    begin: Instant,
}

impl Show {
    /// Starts the clock.
    pub fn new() -> Self {
        Self { begin: Instant::now() }
    }

    /// Does one phase; tells of its start, its end and its time.
    pub fn phase<T>(&self, name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        println!("[{}] {name} ...", self.elapsed());
        let outcome = work();
        let word = if outcome.is_ok() { "done" } else { "FAILED" };
        println!("[{}] {name}: {word} in {:.1} s", self.elapsed(), begin.elapsed().as_secs_f64());
        outcome
    }

    /// Prints one line under a phase.
    pub fn note(&self, text: &str) {
        println!("[{}]   {text}", self.elapsed());
    }

    /// Prints a block as it is.
    pub fn text(&self, text: &str) {
        println!("\n{}\n", text.trim_end());
    }

    fn elapsed(&self) -> String {
        let seconds = self.begin.elapsed().as_secs();
        format!("{:02}:{:02}", seconds / 60, seconds % 60)
    }
}
