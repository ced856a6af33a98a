//! A small tree of the shape of a kubespray checkout, for speed and for faults: the same playbooks, groups and variables, and
//! tasks that only note what they were asked for. It stands for kubespray where a test asks what hagane does, never where a
//! test asks what kubespray does.
//!
//! Every playbook appends a line of JSON to `calls.jsonl` in the tree's directory ([`Call`]). The variable `tree_fail_at`,
//! `PLAYBOOK:HOST`, makes a task of that playbook fail on that host.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// The playbooks, and the hosts that they work on.
const PLAYBOOKS: [(&str, &str); 7] = [
    ("cluster.yml", "k8s_cluster:etcd"),
    ("scale.yml", "kube_node"),
    ("remove-node.yml", "{{ node | default('nobody') }}"),
    ("upgrade-cluster.yml", "k8s_cluster:etcd"),
    ("reset.yml", "k8s_cluster:etcd"),
    ("recover-control-plane.yml", "etcd[0]"),
    ("playbooks/facts.yml", "k8s_cluster:etcd"),
];

/// What a playbook notes of itself.
const PLAYBOOK: &str = r#"---
- name: The play of NAME
  hosts: "HOSTS"
  gather_facts: false
  become: false
  connection: local
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
  tasks:
    - name: Break where asked
      ansible.builtin.fail:
        msg: "NAME was asked to break on {{ inventory_hostname }}"
      when: tree_fail_at | default('') == 'NAME:' ~ inventory_hostname
    - name: Note the call
      ansible.builtin.lineinfile:
        path: "DIRECTORY/calls.jsonl"
        create: true
        mode: "0600"
        insertafter: EOF
        line: >-
          {{ {'number': lookup('ansible.builtin.pipe', 'cat DIRECTORY/calls.jsonl 2>/dev/null | wc -l') | int, 'playbook': 'NAME',
              'hosts': ansible_play_hosts, 'masters': groups['kube_control_plane'], 'workers': groups['kube_node'],
              'etcd': groups['etcd'], 'broken': groups['broken_etcd'] | default([]),
              'kubeVersion': kube_version | default(''), 'nodePrefix': kube_network_node_prefix | default(0) | int,
              'resetNodes': reset_nodes | default(true), 'ungraceful': allow_ungraceful_removal | default(false),
              'confirmed': reset_confirmation | default(false) or skip_confirmation | default(false)} | to_json }}
      run_once: true
    - name: Leave a kubeconfig
      ansible.builtin.copy:
        content: "kind: Config"
        dest: "{{ artifacts_dir }}/admin.conf"
        mode: "0600"
      run_once: true
      when: "'NAME' in ['cluster.yml', 'upgrade-cluster.yml', 'recover-control-plane.yml']"
"#;

/// What a playbook was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    /// Which.
    pub playbook: String,
    /// The hosts that its play worked on.
    pub hosts: Vec<String>,
    /// Members of `kube_control_plane`.
    pub masters: Vec<String>,
    /// Members of `kube_node`.
    pub workers: Vec<String>,
    /// Members of `etcd`.
    pub etcd: Vec<String>,
    /// Members of `broken_etcd`.
    pub broken: Vec<String>,
    /// `kube_version`; empty where not given.
    pub kube_version: String,
    /// `kube_network_node_prefix`; 0 where not given.
    pub node_prefix: u8,
    /// `reset_nodes`.
    pub reset_nodes: bool,
    /// `allow_ungraceful_removal`.
    pub ungraceful: bool,
    /// Whether nobody has to be asked.
    pub confirmed: bool,
}

/// The tree.
#[derive(Clone, Debug)]
pub struct KubesprayTree {
    directory: PathBuf,
}

impl KubesprayTree {
    /// Writes a tree of that version, which accepts these Kubernetes versions, newest first.
    ///
    /// # Errors
    /// Whatever the file system says.
    pub fn write(directory: &Path, version: &str, kubernetes: &[&str]) -> io::Result<Self> {
        let place = directory.display().to_string();
        let write = |path: &str, text: &str| {
            let path = directory.join(path);
            path.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(path, text)
        };
        for (name, hosts) in PLAYBOOKS {
            let text = PLAYBOOK.replace("NAME", name).replace("HOSTS", hosts).replace("DIRECTORY", &place);
            write(name, &text)?;
        }
        write("galaxy.yml", &format!("namespace: kubernetes_sigs\nname: kubespray\nversion: {version}\n"))?;
        write("requirements.txt", "ansible-core\n")?;
        let sums: String = kubernetes.iter().map(|version| format!("    {version}: sha256:0\n")).collect();
        write(
            "roles/kubespray_defaults/vars/main/checksums.yml",
            &format!("---\nkubelet_checksums:\n  amd64:\n{sums}"),
        )?;
        write(
            "roles/kubespray_defaults/vars/main/main.yml",
            &format!(
                "---\nbin_dir: {place}/bin\nansible_connection: local\nansible_become: false\nansible_python_interpreter: \"{{{{ ansible_playbook_python }}}}\"\n"
            ),
        )?;
        write(
            "roles/kubernetes/client/tasks/main.yml",
            "- name: Leave the renewed kubeconfig\n  ansible.builtin.copy: {content: 'kind: Config # renewed', dest: \"{{ artifacts_dir }}/admin.conf\", mode: '0600'}\n  run_once: true\n",
        )?;
        write("bin/k8s-certs-renew.sh", &format!("#!/bin/sh\necho renewed >> {place}/renewed\n"))?;
        fs::set_permissions(directory.join("bin/k8s-certs-renew.sh"), fs::Permissions::from_mode(0o755))?;
        fs::create_dir_all(directory.join("library"))?;
        Ok(Self { directory: directory.to_path_buf() })
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What its playbooks were asked for since the last question, in order.
    ///
    /// # Errors
    /// Whatever the file system says; a line that is none of the tree's.
    pub fn take_calls(&self) -> io::Result<Vec<Call>> {
        let path = self.directory.join("calls.jsonl");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        fs::remove_file(&path)?;
        text.lines().map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
    }

    /// How often certificates were renewed.
    #[must_use]
    pub fn renewals(&self) -> usize {
        fs::read_to_string(self.directory.join("renewed")).map(|text| text.lines().count()).unwrap_or_default()
    }
}
