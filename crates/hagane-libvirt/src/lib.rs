//! Machines as libvirt domains: the actuator for virtual machines.
//!
//! It speaks libvirt's own RPC over the daemon's unix socket and needs no libvirt library. It knows nothing of
//! Kubernetes objects, fetches no images, decides nothing about when a machine should be, and runs no other program.
//!
//! Where things are: [`LibvirtActuator`] keeps the contract of [`hagane_ports::Actuator`]; `supervisor` keeps the
//! connection; [`rpc`] is the protocol; [`xml`] writes and reads libvirt's documents; [`names`] says how everything is
//! called; `upload` brings images into storage pools; [`seed`] makes `NoCloud` images.
//!
//! Pools and networks are never started by this driver: one that is inactive is reported and waited for.
#![warn(missing_docs)]

mod actuator;
pub mod names;
mod options;
pub mod rpc;
pub mod seed;
mod supervisor;
mod upload;
mod uri;
pub mod xml;

pub use actuator::LibvirtActuator;
pub use options::{Acceleration, LibvirtOptions};
pub use uri::{ConnectionUri, UriProblem};
