//! What a run is to do, written before it starts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use hagane_ports::installer::InstallerKind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The environment variable that marks every process of a run; see [`super::process`].
pub const MARKER_VARIABLE: &str = "HAGANE_RUN_MARKER";

/// An unprivileged user that Ansible runs as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunUser {
    /// Login name.
    pub name: String,
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
}

/// What makes two runs alike enough to expect the same time of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunKind {
    /// Which installer.
    pub installer: InstallerKind,
    /// What for, one word.
    pub verb: String,
    /// Version of what is installed and of what installs it.
    pub version: String,
    /// Number of nodes worked on.
    pub nodes: u32,
}

/// One step of a run, as far as it matters to going on from an earlier run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stage {
    /// Name of the playbook.
    pub name: String,
    /// It is run in any case.
    pub always: bool,
}

/// An earlier run of the same that got so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resume {
    /// Its id.
    pub run_id: String,
    /// Steps that are finished.
    pub done: usize,
}

/// By what the processes of a run are known.
#[derive(Clone, Copy, Debug)]
pub struct Marks<'a> {
    /// Value of [`MARKER_VARIABLE`] in their environment.
    pub marker: &'a str,
    /// Directory of ssh's sockets. A process that keeps a shared connection alive has overwritten its environment with
    /// a title, and the title names its socket.
    pub sockets: &'a Path,
    /// A process whose descendants all are the run's: a supervisor that adopts what loses its parent.
    pub tree: Option<i32>,
    /// The control group that systemd made for the run alone, as the kernel names it.
    pub group: Option<&'a str>,
}

/// One run, complete: the supervisor reads nothing else. It holds no secrets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Intent {
    /// The run's id.
    pub run_id: String,
    /// `metadata.uid` of the owner.
    pub owner_uid: String,
    /// Name of the cluster.
    pub cluster: String,
    /// Which installer made this.
    pub installer: InstallerKind,
    /// When it was written.
    pub created_at: Timestamp,
    /// The program, by absolute path.
    pub program: PathBuf,
    /// Its arguments for what it does first, one list a step. A step that fails ends the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Vec<String>>,
    /// Its arguments for what it does last.
    pub arguments: Vec<String>,
    /// Its whole environment, but for the marker.
    pub environment: BTreeMap<String, String>,
    /// Where it runs.
    pub working_directory: PathBuf,
    /// The time limit, in seconds.
    pub time_limit_seconds: u64,
    /// Most seconds without a sign of life.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stall_limit_seconds: Option<u64>,
    /// Most seconds for one play.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub play_limit_seconds: Option<u64>,
    /// What the run is compared with; absent where it is compared with nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<RunKind>,
    /// Seconds that earlier runs of that kind lead to expect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate_seconds: Option<u64>,
    /// All steps in order; absent in records of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<Stage>,
    /// Digest of all that is to be done: two runs of one digest do the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub same: Option<String>,
    /// The run that this one goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume: Option<Resume>,
    /// Most bytes of output kept.
    pub log_limit_bytes: u64,
    /// The user it runs as; absent means the supervisor's own.
    pub user: Option<RunUser>,
    /// Unguessable value that marks the run's processes.
    pub marker: String,
    /// Where ssh keeps the sockets of its shared connections.
    #[serde(default)]
    pub sockets: PathBuf,
    /// Directories outside the run directory that go when it ends.
    pub remove_at_end: Vec<PathBuf>,
    /// The installer and what it runs with, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// What the installer keeps of the run once it has ended well.
    #[serde(default)]
    pub then: Value,
}

impl Intent {
    /// Whether the step of that number is finished already, by the run that this one goes on from.
    #[must_use]
    pub fn is_passed_over(&self, step: usize) -> bool {
        let done = self.resume.as_ref().map_or(0, |resume| resume.done);
        step < done && !self.stages.get(step).is_some_and(|stage| stage.always)
    }

    /// The step that it begins with and the run it goes on from, where it passes over finished ones.
    #[must_use]
    pub fn resumed(&self) -> Option<String> {
        let resume = self.resume.as_ref()?;
        let step = self.stages.get(resume.done)?;
        let (number, of) = (resume.done + 1, self.stages.len());
        Some(format!("step {number} of {of}, {}, where run {} ended", step.name, resume.run_id))
    }

    /// By what the run's processes are known.
    #[must_use]
    pub fn marks(&self) -> Marks<'_> {
        Marks { marker: &self.marker, sockets: &self.sockets, tree: None, group: None }
    }
}
