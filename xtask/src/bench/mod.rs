//! Benchmarks: each prints one JSON line per figure, and a table.
//!
//! They are measured in a release build; started from a debug build they build and start that themselves.

mod actuator;
mod api;
mod figure;
mod https;
mod machine;
mod peer;
mod planner;
mod run;
mod server;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::command::cargo;

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// What to measure.
    name: Name,
    /// Measurements of each contender, where there are contenders.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// The API server: start, restart, idle memory; beside etcd and kube-apiserver from HAGANE_PEERS.
    Api,
    /// ansible-playbook under our supervision, beside the bare command.
    Run,
    /// Create to running in a lab, beside the same calls by virsh. Needs root.
    Actuator,
    /// The role planner, on structs in memory.
    Planner,
}

pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        return in_release(args);
    }
    let mut figures = vec![machine::load("before")?, machine::sync_latency()?];
    figures.extend(match args.name {
        Name::Api => api::run(&hagane()?, args.rounds)?,
        Name::Run => run::run(&hagane()?, args.rounds)?,
        Name::Actuator => actuator::run()?,
        Name::Planner => planner::run()?,
    });
    figures.push(machine::load("after")?);
    figure::print(&figures)?;
    Ok(ExitCode::SUCCESS)
}

/// The product's program, built for release; it lies beside this one.
fn hagane() -> Result<PathBuf> {
    let status = cargo().args(["build", "--release", "--package", "hagane"]).status();
    ensure!(status.context("failed to start cargo")?.success(), "the release build of hagane failed");
    let program = std::env::current_exe().context("failed to find this program")?.with_file_name("hagane");
    ensure!(program.is_file(), "no program {}", program.display());
    Ok(program)
}

fn in_release(args: &BenchArgs) -> Result<ExitCode> {
    let name = args.name.to_possible_value().context("the benchmark has no name")?;
    let status = cargo()
        .args(["run", "--quiet", "--release", "-p", "xtask", "--", "bench", name.get_name()])
        .args(["--rounds", &args.rounds.to_string()])
        .status()
        .context("failed to start the release build")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
