//! Runs of several playbooks that end early: the next one goes on where they ended, and does nothing twice.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hagane_installers::{EngineOptions, KubesprayInstaller, KubesprayOptions};
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallVerb, Inventory, InventoryNode, NodeRole, RunExit, RunLimits,
    RunObservation, RunState,
};
use hagane_testkit::kubespray_tree::KubesprayTree;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::bed::request;

/// Removal of a node that does not answer and of two that do, a master among them: three playbooks.
const STEPS: [(&str, &str); 3] =
    [("remove-node.yml", "[\"w2\"]"), ("remove-node.yml", "[\"w1\",\"m3\",\"m2\"]"), ("cluster.yml", "[\"m1\"]")];

struct Bed {
    installer: KubesprayInstaller,
    tree: KubesprayTree,
    runs: PathBuf,
    _directory: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let checkout = directory.path().join("checkout");
        let tree = KubesprayTree::write(&checkout, "2.31.0", &["1.35.4"]).expect("a tree");
        let runs = directory.path().join("runs");
        let shim = env!("CARGO_BIN_EXE_hagane-installers-lab").into();
        let engine = EngineOptions::new(runs.clone(), crate::ansible_playbook(), shim);
        let options = KubesprayOptions { checkout, skip_checks: ["Hosts".to_owned()].into() };
        let installer = KubesprayInstaller::new(engine, options).expect("an installer");
        let bed = Self { installer, tree, runs, _directory: directory };
        // Before each other task: what the test laid down for the hosts of that playbook.
        for playbook in ["remove-node.yml", "cluster.yml"] {
            let path = bed.file(playbook);
            let text = fs::read_to_string(&path).expect("a playbook");
            let key = format!("{}/at-{playbook}-{{{{ ansible_play_hosts | sort | join('-') }}}}", bed.place());
            let tasks = format!(
                "  tasks:\n    - name: Hold where asked\n      ansible.builtin.shell: >-\n        if test -e \"{key}.hold\"; then \
                 touch \"{key}.held\"; exec sleep 300; fi\n      run_once: true\n    - name: Break where asked now\n      \
                 ansible.builtin.shell: >-\n        test ! -e \"{key}.break\"\n      run_once: true\n"
            );
            fs::write(&path, text.replace("  tasks:\n", &tasks)).expect("a playbook");
        }
        bed
    }

    fn place(&self) -> String {
        self.tree.directory().display().to_string()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.tree.directory().join(name)
    }

    /// A file of the test for a step of the run.
    fn at(&self, step: usize, what: &str) -> PathBuf {
        let (playbook, hosts) = STEPS[step];
        let mut hosts: Vec<String> = serde_json::from_str(hosts).expect("a list");
        hosts.sort();
        self.file(&format!("at-{playbook}-{}.{what}", hosts.join("-")))
    }

    async fn start(&self, number: u32, wanted: &InstallRequest) {
        let wanted = InstallRequest { run_id: format!("run-{number}"), ..wanted.clone() };
        self.installer.start(&wanted).await.expect("the run starts");
    }

    /// How a run ended, what was seen of it, and the playbooks that it came through.
    async fn end(&self, number: u32) -> (RunExit, RunObservation, Vec<String>) {
        loop {
            let seen = self.installer.observe(&format!("run-{number}")).await.expect("observable");
            if let RunState::Finished(exit) = seen.state.clone() {
                let calls = self.tree.take_calls().expect("calls");
                return (exit, seen, calls.into_iter().map(|call| call.playbook).collect());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn run(&self, number: u32, wanted: &InstallRequest) -> (RunExit, RunObservation, Vec<String>) {
        self.start(number, wanted).await;
        self.end(number).await
    }

    fn log(&self, number: u32) -> String {
        fs::read_to_string(self.runs.join(format!("run-{number}/log"))).unwrap_or_default()
    }
}

fn wanted() -> InstallRequest {
    let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let node = |name: &str, number: u8, role: NodeRole| InventoryNode {
        name: name.to_owned(),
        address: IpAddr::from([192, 0, 2, number]),
        ssh_port: 22,
        roles: vec![role],
        second_address: None,
    };
    let masters = (1..=3).map(|number| node(&format!("m{number}"), number, NodeRole::Master));
    let workers = (1..=2).map(|number| node(&format!("w{number}"), 10 + number, NodeRole::Worker));
    let inventory = Inventory { nodes: masters.chain(workers).collect(), ..Inventory::default() };
    let verb = InstallVerb::RemoveNodes { nodes: names(&["w1", "w2", "m2", "m3"]), lost: names(&["w2"]) };
    InstallRequest { verb, inventory, ..request() }
}

fn break_at(path: &Path) {
    fs::write(path, "").expect("a file");
}

#[tokio::test]
async fn a_further_run_goes_on_with_the_playbook_that_failed() {
    let bed = Bed::new();
    break_at(&bed.at(2, "break"));
    let (exit, seen, calls) = bed.run(1, &wanted()).await;
    assert_eq!((exit, seen.progress.resumed), (RunExit::Failed { status: 2 }, None), "{}", bed.log(1));
    assert_eq!(calls, ["remove-node.yml", "remove-node.yml"]);
    // It fails there again, and hands on what was handed to it.
    let (exit, _, calls) = bed.run(2, &wanted()).await;
    assert_eq!((exit, calls.len()), (RunExit::Failed { status: 2 }, 0), "{}", bed.log(2));
    fs::remove_file(bed.at(2, "break")).expect("it is there");
    let (exit, seen, calls) = bed.run(3, &wanted()).await;
    assert_eq!(exit, RunExit::Succeeded, "{}", bed.log(3));
    assert_eq!(calls, ["cluster.yml"]);
    assert_eq!(seen.progress.resumed.as_deref(), Some("step 3 of 3, cluster.yml, where run run-2 ended"));
    assert!(bed.log(3).contains("STEP 1 of 3: remove-node.yml: done by run run-2"), "{}", bed.log(3));
    // What ended well is not gone on from.
    assert_eq!(bed.run(4, &wanted()).await.2.len(), 3);
}

#[tokio::test]
async fn another_wish_and_the_wish_to_begin_anew_begin_with_the_first_playbook() {
    let bed = Bed::new();
    break_at(&bed.at(2, "break"));
    assert_eq!(bed.run(1, &wanted()).await.2.len(), 2);
    let mut other = wanted();
    other.variables.insert("wish".to_owned(), json!("another"));
    assert_eq!(bed.run(2, &other).await.2.len(), 2, "{}", bed.log(2));
    assert_eq!(bed.run(3, &other).await.2.len(), 0, "{}", bed.log(3));
    let limits = RunLimits { from_start: true, ..RunLimits::default() };
    let (_, seen, calls) = bed.run(4, &InstallRequest { limits, ..other }).await;
    assert_eq!((calls.len(), seen.progress.resumed), (2, None), "{}", bed.log(4));
}

#[tokio::test]
async fn killed_in_any_playbook_a_run_is_gone_on_from_there() {
    let cases = [(0, false), (1, false), (2, false), (1, true)];
    futures::future::join_all(cases.map(|(step, supervisor)| kill_in(step, supervisor))).await;
}

/// Kills the playbook of a step, or the supervisor at that step, and starts the run again.
async fn kill_in(step: usize, supervisor: bool) {
    let bed = Bed::new();
    break_at(&bed.at(step, "hold"));
    bed.start(1, &wanted()).await;
    while !bed.at(step, "held").exists() {
        let state = bed.installer.observe("run-1").await.expect("observable").state;
        assert_eq!(state, RunState::Running, "{}", bed.log(1));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let record = fs::read(bed.runs.join("run-1/started.json")).expect("a record");
    let record: serde_json::Value = serde_json::from_slice(&record).expect("JSON");
    let pid = i32::try_from(record["pid"].as_i64().expect("a number")).expect("a pid");
    // The first child is the playbook; what it left behind was adopted later.
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    let playbook = children.split_whitespace().next().and_then(|pid| pid.parse().ok()).expect("the playbook runs");
    let victim = Pid::from_raw(if supervisor { pid } else { playbook }).expect("a pid");
    kill_process(victim, Signal::KILL).expect("it runs");
    let (exit, _, before) = bed.end(1).await;
    assert_eq!(exit, if supervisor { RunExit::Lost } else { RunExit::Killed { signal: 9 } });
    fs::remove_file(bed.at(step, "hold")).expect("it is there");
    let (exit, _, after) = bed.run(2, &wanted()).await;
    assert_eq!(exit, RunExit::Succeeded, "{}", bed.log(2));
    let all = [before, after].concat();
    assert_eq!(all, STEPS.map(|(playbook, _)| playbook), "step {step}, supervisor {supervisor}");
}
