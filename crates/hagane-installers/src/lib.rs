//! Kubernetes installers behind [`hagane_ports::installer::ClusterInstaller`].
//!
//! Two installers share one way of running `ansible-playbook`: [`KubeadmInstaller`] with the playbooks embedded here
//! and a [`payload`], [`KubesprayInstaller`] with an operator's checkout. A run lives in a directory of its own under a
//! supervisor process ([`run::shim`]) that outlives this one; what is known about it comes from that directory only.
//!
//! This crate does not know Kubernetes clients, controllers, hosts' facts or how a cluster's nodes were chosen, and it
//! never waits for a run to end.

#![warn(missing_docs)]

pub mod engine;
pub mod inventory;
mod kubeadm;
pub mod kubespray;
pub mod payload;
pub mod playbooks;
pub mod progress;
pub mod python;
pub mod run;

pub use engine::EngineOptions;
pub use kubeadm::{KubeadmInstaller, KubeadmOptions};
pub use kubespray::{KubesprayInstaller, KubesprayOptions};
pub use run::shim::run_shim_main;
