//! What a lab must leave as it was: the state of the machine, taken before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::command;
use super::process::fields_after_name;

/// Settings under /proc/sys that change by themselves, or give another answer at every reading.
const VOLATILE: [&str; 10] = [
    "fs/dentry-state",
    "fs/file-nr",
    "fs/inode-nr",
    "fs/inode-state",
    "fs/quota",
    "fs/aio-nr",
    "kernel/ns_last_pid",
    "kernel/pty/nr",
    "kernel/random",
    "net/netfilter/nf_conntrack_count",
];

/// Directories whose entries are compared by name.
const DIRECTORIES: [&str; 9] =
    ["/etc", "/run", "/run/systemd", "/usr/sbin", "/var/cache", "/var/lib", "/var/log", "/var/spool", "/var/tmp"];

/// State of the machine at one moment, as named facts grouped by kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineSnapshot {
    facts: BTreeMap<&'static str, BTreeSet<String>>,
}

impl MachineSnapshot {
    /// Reads sysctls, clock source, swaps, mounts, control groups, loop devices, nft rules, links, listening sockets, processes
    /// and the names in the directories that services write to. What can not be read is absent, in both snapshots alike.
    pub fn take() -> Self {
        let mut sysctls = BTreeSet::new();
        read_settings(Path::new("/proc/sys"), &mut sysctls);
        let clock = lines("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        let facts = BTreeMap::from([
            ("sysctl", sysctls),
            ("clock source", clock),
            ("swap", lines("/proc/swaps")),
            ("mount", mounts()),
            ("control group", control_groups()),
            ("loop device", loop_devices()),
            ("nft rule", nft_rules()),
            ("link", names_in("/sys/class/net")),
            ("listening socket", listening_sockets()),
            ("process", left_alone_processes()),
            ("file", DIRECTORIES.iter().flat_map(|directory| names_in(directory)).collect()),
        ]);
        Self { facts }
    }

    /// What is different in `after`, one line a fact: `+` came, `-` went. Empty when nothing changed.
    pub fn difference(before: &Self, after: &Self) -> Vec<String> {
        let mut lines = Vec::new();
        for (kind, old) in &before.facts {
            let Some(new) = after.facts.get(kind) else { continue };
            lines.extend(old.difference(new).filter(|_| *kind != "process").map(|fact| format!("- {kind} {fact}")));
            lines.extend(new.difference(old).map(|fact| format!("+ {kind} {fact}")));
        }
        lines
    }
}

fn lines(file: &str) -> BTreeSet<String> {
    fs::read_to_string(file).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn names_in(directory: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path().display().to_string()).collect()
}

fn read_settings(directory: &Path, settings: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.strip_prefix("/proc/sys").unwrap_or(&path);
        if VOLATILE.iter().any(|volatile| name.starts_with(volatile)) {
            continue;
        }
        if path.is_dir() {
            read_settings(&path, settings);
        } else if let Ok(value) = fs::read_to_string(&path) {
            settings.insert(format!("{} = {}", name.display(), value.trim()));
        }
    }
}

/// Mount point, kind and options: the numbers before them are given anew at every mount.
fn mounts() -> BTreeSet<String> {
    lines("/proc/self/mounts")
}

fn control_groups() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<std::path::PathBuf> = vec!["/sys/fs/cgroup".into()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.insert(entry.path().display().to_string());
                open.push(entry.path());
            }
        }
        if let Ok(value) = fs::read_to_string(directory.join("cgroup.subtree_control")) {
            found.insert(format!("{} hands on {}", directory.display(), value.trim()));
        }
    }
    found
}

fn loop_devices() -> BTreeSet<String> {
    let devices = names_in("/sys/block").into_iter();
    let backed =
        devices.filter_map(|device| Some((fs::read_to_string(format!("{device}/loop/backing_file")).ok()?, device)));
    backed.map(|(file, device)| format!("{device} {}", file.trim())).collect()
}

fn nft_rules() -> BTreeSet<String> {
    let rules = command::run(["nft", "--stateless", "list", "ruleset"]).unwrap_or_default();
    rules.lines().map(str::to_owned).collect()
}

fn listening_sockets() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // State 0A of TCP is listening; 07 of UDP is not connected to one peer.
    for (table, listening) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        for line in lines(&format!("/proc/net/{table}")) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if let [_, local, _, state, ..] = fields[..]
                && state == listening
            {
                found.insert(format!("{table} {local}"));
            }
        }
    }
    // Unix sockets that accept connections have flag 00010000; the name is the last field.
    for line in lines("/proc/net/unix") {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [_, _, _, "00010000", _, _, _, name] = fields[..] {
            found.insert(format!("unix {name}"));
        }
    }
    found
}

/// Processes that nobody but the first process looks after, by number and name. Those with a living parent belong to whatever
/// else goes on on the machine; kernel threads come and go by themselves.
fn left_alone_processes() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some(fields) = fields_after_name(&stat) else { continue };
        if let ["S" | "R" | "D" | "T", "1", ..] = fields[..] {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            found.insert(format!("{} {}", entry.file_name().to_string_lossy(), name.trim()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(kind: &'static str, facts: &[&str]) -> MachineSnapshot {
        MachineSnapshot { facts: BTreeMap::from([(kind, facts.iter().map(|fact| (*fact).to_owned()).collect())]) }
    }

    #[test]
    fn what_came_and_what_went_is_told() {
        let difference =
            MachineSnapshot::difference(&snapshot("link", &["lo", "eth0"]), &snapshot("link", &["lo", "br0"]));
        assert_eq!(difference, ["- link eth0", "+ link br0"]);
    }

    #[test]
    fn a_process_that_ended_by_itself_is_no_difference_and_one_left_behind_is() {
        let difference = MachineSnapshot::difference(&snapshot("process", &["1 a"]), &snapshot("process", &["2 b"]));
        assert_eq!(difference, ["+ process 2 b"]);
    }

    #[test]
    fn sees_a_socket_that_listens() {
        let before = MachineSnapshot::take();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let port = format!(":{:04X}", listener.local_addr().expect("bound").port());
        let difference = MachineSnapshot::difference(&before, &MachineSnapshot::take());
        assert!(
            difference.iter().any(|line| line.starts_with("+ listening socket tcp") && line.ends_with(&port)),
            "{difference:?}"
        );
    }
}
