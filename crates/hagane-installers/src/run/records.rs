//! The supervisor's records: who started, how it ended.

use hagane_ports::installer::RunExit;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The time for a record. A supervisor is a process of its own, without the clock that decisions get.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "records tell when something happened; nothing is decided by them")]
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// Who supervises a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Started {
    /// Process id of the supervisor.
    pub pid: i32,
    /// Its start time in clock ticks since boot: with the pid it names the process for ever.
    pub start_ticks: u64,
    /// Identifier of the boot in which that holds.
    pub boot_id: String,
    /// When it started.
    pub started_at: Timestamp,
    /// The control group that systemd made for the run alone, where it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The step that it begins with and the run it goes on from, where it passes over finished steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<String>,
    /// Seconds that earlier runs of its kind lead to expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_seconds: Option<u64>,
}

/// How far a run has come: written after each step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepsDone {
    /// Steps from the first on that are finished, in this run or in those that it goes on from.
    pub done: usize,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExitRecord {
    /// The outcome.
    pub exit: RunExit,
    /// When; for a lost run, when the loss was seen.
    pub finished_at: Timestamp,
    /// Bytes of output that could not be kept.
    #[serde(default)]
    pub dropped_output_bytes: u64,
}
