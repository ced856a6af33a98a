//! The decisions of Hagane, as pure functions: which host plays which role, and what each kind of object needs next.
//!
//! Facts go in, a plan or a list of actions with reasons comes out. This crate never reads a clock, a file or a
//! network, knows no Kubernetes client and no asynchronous runtime, keeps nothing between calls, and cannot fail:
//! what is not known is a fact of its own kind, never an error.
#![warn(missing_docs)]

pub mod cluster;
pub mod decision;
pub mod host;
pub mod machine;
pub mod provisioning;
pub mod roles;
pub mod software;
