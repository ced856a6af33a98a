//! `make check`: what needs no root and no network.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, root, step};

/// Runs every step, the quick ones first; the tests run with these variables too.
pub fn run(environment: &[(OsString, OsString)]) -> Result<()> {
    step("format", cargo().args(["fmt", "--all", "--check"]))?;
    crate::tidy::run()?;
    crate::generate::run(&crate::generate::GenerateArgs { check: true })?;
    step("lint", cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "--deny", "warnings"]))?;
    deny()?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--locked", "--exclude", "hagane-e2e"]);
    step("tests", tests.envs(environment.iter().cloned()))
}

/// Licences, sources and bans. The advisory database is not asked for: it is a download that may not be there.
fn deny() -> Result<()> {
    let there = Command::new("cargo-deny").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("== deny: left out: cargo-deny is not installed (cargo install cargo-deny --locked)");
        return Ok(());
    }
    let mut command = Command::new("cargo-deny");
    command.current_dir(root()).args(["--offline", "check", "licenses", "bans", "sources", "--hide-inclusion-graph"]);
    step("deny", &mut command)
}
