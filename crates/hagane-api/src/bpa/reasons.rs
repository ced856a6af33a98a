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
        /// A person must act: see the conditions.
        Failed,
        /// It is being deleted.
        Deleting,
    }
}
