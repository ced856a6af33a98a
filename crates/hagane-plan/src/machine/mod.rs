//! A Machine of the old generation on an actuator.
//!
//! # Asking again
//! Most actions find something out (how far an image is, what the actuator made). Their result goes into the facts, and
//! [`decide`] is asked again in the same pass; only the last answer is recorded. See [`Action::asks_again`].

mod decide;
mod facts;
mod resolve;
#[cfg(test)]
mod tests;

pub use decide::decide;
pub use facts::{Attempt, Facts, Image, Instance, Power, Presence, Removal, SpecFact, Trouble, TroubleKind};
pub use resolve::{Defaults, ResolvedSpec, resolve};

use hagane_api::machine::reasons::{MachinePhase, MachineWait};

/// What to do about a Machine.
pub type Decision = crate::decision::Decision<Action, MachinePhase, MachineWait>;

/// One thing to do. Every action is idempotent: "already so" is success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put our finalizer on the object.
    AddFinalizer,
    /// Ask the image source for the root disk's image: the answer goes into [`Facts::image`].
    EnsureImage,
    /// Ask the image source for the seed that `userDataURI` names: the answer goes into [`Facts::seed`].
    EnsureSeed,
    /// Call the actuator's create: the answer goes into [`Facts::attempt`], or into [`Facts::presence`] where the
    /// machine runs.
    Create,
    /// Write `spec.providerID`.
    SetProviderId(String),
    /// Call the actuator's delete: the answer goes into [`Facts::removal`].
    Delete,
    /// Take our finalizer off the object.
    RemoveFinalizer,
}

impl Action {
    /// Whether its result goes into the facts, and [`decide`] is to be asked again in the same pass.
    #[must_use]
    pub const fn asks_again(&self) -> bool {
        matches!(self, Self::EnsureImage | Self::EnsureSeed | Self::Create | Self::Delete)
    }
}
