//! The hosts road: container hosts in, a Kubernetes cluster out, and everything that may go wrong on the way.

mod bad_input;
mod faults;
mod growth;
mod injection;
mod inventory;
mod kubespray;
mod lifecycle;
mod objects;
mod outcome;
mod plan_files;
mod processes;
mod road;
mod site;
mod software;
mod transcript;
mod unit;
