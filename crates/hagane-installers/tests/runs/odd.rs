//! Places, names and hosts that are not as one would like them.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use hagane_installers::EngineOptions;
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallerError, Inventory, InventoryNode, NodeRole, RunExit, RunState,
};
use serde_json::json;

use crate::bed::{Bed, request, request_with};

fn nodes(names: &[&str]) -> InstallRequest {
    let node = |(number, name): (u8, &&str)| InventoryNode {
        name: (*name).to_owned(),
        address: IpAddr::from([192, 0, 2, number]),
        ssh_port: 22,
        roles: vec![if number == 1 { NodeRole::Master } else { NodeRole::Worker }],
        second_address: None,
    };
    let nodes = (1..).zip(names).map(node).collect();
    InstallRequest { inventory: Inventory { nodes, ..Inventory::default() }, ..request() }
}

fn bed_in(name: &str) -> Bed {
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join(name).join("runs");
    fs::create_dir_all(&runs).expect("a directory");
    let shim = PathBuf::from(env!("CARGO_BIN_EXE_hagane-installers-lab"));
    let options = EngineOptions::new(runs, crate::ansible_playbook(), shim);
    let tasks = "    - name: Leave a kubeconfig\n      ansible.builtin.copy: {content: \"{{ wish }}\", dest: \"{{ artifacts_dir }}/admin.conf\", mode: '0600'}\n";
    Bed::with_options(directory, options, "connection: local", tasks)
}

#[tokio::test]
async fn a_data_directory_whose_name_ansible_or_ssh_would_misread_is_refused_and_others_work() {
    for name in ["two words", "100%s", "{{ x }}", "{%", "q'", "d\"", "a:b", "$HOME", "~", "`x`", "a\u{1b}b", "\u{202e}"]
    {
        let bed = bed_in(name);
        let error = bed.installer.start(&request()).await.expect_err("refused");
        assert!(matches!(error, InstallerError::Prerequisite { .. }), "{name:?}: {error}");
        let told = error.to_string();
        assert!(told.contains("--data-dir") && !told.contains(char::is_control), "{told}");
        assert_eq!(bed.observe().await.state, RunState::Absent);
    }
    let bed = bed_in("d\u{fc}\u{4e2d}_A-1.x+y@z=");
    bed.start_with(&request_with("wish", json!("kind: Config"))).await;
    let (exit, seen) = bed.finish().await;
    assert_eq!((exit, seen.progress.tasks_started), (RunExit::Succeeded, 1), "{}", bed.log());
    let kubeconfig = bed.installer.kubeconfig("run-1").await.expect("readable");
    assert_eq!(kubeconfig.as_deref(), Some(&b"kind: Config"[..]));
}

#[tokio::test]
async fn a_host_that_dies_half_way_is_named_and_what_was_done_elsewhere_is_told() {
    let tasks = "    - name: Prepare\n      ansible.builtin.debug:\n    - name: Die\n      ansible.builtin.set_fact: {ansible_connection: ssh, ansible_host: 127.0.0.1, \
                 ansible_port: 1}\n      when: inventory_hostname == 'w-1'\n    - name: Join\n      ansible.builtin.ping:\n    - name: Finish\n      ansible.builtin.ping:\n";
    let bed = Bed::with_tasks(tasks);
    bed.start_with(&nodes(&["m-1", "w-1"])).await;
    let (exit, seen) = bed.finish().await;
    assert_eq!(exit, RunExit::Failed { status: 4 }, "{}", bed.log());
    let progress = seen.progress;
    assert!(progress.only_unreachable(), "it is tried again by itself: {progress:?}");
    let failure = &progress.failures[0];
    assert_eq!((failure.host.as_str(), failure.task.as_str()), ("w-1", "Join"));
    assert!(failure.message.contains("refused"), "{failure:?}");
    assert_eq!((progress.hosts["m-1"].ok, progress.hosts["w-1"].unreachable), (3, 1), "the other host went on");
}

#[tokio::test]
async fn a_name_that_cannot_be_resolved_fails_its_task_and_says_so() {
    let tasks = "    - name: Fetch\n      ansible.builtin.get_url: {url: 'http://no-such-host.invalid/x', dest: \"{{ directory }}/x\", mode: '0600', timeout: 5}\n";
    let bed = Bed::with_tasks(tasks);
    bed.start().await;
    let (exit, seen) = bed.finish().await;
    assert_eq!(exit, RunExit::Failed { status: 2 }, "{}", bed.log());
    let failure = &seen.progress.failures[0];
    assert_eq!((failure.task.as_str(), failure.state.as_str()), ("Fetch", "failed"));
    assert!(failure.message.contains("urlopen error"), "{failure:?}");
    assert!(!seen.progress.only_unreachable(), "a person has to look");
}

#[tokio::test]
async fn names_with_odd_characters_are_told_as_they_are_and_act_on_nothing() {
    let odd = "a: b - {c} [d] & *e !f | g > h % i @j `k` \\\" 'l' # m \u{fc}\u{20ac}\u{1f600} {{ 'n' }}";
    let tasks = format!("    - name: \"{odd}\"\n      ansible.builtin.command: \"true\"\n");
    let bed = Bed::with_tasks(&tasks);
    let checkout = bed.path("checkout/cluster.yml");
    let text = fs::read_to_string(&checkout)
        .expect("a playbook")
        .replace("- name: The only play", &format!("- name: \"{odd}\""));
    fs::write(checkout, text).expect("a playbook");
    bed.start_with(&nodes(&["a-b", "0-1"])).await;
    let (exit, seen) = bed.finish().await;
    assert_eq!(exit, RunExit::Succeeded, "{}", bed.log());
    let told = "a: b - {c} [d] & *e !f | g > h % i @j `k` \" 'l' # m \u{fc}\u{20ac}\u{1f600} ";
    let progress = seen.progress;
    assert!(progress.play.as_deref().is_some_and(|play| play.starts_with(told)), "{:?}", progress.play);
    assert!(progress.task.as_deref().is_some_and(|task| task.starts_with(told)), "{:?}", progress.task);
    assert_eq!(progress.hosts.keys().collect::<Vec<_>>(), ["0-1", "a-b"]);
    let timings = fs::read_to_string(bed.run_directory().join("timings.json")).expect("a file");
    assert!(timings.contains("\u{1f600}"), "{timings}");
}
