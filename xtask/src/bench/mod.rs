//! Benchmarks: each prints one JSON line per figure, and a table.
//!
//! They are measured in a release build; started from a debug build they build and start that themselves.

mod figure;
mod planner;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

/// Arguments of `cargo xtask bench`.
#[derive(Args)]
pub(crate) struct BenchArgs {
    /// What to measure.
    name: Name,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// The role planner, on structs in memory.
    Planner,
}

pub(crate) fn run(args: &BenchArgs) -> Result<ExitCode> {
    if cfg!(debug_assertions) {
        return in_release(args.name);
    }
    let figures = match args.name {
        Name::Planner => planner::run()?,
    };
    figure::print(&figures)?;
    Ok(ExitCode::SUCCESS)
}

fn in_release(name: Name) -> Result<ExitCode> {
    let name = name.to_possible_value().context("the benchmark has no name")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["run", "--quiet", "--release", "-p", "xtask", "--", "bench", name.get_name()])
        .status()
        .context("failed to start the release build")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
