//! The processes of an installer run, seen from outside.

use std::fs;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

/// A process and how it was started.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: i32,
    parent: i32,
    arguments: Vec<String>,
}

/// Processes that name the run in their arguments: supervisor, playbook and its workers, ssh and what keeps its connections.
pub fn of_run(id: &str) -> Vec<Process> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(line) = fs::read(entry.path().join("cmdline")) else { continue };
        let arguments: Vec<String> =
            line.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        if arguments.iter().any(|word| word.contains(id)) {
            found.push(Process { pid, parent: parent(pid), arguments });
        }
    }
    found
}

fn parent(pid: i32) -> i32 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

/// Supervisors of a run.
fn shims(id: &str) -> Vec<Process> {
    of_run(id).into_iter().filter(|process| process.arguments.iter().any(|word| word == "run-shim")).collect()
}

/// ansible-playbook of a run, without the workers that each of them forks.
fn playbooks(id: &str) -> Vec<Process> {
    let is_playbook = |process: &Process| process.arguments.iter().any(|word| word.ends_with("/ansible-playbook"));
    let all: Vec<Process> = of_run(id).into_iter().filter(is_playbook).collect();
    let forked = |process: &Process| all.iter().any(|other| other.pid == process.parent);
    all.iter().filter(|process| !forked(process)).cloned().collect()
}

/// Exactly one supervisor with exactly one ansible-playbook below it.
pub fn expect_one_tree(id: &str) -> Result<(Process, Process)> {
    let (shims, playbooks) = (shims(id), playbooks(id));
    ensure!(shims.len() == 1 && playbooks.len() == 1, "supervisors {shims:?}, playbooks {playbooks:?}");
    ensure!(playbooks[0].parent == shims[0].pid, "{:?} is not below {:?}", playbooks[0], shims[0]);
    Ok((shims[0].clone(), playbooks[0].clone()))
}

/// Ends a process as nothing can refuse.
pub fn kill(process: &Process) -> Result<()> {
    let pid = Pid::from_raw(process.pid).context("a process has a number")?;
    kill_process(pid, Signal::KILL).with_context(|| format!("kill {process:?}"))
}
