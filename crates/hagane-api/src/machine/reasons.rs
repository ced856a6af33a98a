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
