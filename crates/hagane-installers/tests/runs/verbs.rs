//! What each verb makes of a checkout of kubespray: which playbooks, in which order, on which hosts, with which variables.

use std::fs;
use std::net::IpAddr;

use hagane_installers::{EngineOptions, KubesprayInstaller, KubesprayOptions};
use hagane_ports::installer::{
    ClusterInstaller, GroupNames, InstallRequest, InstallVerb, InstallerError, Inventory, InventoryFormat,
    InventoryNode, NodeRole, RunExit, RunState,
};
use hagane_testkit::kubespray_tree::{Call, KubesprayTree};
use serde_json::json;

use crate::bed::request;

struct Bed {
    installer: KubesprayInstaller,
    tree: KubesprayTree,
    runs: std::path::PathBuf,
    count: std::cell::Cell<u32>,
    _directory: tempfile::TempDir,
}

impl Bed {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let checkout = directory.path().join("checkout");
        let tree = KubesprayTree::write(&checkout, "2.31.0", &["1.35.4", "1.34.7", "1.34.0"]).expect("a tree");
        let runs = directory.path().join("runs");
        let shim = env!("CARGO_BIN_EXE_hagane-installers-lab").into();
        let engine = EngineOptions::new(runs.clone(), crate::ansible_playbook(), shim);
        let options = KubesprayOptions { checkout, skip_checks: ["Hosts".to_owned()].into() };
        let installer = KubesprayInstaller::new(engine, options).expect("an installer");
        Self { installer, tree, runs, count: std::cell::Cell::new(0), _directory: directory }
    }

    /// Runs a verb to its end.
    async fn run(&self, request: InstallRequest) -> (RunExit, Vec<Call>) {
        self.count.set(self.count.get() + 1);
        let id = format!("run-{}", self.count.get());
        let request = InstallRequest { run_id: id.clone(), ..request };
        self.installer.start(&request).await.expect("the run starts");
        loop {
            let seen = self.installer.observe(&id).await.expect("observable");
            if let RunState::Finished(exit) = seen.state {
                return (exit, self.tree.take_calls().expect("calls"));
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// The calls of a run that succeeds.
    async fn calls(&self, request: InstallRequest) -> Vec<Call> {
        let (exit, calls) = self.run(request).await;
        let log = fs::read_to_string(self.runs.join(format!("run-{}/log", self.count.get()))).unwrap_or_default();
        assert_eq!(exit, RunExit::Succeeded, "{log}");
        calls
    }
}

fn node(name: &str, number: u8, role: NodeRole) -> InventoryNode {
    let address = IpAddr::from([192, 0, 2, number]);
    InventoryNode { name: name.to_owned(), address, ssh_port: 22, roles: vec![role], second_address: None }
}

/// Three masters `m1`…`m3` and two workers `w1`, `w2`.
fn wanted(verb: InstallVerb) -> InstallRequest {
    let masters = (1..=3).map(|number| node(&format!("m{number}"), number, NodeRole::Master));
    let workers = (1..=2).map(|number| node(&format!("w{number}"), 10 + number, NodeRole::Worker));
    let inventory = Inventory { nodes: masters.chain(workers).collect(), ..Inventory::default() };
    InstallRequest { verb, inventory, ..request() }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn playbooks(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(|call| call.playbook.as_str()).collect()
}

#[tokio::test]
async fn an_installation_is_one_playbook_and_is_remembered() {
    let bed = Bed::new();
    let calls = bed.calls(wanted(InstallVerb::Install)).await;
    assert_eq!(playbooks(&calls), ["cluster.yml"]);
    assert_eq!((calls[0].kube_version.as_str(), calls[0].node_prefix), ("1.35.4", 24));
    assert_eq!(calls[0].etcd, names(&["m1", "m2", "m3"]));
    // The first master may not change from now on, nor may the version by the way.
    let mut turned = wanted(InstallVerb::Reconfigure);
    turned.inventory.nodes.swap(0, 1);
    let refused = bed.installer.start(&turned).await.expect_err("refused").to_string();
    assert!(refused.starts_with("preflight check FirstControlPlaneNode"), "{refused}");
    let mut older = wanted(InstallVerb::Reconfigure);
    older.variables.insert("kube_version".to_owned(), json!("1.34.7"));
    let refused = bed.installer.start(&older).await.expect_err("refused");
    assert!(matches!(refused, InstallerError::Preflight { check: "KubernetesVersionSkip", .. }), "{refused}");
    bed.installer.forget_owned(&request().owner_uid).await.expect("forgotten");
    assert_eq!(bed.calls(turned).await[0].masters, names(&["m2", "m1", "m3"]));
}

#[tokio::test]
async fn workers_are_joined_after_facts_of_all_and_alone() {
    let bed = Bed::new();
    let calls = bed.calls(wanted(InstallVerb::AddWorkers(names(&["w2"])))).await;
    assert_eq!(playbooks(&calls), ["playbooks/facts.yml", "scale.yml"]);
    assert_eq!(calls[0].hosts.len(), 5);
    assert_eq!(calls[1].hosts, ["w2"]);
    let unknown = bed.installer.start(&wanted(InstallVerb::AddWorkers(names(&["w3"])))).await.expect_err("refused");
    assert!(unknown.to_string().contains("\"w3\" is not possible: a node of the inventory"), "{unknown}");
}

#[tokio::test]
async fn masters_are_added_by_the_whole_playbook() {
    let bed = Bed::new();
    let calls = bed.calls(wanted(InstallVerb::AddMasters(names(&["m2", "m3"])))).await;
    assert_eq!((playbooks(&calls), calls[0].hosts.len()), (vec!["cluster.yml"], 5));
}

#[tokio::test]
async fn nodes_that_do_not_answer_are_removed_first_and_without_being_asked() {
    let bed = Bed::new();
    let nodes = names(&["w1", "w2", "m2", "m3"]);
    let verb = InstallVerb::RemoveNodes { nodes, lost: names(&["w2"]) };
    let calls = bed.calls(wanted(verb)).await;
    assert_eq!(playbooks(&calls), ["remove-node.yml", "remove-node.yml", "cluster.yml"]);
    let flags = |call: &Call| (call.reset_nodes, call.ungraceful, call.confirmed);
    assert_eq!((calls[0].hosts.as_slice(), flags(&calls[0])), (names(&["w2"]).as_slice(), (false, true, true)));
    assert_eq!(
        (calls[1].hosts.as_slice(), flags(&calls[1])),
        (names(&["w1", "m2", "m3"]).as_slice(), (true, false, true))
    );
    assert_eq!(calls[1].workers, ["w1"]);
    // One master is left: what names the other two is made anew there.
    assert_eq!(
        (calls[2].masters.as_slice(), calls[2].hosts.as_slice()),
        (names(&["m1"]).as_slice(), names(&["m1"]).as_slice())
    );
    let worker = InstallVerb::RemoveNodes { nodes: names(&["w1"]), lost: Vec::new() };
    assert_eq!(playbooks(&bed.calls(wanted(worker)).await), ["remove-node.yml"]);
}

#[tokio::test]
async fn an_upgrade_names_the_version_whatever_the_variables_say() {
    let bed = Bed::new();
    let mut install = wanted(InstallVerb::Install);
    install.variables.insert("kube_version".to_owned(), json!("1.34.0"));
    assert_eq!(bed.calls(install.clone()).await[0].kube_version, "1.34.0");
    let upgrade = |version: &str| InstallRequest {
        verb: InstallVerb::Upgrade { version: version.to_owned() },
        ..install.clone()
    };
    let calls = bed.calls(upgrade("1.35.4")).await;
    assert_eq!((playbooks(&calls), calls[0].kube_version.as_str()), (vec!["upgrade-cluster.yml"], "1.35.4"));
    for version in ["1.36.0", "1.34.0", "{{ x }}"] {
        let refused = bed.installer.start(&upgrade(version)).await.expect_err("refused");
        assert!(matches!(refused, InstallerError::Preflight { .. }), "{refused}");
    }
}

#[tokio::test]
async fn certificates_are_renewed_by_the_script_that_kubespray_leaves() {
    let bed = Bed::new();
    let calls = bed.calls(wanted(InstallVerb::RenewCertificates)).await;
    assert_eq!((playbooks(&calls), bed.tree.renewals()), (vec!["playbooks/facts.yml"], 3));
    let kubeconfig = bed.installer.kubeconfig("run-1").await.expect("readable").expect("a kubeconfig");
    assert_eq!(kubeconfig, b"kind: Config # renewed");
    fs::remove_file(bed.tree.directory().join("bin/k8s-certs-renew.sh")).expect("removed");
    let (exit, _) = bed.run(wanted(InstallVerb::RenewCertificates)).await;
    assert_eq!(exit, RunExit::Failed { status: 2 });
    let seen = bed.installer.observe("run-2").await.expect("observable");
    assert!(seen.progress.failures[0].task.starts_with("RenewalScript"), "{:?}", seen.progress.failures);
}

#[tokio::test]
async fn a_reset_and_a_recovery_know_their_hosts() {
    let bed = Bed::new();
    let calls = bed.calls(wanted(InstallVerb::Reset)).await;
    assert_eq!((playbooks(&calls), calls[0].confirmed, calls[0].hosts.len()), (vec!["reset.yml"], true, 5));
    let lost = names(&["m1"]);
    let calls = bed.calls(wanted(InstallVerb::RecoverControlPlane { lost })).await;
    assert_eq!(playbooks(&calls), ["recover-control-plane.yml"]);
    assert_eq!(
        (calls[0].masters.as_slice(), calls[0].broken.as_slice()),
        (names(&["m2", "m3"]).as_slice(), names(&["m1"]).as_slice())
    );
}

#[tokio::test]
async fn a_step_that_fails_ends_the_run() {
    let bed = Bed::new();
    let mut fails = wanted(InstallVerb::AddWorkers(names(&["w2"])));
    fails.variables.insert("tree_fail_at".to_owned(), json!("playbooks/facts.yml:m2"));
    let (exit, calls) = bed.run(fails).await;
    assert_eq!((exit, playbooks(&calls)), (RunExit::Failed { status: 2 }, vec!["playbooks/facts.yml"]));
    let failures = bed.installer.observe("run-1").await.expect("observable").progress.failures;
    assert_eq!((failures[0].task.as_str(), failures[0].host.as_str()), ("Break where asked", "m2"));
}

#[tokio::test]
async fn both_formats_give_the_same_groups() {
    let bed = Bed::new();
    let mut yaml = wanted(InstallVerb::AddWorkers(names(&["w2"])));
    yaml.inventory.format = InventoryFormat::Yaml;
    let calls = bed.calls(yaml).await;
    assert_eq!((calls[1].hosts.as_slice(), calls[1].masters.len()), (names(&["w2"]).as_slice(), 3));
    assert!(bed.runs.join("run-1/work/hosts.yaml").exists());
}

/// Every spelling of the inventory as `ansible-inventory` reads it, with names that YAML or INI could take for something else.
#[test]
fn ansible_reads_every_spelling_of_the_inventory() {
    let odd = ["null", "yes", "1e3", "0x10", "007", "12", "a-0", "n"];
    let mut nodes: Vec<_> = odd.iter().zip(1..).map(|(name, number)| node(name, number, NodeRole::Worker)).collect();
    nodes[0].roles = vec![NodeRole::Master, NodeRole::Worker];
    nodes[1].second_address = Some("fd00::2".parse().expect("an address"));
    let directory = tempfile::tempdir().expect("a directory");
    let program = crate::ansible_playbook().with_file_name("ansible-inventory");
    for (format, file) in [(InventoryFormat::Ini, "hosts.ini"), (InventoryFormat::Yaml, "hosts.yaml")] {
        for (group_names, groups, host) in [
            (GroupNames::Current, ["kube_control_plane", "kube_node"], "ansible_host"),
            (GroupNames::Legacy, ["kube-master", "kube-node"], "ansible_ssh_host"),
        ] {
            let inventory = Inventory { nodes: nodes.clone(), format, group_names };
            let text = hagane_installers::inventory::render_inventory(&inventory).expect("an inventory");
            fs::write(directory.path().join(file), &text).expect("a file");
            let output = std::process::Command::new(&program)
                .args(["--list", "--inventory", file])
                .current_dir(directory.path())
                .env("ANSIBLE_TRANSFORM_INVALID_GROUP_CHARS", "ignore")
                .output()
                .expect("it runs");
            assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
            let read: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(read[groups[0]]["hosts"], json!(["null"]), "{text}");
            assert_eq!(read["etcd"]["hosts"], json!(["null"]));
            assert_eq!(read[groups[1]]["hosts"], json!(odd), "{text}");
            let variables = &read["_meta"]["hostvars"]["yes"];
            assert_eq!((&variables[host], &variables["ip6"]), (&json!("192.0.2.2"), &json!("fd00::2")), "{read}");
        }
    }
}
