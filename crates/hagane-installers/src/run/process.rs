//! Finding and ending a run's processes.
//!
//! Ansible leaves its process group on purpose (ssh keeps connections in the background in sessions of their own), so
//! groups and parents do not find everything. Every process of a run inherits an unguessable marker in its environment
//! and is found by it; process file descriptors make sure that the process that is signalled is the one that was seen.

use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::intent::{MARKER_VARIABLE, Marks};

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

/// Ends every process that carries the marks: asks first, and insists after `grace`. Says how many were found at first.
pub fn end_marked(marks: Marks<'_>, grace: Duration) -> usize {
    let found = marked(marks);
    let count = found.len();
    if count == 0 {
        return 0;
    }
    signal_all(&found, Signal::TERM);
    let deadline = Instant::now() + grace;
    while Instant::now() < deadline && !marked(marks).is_empty() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // A process may start another while it is being ended: look again until none is left, within reason.
    for _ in 0..50 {
        let left = marked(marks);
        if left.is_empty() {
            break;
        }
        signal_all(&left, Signal::KILL);
        std::thread::sleep(Duration::from_millis(10));
    }
    count
}

/// Number of living processes that carry the marks.
#[must_use]
pub fn count_marked(marks: Marks<'_>) -> usize {
    marked(marks).len()
}

fn signal_all(processes: &[OwnedFd], signal: Signal) {
    for process in processes {
        if let Err(error) = pidfd_send_signal(process, signal) {
            tracing::debug!(%error, "a process of the run ended before it was signalled");
        }
    }
}

fn marked(marks: Marks<'_>) -> Vec<OwnedFd> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let own = std::process::id().cast_signed();
    let wanted = format!("{MARKER_VARIABLE}={}", marks.marker);
    let read = |pid: i32, name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let carries = |pid: i32| {
        read(pid, "environ").split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
            || keeps_a_connection(&read(pid, "cmdline"), marks.sockets)
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

/// Whether this is the title of a process that keeps one of the run's ssh connections: `ssh: SOCKET [mux]`.
fn keeps_a_connection(title: &[u8], sockets: &Path) -> bool {
    let socket = title.strip_prefix(b"ssh: ").map(|rest| Path::new(OsStr::from_bytes(rest)));
    !sockets.as_os_str().is_empty() && socket.is_some_and(|socket| socket.starts_with(sockets))
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
        let by = |marker| Marks { marker, sockets: Path::new("") };
        let mut ours = sleeper("test-marker-ours");
        let mut other = sleeper("test-marker-other");
        // Until exec has happened the child still shows this process's environment.
        while count_marked(by("test-marker-ours")) == 0 || count_marked(by("test-marker-other")) == 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(end_marked(by("test-marker-ours"), Duration::from_secs(5)), 1);
        assert!(!ours.wait().expect("it ended").success());
        assert!(other.try_wait().expect("a status").is_none());
        other.kill().expect("ended by the test");
        other.wait().expect("reaped");
    }

    #[test]
    fn knows_who_keeps_a_connection_of_the_run_by_its_title() {
        let sockets = Path::new("/runs/a-1/work/cp");
        assert!(keeps_a_connection(b"ssh: /runs/a-1/work/cp/0f3c [mux]      ", sockets));
        for other in ["ssh: /runs/a-12/work/cp/0f3c [mux]", "ssh\0host", "vi\0/runs/a-1/work/cp/x", ""] {
            assert!(!keeps_a_connection(other.as_bytes(), sockets), "{other:?}");
        }
        assert!(!keeps_a_connection(b"ssh: /x [mux]", Path::new("")), "an old record names no directory");
    }

    #[test]
    fn knows_a_process_by_pid_and_start_time() {
        let own = std::process::id().cast_signed();
        let ticks = start_ticks(own).expect("this process runs");
        assert!(!signal_exact(own, ticks + 1, Signal::TERM));
        assert_eq!(start_ticks(i32::MAX), None);
    }
}
