//! Running programs and saying what runs.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The cargo that started this task.
pub fn cargo() -> Command {
    let mut command = hagane_testkit::road::cargo();
    command.current_dir(root());
    command
}

/// Runs a step to its end, prints its name before and the elapsed time after.
pub fn step(name: &str, command: &mut Command) -> Result<()> {
    println!("== {name}");
    let start = Instant::now();
    let status = command.status().with_context(|| format!("failed to start the step {name:?}"))?;
    if !status.success() {
        bail!("the step {name:?} failed ({status})");
    }
    println!("== {name}: done in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}
