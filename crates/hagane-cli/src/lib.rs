//! The commands a person types: arguments, printers, progress.
//!
//! Everything here speaks the HTTP API (embedded or a real one) through a kubeconfig. It does not open the store, call
//! a driver or start a control loop (`service` asks systemd to): `up`, `controllers`, `payload` and the hidden `run-shim` are only parsed here and
//! run by the `hagane` binary.
#![warn(missing_docs)]

mod approve;
pub mod args;
mod cancel;
mod connect;
mod crds;
mod describe;
mod doctor;
mod error;
mod get;
mod kubeconfig;
mod logs;
mod output;
mod plan;
mod plan_run;
mod resource;
mod service;
mod software;
mod unknown;
mod wait;

use std::process::ExitCode;

pub use error::{CliError, print_chain};
pub use logs::{LogPiece, ReadLog};
pub use output::{render, table};

use args::{Command, GetCommand};

/// Runs a command that needs nothing but the API, and for the logs of runs their reader. Commands that the binary runs
/// itself are returned.
///
/// # Errors
/// A [`CliError`] with the chain of causes and a hint where one is known.
pub async fn run(command: Command, read_log: ReadLog) -> Result<Outcome, CliError> {
    let code = match command {
        Command::Crds(args) => crds::run(&args)?,
        Command::Plan(args) => plan::run(&args).await?,
        Command::Describe(args) => describe::run(&args).await?,
        Command::Get(GetCommand::Kubeconfig(args)) => get::kubeconfig(&args).await?,
        Command::Logs(args) => logs::run(&args, read_log).await?,
        Command::Cancel(args) => cancel::run(&args).await?,
        Command::Approve(args) => approve::run(&args).await?,
        Command::Wait(args) => wait::run(&args).await?,
        Command::Doctor(args) => doctor::run(&args).await?,
        Command::Service(command) => service::run(&command).await?,
        other @ (Command::Up(_)
        | Command::Controllers(_)
        | Command::Payload(_)
        | Command::RunShim(_)
        | Command::Version(_)) => {
            return Ok(Outcome::ForBinary(Box::new(other)));
        }
    };
    Ok(Outcome::Done(code))
}

/// What [`run`] did.
pub enum Outcome {
    /// The command ran; this is its exit code.
    Done(ExitCode),
    /// The binary has to run this one.
    ForBinary(Box<Command>),
}
