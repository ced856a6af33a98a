//! States, condition types and reasons of the host kinds.

use crate::words;

words! {
    /// What the conditions of a `BareMetalHost` are about.
    pub enum HostCondition {
        /// The host can be chosen, or is in use. Its reason is the reason of the whole.
        Ready,
        /// Its hardware is known.
        HardwareKnown,
        /// It can be chosen for a cluster.
        AvailableForProvisioning,
    }
}

words! {
    /// Why a condition of a `BareMetalHost` is as it is.
    pub enum HostReason {
        /// Facts were given, and are kept in status.
        Inspected,
        /// No facts are there yet.
        FactsMissing,
        /// The facts annotation cannot be read.
        FactsInvalid,
        /// The spec cannot be acted on: the message names field and value.
        InvalidSpec,
        /// Another host has the same MAC address: the message names it.
        DuplicateMac,
        /// Another host has the same management controller: the message names it.
        DuplicateBmc,
        /// It can be chosen.
        Available,
        /// Somebody uses it: the message names the user.
        InUse,
        /// It is marked as never to be chosen.
        Unhealthy,
        /// It is paused.
        Paused,
        /// It can be chosen, but nothing says that it runs an operating system; writing images is not supported yet.
        NotProvisioned,
        /// It is being deleted.
        Deleting,
    }
}

words! {
    /// What a `BareMetalHost` waits for when it looks again after a while.
    pub enum HostWait {
        /// Its user to let go of it.
        Consumer,
    }
}
