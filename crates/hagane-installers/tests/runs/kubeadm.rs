//! The playbooks of the kubeadm installer, as far as they can be tried without hosts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use hagane_installers::playbooks;

/// Name of the inventory of a test.
const INVENTORY: &str = "[all]\nm1 ip=10.9.0.1 ansible_connection=local\nw1 ip=10.9.0.2 ansible_connection=local\n\n\
    [kube_control_plane]\nm1\n\n[kube_node]\nw1\n\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n\n\
    [hagane_first]\nm1\n\n[hagane_staying]\nm1\nw1\n\n[hagane_leaving]\n\n[hagane_lost]\n";

/// The playbooks and an inventory in a directory of their own.
fn tree() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    for (path, text) in playbooks::kubeadm() {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        fs::write(path, text).expect("a file");
    }
    fs::write(directory.path().join("hosts.ini"), INVENTORY).expect("an inventory");
    directory
}

/// Runs playbooks of the tree, and returns what was printed.
fn play(tree: &Path, arguments: &[&str]) -> String {
    let output = Command::new(crate::ansible_playbook())
        .args(["--inventory", "hosts.ini"])
        .args(arguments)
        .current_dir(tree)
        .env("ANSIBLE_LOCAL_TEMP", tree.join("tmp"))
        .env("ANSIBLE_REMOTE_TEMP", tree.join("remote"))
        .env("ANSIBLE_NOCOLOR", "1")
        .output()
        .expect("ansible-playbook starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn every_playbook_is_well_formed() {
    let tree = tree();
    let names: Vec<&str> = playbooks::kubeadm()
        .map(|(path, _)| path)
        .filter(|path| path.ends_with(".yml") && !path.contains('/'))
        .collect();
    assert!(names.len() >= 7, "{names:?}");
    play(tree.path(), &[&["--syntax-check"], names.as_slice()].concat());
}

/// The documents of kubeadm's configuration for the first master with the given variables.
fn configuration(variables: &serde_json::Value) -> Vec<serde_json::Value> {
    let tree = tree();
    let playbook = "- hosts: hagane_first\n  gather_facts: false\n  tasks:\n    - hagane_files:\n        files:\n          - \
                    {path: \"{{ playbook_dir }}/out.yaml\", content: \"{{ lookup('ansible.builtin.template', \
                    'kubeadm.yaml.j2') }}\"}\n";
    fs::write(tree.path().join("render.yml"), playbook).expect("a playbook");
    let own = serde_json::json!({
        "in_container": false, "hagane_requested_version": "1.36.3", "hagane_payloads": {},
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
    });
    play(tree.path(), &["--extra-vars", &own.to_string(), "--extra-vars", &variables.to_string(), "render.yml"]);
    let text = fs::read_to_string(tree.path().join("out.yaml")).expect("it was rendered");
    let documents = text.split("\n---\n").map(serde_saphyr::from_str);
    documents.collect::<Result<_, _>>().unwrap_or_else(|error| unreachable!("{error}: {text}"))
}

#[test]
fn the_configuration_follows_the_variables() {
    let usual = configuration(&serde_json::json!({}));
    assert_eq!(usual[1]["controlPlaneEndpoint"], "10.9.0.1:6443");
    assert_eq!(usual[1]["kubernetesVersion"], "v1.36.3");
    assert_eq!(usual[1]["controllerManager"]["extraArgs"][0]["value"], "24");
    assert_eq!((&usual[2]["kind"], &usual[2]["cgroupDriver"]), (&"KubeletConfiguration".into(), &"systemd".into()));
    assert_eq!(usual[3]["mode"], "nftables");

    let asked = configuration(&serde_json::json!({
        "kube_vip_enabled": true,
        "kube_vip_address": "10.9.0.100",
        "kube_kubeadm_apiserver_extra_args": {"profiling": false, "audit-log-maxage": 3},
        "kubelet_config_extra_args": {"maxPods": 50},
    }));
    assert_eq!(asked[1]["controlPlaneEndpoint"], "10.9.0.100:6443");
    let arguments = serde_json::json!([
        {"name": "audit-log-maxage", "value": "3"}, {"name": "profiling", "value": "false"},
    ]);
    assert_eq!(asked[1]["apiServer"]["extraArgs"], arguments);
    assert_eq!((&asked[2]["maxPods"], &asked[2]["cgroupDriver"]), (&50.into(), &"systemd".into()));
}

#[test]
fn only_the_chains_of_kubernetes_leave_the_packet_filter() {
    let tree = tree();
    let programs = tree.path().join("programs");
    fs::create_dir(&programs).expect("a directory");
    let listing = "*filter\n:INPUT ACCEPT [0:0]\n:KUBE-FORWARD - [0:0]\n:MINE - [0:0]\n-A INPUT -j KUBE-FORWARD\n-A INPUT \
                   -s 10.0.0.0/8 -m comment --comment \"not -j KUBE-FORWARD alone\" -j MINE\n-A KUBE-FORWARD -j ACCEPT\n\
                   COMMIT\n";
    fs::write(tree.path().join("listing"), listing).expect("a file");
    for (name, command) in [("iptables-save", "cat listing"), ("iptables-restore", "cat > restored")] {
        let path = programs.join(name);
        let script = format!("#!/bin/sh\ncd {} && exec {command}\n", tree.path().display());
        fs::write(&path, script.replace("exec cat > restored", "cat > restored")).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
    let playbook = format!(
        "- hosts: m1\n  gather_facts: false\n  environment: {{PATH: \"{}:{{{{ lookup('env', 'PATH') }}}}\"}}\n  tasks:\n    \
         - hagane_packet_filter:\n        prefixes: [KUBE-, CNI-]\n",
        programs.display()
    );
    fs::write(tree.path().join("filter.yml"), playbook).expect("a playbook");
    play(tree.path(), &["--extra-vars", "ansible_python_interpreter='{{ ansible_playbook_python }}'", "filter.yml"]);
    let restored = fs::read_to_string(tree.path().join("restored")).expect("it was restored");
    let kept: Vec<&str> = restored.lines().filter(|line| line.contains("MINE") || line.contains("KUBE-")).collect();
    assert_eq!(kept.len(), 2, "{restored}");
    assert!(kept.iter().all(|line| line.contains("MINE")), "{restored}");
}
