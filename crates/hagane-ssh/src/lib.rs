//! Commands on other machines over SSH, and the keys that make it trustworthy.
//!
//! [`SshShell`] implements the port [`hagane_ports::RemoteShell`]: one connection a command, the host's key checked
//! against the pinned ones before anything is sent, login by key only, arguments quoted so that the remote shell passes
//! them on byte for byte, one time limit over everything. [`keys`] makes key pairs and writes `known_hosts` lines.
//!
//! It does not decide which keys to trust, keeps no `known_hosts` of its own, copies no files, and knows neither
//! passwords, agents nor certificates. RSA keys are refused by name: the SSH library's RSA code has a known timing
//! weakness and is left out of the build.

#![warn(missing_docs)]

pub mod keys;
mod quote;
mod run;
mod session;
mod shell;

pub use keys::{KeyMaker, known_hosts_line};
pub use quote::quote;
pub use shell::{SshOptions, SshShell};
