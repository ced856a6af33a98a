use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hagane_ports::installer::{InventoryNode, SshAccess};
use serde_json::json;

use super::*;

fn version(text: &str) -> Version {
    text.parse().expect("a version")
}

fn checkout() -> Checkout {
    Checkout {
        version: Some(version("2.31.0")),
        ansible: Some((version("2.18.0"), version("2.19.0"))),
        kubernetes: ["1.35.4", "1.35.0", "1.34.7", "1.33.0"].map(version).to_vec(),
        ..Checkout::default()
    }
}

fn request(verb: InstallVerb, masters: usize, workers: usize) -> InstallRequest {
    let node = |number: usize| InventoryNode {
        name: format!("n{number}"),
        address: IpAddr::from([
            10,
            9,
            u8::try_from(number / 250).expect("small"),
            u8::try_from(number % 250).expect("small"),
        ]),
        ssh_port: 22,
        roles: vec![if number <= masters { NodeRole::Master } else { NodeRole::Worker }],
        second_address: None,
    };
    InstallRequest {
        run_id: "r".to_owned(),
        owner_uid: "u".to_owned(),
        cluster: "c".to_owned(),
        verb,
        inventory: Inventory { nodes: (1..=masters + workers).map(node).collect(), ..Inventory::default() },
        variables: BTreeMap::new(),
        ssh: SshAccess { user: "root".to_owned(), private_key: String::new(), known_hosts: Vec::new() },
        time_limit: Duration::from_secs(1),
        limits: hagane_ports::installer::RunLimits::default(),
    }
}

fn with(mut request: InstallRequest, name: &str, value: Value) -> InstallRequest {
    request.variables.insert(name.to_owned(), value);
    request
}

fn standing(kubespray: &str, kubernetes: &str) -> Memory {
    Memory {
        kubespray: Some(kubespray.to_owned()),
        kubernetes: Some(kubernetes.to_owned()),
        first_master: Some("n1".to_owned()),
        ..Memory::default()
    }
}

/// What the checks say; empty where they say nothing.
fn said(request: &InstallRequest, memory: &Memory) -> String {
    let (checkout, skip) = (checkout(), BTreeSet::new());
    let preflight = Preflight { checkout: &checkout, request, memory, skip: &skip, ansible: None };
    preflight.check().err().map(|error| error.to_string()).unwrap_or_default()
}

fn upgrade(version: &str) -> InstallVerb {
    InstallVerb::Upgrade { version: version.to_owned() }
}

#[test]
fn ansible_and_its_python_are_those_that_the_checkout_takes() {
    let (checkout, skip, memory) = (checkout(), BTreeSet::new(), Memory::default());
    let wanted = request(InstallVerb::Install, 1, 0);
    let said = |core: &str, python: &str| {
        let found = AnsibleVersion { program: "/x".to_owned(), core: version(core), python: Some(version(python)) };
        let preflight =
            Preflight { checkout: &checkout, request: &wanted, memory: &memory, skip: &skip, ansible: Some(&found) };
        preflight.check().err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(said("2.18.15", "3.11.7"), "");
    let told = said("2.19.0", "3.11.7");
    assert!(
        told.starts_with("preflight check AnsibleVersion: kubespray 2.31.0 needs ansible-core from 2.18.0"),
        "{told}"
    );
    assert!(said("2.17.9", "3.11.7").contains("AnsibleVersion"));
    assert!(said("2.18.1", "3.10.2").contains("PythonVersion: ansible-core 2.18.1 needs Python 3.11 to 3.13"));
    assert!(said("2.18.1", "3.14.0").contains("PythonVersion"));
}

#[test]
fn reads_what_ansible_says_of_itself() {
    let text = "ansible-playbook [core 2.18.0rc1]\n  config file = None\n  python version = 3.12.4 (main, Jun) [GCC] (/x/bin/python)\n";
    let found = AnsibleVersion::parse("a", text).expect("versions");
    assert_eq!((found.core, found.python), (version("2.18.0"), Some(version("3.12.4"))));
    assert_eq!(AnsibleVersion::parse("a", "command not found"), None);
    assert_eq!(AnsibleVersion::ask(Path::new("/nowhere/ansible-playbook")), None);
}

#[test]
fn an_even_etcd_is_named() {
    let told = said(&request(InstallVerb::Install, 2, 1), &Memory::default());
    assert!(told.starts_with("preflight check EtcdIsOdd: 2 masters"), "{told}");
}

#[test]
fn the_table_of_checksums_decides_which_versions_there_are() {
    let wish = |version: &str| with(request(InstallVerb::Install, 1, 0), "kube_version", json!(version));
    for good in ["1.35.4", "v1.33.0"] {
        assert_eq!(said(&wish(good), &Memory::default()), "", "{good}");
    }
    let told = said(&wish("1.36.0"), &Memory::default());
    assert!(
        told.contains("KubernetesVersion: kubespray 2.31.0 has no checksums for Kubernetes 1.36.0")
            && told.contains("1.33.0 to 1.35.4"),
        "{told}"
    );
    assert!(said(&wish("{{ x }}"), &Memory::default()).contains("KubernetesVersion"));
    let number = with(request(InstallVerb::Install, 1, 0), "kube_version", json!(1.35));
    assert!(said(&number, &Memory::default()).contains("not a string"));
}

#[test]
fn one_minor_version_at_a_time_and_never_back() {
    let stands = standing("2.31.0", "1.33.0");
    assert_eq!(said(&request(upgrade("1.34.7"), 1, 0), &stands), "");
    assert_eq!(said(&request(upgrade("1.33.0"), 1, 0), &stands), "");
    assert!(said(&request(upgrade("1.35.0"), 1, 0), &stands).contains("KubernetesVersionSkip"));
    assert!(said(&request(upgrade("1.33.0"), 1, 0), &standing("2.31.0", "1.34.7")).contains("cannot go back"));
    let by_hand = with(request(InstallVerb::Reconfigure, 1, 0), "kube_version", json!("1.34.7"));
    assert!(said(&by_hand, &stands).contains("only an upgrade"));
}

#[test]
fn one_kubespray_release_at_a_time_and_never_an_older_one() {
    let wanted = request(InstallVerb::Reconfigure, 1, 0);
    for (before, good) in [("2.31.0", true), ("2.30.4", true), ("2.29.1", false), ("2.32.0", false), ("2.31.7", true)] {
        let told = said(&wanted, &standing(before, "1.35.0"));
        assert_eq!(told.is_empty(), good, "{before}: {told}");
        assert!(good || told.contains("KubesprayVersionSkip"), "{told}");
    }
    assert_eq!(said(&request(InstallVerb::Reset, 1, 0), &standing("2.20.0", "1.35.0")), "");
}

#[test]
fn the_first_master_stays_where_it_is() {
    let stands = standing("2.31.0", "1.35.0");
    assert_eq!(said(&request(InstallVerb::Reconfigure, 3, 0), &stands), "");
    let mut turned = request(InstallVerb::Reconfigure, 3, 0);
    turned.inventory.nodes.swap(0, 1);
    assert!(said(&turned, &stands).contains("FirstControlPlaneNode: n1 is the first"), "{}", said(&turned, &stands));
    let leaves = |lost: Vec<String>| InstallVerb::RemoveNodes { nodes: vec!["n1".to_owned()], lost };
    assert!(said(&request(leaves(Vec::new()), 3, 0), &stands).contains("cannot remove"));
    let lost = vec!["n1".to_owned()];
    assert_eq!(said(&request(InstallVerb::RecoverControlPlane { lost }, 3, 0), &stands), "");
}

#[test]
fn pod_networks_hold_the_hosts() {
    let sized = |workers: usize, subnet: &str| {
        with(request(InstallVerb::Install, 1, workers), "kube_pods_subnet", json!(subnet))
    };
    let prefix = |wanted: &InstallRequest, memory: &Memory| networks::node_prefix(wanted, memory);
    let new = Memory::default();
    let small = request(InstallVerb::Install, 1, 3);
    assert_eq!((said(&small, &new), prefix(&small, &new)), (String::new(), Some(24)));
    // Twice as many as there are now do not fit into a /18 of /24, and so parts are smaller.
    let more = request(InstallVerb::Install, 1, 39);
    assert_eq!((said(&more, &new), prefix(&more, &new)), (String::new(), Some(25)));
    let tight = sized(4, "10.42.0.0/24");
    assert!(said(&tight, &new).contains("PodNetworkSize: 10.42.0.0/24 cut into a /26"), "{}", said(&tight, &new));
    // What a cluster has stays, whatever would be chosen now.
    let stands = Memory { node_prefix: Some(24), ..standing("2.31.0", "1.35.0") };
    assert_eq!(prefix(&more, &stands), Some(24));
    let asked = with(request(InstallVerb::Install, 1, 99), "kube_network_node_prefix", json!(24));
    assert!(said(&asked, &new).contains("fewer than 100 nodes"));
}

#[test]
fn networks_are_networks_apart_from_each_other_and_from_the_hosts() {
    let wish =
        |name: &str, value: Value| said(&with(request(InstallVerb::Install, 1, 0), name, value), &Memory::default());
    for (name, value, told) in [
        ("kube_pods_subnet", json!("10.42.0.1/16"), "no IPv4 network"),
        ("kube_pods_subnet", json!("fd00::/64"), "no IPv4 network"),
        ("kube_pods_subnet", json!("10.233.0.0/16"), "overlap"),
        ("kube_pods_subnet", json!("10.9.0.0/16"), "contains the address 10.9.0.1 of node n1"),
        ("ipv4_stack", json!(false), "neither ipv4_stack nor ipv6_stack"),
    ] {
        let said = wish(name, value);
        assert!(said.contains(told), "{name}: {said}");
    }
    let flannel = with(request(InstallVerb::Install, 1, 39), "kube_network_plugin", json!("flannel"));
    assert!(said(&with(flannel, "kube_network_node_prefix", json!(26)), &Memory::default()).contains("62 pods"));
}

#[test]
fn a_check_is_left_out_where_the_operator_says_so() {
    let (checkout, memory) = (checkout(), Memory::default());
    let wanted = with(request(InstallVerb::Install, 1, 0), "kube_version", json!("1.36.0"));
    let skip = BTreeSet::from(["KubernetesVersion".to_owned()]);
    let preflight = Preflight { checkout: &checkout, request: &wanted, memory: &memory, skip: &skip, ansible: None };
    assert!(preflight.check().is_ok());
}

#[test]
fn every_check_on_the_hosts_is_named_in_the_list() {
    let playbook = include_str!("../../../playbooks/kubespray/preflight.yml");
    let tasks = playbook.lines().filter_map(|line| line.trim().strip_prefix("- name: \"")?.split_once(':'));
    let named: Vec<&str> = tasks.map(|(name, _)| name).collect();
    assert!(named.len() >= 10 && named.iter().all(|name| CHECKS.contains(name)), "{named:?}");
    for name in named {
        assert!(playbook.contains(&format!("'{name}' not in hagane_skip_checks")), "{name} cannot be left out");
        assert!(
            playbook.contains(&format!("fail_msg: \"{name}: ")) || playbook.contains(&format!("  {name}: ")),
            "{name}"
        );
    }
}
