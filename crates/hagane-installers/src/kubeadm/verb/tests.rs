use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hagane_ports::installer::{Inventory, InventoryNode, RunLimits, SshAccess};
use serde_json::json;

use super::*;

fn request(verb: InstallVerb, variables: &[(&str, Value)]) -> InstallRequest {
    let node = |index: u8, name: &str, role| InventoryNode {
        name: name.to_owned(),
        address: IpAddr::from([10, 9, 0, index]),
        ssh_port: 22,
        roles: vec![role],
        second_address: None,
    };
    let masters = ["m1", "m2", "m3"].into_iter().zip(1..).map(|(name, index)| node(index, name, NodeRole::Master));
    let workers = ["w1", "w2"].into_iter().zip(4..).map(|(name, index)| node(index, name, NodeRole::Worker));
    InstallRequest {
        run_id: "run".to_owned(),
        owner_uid: "owner".to_owned(),
        cluster: "c".to_owned(),
        verb,
        inventory: Inventory { nodes: masters.chain(workers).collect(), ..Inventory::default() },
        variables: variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect::<BTreeMap<_, _>>(),
        ssh: SshAccess { user: "u".to_owned(), private_key: String::new(), known_hosts: Vec::new() },
        time_limit: Duration::from_secs(1),
        limits: RunLimits::default(),
    }
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

fn refusal(verb: InstallVerb) -> String {
    parts(&request(verb, &[])).map(drop).expect_err("it is not possible").to_string()
}

fn shelf(versions: &[&str]) -> (tempfile::TempDir, Shelf) {
    let parent = tempfile::tempdir().expect("a directory");
    for version in versions {
        let directory = parent.path().join(format!("payload-{}", version.replace('.', "-")));
        std::fs::create_dir(&directory).expect("a directory");
        std::fs::write(directory.join("payload.yaml"), format!("kubernetesVersion: {version}\nitems: []\n"))
            .expect("a list");
    }
    let shelf = Shelf::read(&[parent.path().to_owned()]).expect("payloads");
    (parent, shelf)
}

#[test]
fn sorts_nodes_by_what_becomes_of_them() {
    let verb = InstallVerb::RemoveNodes { nodes: names(&["m3", "w2"]), lost: names(&["m3"]) };
    let parts = parts(&request(verb, &[])).expect("possible");
    assert_eq!(parts.playbook, "remove.yml");
    let groups = parts.groups();
    let members: Vec<(&str, String)> = groups.iter().map(|group| (group.name, group.members.join(","))).collect();
    let expected =
        [("hagane_first", "m1"), ("hagane_staying", "m1,m2,w1"), ("hagane_leaving", "w2"), ("hagane_lost", "m3")];
    assert_eq!(members, expected.map(|(name, list)| (name, list.to_owned())));
}

#[test]
fn the_first_master_stays() {
    let told = refusal(InstallVerb::RemoveNodes { nodes: names(&["w1", "m1"]), lost: Vec::new() });
    assert!(told.contains("FirstControlPlaneNode: m1 is the first master"), "{told}");
    let told = refusal(InstallVerb::RecoverControlPlane { lost: names(&["m1"]) });
    assert!(told.contains("loadbalancer_apiserver"), "{told}");
    let told = refusal(InstallVerb::AddMasters(names(&["m1"])));
    assert!(told.contains("not the first one"), "{told}");
}

#[test]
fn names_that_do_not_fit_the_verb_are_told() {
    for (verb, told) in [
        (InstallVerb::RemoveNodes { nodes: names(&["x"]), lost: Vec::new() }, "a node of the inventory"),
        (InstallVerb::RemoveNodes { nodes: names(&["w1"]), lost: names(&["w2"]) }, "one of the nodes to remove"),
        (InstallVerb::RemoveNodes { nodes: Vec::new(), lost: Vec::new() }, "at least one"),
        (InstallVerb::AddMasters(names(&["w1"])), "a master of the inventory"),
        (InstallVerb::AddWorkers(names(&["x"])), "a node of the inventory"),
        (InstallVerb::RecoverControlPlane { lost: names(&["w1"]) }, "a master"),
        (InstallVerb::RecoverControlPlane { lost: names(&["m1", "m2", "m3"]) }, "not all of them"),
        (InstallVerb::RecoverControlPlane { lost: Vec::new() }, "at least one"),
    ] {
        let text = refusal(verb);
        assert!(text.contains(told), "{text}");
    }
}

#[test]
fn an_upgrade_needs_a_payload_of_its_version() {
    let (_directory, shelf) = shelf(&["1.36.1", "1.36.3"]);
    let upgrade = |version: &str| InstallVerb::Upgrade { version: version.to_owned() };
    assert_eq!(version(&request(upgrade("v1.36.3"), &[]), &shelf).expect("there"), Some("1.36.3"));
    let error = version(&request(upgrade("1.37.0"), &[]), &shelf).map(drop).expect_err("not there").to_string();
    assert!(error.contains("1.37.0") && error.contains("1.36.1, 1.36.3"), "{error}");
    let contradicts = request(upgrade("1.36.3"), &[("kube_version", json!("1.36.1"))]);
    assert!(version(&contradicts, &shelf).is_err());
}

#[test]
fn the_version_asked_for_is_taken_and_none_need_be() {
    let (_directory, shelf) = shelf(&["1.36.1", "1.36.3"]);
    let asked = request(InstallVerb::Install, &[("kube_version", json!("v1.36.1"))]);
    assert_eq!(version(&asked, &shelf).expect("there"), Some("1.36.1"));
    assert_eq!(version(&request(InstallVerb::Install, &[]), &shelf).expect("none is needed"), None);
    // A removal lays nothing down, so a payload that is gone does not hold it up.
    let gone = request(
        InstallVerb::RemoveNodes { nodes: names(&["w1"]), lost: Vec::new() },
        &[("kube_version", json!("1.30.0"))],
    );
    assert_eq!(version(&gone, &shelf).expect("not needed"), Some("1.30.0"));
}
