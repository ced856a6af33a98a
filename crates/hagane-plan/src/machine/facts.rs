//! What is known when a Machine is decided on.

use std::time::Duration;

use hagane_api::field::FieldError;

use super::ResolvedSpec;

/// Everything a decision looks at. Each field is read anew in every pass.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether our finalizer is on the object.
    pub finalizer: bool,
    /// Whether the object is to be left alone.
    pub paused: bool,
    /// The provider spec.
    pub spec: SpecFact,
    /// `spec.providerID`.
    pub provider_id: Option<String>,
    /// The provider spec that the machine was made from, once it was there (`status.providerStatus.resolved`, together
    /// with an `instanceID`).
    pub made_from: Option<ResolvedSpec>,
    /// Whether status tells that its making has begun. That is written before anything is made.
    pub begun: bool,
    /// The root disk's image.
    pub image: Image,
    /// The seed: [`Image::Ready`] where none is named by URI.
    pub seed: Image,
    /// What the actuator says.
    pub presence: Presence,
    /// What [`super::Action::Create`] answered in this pass.
    pub attempt: Attempt,
    /// What [`super::Action::Delete`] answered in this pass.
    pub removal: Removal,
}

/// The provider spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecFact {
    /// There is none.
    Missing,
    /// It names a `MachineClass` that is not there.
    ClassMissing(String),
    /// It cannot be acted on.
    Invalid(Vec<FieldError>),
    /// It can.
    Valid(ResolvedSpec),
}

/// Where an image is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    /// It was not asked for in this pass.
    NotAsked,
    /// It is here.
    Ready,
    /// It is being fetched.
    Fetching {
        /// What is done, as a short phrase.
        what: String,
        /// Bytes so far.
        done: u64,
        /// Bytes in all, where known.
        total: Option<u64>,
    },
    /// It could not be had.
    Failed {
        /// URL and cause, one line.
        message: String,
        /// Time until it is tried again; `None` where only another spec can help.
        retry_after: Option<Duration>,
    },
}

/// What the actuator says of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// It cannot say; why, one line.
    Unknown(String),
    /// Nothing of this uid is there.
    Absent,
    /// No machine, but side resources of this uid.
    Leftovers(Vec<String>),
    /// It is there.
    Present(Instance),
}

/// A machine that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The node-facing id.
    pub provider_id: String,
    /// Power state.
    pub power: Power,
    /// Whether it shows an address.
    pub has_address: bool,
}

/// Power state of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// It runs.
    Running,
    /// It is off.
    Off,
    /// It is paused.
    Paused,
    /// It crashed.
    Crashed,
}

/// What creating answered in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It was not tried.
    NotTried,
    /// Slow work goes on; one line about it.
    Preparing(String),
    /// It failed.
    Failed(Trouble),
}

/// What removing answered in this pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It was not tried.
    NotTried,
    /// Nothing is left.
    Done,
    /// It goes on; says what is waited for.
    Pending(String),
    /// It failed.
    Failed(Trouble),
}

/// Why the actuator failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Class.
    pub kind: TroubleKind,
    /// One line with names and values.
    pub message: String,
}

/// Class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// The hypervisor does not answer.
    Unreachable,
    /// A resource of the wanted name is somebody else's.
    NameTaken,
    /// The pool is missing or inactive.
    PoolNotAvailable,
    /// The network is missing or inactive.
    NetworkNotAvailable,
    /// Another machine holds the address.
    AddressInUse,
    /// The request can never work as it is.
    Invalid,
    /// Anything else.
    Failed,
}
