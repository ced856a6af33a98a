//! `make test`: `check`, then the tests with real parts.

use anyhow::Result;
use clap::Args;

use crate::command::{cargo, step};

/// Arguments of `test`.
#[derive(Args)]
pub struct TestArgs {
    /// Also the crash and scale matrices, peers and benchmarks.
    #[arg(long)]
    pub long: bool,
}

/// Runs every test.
pub fn run(args: &TestArgs) -> Result<()> {
    crate::check::run()?;
    let mut command = cargo();
    command.args(["test", "--locked", "--package", "hagane-e2e", "--", "--nocapture", "--test-threads=1"]);
    command.env("HAGANE_SLOW_TESTS", if args.long { "long" } else { "1" });
    step("tests with real parts", &mut command)
}
