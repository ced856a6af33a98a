//! Phases, condition types and reasons of the old machine kinds.

use crate::words;

words! {
    /// Where a Machine is.
    pub enum MachinePhase {
        /// Nothing was made yet.
        Pending,
        /// Image, seed, volumes or the machine itself are being made.
        Provisioning,
        /// The machine runs.
        Running,
        /// A person must act: see the conditions.
        Failed,
        /// It is being deleted.
        Deleting,
    }
}

words! {
    /// What the conditions of a Machine are about.
    pub enum MachineCondition {
        /// The machine runs and has an address. Its reason is the reason of the whole.
        Ready,
        /// The spec can be acted on.
        SpecValid,
        /// The image and the seed are here.
        ImageReady,
        /// The machine exists at its provider.
        InstanceExists,
        /// The machine is what the spec says now.
        UpToDate,
        /// The object is left alone.
        Paused,
    }
}

words! {
    /// Why a condition of a Machine is as it is.
    pub enum MachineReason {
        /// The spec cannot be acted on: the message names field and value.
        InvalidSpec,
        /// The spec can be acted on.
        Valid,
        /// There is no provider spec.
        ProviderSpecMissing,
        /// The `MachineClass` that the spec names is not there.
        MachineClassMissing,
        /// Neither the spec nor the operator names an image.
        ImageMissing,
        /// The image is on its way: the message says how far.
        ImageFetching,
        /// The image could not be had: the message names URL and cause.
        ImageFailed,
        /// The image and the seed are here.
        ImageReady,
        /// The seed image is on its way.
        SeedFetching,
        /// The seed image could not be had.
        SeedFailed,
        /// The hypervisor's daemon does not answer.
        HypervisorUnreachable,
        /// The storage pool is missing or inactive.
        PoolNotAvailable,
        /// The network is missing or inactive.
        NetworkNotAvailable,
        /// A domain or volume of the wanted name belongs to somebody else.
        NameTaken,
        /// Another machine holds the address asked for.
        AddressInUse,
        /// The hypervisor failed to make the machine.
        CreateFailed,
        /// The machine is being made.
        Creating,
        /// The machine is there.
        Created,
        /// Nothing was made yet.
        NotCreated,
        /// The machine runs but shows no address yet.
        WaitingForAddress,
        /// The machine runs.
        Running,
        /// The machine is defined but off.
        PoweredOff,
        /// The machine is paused at its hypervisor.
        InstancePaused,
        /// The machine crashed.
        Crashed,
        /// The machine matches the spec.
        UpToDate,
        /// The spec changed after the machine was made; changing a machine is not supported yet.
        SpecChanged,
        /// The machine was there and is gone.
        DomainGone,
        /// The machine is being removed.
        Deleting,
        /// The hypervisor failed to remove the machine.
        DeleteFailed,
        /// Nothing is left of the machine.
        Deleted,
        /// The object is paused.
        Paused,
        /// The object is not paused.
        NotPaused,
    }
}

words! {
    /// What a Machine waits for when it looks again after a while.
    pub enum MachineWait {
        /// The image or the seed.
        Image,
        /// A `MachineClass`.
        MachineClass,
        /// The hypervisor to answer.
        Hypervisor,
        /// A pool, network, name or address.
        Resource,
        /// The machine to be made.
        Creation,
        /// An address.
        Address,
        /// A machine that is off, paused or crashed to run again.
        Power,
        /// The machine to be removed.
        Removal,
    }
}

words! {
    /// Where a Cluster is.
    pub enum ClusterPhase {
        /// Not looked at yet.
        Pending,
        /// Its network is valid and its machines are looked after.
        Provisioned,
        /// A person must act: see the conditions.
        Failed,
        /// It is being deleted.
        Deleting,
    }
}

words! {
    /// What the conditions of a Cluster are about.
    pub enum ClusterCondition {
        /// Machines can be made for it.
        Ready,
        /// The spec can be acted on.
        SpecValid,
        /// The object is left alone.
        Paused,
    }
}

words! {
    /// Why a condition of a Cluster is as it is.
    pub enum ClusterReason {
        /// The spec cannot be acted on: the message names field and value.
        InvalidSpec,
        /// The spec can be acted on.
        Valid,
        /// Machines can be made for it.
        Provisioned,
        /// It is deleted once its machines are gone: the message names them.
        WaitingForMachines,
        /// Nothing is left of it.
        Deleted,
        /// The object is paused.
        Paused,
        /// The object is not paused.
        NotPaused,
    }
}

words! {
    /// What a Cluster waits for when it looks again after a while.
    pub enum ClusterWait {
        /// Its machines to go.
        Machines,
    }
}
