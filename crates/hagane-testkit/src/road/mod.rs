//! The whole road in a lab: hagane started in it, objects applied, the cluster that comes out tried. Shared by the demo
//! and the end-to-end tests, so that what is shown is what is tested.

mod objects;
mod outcome;
mod server;
mod tools;

pub use objects::{ProvisioningSize, host_manifests, machine_manifests, provisioning_manifest, ssh_secret_manifest};
pub use outcome::{Workload, cluster_nodes};
pub use server::{Server, ServerOptions};
pub use tools::{Tools, cargo};

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

/// Asks again and again until there is an answer, and tells what was seen last when the time is over.
///
/// # Errors
/// When the question itself fails, or there is no answer in time.
pub fn wait_for<T>(what: &str, limit: Duration, mut ask: impl FnMut() -> Result<Result<T, String>>) -> Result<T> {
    let end = Instant::now() + limit;
    loop {
        let seen = match ask()? {
            Ok(answer) => return Ok(answer),
            Err(seen) => seen,
        };
        if Instant::now() > end {
            bail!("{what}: not within {} s; last seen: {seen}", limit.as_secs());
        }
        thread::sleep(Duration::from_millis(250));
    }
}
