//! The operator's checkout of kubespray, or a small tree of the same shape in its place.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use hagane_testkit::lab::Lab;
use hagane_testkit::road::host_manifests;
use serde_json::{Value, json};

use super::objects::{by_mac, provisioning};
use super::site::{ENDED, Site, in_lab, tasks_started, text};
use crate::support;

/// What the small tree does: hosts keep what was asked for and which groups Ansible saw; the first master's kubeconfig is left
/// where kubespray leaves it.
const CLUSTER_YML: &str = r#"---
- name: Look at the hosts
  hosts: k8s_cluster:etcd
  gather_facts: false
  tasks:
    - name: Keep what was asked for
      ansible.builtin.copy:
        content: "{{ {'note': note | default(''), 'deep': deep | default({}), 'groups': groups} | to_json }}"
        dest: "/var/tmp/asked-{{ inventory_hostname }}.json"
        mode: "0600"
    - name: Show that a template of the playbook is evaluated
      ansible.builtin.debug:
        msg: "{{ lookup('ansible.builtin.pipe', 'touch INJECTED/control') }}"
      run_once: true
    - name: Show what was asked for
      ansible.builtin.debug:
        msg: "{{ note | default('') }} {{ deep | default({}) }}"

- name: Leave a kubeconfig
  hosts: kube_control_plane[0]
  gather_facts: false
  tasks:
    - name: Write it
      ansible.builtin.copy:
        content: |
          {apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}],
           clusters: [{name: c, cluster: {server: "https://{{ ip }}:6443"}}], users: [{name: u, user: {token: none}}]}
        dest: "{{ artifacts_dir }}/admin.conf"
        mode: "0600"
      delegate_to: localhost
      become: false
"#;

/// Where templates leave files when they are evaluated: anybody may write there.
pub fn injected(lab: &Lab) -> PathBuf {
    lab.directory().join("injected")
}

/// Writes the small tree into the lab and gives the flags that name it.
pub fn small_tree(lab: &Lab) -> Result<Vec<String>> {
    let checkout = lab.directory().join("checkout");
    for directory in ["roles", "library"] {
        std::fs::create_dir_all(checkout.join(directory)).context("make the tree")?;
    }
    let playbook = checkout.join("cluster.yml");
    let injected = injected(lab);
    std::fs::create_dir_all(&injected).context("make a directory")?;
    let text = CLUSTER_YML.replace("INJECTED", &injected.display().to_string());
    std::fs::write(&playbook, text).context("write the tree")?;
    for (path, mode) in [(&playbook, 0o644), (&injected, 0o1777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).context("set a mode")?;
    }
    Ok(vec![format!("--kubespray-dir={}", checkout.display())])
}

/// A Provisioning for kubespray, unless it names another installer.
pub fn for_kubespray(name: &str, mut spec: Value) -> Value {
    if spec.get("installer").is_none() {
        spec["installer"] = json!("kubespray");
    }
    provisioning(name, &spec)
}

/// Waits until the run of a Provisioning has ended well; the small tree's cluster does not answer, and that is said.
pub fn wait_succeeded(site: &Site<'_>, name: &str) -> Result<Value> {
    let seen = site.wait_reason(name, "KubeconfigNotAnswering", ENDED)?;
    ensure!(text(&seen, "/status/run/state") == "Succeeded", "{}", seen["status"]);
    ensure!(text(&seen, "/status/run/installer") == "kubespray", "{}", seen["status"]);
    Ok(seen)
}

/// Runs the program of a run once more, with further arguments and as root; gives what it prints.
pub fn replay(site: &Site<'_>, run: &Path, further: &[&str]) -> Result<String> {
    let intent = std::fs::read(run.join("intent.json")).context("read the run's intent")?;
    let intent: Value = serde_json::from_slice(&intent).context("the intent is JSON")?;
    let mut words = vec![
        "env".to_owned(),
        format!("--chdir={}", text(&intent, "/workingDirectory")),
        "--ignore-environment".to_owned(),
    ];
    for (name, value) in intent["environment"].as_object().context("an environment")? {
        // What this prints is no part of the run's progress.
        if name != "HAGANE_PROGRESS_FILE" {
            words.push(format!("{name}={}", value.as_str().unwrap_or_default()));
        }
    }
    words.push(text(&intent, "/program").to_owned());
    words.extend(intent["arguments"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    words.extend(further.iter().map(ToString::to_string));
    let output = site.lab.exec(words)?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{further:?}: {}\n{printed}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(printed)
}

/// The real thing, where the operator of the tests has a checkout.
#[test]
fn a_checkout_of_kubespray_is_understood() -> Result<()> {
    let test = "hosts::a_checkout_of_kubespray";
    let Some(checkout) = std::env::var_os("HAGANE_KUBESPRAY").map(PathBuf::from) else {
        support::left_out(test, "HAGANE_KUBESPRAY names no checkout of kubespray");
        return Ok(());
    };
    let flags = |_: &Lab| {
        let playbook = std::env::var("HAGANE_KUBESPRAY_ANSIBLE_PLAYBOOK");
        let playbook = playbook.map(|playbook| format!("--kubespray-ansible-playbook={playbook}"));
        Ok([format!("--kubespray-dir={}", checkout.display())].into_iter().chain(playbook).collect())
    };
    in_lab(test, &["node:1:2048"], flags, |site| {
        site.step("a run begins", |site| {
            site.server.apply(&host_manifests(site.hosts()))?;
            site.server.apply(&hagane_testkit::road::ssh_secret_manifest(&site.ssh_key()?))?;
            let mac = site.hosts()[0].mac.clone();
            site.create(&for_kubespray("real", json!({"masters": [by_mac("node-1", &mac)]})))?;
            site.wait_provisioning("a task has begun", "real", ENDED, |seen| tasks_started(seen) > 0).map(drop)
        })?;
        site.step("syntax and tasks with our inventory", |site| {
            let run = site.run_directory(&site.provisioning("real")?);
            replay(site, &run, &["--syntax-check"])?;
            let tasks = replay(site, &run, &["--list-tasks"])?;
            ensure!(tasks.contains("kubernetes"), "{tasks}");
            println!("        {} lines of tasks", tasks.lines().count());
            Ok(())
        })?;
        site.step("the run is cancelled", |site| site.delete(&["provisioning", "real"]))
    })
}
