//! A Provisioning: hosts in, a Kubernetes cluster out.
//!
//! # Order
//! Plan stored, hosts claimed, host keys pinned, facts compared, run intent stored, run started, run observed,
//! kubeconfig checked, kubeconfig kept. Each step is decided from what is recorded and seen, so a crash between any
//! two of them goes on where it stopped; nothing that was stored is decided a second time.
//!
//! # A cluster that stands
//! What the last successful run left is recorded beside the plan. A later spec is compared with that, and the difference
//! becomes runs, one after the other, while the cluster stays ready: what was lost goes out, what is not asked for any
//! more is removed, masters join, workers join, then the version, the settings, the certificates. Each run is stored as
//! planned before its intent; one that may lose data waits there for a person. What is not carried out is said.
//!
//! # Asking again
//! Some actions find something out instead of changing what the API holds (see [`Action::asks_again`]). Their result
//! goes into the facts, and [`decide`] is asked again in the same pass; only the last answer is recorded.

mod addons;
mod assign;
mod decide;
mod demands;
mod facts;
mod order;
mod preview;
#[cfg(test)]
mod tests;

pub use assign::assign_roles;
pub use decide::{decide, installed, planned_run, retry_pause, told};
pub use demands::{Wanted, wanted};
pub use facts::{
    Claim, Facts, Host, HostCheck, HostCheckResult, KubeconfigFact, Login, NameOwner, RunEnd, RunRecord, RunSeen,
    SecretFact, StartFact, StartFailure,
};
pub use order::{InstallOrder, OrderNode, asked_version, run_id, settings, time_limit};
pub use preview::Preview;

use hagane_api::bpa::provisioning::{PlannedRun, RolePlan};
use hagane_api::bpa::reasons::{ProvisioningPhase, ProvisioningWait, RunVerb};

/// What to do about a Provisioning.
pub type Decision = crate::decision::Decision<Action, ProvisioningPhase, ProvisioningWait>;

/// Names a host object for ever.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostRef {
    /// Name of the host object.
    pub name: String,
    /// `metadata.uid` of the host object: a precondition of every change.
    pub uid: String,
}

/// One thing to do. Every action is idempotent: "already so" is success.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Put our finalizer on the object.
    AddFinalizer,
    /// Store the plan in status. Nothing else happens in the pass.
    RecordPlan(Box<RolePlan>),
    /// Set `spec.consumerRef` of the hosts, with their resource version as a precondition.
    ClaimHosts(Vec<HostRef>),
    /// Ask the hosts for their SSH host keys and store them on the host objects; failures go into [`Facts::scans`].
    PinHostKeys(Vec<HostRef>),
    /// Ask the hosts over SSH for their CPUs and memory: the answers go into [`Facts::checks`].
    CheckFacts(Vec<HostRef>),
    /// Store the run that comes next in status, or that none is planned any more.
    RecordPlannedRun(Option<Box<PlannedRun>>),
    /// Store `status.run` with state `Starting`, and that no run is planned. Nothing else happens in the pass.
    RecordRunIntent {
        /// Id of the run.
        id: String,
        /// Generation of the spec that it installs.
        generation: i64,
        /// Value of the retry annotation that it answers.
        retry: Option<String>,
        /// What it is for.
        verb: RunVerb,
        /// Names of the nodes that join or leave by it.
        nodes: Vec<String>,
        /// Those of them that are gone or do not answer.
        lost: Vec<String>,
        /// The version that it installs or upgrades to, where one is asked for.
        version: Option<String>,
        /// Value of the annotation that a renewal answers.
        renews: Option<String>,
        /// Digest of what the spec asks for beside nodes.
        settings: Option<String>,
    },
    /// Store the recorded run's next try, with state `Starting` and an id of its own. Nothing else happens in the pass.
    RetryRun {
        /// Id of the try.
        id: String,
        /// Which try it is.
        attempt: u32,
    },
    /// Start the recorded run. A failure goes into [`Facts::start`].
    StartInstall(Box<InstallOrder>),
    /// End the run's process tree.
    CancelRun {
        /// Id of the run.
        id: String,
    },
    /// Read the kubeconfig that the run left and try it on the cluster: the result goes into [`Facts::kubeconfig`].
    FetchKubeconfig {
        /// Id of the run.
        run: String,
    },
    /// Keep the kubeconfig that was checked, in a Secret with our uid and the run's id.
    StoreKubeconfig {
        /// Id of the run.
        run: String,
    },
    /// Delete the Secret with the kubeconfig, if it carries our uid.
    DeleteKubeconfigSecret,
    /// Clear `spec.consumerRef` of the hosts, where it is ours.
    ReleaseHosts(Vec<HostRef>),
    /// Remove the directories of all our runs.
    ForgetRuns,
    /// Take our finalizer off the object.
    RemoveFinalizer,
}

impl Action {
    /// Whether its result goes into the facts, and [`decide`] is to be asked again in the same pass.
    /// [`Action::StartInstall`] asks again where it failed.
    #[must_use]
    pub const fn asks_again(&self) -> bool {
        matches!(
            self,
            Self::PinHostKeys(_) | Self::CheckFacts(_) | Self::FetchKubeconfig { .. } | Self::StartInstall(_)
        )
    }
}
