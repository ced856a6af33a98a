//! What all control loops share: caches, work queues, entering a pass, and the one writer of status.
//!
//! It knows no kind and no port beyond the clock; see [`Controller`] for what a kind brings.

mod cache;
mod controller;
mod diff;
mod engine;
mod enter;
mod error;
mod event;
mod meter;
mod object;
mod queue;
mod record;
mod resource;
mod schedule;
#[cfg(test)]
mod tests;

pub use cache::{Caches, Change};
pub use controller::{Controller, Mapping, Pass, Watch};
pub use diff::merge_patch;
pub use engine::Engine;
pub use error::{PassError, chain, is_already_there, is_not_found};
pub use event::{EventDraft, Severity};
pub use meter::{Meter, NoMeter, PassEnd};
pub use object::Seen;
pub use queue::Waker;
pub use record::{Recorder, transitions};
pub use resource::{ObjectKey, Resource};
pub use schedule::{Next, Periods, Schedule};
