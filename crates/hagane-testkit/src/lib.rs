//! Test equipment: fakes of the ports, contract suites that fakes and real adapters both pass, and the lab.
//!
//! Never part of a shipped binary. It decides nothing and knows no adapter.
#![warn(missing_docs)]

pub mod contract;
pub mod fake;
pub mod kubespray_tree;
pub mod lab;
pub mod road;
