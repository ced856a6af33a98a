//! What is known when a Provisioning is decided on.

use std::time::Duration;

use hagane_api::bpa::provisioning::{InstalledCluster, InstalledNode, PlannedRun, ProvisioningSpec, RolePlan};
use hagane_api::bpa::reasons::{RunVerb, RunWord};
use hagane_api::quantity::{MemoryMib, MilliCpus};

use crate::roles::HostFacts;

/// Everything a decision looks at. Each field is read anew in every pass.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether our finalizer is on the object.
    pub finalizer: bool,
    /// Whether the object is to be left alone.
    pub paused: bool,
    /// Value of the retry annotation.
    pub retry: Option<String>,
    /// Id of the run that a person asks to end.
    pub cancel: Option<String>,
    /// Id of the run of which a person knows that nothing lives any more.
    pub abandon: Option<String>,
    /// Id of the planned run that a person allows.
    pub approved: Option<String>,
    /// Value of the annotation that asks for new certificates.
    pub renew: Option<String>,
    /// Name of the cluster: the label `cluster`, else the object's name.
    pub cluster: String,
    /// The spec, or why it cannot be read.
    pub spec: Result<ProvisioningSpec, String>,
    /// Who owns the cluster's name.
    pub name_owner: NameOwner,
    /// The hosts of the namespace.
    pub hosts: Vec<Host>,
    /// `status.plan`.
    pub plan: Option<RolePlan>,
    /// The SSH key.
    pub login: Login,
    /// Why the installer that the spec asks for is not set up here; `None` where it is.
    pub installer_missing: Option<String>,
    /// Hosts that did not give their SSH host key, and why; `None` where none was asked in this pass.
    pub scans: Option<Vec<(String, String)>>,
    /// Answers to [`super::Action::CheckFacts`], once asked in this pass.
    pub checks: Option<Vec<HostCheck>>,
    /// `status.plannedRun`.
    pub planned: Option<PlannedRun>,
    /// The version that the cluster says of itself, without `v`, once asked in this pass.
    pub cluster_version: Option<String>,
    /// When certificates of the cluster end, one line, where that is soon.
    pub certificates_end: Option<String>,
    /// `status.run`.
    pub run: Option<RunRecord>,
    /// `status.installed`: what an earlier pass recorded. [`super::installed`] knows more.
    pub installed: Option<InstalledCluster>,
    /// What the installer says of the recorded run.
    pub seen: RunSeen,
    /// Whether [`super::Action::StartInstall`] failed in this pass.
    pub start: StartFact,
    /// Result of [`super::Action::FetchKubeconfig`], once fetched in this pass.
    pub kubeconfig: KubeconfigFact,
    /// The Secret of the kubeconfig's name.
    pub secret: SecretFact,
    /// Who we are: the value that our runs carry as holder. It outlives a restart.
    pub holder: String,
}

impl Facts {
    /// Whether the host of a node that stands is gone, or used by somebody else.
    pub(super) fn has_lost(&self, node: &InstalledNode) -> bool {
        let host = self.hosts.iter().find(|host| host.uid == node.host_uid);
        host.is_none_or(|host| matches!(host.claim, Claim::Other(_)))
    }

    /// Whether a run leaves a node out: a recovery is for the masters, and workers that are lost leave after it.
    pub(super) fn leaves_out(&self, run: &RunRecord, node: &InstalledNode) -> bool {
        let is_worker = !node.roles.iter().any(|role| role == "master");
        run.verb == RunVerb::RecoverControlPlane && is_worker && self.has_lost(node)
    }
}

/// Who owns the name of the cluster, over all namespaces and kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameOwner {
    /// We do, or nobody.
    Ours,
    /// Somebody else: kind, namespace and name.
    Taken(String),
}

/// A host of the namespace.
#[derive(Clone, Debug)]
pub struct Host {
    /// What is known of it. Its availability says nothing of claims: [`Self::claim`] does.
    pub facts: HostFacts,
    /// `metadata.uid` of the host object.
    pub uid: String,
    /// Who uses it.
    pub claim: Claim,
    /// Whether its SSH host keys are pinned.
    pub pinned: bool,
}

/// Who uses a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody.
    None,
    /// This Provisioning, by uid.
    Ours,
    /// Somebody else: kind, namespace and name.
    Other(String),
}

/// The SSH key of the hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Login {
    /// It is there.
    Present,
    /// The Secret is not there.
    Missing {
        /// Name of the Secret.
        secret: String,
    },
    /// The Secret holds no usable key.
    Invalid {
        /// Name of the Secret.
        secret: String,
        /// What is wrong.
        problem: String,
    },
}

/// What a host said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostCheck {
    /// Name of the host object.
    pub host: String,
    /// The answer.
    pub result: HostCheckResult,
}

/// The answer of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostCheckResult {
    /// It answered.
    Answered {
        /// Logical CPUs it can use.
        cpus: Option<MilliCpus>,
        /// Memory it can use.
        memory: Option<MemoryMib>,
    },
    /// It could not be reached, or the command failed.
    Unreachable(String),
    /// It showed another host key.
    HostKeyChanged(String),
    /// It refused the login.
    LoginRefused(String),
}

/// `status.run`, as a decision needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRecord {
    /// Id of the run.
    pub id: String,
    /// Generation of the spec it installs.
    pub generation: i64,
    /// Value of the retry annotation it answers.
    pub retry: Option<String>,
    /// What it is for.
    pub verb: RunVerb,
    /// Names of the nodes that join or leave by it.
    pub nodes: Vec<String>,
    /// Those of them that are gone or do not answer.
    pub lost: Vec<String>,
    /// The version that it installs or upgrades to, where one is asked for.
    pub version: Option<String>,
    /// Value of the annotation that a renewal answers.
    pub renews: Option<String>,
    /// Digest of what the spec asked for beside nodes; `None` where it was not recorded.
    pub settings: Option<String>,
    /// Who started it.
    pub holder: String,
    /// Recorded state.
    pub state: RunWord,
    /// Recorded reason of its end.
    pub message: Option<String>,
    /// Which try it is: 1 for the first.
    pub attempt: u32,
    /// Time since its intent was stored. For a run of another holder not more than this process has watched it: a clock
    /// that was set must not make a living run look dead.
    pub age: Duration,
    /// Time since its end, where it has ended.
    pub ended: Option<Duration>,
    /// The time limit that it was started with.
    pub limit: Duration,
}

/// What the installer says of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunSeen {
    /// It knows no such run, or none is recorded.
    Absent,
    /// It runs.
    Running {
        /// Current task and counts, one line.
        progress: String,
    },
    /// It ended.
    Finished(RunEnd),
    /// Its record cannot be read now.
    Unreadable(String),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The playbook ended with status 0.
    Succeeded,
    /// It ended with another status.
    Failed {
        /// Exit status.
        status: i32,
        /// First failed task and its host, where known.
        task: Option<(String, String)>,
        /// What that task said.
        message: String,
        /// Whether hosts could not be reached, and nothing else was wrong.
        unreachable: bool,
    },
    /// A signal ended it.
    Killed {
        /// Signal number.
        signal: i32,
    },
    /// The time limit ended it.
    TimedOut,
    /// The limit of time without a sign of life ended it.
    Stalled {
        /// The limit.
        limit: Duration,
        /// The task it was at.
        task: Option<String>,
    },
    /// The limit of one play ended it.
    PlayTimedOut {
        /// Name of the play.
        play: String,
        /// The limit.
        limit: Duration,
    },
    /// It was cancelled.
    Cancelled,
    /// Its record is gone: nobody knows what became of it.
    Lost,
    /// Whatever looked after it died, by the machine's end or by force, and what was left of it was ended.
    Interrupted,
    /// It could not be started.
    NotStarted {
        /// Why.
        message: String,
    },
}

/// Whether a start failed in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFact {
    /// It was not tried, or went well.
    NotTried,
    /// It failed.
    Failed(StartFailure),
}

/// Why a run could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartFailure {
    /// Something that must be there is not.
    Prerequisite(String),
    /// The request cannot be run as it is.
    Invalid(String),
    /// Another process holds the run.
    HeldElsewhere,
    /// Anything else.
    Other(String),
}

/// The kubeconfig of a successful run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KubeconfigFact {
    /// It was not fetched in this pass.
    NotFetched,
    /// The run left none, or one that cannot be used.
    Invalid(String),
    /// The cluster does not answer to it yet.
    NotAnswering(String),
    /// The cluster answers to it.
    Answers,
}

/// The Secret of the kubeconfig's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretFact {
    /// There is none.
    Absent,
    /// It carries our uid.
    Ours {
        /// Id of the run whose kubeconfig it keeps.
        run: Option<String>,
    },
    /// It belongs to somebody else.
    Foreign(String),
}
