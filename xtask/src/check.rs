//! `make check`: what needs no root and no network.

use std::ffi::OsString;

use anyhow::Result;

use crate::command::{cargo, step};

/// Runs every step, the quick ones first; the tests run with these variables too.
pub fn run(environment: &[(OsString, OsString)]) -> Result<()> {
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    crate::tidy::run()?;
    crate::generate::run(&crate::generate::GenerateArgs { check: true })?;
    step("lint", cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]))?;
    crate::deny::run()?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--locked", "--exclude", "hagane-e2e"]);
    step("tests", tests.envs(environment.iter().cloned()))
}
