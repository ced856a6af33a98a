//! Tasks of the repository: checks, generators, tests, the lab, the demo, benchmarks. Each is a module of its own; this
//! file only hands over.

mod bench;
mod check;
mod command;
mod crate_graph;
mod demo;
mod deny;
mod generate;
mod lab;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Format, lint, generated files, unit and in-process tests. Needs no root.
    Check,
    /// Everything that `check` does, then the tests with real parts. Needs root.
    Test(test::TestArgs),
    /// Write generated files: CRDs, reference pages, the crate graph.
    Generate(generate::GenerateArgs),
    /// Measure, and print one JSON line per figure and a table.
    Bench(bench::BenchArgs),
    /// Check file sizes and forbidden words.
    Tidy,
    /// Networks with libvirt, machines and hosts of their own, in which the real parts run.
    #[command(subcommand)]
    Lab(lab::Command),
    /// The whole road in a lab that stays until it is taken down.
    #[command(subcommand)]
    Demo(demo::Command),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().task {
        Task::Check => check::run(&[]).map(|()| ExitCode::SUCCESS),
        Task::Test(args) => test::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Generate(args) => generate::run(&args).map(|()| ExitCode::SUCCESS),
        Task::Bench(args) => bench::run(&args),
        Task::Tidy => tidy::run().map(|()| ExitCode::SUCCESS),
        Task::Lab(command) => lab::run(command),
        Task::Demo(command) => demo::run(&command),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
