//! The control loops of Hagane: observe, decide, act, record.
//!
//! They speak to the API through a [`kube::Client`] alone, so that the embedded server and a real cluster serve them
//! alike, and to the rest of the world through the ports of `hagane-ports`. This crate names no adapter, and it decides
//! nothing: what to do next is said by `hagane-plan`.
#![warn(missing_docs)]

mod context;
pub mod runtime;

pub use context::{Context, Ports, Settings};
