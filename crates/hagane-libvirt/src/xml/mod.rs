//! libvirt's documents: written from plain values, read into plain values. No I/O.

pub mod domain;
pub mod host;
pub mod network;
pub mod storage;
mod tree;

pub use tree::{Element, XmlError};
