//! Processes named so that a number used again is not taken for the old process.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// A process number together with the time its process started, in clock ticks since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    /// Number in the machine's own process namespace.
    pub pid: u32,
    /// Field 22 of /proc/PID/stat.
    pub start_time: u64,
}

impl ProcessId {
    /// The process that has this number now; `None` when there is none, or when it has ended and waits to be reaped.
    pub fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields = fields_after_name(&stat)?;
        let (state, start_time) = (*fields.first()?, fields.get(19)?.parse().ok()?);
        (state != "Z" && state != "X").then_some(Self { pid, start_time })
    }

    /// This process.
    pub fn current() -> Self {
        let pid = std::process::id();
        Self::of(pid).unwrap_or(Self { pid, start_time: 0 })
    }

    /// Whether this very process still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid) == Some(*self)
    }

    /// Kills the process if it is still the same one. Already gone is fine.
    pub fn kill(&self) {
        if self.is_alive() {
            kill(self.pid);
        }
    }
}

/// Sends SIGKILL; a process that is gone is fine.
pub(crate) fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone_already = kill_process(pid, Signal::KILL);
    }
}

/// Asks until the answer is yes or the time is over; gives the last answer.
pub(crate) fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if done() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The fields of /proc/PID/stat from the state on: the name before them may hold blanks and brackets.
pub(crate) fn fields_after_name(stat: &str) -> Option<Vec<&str>> {
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_test_is_alive_and_an_earlier_process_of_its_number_is_not() {
        let current = ProcessId::current();
        assert!(current.is_alive());
        assert!(!ProcessId { start_time: current.start_time + 1, ..current }.is_alive());
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_the_fields() {
        let fields = fields_after_name("12 (a) b) S 1 2").expect("has a name");
        assert_eq!(fields, ["S", "1", "2"]);
    }
}
