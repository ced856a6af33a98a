//! A contender: processes that are started together, become ready, and are stopped.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::machine::resident_mib;

const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Running processes; ended when dropped.
pub(super) struct Server {
    pub address: SocketAddr,
    /// File of the authority that signed the server's certificate.
    pub authority: PathBuf,
    children: Vec<Child>,
    log: PathBuf,
}

impl Server {
    /// A server of no processes, whose output goes to a file in `directory`.
    pub(super) fn new(directory: &Path, address: SocketAddr, authority: PathBuf) -> Self {
        Self { address, authority, children: Vec::new(), log: directory.join("output.log") }
    }

    /// Starts one more process.
    pub(super) fn spawn(&mut self, command: &mut Command) -> Result<()> {
        let problem = || format!("failed to start {:?}", command.get_program());
        let log = std::fs::OpenOptions::new().create(true).append(true).open(&self.log).with_context(problem)?;
        let errors = log.try_clone().with_context(problem)?;
        let child = command.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        self.children.push(child.with_context(|| format!("failed to start {:?}", command.get_program()))?);
        Ok(())
    }

    pub(super) fn resident_mib(&self) -> Result<f64> {
        self.children.iter().map(|child| resident_mib(child.id())).sum()
    }

    /// Asks the processes to end, the last one first, and waits for each.
    pub(super) fn stop(mut self) -> Result<()> {
        while let Some(mut child) = self.children.pop() {
            if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
                kill_process(pid, Signal::TERM).context("failed to end a server: it ended by itself")?;
            }
            let begin = Instant::now();
            while child.try_wait().context("failed to wait for a server's end")?.is_none() {
                if begin.elapsed() > STOP_LIMIT {
                    self.children.push(child);
                    bail!("a server did not end in {} s", STOP_LIMIT.as_secs());
                }
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }

    /// The end of its output, to tell why it failed.
    pub(super) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines.get(lines.len().saturating_sub(5)..).unwrap_or_default().join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in self.children.iter_mut().rev() {
            // It may have ended already, and there is nobody to tell.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
