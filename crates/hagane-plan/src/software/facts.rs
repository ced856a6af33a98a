//! What is known when a Software is decided on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hagane_api::bpa::software::SoftwareSpec;
use hagane_api::bpa::software_reasons::{PackageManager, SoftwareReason};
use hagane_api::bpa::software_status::SoftwareStatus;
use jiff::Timestamp;

use crate::provisioning::Login;

/// Everything a decision looks at. Each field is read anew in every pass.
#[derive(Clone, Debug)]
pub struct Facts {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Value of the retry annotation.
    pub retry: Option<String>,
    /// Time since its deletion was asked for.
    pub deleting: Option<Duration>,
    /// The time of the pass.
    pub now: Timestamp,
    /// The spec.
    pub spec: SoftwareSpec,
    /// The label `cluster`.
    pub cluster: Option<String>,
    /// The cluster of that name.
    pub standing: ClusterFact,
    /// The SSH key of its hosts.
    pub login: Login,
    /// What was recorded.
    pub status: SoftwareStatus,
    /// The other Softwares of the cluster.
    pub others: Vec<Other>,
    /// Answers of hosts by uid, once they were asked in this pass.
    pub answers: Option<BTreeMap<String, Answer>>,
}

/// The cluster that a Software is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterFact {
    /// No Provisioning of the namespace is for it.
    Missing,
    /// Nothing was installed yet.
    NotInstalled {
        /// Name of the Provisioning.
        provisioning: String,
    },
    /// It stands.
    Stands {
        /// Name of the Provisioning.
        provisioning: String,
        /// Why nothing new is to be begun now, where that is so.
        busy: Option<String>,
        /// Its nodes.
        nodes: Vec<ClusterNode>,
    },
}

/// A node of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterNode {
    /// Its name.
    pub node: String,
    /// Whether it is a master.
    pub master: bool,
    /// Whether it is a worker.
    pub worker: bool,
    /// Name of its host object.
    pub host: String,
    /// `metadata.uid` of its host object.
    pub host_uid: String,
    /// Why it cannot be asked at all; nothing where it can.
    pub unaskable: Option<String>,
}

/// Another Software of the same cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Other {
    /// Its name.
    pub name: String,
    /// Whether it was there before.
    pub older: bool,
    /// Whether it has its turn.
    pub turn: bool,
    /// Whether work of it goes on.
    pub works: bool,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its spec.
    pub spec: SoftwareSpec,
    /// Host uid and name of the packages that were installed for it.
    pub owns: BTreeSet<(String, String)>,
}

/// What a host is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The host's uid.
    pub host: String,
    /// Its node.
    pub node: String,
    /// Its package manager, where it is known.
    pub manager: Option<PackageManager>,
    /// Which of these packages are installed, in which version. A unit that runs on leaves them open.
    pub packages: Vec<String>,
    /// How this unit is doing, and whether a reboot is needed when it has ended.
    pub unit: Option<String>,
    /// Which boot this is.
    pub boot: bool,
    /// How its node is, as the cluster says.
    pub state: bool,
    /// Cordon its node and evict its pods once more.
    pub drain: bool,
}

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing, for this reason.
    Refused(SoftwareReason, String),
    /// This.
    Answered(Box<Answered>),
}

/// What a host, and its cluster, said. What was not asked has its default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Its package manager.
    pub manager: Option<PackageManager>,
    /// Installed packages and their versions, of those asked for.
    pub packages: Option<BTreeMap<String, String>>,
    /// The unit.
    pub unit: UnitSeen,
    /// The last lines that the unit printed.
    pub output: Option<String>,
    /// Identity of the boot.
    pub boot: Option<String>,
    /// Whether the package manager wants a reboot.
    pub reboot_required: bool,
    /// The node.
    pub node: NodeFact,
    /// The pods on the node.
    pub drain: DrainFact,
}

/// How a unit is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum UnitSeen {
    /// It was not asked after.
    #[default]
    NotAsked,
    /// There is none.
    Absent,
    /// It runs, or waits for this lock.
    Running(Option<String>),
    /// It ended well.
    Succeeded,
    /// It ended with this status; the second says whether the package manager was locked.
    Failed(i32, bool),
    /// Its time limit ended it.
    TimedOut,
    /// A signal ended it.
    Killed,
}

/// A node, as its cluster says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeFact {
    /// It was not asked after.
    #[default]
    NotAsked,
    /// No kubeconfig of the cluster is kept, for this reason.
    NoKubeconfig(String),
    /// The cluster does not answer.
    NoAnswer(String),
    /// The cluster has no such node.
    Absent,
    /// It is there.
    There {
        /// Whether it is ready.
        ready: bool,
        /// Whether nothing is scheduled on it.
        unschedulable: bool,
    },
}

/// The pods of a node that is being drained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DrainFact {
    /// They were not asked after.
    #[default]
    NotAsked,
    /// The cluster does not answer.
    NoAnswer(String),
    /// They are gone.
    Empty,
    /// These are there, each with what it waits for.
    Waiting(Vec<String>),
}
