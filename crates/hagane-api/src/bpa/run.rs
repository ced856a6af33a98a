//! `status.run` of a `Provisioning`: an installer run as its own record tells it, and the policy for runs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reasons::RunVerb;

/// How installer runs of a `Provisioning` are limited and tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunPolicy {
    /// How often the same run is tried again by itself where hosts could not be reached, or where its process vanished with
    /// the machine; 2 where not given, 0 for never. A task that failed is never tried again unasked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<i64>,
    /// Most minutes without a sign of life: no task began, ended or was tried again on any host. 30 where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub stall_minutes: Option<i64>,
    /// Most minutes that one play of the playbook may take; no such limit where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub play_minutes: Option<i64>,
}

/// An installer run, as its own record tells it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunStatus {
    /// The run's id.
    pub id: String,
    /// Which installer.
    pub installer: String,
    /// What it is for: `Install`, `AddWorkers`, `AddMasters`, `RemoveNodes`, `Upgrade`, `Reconfigure`, `RenewCertificates`,
    /// `Reset` or `RecoverControlPlane`.
    #[serde(default)]
    pub verb: RunVerb,
    /// Digest of what the spec asked for beside nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// The process that may start and watch it: another one never starts a second.
    pub holder: String,
    /// Which try of the run this is: 1 for the first. A further one has an id of its own and was recorded before it began.
    #[serde(default = "first_attempt")]
    pub attempt: i64,
    /// Generation of the spec it installs.
    #[serde(default)]
    pub generation: i64,
    /// Value of the retry annotation it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// When it was started (its intent stored).
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub started_at: Timestamp,
    /// When its time limit ends it at the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub deadline: Option<Timestamp>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub finished_at: Option<Timestamp>,
    /// When the run is tried again by itself, where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub retry_at: Option<Timestamp>,
    /// Seconds that earlier good runs of the same installer, version and verb lead to expect; absent where none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_seconds: Option<i64>,
    /// Seconds from start to end, once ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
    /// `Running`, `Succeeded`, `Failed`, `Killed`, `TimedOut`, `Cancelled`, `Lost` or `NotStarted`.
    pub state: String,
    /// Why it ended, one line; absent while it runs and where it succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Current play.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub play: Option<String>,
    /// Current task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Tasks begun so far.
    #[serde(default)]
    pub tasks_started: i64,
    /// Tasks in all, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tasks_total: Option<i64>,
    /// Plays in the order they began, the last 40: stages of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub plays: Vec<PlayTime>,
    /// The tasks that took longest so far, at most 10. All of them are in `timings.json` of the run's directory.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slowest: Vec<TaskTime>,
    /// Counts by host.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, HostCounts>,
    /// Failures seen, those that the run went on after left out: at most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<FailedTask>,
    /// Where the log is, on the machine that holds the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
}

impl RunStatus {
    /// The same run without anything of how it went: what a further try begins with.
    #[must_use]
    pub fn anew(&self) -> Self {
        Self {
            finished_at: None,
            retry_at: None,
            estimated_seconds: None,
            seconds: None,
            message: None,
            play: None,
            task: None,
            tasks_started: 0,
            tasks_total: None,
            plays: Vec::new(),
            slowest: Vec::new(),
            hosts: BTreeMap::new(),
            failures: Vec::new(),
            log: None,
            ..self.clone()
        }
    }
}

/// Task counts of one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostCounts {
    /// Went well.
    pub ok: i64,
    /// Changed something.
    pub changed: i64,
    /// Failed.
    pub failed: i64,
    /// Host not reachable.
    pub unreachable: i64,
    /// Skipped.
    pub skipped: i64,
}

/// A task that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedTask {
    /// Task name.
    pub task: String,
    /// Host.
    pub host: String,
    /// `failed` or `unreachable`.
    pub state: String,
    /// What the task said, one line. Nothing of a task that keeps its log secret.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The last lines of its output: at most 20 lines and 2 KiB, without control characters and secrets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// How long a play took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlayTime {
    /// Play name.
    pub play: String,
    /// Seconds from its begin to the begin of the next one, or to the run's end; absent while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<i64>,
}

/// How long a task took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskTime {
    /// Task name.
    pub task: String,
    /// The host on which it took that long.
    pub host: String,
    /// Whole seconds.
    pub seconds: i64,
}

/// The default of [`RunStatus::attempt`].
fn first_attempt() -> i64 {
    1
}
