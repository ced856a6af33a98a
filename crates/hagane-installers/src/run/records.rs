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
    /// Seconds that earlier runs of its kind lead to expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_seconds: Option<u64>,
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
