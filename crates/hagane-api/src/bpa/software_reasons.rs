//! Phases, condition types, reasons and states of a Software.

use crate::words;

words! {
    /// Where a Software is.
    pub enum SoftwarePhase {
        /// Something is waited for.
        Waiting,
        /// Packages are changed.
        Installing,
        /// Every host has what is asked for.
        Ready,
        /// A person must act: see the conditions.
        Failed,
        /// It is being deleted.
        Deleting,
    }
}

words! {
    /// What the conditions of a Software are about.
    pub enum SoftwareCondition {
        /// Every host of the cluster was given what is asked for. Its reason is the reason of the whole.
        Ready,
        /// The spec can be acted on.
        SpecValid,
        /// The hosts have what is asked for, as they said when they were asked last.
        UpToDate,
    }
}

words! {
    /// Why a condition of a Software is as it is.
    pub enum SoftwareReason {
        /// The spec cannot be acted on: the message names field and value.
        InvalidSpec,
        /// The label `cluster` is missing.
        ClusterUnnamed,
        /// The spec asks for two versions of one package on one node, or another Software of the cluster asks for another one.
        PackageConflict,
        /// The spec can be acted on.
        Valid,
        /// No Provisioning of the namespace is for a cluster of this name.
        ClusterMissing,
        /// The cluster does not stand yet.
        ClusterNotInstalled,
        /// The installer works on the cluster.
        ClusterBusy,
        /// Another Software works on the cluster.
        WaitingForTurn,
        /// The Secret with the SSH key is missing.
        SshKeyMissing,
        /// The Secret with the SSH key holds none that can be used.
        SshKeyInvalid,
        /// No SSH host key of a host is pinned, or its host object is gone.
        HostKeyUnknown,
        /// A host does not answer by SSH.
        HostUnreachable,
        /// A host shows another SSH key than the pinned one.
        HostKeyChanged,
        /// A host refuses the login.
        LoginRefused,
        /// A host has no package manager that is known here, or no systemd.
        HostUnsupported,
        /// The hosts are asked for their packages.
        Checking,
        /// Pods are moved away from a node.
        Draining,
        /// The Secret with the cluster's kubeconfig is missing, or the cluster does not answer to it.
        ClusterNotAnswering,
        /// A node did not let its pods go in time: the message names them.
        DrainFailed,
        /// Packages are installed.
        Installing,
        /// Packages are removed.
        Removing,
        /// The package manager of a host waits for, or is locked by, another program.
        PackageManagerBusy,
        /// A host is rebooting.
        Rebooting,
        /// A node is made schedulable again.
        Uncordoning,
        /// The package manager failed to install: the message has its last words.
        InstallFailed,
        /// The package manager failed to remove: the message has its last words.
        RemovalFailed,
        /// The package manager took longer than the time limit.
        TimedOut,
        /// The package manager's process vanished, each time it was started.
        RunLost,
        /// A host did not come back from a reboot: no other one is rebooted or drained.
        RebootFailed,
        /// Every host was given what is asked for.
        Ready,
        /// Every host has what is asked for.
        UpToDate,
        /// Hosts differ from what they were given: the message names host and package.
        Drifted,
        /// It is not known what some hosts have: the message names them.
        NotChecked,
        /// Packages that were installed for the object are removed because it is deleted.
        RemovingPackages,
        /// Packages stay on hosts that could not be cleaned: the message names them.
        PackagesLeft,
        /// Nothing is left to do.
        Released,
    }
}

words! {
    /// What a Software waits for when it looks again after a while.
    pub enum SoftwareWait {
        /// The cluster to stand, or its installer to end.
        Cluster,
        /// Its turn.
        Turn,
        /// Work on hosts.
        Work,
        /// Hosts to answer.
        Ssh,
        /// The next look for drift.
        Drift,
    }
}

words! {
    /// A package manager.
    pub enum PackageManager {
        /// Debian's.
        Apt,
        /// Fedora's and its kin's.
        Dnf,
    }
}

words! {
    /// Where a host is.
    #[derive(Default)]
    pub enum SoftwareHostState {
        /// Nothing was done yet.
        #[default]
        Waiting,
        /// A job goes on: see its step.
        Working,
        /// It was given what is asked for.
        Done,
        /// Its job failed.
        Failed,
    }
}

words! {
    /// How a package on a host compares with what is asked for.
    #[derive(Default)]
    pub enum PackageState {
        /// It was not asked after yet.
        #[default]
        Unknown,
        /// As asked for.
        Installed,
        /// It is not there.
        Missing,
        /// It is there in another version.
        OtherVersion,
        /// It is not asked for any more, and is to be removed.
        Leaving,
    }
}

words! {
    /// A step of the work on a host, in their order.
    pub enum JobStep {
        /// The node is cordoned and its pods are evicted.
        Draining,
        /// Packages are removed.
        Removing,
        /// Packages are installed.
        Installing,
        /// The host reboots.
        Rebooting,
        /// The node becomes ready and schedulable again.
        Uncordoning,
    }
}
