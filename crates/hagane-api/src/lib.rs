//! The words of Hagane: every kind it serves, with fields, defaults, validation, condition types and reasons, and the
//! typed names and quantities they are made of.
//!
//! This crate performs no I/O, reads no clock and knows no Kubernetes client. One table, [`kinds()`], lists the kinds;
//! the embedded API server, the CRD generator and the reference pages are made from it.
#![warn(missing_docs)]

pub mod bpa;
pub mod condition;
pub mod field;
pub mod keys;
mod kind;
pub mod mac;
pub mod machine;
pub mod metal3;
pub mod names;
pub mod quantity;
mod schema;

pub use kind::{Column, KindDescriptor, kind_of, kinds};
pub use schema::{crd, structural};
