//! The control loops of Hagane: observe, decide, act, record.
//!
//! They speak to the API through a [`kube::Client`] alone, so that the embedded server and a real cluster serve them
//! alike, and to the rest of the world through the ports of `hagane-ports`. This crate names no adapter, and it decides
//! nothing: what to do next is said by `hagane-plan`.
#![warn(missing_docs)]

pub mod addresses;
pub mod cluster;
mod context;
pub mod host;
pub mod machine;
pub mod provisioning;
pub mod runtime;
mod selection;
pub mod software;
#[cfg(test)]
mod testing;

pub use context::{Context, Ports, Settings};
pub use selection::{CONTROLLERS, Selection, UnknownController};

use runtime::Engine;
use tokio_util::sync::CancellationToken;

/// Runs the selected control loops until `shutdown`, and returns when all of them have ended. Dropping the future ends
/// them at once.
pub async fn run(context: Context, selection: &Selection, shutdown: CancellationToken) {
    let mut engine = Engine::new(context);
    // The controllers of this build: one line each, named in `CONTROLLERS`.
    if selection.has("cluster") {
        engine.add(cluster::ClusterController);
    }
    if selection.has("machine") {
        engine.add(machine::MachineController);
    }
    if selection.has("host") {
        engine.add(host::HostController);
    }
    if selection.has("provisioning") {
        engine.add(provisioning::ProvisioningController::default());
        engine.add(addresses::AddressesController);
    }
    if selection.has("software") {
        engine.add(software::SoftwareController);
    }
    engine.run(shutdown).await;
}
