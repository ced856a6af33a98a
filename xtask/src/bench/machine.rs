//! The machine under the figures: its load, its disk, and where measured programs run on it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use super::figure::Figure;

const SYNCS: usize = 100;
/// Servers run here.
const SERVER_CORE: &str = "0";
/// The load generator runs here.
const CLIENT_CORE: &str = "1";

/// Runnable tasks, averaged over the last minute: above the number of cores, the figures are of a busy machine.
pub(super) fn load(name: &str) -> Result<Figure> {
    let text = std::fs::read_to_string("/proc/loadavg").context("failed to read the load")?;
    let minute = text.split(' ').next().unwrap_or_default().parse().context("failed to read the load")?;
    Ok(Figure::once(format!("load of the machine, {name}"), minute, ""))
}

/// How long the disk below temporary files takes to keep 4 KiB for good.
pub(super) fn sync_latency() -> Result<Figure> {
    let failed = "failed to measure the disk";
    let mut file: File = tempfile::tempfile().context(failed)?;
    let mut times = Vec::new();
    for _ in 0..SYNCS {
        let start = Instant::now();
        file.write_all(&[7; 4096]).and_then(|()| file.sync_data()).context(failed)?;
        times.push(start.elapsed());
    }
    Ok(Figure::median("disk, append 4 KiB and fdatasync".to_owned(), times))
}

/// A program on the servers' core. It replaces `taskset`, so the child's number is its own.
pub(super) fn on_server_core(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", SERVER_CORE]).arg(program);
    command
}

/// Moves this process off the servers' core, where there is another.
pub(super) fn leave_server_core() -> Result<()> {
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        let pid = std::process::id().to_string();
        let output = Command::new("taskset").args(["--cpu-list", "--pid", CLIENT_CORE, &pid]).output();
        let output = output.context("failed to start taskset (package util-linux)")?;
        ensure!(output.status.success(), "taskset failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Resident memory of a process, in MiB.
pub(super) fn resident_mib(pid: u32) -> Result<f64> {
    let problem = || format!("failed to read the memory of process {pid}");
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).with_context(problem)?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).with_context(problem)?;
    let kib: f64 = line.trim().trim_end_matches("kB").trim().parse().with_context(problem)?;
    Ok(kib / 1024.0)
}

/// Processor time of this process and of the children that it has waited for, in seconds.
pub(super) fn processor_seconds() -> Result<f64> {
    /// The kernel's unit in these files, on every architecture of ours.
    const TICKS_PER_SECOND: f64 = 100.0;
    let stat = std::fs::read_to_string("/proc/self/stat").context("failed to read the processor time")?;
    // The name before the last parenthesis may hold blanks; user time is the twelfth field after it.
    let (_, fields) = stat.rsplit_once(") ").context("failed to read the processor time")?;
    let ticks: f64 = fields.split(' ').skip(11).take(4).filter_map(|field| field.parse::<f64>().ok()).sum();
    Ok(ticks / TICKS_PER_SECOND)
}
