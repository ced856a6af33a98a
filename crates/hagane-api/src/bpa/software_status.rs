//! Status of a `Software`: what was done on each host, and what each host says.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::software_reasons::{JobStep, PackageManager, PackageState, SoftwareHostState, SoftwarePhase};
use crate::condition::Condition;

/// Status of a `Software`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SoftwareStatus {
    /// Where the work is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<SoftwarePhase>,
    /// Name of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds now, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Hosts of the cluster that have all packages, of how many: `2/3`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// Since when it has its turn among the Softwares of the cluster; absent while it changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub turn_since: Option<Timestamp>,
    /// Each host of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<SoftwareHost>,
}

/// One host of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SoftwareHost {
    /// Name of the `BareMetalHost`.
    pub host: String,
    /// `metadata.uid` of the `BareMetalHost`.
    pub host_uid: String,
    /// Kubernetes node name.
    pub node: String,
    /// Its package manager: `Apt` or `Dnf`; absent until it was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<PackageManager>,
    /// Where the host is.
    #[serde(default)]
    pub state: SoftwareHostState,
    /// What it waits for, or why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Why it failed, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Its packages: those asked for, and those that are still to be removed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<HostPackage>,
    /// The work that goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<HostJob>,
    /// Number of jobs so far: names of their units are never used again.
    #[serde(default)]
    pub jobs: i64,
    /// Jobs in a row that were lost or found the package manager busy.
    #[serde(default)]
    pub losses: i64,
    /// Generation of the spec that was carried out last, or tried.
    #[serde(default)]
    pub generation: i64,
    /// Value of the retry annotation that was answered last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<String>,
    /// When it last told its packages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub checked_at: Option<Timestamp>,
    /// The last lines that its package manager printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// One package on one host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostPackage {
    /// Its name.
    pub name: String,
    /// The exact version asked for, where one is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<String>,
    /// The version that is installed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<String>,
    /// How the two compare.
    #[serde(default)]
    pub state: PackageState,
    /// Whether it was not there before and came for this object: only then it is removed again.
    #[serde(default)]
    pub ours: bool,
}

/// Work on one host. It is stored before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostJob {
    /// What is done now.
    pub step: JobStep,
    /// Name of the unit that runs the package manager on the host.
    pub unit: String,
    /// Whether that unit was seen: gone after that, it is lost.
    #[serde(default)]
    pub begun: bool,
    /// When the step began.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Timestamp,
    /// When the step has failed at the latest.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub deadline: Timestamp,
    /// Whether the node was made unschedulable for this job.
    #[serde(default)]
    pub cordoned: bool,
    /// Identity of the boot before the reboot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// How the change ended, where it failed and the node is given back first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}
