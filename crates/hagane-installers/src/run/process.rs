//! Finding and ending a run's processes.
//!
//! Ansible leaves its process group on purpose (ssh keeps connections in the background in sessions of their own), so
//! groups and parents do not find everything. Every process of a run inherits an unguessable marker in its environment
//! and is found by it; process file descriptors make sure that the process that is signalled is the one that was seen.

use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::intent::MARKER_VARIABLE;

/// Start time of a process in clock ticks since boot; `None` where there is no such process.
#[must_use]
pub fn start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name is in parentheses and may itself hold spaces and parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Identifier of this boot.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Sends `signal` to the process with this pid and start time; says whether there is one.
#[must_use]
pub fn signal_exact(pid: i32, ticks: u64, signal: Signal) -> bool {
    let Some(handle) = Pid::from_raw(pid).and_then(|raw| pidfd_open(raw, PidfdFlags::empty()).ok()) else {
        return false;
    };
    start_ticks(pid) == Some(ticks) && pidfd_send_signal(handle, signal).is_ok()
}

/// Ends every process that carries `marker`: asks first, and insists after `grace`. Says how many were found at first.
pub fn end_marked(marker: &str, grace: Duration) -> usize {
    let found = marked(marker);
    let count = found.len();
    if count == 0 {
        return 0;
    }
    signal_all(&found, Signal::TERM);
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline && !marked(marker).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // A process may start another while it is being ended: look again until none is left, within reason.
    for _ in 0..50 {
        let left = marked(marker);
        if left.is_empty() {
            break;
        }
        signal_all(&left, Signal::KILL);
        std::thread::sleep(Duration::from_millis(10));
    }
    count
}

/// Number of living processes that carry `marker`.
#[must_use]
pub fn count_marked(marker: &str) -> usize {
    marked(marker).len()
}

fn signal_all(processes: &[OwnedFd], signal: Signal) {
    for process in processes {
        if let Err(error) = pidfd_send_signal(process, signal) {
            tracing::debug!(%error, "a process of the run ended before it was signalled");
        }
    }
}

fn marked(marker: &str) -> Vec<OwnedFd> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id().cast_signed();
    let wanted = format!("{MARKER_VARIABLE}={marker}");
    let carries = |pid: i32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| *pid != own && carries(*pid))
        .filter_map(|pid| {
            let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
            // The pid may have been given away between the look and the handle.
            carries(pid).then_some(handle)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn sleeper(marker: &str) -> std::process::Child {
        let mut command = Command::new("sleep");
        command.arg("300").env(MARKER_VARIABLE, marker).stdin(Stdio::null());
        command.spawn().expect("sleep starts")
    }

    #[test]
    fn ends_only_the_processes_that_carry_the_marker() {
        let mut ours = sleeper("test-marker-ours");
        let mut other = sleeper("test-marker-other");
        // Until exec has happened the child still shows this process's environment.
        while count_marked("test-marker-ours") == 0 || count_marked("test-marker-other") == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(end_marked("test-marker-ours", Duration::from_secs(5)), 1);
        assert!(!ours.wait().expect("it ended").success());
        assert!(other.try_wait().expect("a status").is_none());
        other.kill().expect("ended by the test");
        other.wait().expect("reaped");
    }

    #[test]
    fn knows_a_process_by_pid_and_start_time() {
        let own = std::process::id().cast_signed();
        let ticks = start_ticks(own).expect("this process runs");
        assert!(!signal_exact(own, ticks + 1, Signal::TERM));
        assert_eq!(start_ticks(i32::MAX), None);
    }
}
