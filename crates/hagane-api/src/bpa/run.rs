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
    /// Names of the nodes that join or leave by it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Those of them that are gone or do not answer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// The Kubernetes version that an installation or upgrade is to, where one is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Value of the annotation that a renewal of certificates answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renews: Option<String>,
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
    /// The playbook that it began with and the run it goes on from, where an earlier run of the same had finished others. A
    /// value of the retry annotation that begins with `from-start` makes a run begin with its first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resumed: Option<String>,
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

/// A run that has not begun.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedRun {
    /// The id that it will have. Another reason for a run, other nodes or another version make another id.
    pub id: String,
    /// What it is for, as in `status.run.verb`.
    pub verb: RunVerb,
    /// Names of the nodes that join or leave by it; empty where it is for all that stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Those of them that are gone or do not answer: they leave the cluster without being asked, and stay as they are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<String>,
    /// The Kubernetes version of the cluster, where an upgrade is planned and it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_version: Option<String>,
    /// The Kubernetes version after an upgrade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_version: Option<String>,
    /// What it is for, one line.
    pub reason: String,
    /// Whether it waits until the annotation `hagane.dev/approve-run` names it, because data may be lost: members of
    /// etcd leave, or nodes that cannot be emptied first.
    #[serde(default)]
    pub needs_approval: bool,
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
            resumed: None,
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
