//! What a run is to do, written before it starts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hagane_ports::installer::InstallerKind;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

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
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its whole environment, but for the marker.
    pub environment: BTreeMap<String, String>,
    /// Where it runs.
    pub working_directory: PathBuf,
    /// The time limit, in seconds.
    pub time_limit_seconds: u64,
    /// Most bytes of output kept.
    pub log_limit_bytes: u64,
    /// The user it runs as; absent means the supervisor's own.
    pub user: Option<RunUser>,
    /// Unguessable value that marks the run's processes.
    pub marker: String,
    /// Directories outside the run directory that go when it ends.
    pub remove_at_end: Vec<PathBuf>,
}
