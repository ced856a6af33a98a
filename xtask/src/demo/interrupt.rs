//! Ctrl-C in the middle of the demo: the lab is taken down, not left half made.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use tokio::signal::unix::{SignalKind, signal};

/// What a shell gives for a program that SIGINT ended.
pub const EXIT_CODE: u8 = 130;

/// From now on SIGINT and SIGTERM make this process take the lab down and end.
///
/// The process is replaced as a whole by one that takes down: no other thread goes on making what is being removed, and
/// whoever waits for this process waits for the end of the work.
pub fn take_down_then() -> Result<()> {
    let program = std::env::current_exe().context("failed to find this program")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("failed to start a runtime for signals")?;
    let guard = runtime.enter();
    let mut interrupt = signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?;
    drop(guard);
    std::thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        let error = Command::new(program).args(["demo", "down", "--interrupted"]).exec();
        eprintln!("error: failed to take the lab down ({error}): `make demo-down` does it");
        std::process::exit(i32::from(EXIT_CODE));
    });
    Ok(())
}
