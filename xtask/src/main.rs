//! Developer tools: the lab, generators, checks. Each subcommand is a module of its own; this file only hands over.

mod lab;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tools for working on Hagane.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Networks with libvirt, machines and hosts of their own, in which the real parts run.
    #[command(subcommand)]
    Lab(lab::Command),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Lab(command) => lab::run(command),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
