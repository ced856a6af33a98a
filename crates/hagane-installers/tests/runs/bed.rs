//! A directory of runs and an installer whose "checkout" is a playbook of the test.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hagane_installers::run::Intent;
use hagane_installers::run::log::read_log;
use hagane_installers::{EngineOptions, KubesprayInstaller, KubesprayOptions};
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallVerb, Inventory, InventoryNode, NodeRole, RunExit, RunObservation,
    RunState, SshAccess,
};
use serde_json::Value;

pub struct Bed {
    pub directory: tempfile::TempDir,
    pub installer: KubesprayInstaller,
    pub options: EngineOptions,
}

impl Bed {
    /// A bed whose playbook has the given tasks (indented by four), run on this machine as each node.
    pub fn with_tasks(tasks: &str) -> Self {
        Self::with_play("connection: local", tasks)
    }

    /// The same with other lines for the play.
    pub fn with_play(lines: &str, tasks: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let mut options = EngineOptions::new(
            directory.path().join("runs"),
            crate::ansible_playbook(),
            PathBuf::from(env!("CARGO_BIN_EXE_hagane-installers-lab")),
        );
        options.log_limit_bytes = 1024 * 1024;
        Self::with_options(directory, options, lines, tasks)
    }

    /// The same with other options.
    pub fn with_options(directory: tempfile::TempDir, options: EngineOptions, lines: &str, tasks: &str) -> Self {
        let checkout = directory.path().join("checkout");
        fs::create_dir(&checkout).expect("a directory");
        let playbook = format!(
            "- name: The only play\n  hosts: all\n  gather_facts: false\n  become: false\n  {lines}\n  vars:\n    \
             directory: {}\n    ansible_python_interpreter: \"{{{{ ansible_playbook_python }}}}\"\n  tasks:\n{tasks}",
            directory.path().display()
        );
        // The same for further workers, but that it says so.
        let joins = playbook.replace("The only play", "The play for further workers");
        fs::write(checkout.join("scale.yml"), joins).expect("a playbook");
        fs::create_dir(checkout.join("playbooks")).expect("a directory");
        fs::write(checkout.join("playbooks/facts.yml"), "- hosts: all\n  gather_facts: false\n  tasks: []\n")
            .expect("a playbook");
        fs::write(checkout.join("cluster.yml"), playbook).expect("a playbook");
        let installer = Self::installer(&directory, &options);
        Self { directory, installer, options }
    }

    fn installer(directory: &tempfile::TempDir, options: &EngineOptions) -> KubesprayInstaller {
        let checkout = directory.path().join("checkout");
        KubesprayInstaller::new(
            options.clone(),
            KubesprayOptions { checkout, skip_checks: ["Hosts".to_owned()].into() },
        )
        .expect("an installer")
    }

    /// Another installer over the same directory, as after a restart.
    pub fn restarted(&self) -> KubesprayInstaller {
        Self::installer(&self.directory, &self.options)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn run_directory(&self) -> PathBuf {
        self.options.runs.join("run-1")
    }

    pub async fn start(&self) {
        self.start_with(&request()).await;
    }

    pub async fn start_with(&self, request: &InstallRequest) {
        self.installer.start(request).await.expect("the run starts");
    }

    pub async fn observe(&self) -> RunObservation {
        self.installer.observe("run-1").await.expect("the run can be observed")
    }

    /// Waits for the run's end.
    pub async fn finish(&self) -> (RunExit, RunObservation) {
        loop {
            let seen = self.observe().await;
            if let RunState::Finished(exit) = seen.state.clone() {
                return (exit, seen);
            }
            assert_eq!(seen.state, RunState::Running);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Waits until the playbook has made a file of that name.
    pub async fn wait_for(&self, name: &str) {
        while !self.path(name).exists() {
            let seen = self.observe().await;
            assert_eq!(seen.state, RunState::Running, "ended before {name}: {}", self.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// All that is kept of the output, and the number of bytes that are not.
    pub fn whole_log(&self) -> (String, u64) {
        let (mut text, mut left_out, mut at) = (String::new(), 0, 0);
        loop {
            let piece = read_log(&self.run_directory(), at, 1 << 20).expect("readable");
            if piece.bytes.is_empty() {
                return (text, left_out);
            }
            text.push_str(&String::from_utf8_lossy(&piece.bytes));
            (at, left_out) = (piece.next, left_out + piece.left_out);
        }
    }

    /// Bytes of all files of the output.
    pub fn log_parts(&self) -> u64 {
        let entries = fs::read_dir(self.run_directory()).expect("a directory").flatten();
        let parts = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("log"));
        parts.map(|entry| entry.metadata().expect("a file").len()).sum()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.run_directory().join("log")).unwrap_or_default()
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        // A test that failed half way leaves no process behind.
        for run in fs::read_dir(&self.options.runs).into_iter().flatten().flatten() {
            if let Ok(text) = fs::read_to_string(run.path().join("intent.json"))
                && let Ok(intent) = serde_json::from_str::<Intent>(&text)
            {
                hagane_installers::run::process::end_marked(intent.marks(), Duration::ZERO);
            }
        }
    }
}

/// A request for one node, `node1`, as run `run-1`.
pub fn request() -> InstallRequest {
    let node = InventoryNode {
        name: "node1".to_owned(),
        address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
        ssh_port: 22,
        roles: vec![NodeRole::Master],
        second_address: None,
    };
    InstallRequest {
        run_id: "run-1".to_owned(),
        owner_uid: "0b2c".to_owned(),
        cluster: "edge".to_owned(),
        verb: InstallVerb::default(),
        inventory: Inventory { nodes: vec![node], ..Inventory::default() },
        variables: BTreeMap::new(),
        ssh: SshAccess {
            user: "root".to_owned(),
            private_key: "-----BEGIN OPENSSH PRIVATE KEY-----\nAA\n-----END OPENSSH PRIVATE KEY-----".to_owned(),
            known_hosts: vec!["192.0.2.1 ssh-ed25519 AA".to_owned()],
        },
        time_limit: Duration::from_secs(300),
        limits: hagane_ports::installer::RunLimits::default(),
    }
}

/// A request with one variable.
pub fn request_with(name: &str, value: Value) -> InstallRequest {
    InstallRequest { variables: BTreeMap::from([(name.to_owned(), value)]), ..request() }
}

/// The pid in a file that a playbook's command wrote.
pub fn pid_in(path: &Path) -> i32 {
    fs::read_to_string(path).expect("a pid file").trim().parse().expect("a pid")
}

/// Waits until no process has that pid.
pub async fn gone(pid: i32) {
    // A zombie has ended too.
    let alive = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    while alive(pid) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
