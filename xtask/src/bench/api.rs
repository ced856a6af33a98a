//! The API server alone: from exec to the first 200 of `/readyz`, and its memory when nobody asks.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::figure::Figure;
use super::https::{free_address, wait_until_ready};
use super::machine::{leave_server_core, on_server_core};
use super::peer::Peer;
use super::server::Server;

/// Memory is read after so much rest.
const REST: Duration = Duration::from_secs(5);

#[derive(Default)]
struct Samples {
    first: Vec<Duration>,
    again: Vec<Duration>,
    memory: Vec<f64>,
}

pub(super) fn run(hagane: &Path, rounds: usize) -> Result<Vec<Figure>> {
    leave_server_core()?;
    let peer = Peer::find()?;
    let (mut ours, mut theirs) = (Samples::default(), Samples::default());
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        // Ours first, then theirs first: neither always finds the warmer machine.
        if round % 2 == 0 {
            measure(&mut ours, &|directory| start(hagane, directory))?;
        }
        if let Some(peer) = &peer {
            measure(&mut theirs, &|directory| peer.start(directory))?;
        }
        if round % 2 == 1 {
            measure(&mut ours, &|directory| start(hagane, directory))?;
        }
    }
    let first = "api, exec to ready, new data directory".to_owned();
    let again = "api, exec to ready, restart".to_owned();
    let memory = "api, resident memory idle".to_owned();
    let figures = vec![
        Figure::median(first, ours.first).against(theirs.first),
        Figure::median(again, ours.again).against(theirs.again),
        Figure::middle(memory, ours.memory, "MiB").against_numbers(theirs.memory),
    ];
    let versions = peer.map(|peer| peer.versions);
    Ok(figures.into_iter().map(|figure| figure.with_versions(versions.as_deref())).collect())
}

fn start(hagane: &Path, directory: &Path) -> Result<Server> {
    let address = free_address()?;
    let mut server = Server::new(directory, address, directory.join("data/pki/ca.crt"));
    let mut command = on_server_core(hagane);
    command.args(["up", "--controllers", "none", "--listen", &address.to_string()]);
    command.arg("--data-dir").arg(directory.join("data"));
    server.spawn(&mut command)?;
    Ok(server)
}

fn measure(samples: &mut Samples, start: &dyn Fn(&Path) -> Result<Server>) -> Result<()> {
    let directory = tempfile::tempdir().context("failed to make a data directory")?;
    let (server, first) = until_ready(directory.path(), start)?;
    server.stop()?;
    let (server, again) = until_ready(directory.path(), start)?;
    std::thread::sleep(REST);
    samples.first.push(first);
    samples.again.push(again);
    samples.memory.push(server.resident_mib()?);
    server.stop()
}

fn until_ready(directory: &Path, start: &dyn Fn(&Path) -> Result<Server>) -> Result<(Server, Duration)> {
    let begin = Instant::now();
    let server = start(directory)?;
    wait_until_ready(server.address, &server.authority).with_context(|| server.last_words())?;
    Ok((server, begin.elapsed()))
}
