//! cargo-deny: licences, sources and bans of what is linked in.
//!
//! The advisory database is not asked for: it is a download that may not be there, and what passed yesterday would
//! fail today.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use hagane_testkit::lab::cache_directory;

use crate::command::{cargo, root, step};

/// A fixed version, so that every machine checks the same.
const VERSION: &str = "0.20.2";

/// Builds cargo-deny into the cache where neither the cache nor the path has it. Takes some minutes, once.
pub fn install() -> Result<()> {
    if program()?.is_some() {
        return Ok(());
    }
    let mut command = cargo();
    command.args(["install", "cargo-deny", "--locked", "--quiet", "--version", VERSION, "--root"]).arg(place()?);
    step(&format!("cargo-deny {VERSION} (once, some minutes)"), &mut command)
}

/// Checks, or says what is missing for it.
pub fn run() -> Result<()> {
    let Some(program) = program()? else {
        println!(
            "== deny: left out: cargo-deny is not installed (make test builds it; cargo install cargo-deny --locked)"
        );
        return Ok(());
    };
    // It reads the manifests of every platform's crates, and a build downloaded only this one's.
    if step("crates of all platforms", cargo().args(["fetch", "--locked"])).is_err() {
        println!("== deny: left out: not all crates could be downloaded");
        return Ok(());
    }
    let mut command = Command::new(program);
    command.current_dir(root()).args(["--offline", "check", "licenses", "bans", "sources", "--hide-inclusion-graph"]);
    step("deny", &mut command)
}

fn place() -> Result<PathBuf> {
    Ok(cache_directory()?.join(format!("tools/cargo-deny-{VERSION}")))
}

fn program() -> Result<Option<PathBuf>> {
    let runs = |program: &Path| Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success());
    let candidates = [place()?.join("bin/cargo-deny"), PathBuf::from("cargo-deny")];
    Ok(candidates.into_iter().find(|program| runs(program)))
}
