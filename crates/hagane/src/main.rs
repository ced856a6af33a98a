//! The one binary: parses arguments, wires adapters to ports, starts, joins. No logic of the product lives here.

mod adapters;
mod config;
mod holder;
mod limits;
mod logging;
mod nodes;
mod notify;
mod payload;
mod probe;
mod up;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use hagane_cli::args::{Cli, Command, VersionArgs};
use hagane_cli::{LogPiece, Outcome, print_chain};

fn main() -> ExitCode {
    let arguments = match config::expand(std::env::args_os().collect()) {
        Ok(arguments) => arguments,
        Err(error) => return fail(&anyhow::Error::from(error)),
    };
    let command = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli.command,
        Err(error) => return unparsed(&error),
    };
    // The guard of a run has nothing to do with the rest: no runtime, no logger, no TLS.
    if let Command::RunShim(args) = &command {
        return hagane_installers::run_shim_main(&args.directory);
    }
    if rustls::crypto::ring::default_provider().install_default().is_err() {
        return fail(&anyhow::anyhow!("another TLS provider is installed already"));
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&anyhow::Error::from(error).context("failed to start the runtime")),
    };
    let code = runtime.block_on(dispatch(command));
    // A blocking read of a dead file system must not hold up the end.
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    code
}

async fn dispatch(mut command: Command) -> ExitCode {
    // `doctor` looks where `up` would look.
    if let Command::Doctor(args) = &mut command {
        args.payload_dir.get_or_insert_with(adapters::default_payload);
    }
    let command = match hagane_cli::run(command, read_log).await {
        Ok(Outcome::Done(code)) => return code,
        Ok(Outcome::ForBinary(command)) => *command,
        Err(error) => {
            eprintln!("{}", print_chain(&error));
            return ExitCode::FAILURE;
        }
    };
    let outcome = match command {
        Command::Up(args) => up::up(*args).await,
        Command::Controllers(args) => up::controllers(*args).await,
        Command::Payload(command) => payload::run(command).await,
        Command::Version(args) => version(&args),
        other => Err(anyhow::anyhow!("{other:?} is not run here")),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error),
    }
}

fn read_log(directory: &Path, from: u64, limit: usize) -> std::io::Result<LogPiece> {
    let piece = hagane_installers::run::log::read_log(directory, from, limit)?;
    Ok(LogPiece { bytes: piece.bytes, next: piece.next, left_out: piece.left_out })
}

fn version(args: &VersionArgs) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    match args.output {
        None => println!("hagane {version}"),
        Some(format) => print!("{}", hagane_cli::render(&serde_json::json!({"version": version}), format)?),
    }
    Ok(())
}

/// Prints help and the version where they were asked for, else what is wrong. A wrong command line is an error like others:
/// code 2 is an answer of `plan`.
fn unparsed(error: &clap::Error) -> ExitCode {
    // Nothing is left to tell it to where the terminal is gone.
    let _ = error.print();
    ExitCode::from(code_of(error))
}

fn code_of(error: &clap::Error) -> u8 {
    u8::from(error.use_stderr())
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("error: {}", chain(error));
    ExitCode::FAILURE
}

/// The causes joined by colons, each said once: some libraries repeat their source in their own message.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        if !text.contains(&words) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&words);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_command_line_does_not_exit_with_the_answer_of_plan() {
        let code = |arguments: &[&str]| Cli::try_parse_from(arguments).map_err(|error| code_of(&error)).err();
        assert_eq!(code(&["hagane", "plan"]), Some(1));
        assert_eq!(code(&["hagane", "plan", "hosts.yaml"]), Some(1));
        assert_eq!(code(&["hagane"]), Some(1));
        assert_eq!(code(&["hagane", "plan", "--help"]), Some(0));
        assert_eq!(code(&["hagane", "--version"]), Some(0));
        assert_eq!(code(&["hagane", "plan", "-f", "x.yaml"]), None);
    }
}
