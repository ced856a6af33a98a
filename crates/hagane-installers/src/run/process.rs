//! Finding and ending a run's processes.
//!
//! Ansible leaves its process group on purpose (ssh keeps connections in the background in sessions of their own), so
//! groups and parents do not find everything. Every process of a run inherits an unguessable marker in its environment
//! and is found by it. One that threw its environment away is found as a descendant of the supervisor, which adopts what
//! loses its parent, and under systemd in the run's control group. Process file descriptors make sure that the process
//! that is signalled is the one that was seen.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};

use super::intent::{MARKER_VARIABLE, Marks};

/// Begin of the name of a run's scope, before its id.
pub const SCOPE_PREFIX: &str = "hagane-run-";

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
    let pids: Vec<i32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != own)
        .collect();
    let adopted = marks.tree.map(|root| descendants(root, &pids)).unwrap_or_default();
    let grouped = marks.group.map(members).unwrap_or_default();
    let wanted = format!("{MARKER_VARIABLE}={}", marks.marker);
    let read = |pid: i32, name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    let carries = |pid: i32| {
        read(pid, "environ").split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
            || keeps_a_connection(&read(pid, "cmdline"), marks.sockets)
    };
    let open = |pid: i32, is_ours: &dyn Fn() -> bool| {
        let handle = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        // The pid may have been given away between the look and the handle.
        is_ours().then_some(handle)
    };
    pids.into_iter()
        .filter_map(|pid| match adopted.get(&pid) {
            Some(parent) => open(pid, &|| parent_of(pid) == Some(*parent)),
            None if grouped.contains(&pid) => open(pid, &|| marks.group.is_some_and(|group| is_member(pid, group))),
            None if carries(pid) => open(pid, &|| carries(pid)),
            None => None,
        })
        .collect()
}

/// Parent of a process that has not ended.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    let living = !matches!(fields.next()?, "Z" | "X");
    fields.next()?.parse().ok().filter(|_| living)
}

/// What descends from `root` among `pids`, with the parent of each.
fn descendants(root: i32, pids: &[i32]) -> BTreeMap<i32, i32> {
    let parents: Vec<(i32, i32)> = pids.iter().filter_map(|pid| Some((*pid, parent_of(*pid)?))).collect();
    let mut found = BTreeMap::new();
    let mut roots = vec![root];
    while let Some(root) = roots.pop() {
        for (pid, parent) in parents.iter().filter(|(_, parent)| *parent == root) {
            if found.insert(*pid, *parent).is_none() {
                roots.push(*pid);
            }
        }
    }
    found
}

/// The control group of this process that systemd made for the run `id` alone, where it is in one.
#[must_use]
pub fn own_group(id: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    group_in(&text, id).map(str::to_owned)
}

/// The group in the text of `/proc/PID/cgroup`: of the unified hierarchy, or of systemd's own beside older ones.
fn group_in<'a>(text: &'a str, id: &str) -> Option<&'a str> {
    let path =
        |line: &'a str| line.strip_prefix("0::").or_else(|| line.split_once(":name=systemd:").map(|(_, path)| path));
    let name = |path: &str| {
        let (_, last) = path.rsplit_once('/')?;
        Some(last.starts_with(&format!("{SCOPE_PREFIX}{id}-")) && last.ends_with(".scope"))
    };
    text.lines().filter_map(path).find(|path| name(path) == Some(true))
}

/// Processes of a control group.
fn members(group: &str) -> Vec<i32> {
    let places = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd"];
    let lists = places.iter().filter_map(|place| fs::read_to_string(format!("{place}{group}/cgroup.procs")).ok());
    lists.flat_map(|list| list.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>()).collect()
}

fn is_member(pid: i32, group: &str) -> bool {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    text.lines().any(|line| line.rsplit_once(':').is_some_and(|(_, path)| path == group))
}

/// Takes the exit status of adopted processes that have ended, so that they do not stay in the process table. `child` is
/// waited for by somebody else.
pub fn reap_adopted(child: i32) {
    let Ok(threads) = fs::read_dir("/proc/self/task") else { return };
    for thread in threads.flatten() {
        let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let adopted = children.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).filter(|pid| *pid != child);
        for pid in adopted.filter_map(Pid::from_raw) {
            if let Err(error) = waitpid(Some(pid), WaitOptions::NOHANG) {
                tracing::debug!(%error, "somebody else took leave of an adopted process");
            }
        }
    }
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
        let by = |marker| Marks { marker, sockets: Path::new(""), tree: None, group: None };
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
    fn knows_its_own_scope_in_either_kind_of_hierarchy() {
        let unified = "0::/system.slice/hagane-run-u-1-0f3c.scope\n";
        assert_eq!(group_in(unified, "u-1"), Some("/system.slice/hagane-run-u-1-0f3c.scope"));
        let older = "3:cpu:/\n1:name=systemd:/system.slice/hagane-run-u-1-0f3c.scope\n0::/\n";
        assert_eq!(group_in(older, "u-1"), Some("/system.slice/hagane-run-u-1-0f3c.scope"));
        for other in ["0::/system.slice/hagane.service\n", "0::/\n", "0::/hagane-run-u-12-0f.scope\n", ""] {
            assert_eq!(group_in(other, "u-1"), None, "{other:?}");
        }
    }

    #[test]
    fn ends_descendants_that_carry_no_marker() {
        let mut command = Command::new("sh");
        command.args(["-c", "env -i sleep 300 & env -i sleep 300 & wait"]).stdin(Stdio::null());
        let mut shell = command.spawn().expect("a shell starts");
        let root = shell.id().cast_signed();
        let marks = Marks { marker: "nobody-has-this", sockets: Path::new(""), tree: Some(root), group: None };
        while count_marked(marks) < 2 {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(end_marked(marks, Duration::from_secs(5)) >= 2);
        shell.wait().expect("its children are gone");
    }

    #[test]
    fn knows_a_process_by_pid_and_start_time() {
        let own = std::process::id().cast_signed();
        let ticks = start_ticks(own).expect("this process runs");
        assert!(!signal_exact(own, ticks + 1, Signal::TERM));
        assert_eq!(start_ticks(i32::MAX), None);
    }
}
