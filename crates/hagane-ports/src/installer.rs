//! Installing Kubernetes on hosts: a run is started, recorded, watched; never awaited.
//!
//! # Contract
//! - `start` is idempotent by [`InstallRequest::run_id`]: a second call with the same id finds the first run.
//! - A run survives the end of this process and is found again by its id.
//! - Values in [`InstallRequest::variables`] are data: they are never evaluated as templates.
//! - What a run did is told by its own record (progress lines and the exit record), never by the plan.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Which installer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstallerKind {
    /// Our own playbooks around kubeadm.
    Kubeadm,
    /// An operator's checkout of kubespray.
    Kubespray,
}

/// Role of a node. A node may have both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// Control plane and etcd member.
    Master,
    /// Worker.
    Worker,
}

/// One line of the inventory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InventoryNode {
    /// Kubernetes node name, an RFC 1123 label.
    pub name: String,
    /// Address for SSH and for the cluster.
    pub address: IpAddr,
    /// SSH port.
    pub ssh_port: u16,
    /// Roles, in order, without repeats.
    pub roles: Vec<NodeRole>,
    /// Its address of the other IP family, for a cluster with both.
    #[serde(default)]
    pub second_address: Option<IpAddr>,
}

/// How an inventory is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InventoryFormat {
    /// `hosts.ini`.
    #[default]
    Ini,
    /// `hosts.yaml`.
    Yaml,
}

/// Which names the groups and the host variables of an inventory have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupNames {
    /// Those of kubespray today: `kube_control_plane`, `kube_node`, `k8s_cluster`, `ansible_host`.
    #[default]
    Current,
    /// Those of 2019: `kube-master`, `kube-node`, `k8s-cluster`, `ansible_ssh_host`.
    Legacy,
}

/// The hosts of a run, in an order that never changes for a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Inventory {
    /// Nodes in stable order.
    pub nodes: Vec<InventoryNode>,
    /// How it is written.
    #[serde(default)]
    pub format: InventoryFormat,
    /// Names of its groups.
    #[serde(default)]
    pub group_names: GroupNames,
}

/// How the hosts are logged in to.
#[derive(Clone)]
pub struct SshAccess {
    /// Login user.
    pub user: String,
    /// Private key text; written only to a file of mode 0600 in the run directory.
    pub private_key: String,
    /// `known_hosts` lines for every node; checking is strict.
    pub known_hosts: Vec<String>,
}

/// What a run is for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstallVerb {
    /// To make a cluster of all nodes.
    #[default]
    Install,
    /// To join these nodes, by name, to the cluster that the other nodes of the inventory are. What these are stays.
    AddWorkers(Vec<String>),
    /// To join these nodes, by name, as members of the control plane and of etcd (and as workers where their roles say
    /// so), one after the other. They come last among the masters of the inventory.
    AddMasters(Vec<String>),
    /// To take nodes out of the cluster: drained, out of the API and of etcd, and made blank where they can be reached. The
    /// inventory still holds them; the first master is never among them.
    RemoveNodes {
        /// Names of the nodes to take out.
        nodes: Vec<String>,
        /// Those of them that do not answer: they are taken out of the cluster without being asked.
        lost: Vec<String>,
    },
    /// To bring every node to another Kubernetes version: at most one minor version on, masters first, one node after the
    /// other, each drained before.
    Upgrade {
        /// The version, without `v`.
        version: String,
    },
    /// To carry out changed variables on the nodes that stand.
    Reconfigure,
    /// To renew the certificates of the control plane and the kubeconfig.
    RenewCertificates,
    /// To take Kubernetes off all nodes of the inventory.
    Reset,
    /// To make a control plane whole again that lost these masters for good; their quorum may be gone.
    RecoverControlPlane {
        /// Names of the masters that are lost; the inventory still holds them.
        lost: Vec<String>,
    },
}

/// Everything an installer run needs.
#[derive(Clone)]
pub struct InstallRequest {
    /// Names the run for ever: derived from the owner's uid and the generation.
    pub run_id: String,
    /// `metadata.uid` of the owner.
    pub owner_uid: String,
    /// Name of the cluster.
    pub cluster: String,
    /// What it is for.
    pub verb: InstallVerb,
    /// The hosts.
    pub inventory: Inventory,
    /// What the user asked for, by variable name; data, never templates.
    pub variables: BTreeMap<String, serde_json::Value>,
    /// Login.
    pub ssh: SshAccess,
    /// The one time limit of the whole run.
    pub time_limit: Duration,
    /// The other limits.
    pub limits: RunLimits,
}

/// Limits beside that of the whole run. They are kept by the run itself, on a clock that nobody can set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// Most time without a sign of life: no task began, ended or was tried again on any host.
    pub stall: Option<Duration>,
    /// Most time for one play.
    pub play: Option<Duration>,
    /// Begin with the first playbook in any case. Otherwise those that an earlier run of the same has finished are passed over.
    pub from_start: bool,
}

/// Finds a run again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunHandle {
    /// The run's id.
    pub id: String,
    /// Directory with the inventory, the log, the progress and the exit record.
    pub directory: PathBuf,
}

/// Counts per host as Ansible gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostStats {
    /// Tasks that went well.
    pub ok: u32,
    /// Tasks that changed something.
    pub changed: u32,
    /// Tasks that failed.
    pub failed: u32,
    /// Times the host was unreachable.
    pub unreachable: u32,
    /// Tasks skipped.
    pub skipped: u32,
}

/// A task that failed, and where. Arguments are never part of it, and nothing of a task that keeps its log secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskFailure {
    /// Task name.
    pub task: String,
    /// Host it failed on.
    pub host: String,
    /// `failed` or `unreachable`.
    pub state: String,
    /// What the task said, one line, without control characters and secrets.
    #[serde(default)]
    pub message: String,
    /// The last lines of its output: at most 20 lines and 2 KiB, without control characters and secrets.
    #[serde(default)]
    pub output: String,
}

/// How long a play took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlayTime {
    /// Play name.
    pub play: String,
    /// Until the next one began or the run ended; `None` while it runs.
    pub milliseconds: Option<u64>,
}

/// How long a task took on a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskTime {
    /// Task name.
    pub task: String,
    /// Host.
    pub host: String,
    /// From its begin to its end there.
    pub milliseconds: u64,
}

/// How far a run has come, from its progress file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunProgress {
    /// The playbook that it began with and the run it goes on from, where it did not begin with its first one.
    #[serde(default)]
    pub resumed: Option<String>,
    /// Current play.
    pub play: Option<String>,
    /// Current task.
    pub task: Option<String>,
    /// Tasks begun so far.
    pub tasks_started: u32,
    /// Tasks in all, where known before.
    pub tasks_total: Option<u32>,
    /// Counts by host.
    pub hosts: BTreeMap<String, HostStats>,
    /// Failures seen, first ones first, at most 16. Once the run has told its closing counts, those of hosts that came
    /// through all the same are left out.
    pub failures: Vec<TaskFailure>,
    /// Plays in the order they began, at most the last 40.
    pub plays: Vec<PlayTime>,
    /// The tasks that took longest, longest first, each with its slowest host, at most 10.
    pub slowest: Vec<TaskTime>,
}

impl RunProgress {
    /// Whether the run broke because hosts could not be reached, and for nothing else.
    #[must_use]
    pub fn only_unreachable(&self) -> bool {
        let counts = |count: fn(&HostStats) -> u32| self.hosts.values().map(count).any(|count| count > 0);
        counts(|host| host.unreachable)
            && !counts(|host| host.failed)
            && self.failures.iter().all(|failure| failure.state == "unreachable")
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RunExit {
    /// The playbook ended with status 0.
    Succeeded,
    /// The playbook ended with another status.
    Failed {
        /// Its exit status.
        status: i32,
    },
    /// A signal ended the child.
    Killed {
        /// Signal number.
        signal: i32,
    },
    /// The time limit ran out and the run was ended.
    TimedOut,
    /// There was no sign of life for too long and the run was ended.
    Stalled {
        /// The limit.
        seconds: u64,
    },
    /// One play took too long and the run was ended.
    PlayTimedOut {
        /// Name of the play.
        play: String,
        /// The limit.
        seconds: u64,
    },
    /// It was cancelled.
    Cancelled,
    /// The runner died without writing an exit record (machine reset, kill -9).
    Lost,
    /// The playbook could not be started.
    NotStarted {
        /// Why, one line.
        message: String,
    },
}

/// State of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunState {
    /// No such run is known here.
    Absent,
    /// It runs.
    Running,
    /// It ended.
    Finished(RunExit),
}

/// What can be seen of a run now.
#[derive(Clone, Debug, PartialEq)]
pub struct RunObservation {
    /// State.
    pub state: RunState,
    /// Progress so far.
    pub progress: RunProgress,
    /// When it started, from its record.
    pub started_at: Option<Timestamp>,
    /// When it ended, from its record.
    pub finished_at: Option<Timestamp>,
    /// Where the log is.
    pub log: PathBuf,
    /// How long earlier good runs of its kind lead to expect it to take; `None` where none does.
    pub estimate: Option<Duration>,
}

/// Why an installer operation failed.
#[derive(Debug, thiserror::Error)]
pub enum InstallerError {
    /// Something that must be there before a run is not (checkout, payload, ansible).
    #[error("{what} is missing: {detail}")]
    Prerequisite {
        /// What is missing.
        what: String,
        /// Where it was looked for and how to get it.
        detail: String,
    },
    /// The request cannot be run as it is.
    #[error("{field}: {value:?} is not possible: {allowed}")]
    Invalid {
        /// Which value.
        field: String,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A check before the run says no.
    #[error("preflight check {check}: {detail}")]
    Preflight {
        /// Name of the check.
        check: &'static str,
        /// What was found and what is wanted.
        detail: String,
    },
    /// Another process holds the run.
    #[error("run {id} is held elsewhere")]
    HeldElsewhere {
        /// The run's id.
        id: String,
    },
    /// The run directory cannot be used (disk full, no permission, …).
    #[error("failed to {operation}")]
    Directory {
        /// What was tried.
        operation: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The run could not be started or observed.
    #[error("failed to {operation}")]
    Failed {
        /// What was tried.
        operation: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Installs Kubernetes on hosts. See the module's contract.
#[async_trait]
pub trait ClusterInstaller: Send + Sync {
    /// Which one it is.
    fn kind(&self) -> InstallerKind;

    /// Writes the run directory and starts the run; returns once it is on its way.
    ///
    /// # Errors
    /// Any [`InstallerError`]; a failed start leaves either nothing or a run that [`Self::observe`] finds.
    async fn start(&self, request: &InstallRequest) -> Result<RunHandle, InstallerError>;

    /// Reads the run's own record.
    ///
    /// # Errors
    /// [`InstallerError::Directory`] where the record cannot be read.
    async fn observe(&self, run_id: &str) -> Result<RunObservation, InstallerError>;

    /// The kubeconfig that a successful run left, with the server's address as the hosts know it.
    ///
    /// # Errors
    /// [`InstallerError::Directory`] where it cannot be read; `Ok(None)` where the run left none or an empty one.
    async fn kubeconfig(&self, run_id: &str) -> Result<Option<Vec<u8>>, InstallerError>;

    /// Ends the run's whole process tree. Harmless when it has ended already.
    ///
    /// # Errors
    /// Any [`InstallerError`].
    async fn cancel(&self, run_id: &str) -> Result<(), InstallerError>;

    /// Removes the run directory of an ended run.
    ///
    /// # Errors
    /// [`InstallerError::Directory`].
    async fn forget(&self, run_id: &str) -> Result<(), InstallerError>;

    /// Removes the directories of all ended runs of an owner: earlier tries, and those whose record was lost.
    ///
    /// # Errors
    /// [`InstallerError::HeldElsewhere`] where one of them still runs; [`InstallerError::Directory`].
    async fn forget_owned(&self, owner_uid: &str) -> Result<(), InstallerError>;
}
