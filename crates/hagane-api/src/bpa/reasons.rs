//! Phases, condition types and reasons of the agent's kinds.

use crate::words;

words! {
    /// Where a Provisioning is.
    pub enum ProvisioningPhase {
        /// Nothing was decided yet.
        Pending,
        /// Hosts, keys or facts are waited for.
        Waiting,
        /// The installer runs.
        Installing,
        /// The cluster stands and its kubeconfig is kept.
        Ready,
        /// The cluster stands, and is brought to what the spec asks for now.
        Updating,
        /// A person must act: see the conditions.
        Failed,
        /// It is being deleted.
        Deleting,
    }
}

words! {
    /// What the conditions of a Provisioning are about.
    pub enum ProvisioningCondition {
        /// The cluster stands, and its kubeconfig was checked and is kept. Its reason is the reason of the whole.
        Ready,
        /// The spec can be acted on.
        SpecValid,
        /// Every node has a host, and the plan is stored.
        HostsAssigned,
        /// Declared CPU and memory of a host differ from what the host itself says.
        FactsDiffer,
        /// The installer ended well.
        Installed,
        /// What the cluster is matches the spec as it is now.
        UpToDate,
        /// Add-ons that the spec names and that are not installed.
        PluginIgnored,
        /// The object is left alone.
        Paused,
    }
}

words! {
    /// Why a condition of a Provisioning is as it is.
    pub enum ProvisioningReason {
        /// The spec, or the name of the cluster, cannot be acted on: the message names field and value.
        InvalidSpec,
        /// The spec can be acted on.
        Valid,
        /// Another object owns the cluster's name: the message names it.
        ClusterNameTaken,
        /// The plan is made but not stored yet.
        Planning,
        /// No set of free hosts meets all demands: the message says what is short.
        NoSuitableHosts,
        /// Every node has a host.
        HostsAssigned,
        /// The hosts of the plan are being claimed.
        ClaimingHosts,
        /// The Secret with the SSH key is missing.
        SshKeyMissing,
        /// The Secret with the SSH key holds none that can be used.
        SshKeyInvalid,
        /// The SSH host keys are being pinned.
        PinningHostKeys,
        /// The hosts are asked for their CPU and memory.
        CheckingFacts,
        /// A host does not answer by SSH.
        HostUnreachable,
        /// A host shows another SSH key than the pinned one.
        HostKeyChanged,
        /// A host refuses the login.
        LoginRefused,
        /// A host of the plan no longer exists, or somebody else claimed it.
        HostLost,
        /// Declared and real facts agree within the tolerance.
        FactsAgree,
        /// Declared and real facts differ by more than the tolerance: the message names host, field and both values.
        FactsDiffer,
        /// The facts were not compared yet.
        FactsNotChecked,
        /// The run is recorded and about to start.
        Starting,
        /// The installer cannot start here yet: the message says what is missing.
        InstallerNotReady,
        /// The installer runs.
        Installing,
        /// Another process started the run and may still hold it.
        RunHeldElsewhere,
        /// The playbook failed: the message names task and host.
        InstallFailed,
        /// The run took longer than the time limit.
        InstallTimedOut,
        /// The run was killed or cancelled.
        InstallInterrupted,
        /// The run's process vanished without a record.
        RunLost,
        /// Hosts could not be reached during the run, or its process vanished: it is tried again by itself.
        RetryingRun,
        /// The playbook could not be started.
        InstallNotStarted,
        /// The installer ended well.
        Installed,
        /// The kubeconfig is fetched and checked.
        FetchingKubeconfig,
        /// The run left no kubeconfig that can be used.
        KubeconfigInvalid,
        /// The cluster does not answer to its kubeconfig.
        KubeconfigNotAnswering,
        /// A Secret of the kubeconfig's name belongs to somebody else.
        KubeconfigSecretTaken,
        /// The cluster stands.
        Ready,
        /// The spec is met.
        UpToDate,
        /// The spec asks for a change of the cluster that is not carried out: the message says which.
        SpecChanged,
        /// A run is planned that brings the cluster to what the spec asks for: see `status.plannedRun`.
        RunPlanned,
        /// The planned run may lose data: it waits for a person to approve it.
        WaitingForApproval,
        /// The spec asks for a Kubernetes version that this cluster cannot go to: the message says why.
        VersionNotReachable,
        /// Kubernetes is taken off the hosts because the object is deleted, and `spec.deletionPolicy` asks for that.
        ResettingHosts,
        /// Kubernetes could not be taken off the hosts: the message says why, and what can be done.
        ResetFailed,
        /// The installer brings no add-on of these names: the message names them.
        PluginUnknown,
        /// The spec names no add-on that would be left out.
        NoPluginIgnored,
        /// The object is paused.
        Paused,
        /// The object is not paused.
        NotPaused,
        /// The run is being ended because the object is deleted, or because a person asked for it.
        CancellingRun,
        /// Hosts and Secret are given back because the object is deleted.
        ReleasingHosts,
        /// Everything is given back.
        Released,
    }
}

words! {
    /// What a Provisioning waits for when it looks again after a while.
    pub enum ProvisioningWait {
        /// The owner of the cluster's name to go.
        ClusterName,
        /// Free hosts.
        Hosts,
        /// A Secret with an SSH key.
        SshKey,
        /// A host to answer by SSH.
        Ssh,
        /// The installer's prerequisites.
        Installer,
        /// The installer run.
        Run,
        /// Another process, or its time limit.
        OtherHolder,
        /// The time at which the run is tried again.
        Retry,
        /// The cluster to answer.
        Cluster,
        /// The owner of the kubeconfig's Secret to go.
        KubeconfigSecret,
        /// A cancelled run to end.
        Cancellation,
        /// Hosts and Secret to be given back.
        Release,
    }
}

words! {
    /// What an installer run is for, in `status.run.verb`.
    pub enum RunVerb {
        /// To make a cluster.
        Install,
        /// To join further workers to a cluster that stands.
        AddWorkers,
        /// To join further masters to a cluster that stands.
        AddMasters,
        /// To take nodes out of a cluster that stands.
        RemoveNodes,
        /// To bring the nodes to another Kubernetes version.
        Upgrade,
        /// To carry out changed settings on the nodes that stand.
        Reconfigure,
        /// To renew the certificates of the control plane and the kubeconfig.
        RenewCertificates,
        /// To take Kubernetes off the hosts.
        Reset,
        /// To make a control plane whole again that lost masters for good.
        RecoverControlPlane,
    }
}

impl RunVerb {
    /// Whether the same run may be tried again unasked. A control plane that is being recovered is looked at first.
    #[must_use]
    pub const fn may_be_tried_again(self) -> bool {
        !matches!(self, Self::RecoverControlPlane)
    }
}

impl RunVerb {
    /// Whether nodes join by it.
    #[must_use]
    pub const fn joins(self) -> bool {
        matches!(self, Self::AddWorkers | Self::AddMasters)
    }

    /// Whether it leaves another kubeconfig than the one that is kept.
    #[must_use]
    pub const fn makes_kubeconfig(self) -> bool {
        matches!(self, Self::Install | Self::RenewCertificates | Self::RecoverControlPlane)
    }
}

impl Default for RunVerb {
    /// Runs of earlier versions name none: they installed.
    fn default() -> Self {
        Self::Install
    }
}

words! {
    /// State of an installer run in `status.run.state`.
    pub enum RunWord {
        /// Recorded, and started any moment.
        Starting,
        /// It runs.
        Running,
        /// It ended well.
        Succeeded,
        /// A task failed.
        Failed,
        /// A signal ended it.
        Killed,
        /// The time limit ended it.
        TimedOut,
        /// It was cancelled.
        Cancelled,
        /// It vanished without a record.
        Lost,
        /// It could not be started.
        NotStarted,
    }
}

impl RunWord {
    /// Whether the run has ended.
    #[must_use]
    pub const fn is_final(self) -> bool {
        !matches!(self, Self::Starting | Self::Running)
    }

    /// Reads the spelling in objects.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|word| word.as_str() == text)
    }
}
