//! A `BareMetalHost`: its facts, and what the thin controller says of it.

mod decide;
mod facts;
#[cfg(test)]
mod tests;

pub use decide::{Action, Annotation, Decision, Draft, Facts, decide};
pub use facts::{HostInput, consumer_name, hardware_facts, host_facts, mark_duplicate_macs};
