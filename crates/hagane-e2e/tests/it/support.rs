//! What all groups share: whether to run at all, and the programs under test.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use hagane_testkit::road::Tools;

/// How much is to be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Every test once.
    Usual,
    /// Also the matrices that take long.
    Long,
}

/// How much is to be run, by `HAGANE_SLOW_TESTS`: `1` or `long`. Nothing where it is not set.
pub fn amount() -> Option<Amount> {
    match std::env::var("HAGANE_SLOW_TESTS").as_deref() {
        Ok("1") => Some(Amount::Usual),
        Ok("long") => Some(Amount::Long),
        _ => None,
    }
}

/// Whether tests with real parts are to run.
pub fn slow() -> bool {
    amount().is_some()
}

/// Whether the long matrices are to run too.
pub fn long() -> bool {
    amount() == Some(Amount::Long)
}

/// Whether this test can run here. Where it cannot, one line says why.
pub fn can_run(test: &str) -> bool {
    let reason = if !slow() {
        "HAGANE_SLOW_TESTS is neither 1 nor long"
    } else if !is_root() {
        "a lab needs root"
    } else {
        return true;
    };
    left_out(test, reason);
    false
}

/// Says that a test, or a part of one, is not run.
pub fn left_out(test: &str, reason: &str) {
    println!("left out: {test}: {reason}");
}

fn is_root() -> bool {
    // The owner of what this process shows in /proc is its effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|metadata| metadata.uid() == 0)
}

/// The programs, built by the first test that asks.
pub fn tools() -> Result<Tools> {
    static TOOLS: Mutex<Option<Tools>> = Mutex::new(None);
    let mut known = TOOLS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(tools) = &*known {
        return Ok(tools.clone());
    }
    let repository =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("the repository is two levels up")?;
    let tools = Tools::prepare(repository).context("prepare hagane, payload and Ansible")?;
    Ok(known.insert(tools).clone())
}
