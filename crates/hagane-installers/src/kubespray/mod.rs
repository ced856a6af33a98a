//! The installer around an operator's checkout of kubespray.

mod checkout;
mod memory;
mod networks;
mod preflight;
mod steps;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use async_trait::async_trait;
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallerError, InstallerKind, RunExit, RunHandle, RunObservation, RunState,
};
use serde_json::{Value, json};

pub use checkout::{Checkout, Version};
pub use preflight::{AnsibleVersion, CHECKS};

use self::memory::{Memories, Memory};
use self::preflight::Preflight;
use crate::engine::{Engine, EngineOptions, RunPlan, blocking};
use crate::run::RunLayout;

/// Variables that decide what happens on this machine; a user's wish for them is refused, not overruled in silence.
const OURS: [&str; 11] = [
    "kubeconfig_localhost",
    "kubeconfig_localhost_ansible_host",
    "kubectl_localhost",
    "artifacts_dir",
    "credentials_dir",
    "download_localhost",
    "local_release_dir",
    "unsafe_show_logs",
    "node",
    "skip_confirmation",
    "reset_confirmation",
];

/// What an operator chose for kubespray.
#[derive(Clone, Debug, Default)]
pub struct KubesprayOptions {
    /// The checkout, at the tag that the operator wants.
    pub checkout: PathBuf,
    /// Names of [`CHECKS`] that are left out. Those on the hosts are all left out where the list holds `Hosts`.
    pub skip_checks: BTreeSet<String>,
}

/// Runs the playbooks of a kubespray checkout.
#[derive(Clone)]
pub struct KubesprayInstaller {
    engine: Engine,
    options: KubesprayOptions,
    asked: Arc<Mutex<Option<Asked>>>,
}

/// What an `ansible-playbook` said of itself, and when it was written.
struct Asked {
    program: PathBuf,
    modified: Option<SystemTime>,
    version: AnsibleVersion,
}

impl KubesprayInstaller {
    /// An installer with the given options; nothing is looked for yet but the user to run as.
    ///
    /// # Errors
    /// [`InstallerError::Prerequisite`] where that user is not there.
    pub fn new(engine: EngineOptions, options: KubesprayOptions) -> Result<Self, InstallerError> {
        Ok(Self { engine: Engine::new(engine)?, options, asked: Arc::default() })
    }

    fn memories(&self) -> Memories {
        Memories::beside(&self.engine.options().runs)
    }

    /// Asks a program that was not asked before, or that is another one since.
    fn ask(&self, program: PathBuf) -> Option<AnsibleVersion> {
        let modified = std::fs::metadata(&program).and_then(|metadata| metadata.modified()).ok();
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = asked.as_ref().filter(|known| known.program == program && known.modified == modified) {
            return Some(known.version.clone());
        }
        let version = AnsibleVersion::ask(&program)?;
        *asked = Some(Asked { program, modified, version: version.clone() });
        Some(version)
    }

    /// Reads the checkout, asks Ansible, checks, and says what is to be run.
    fn plan(&self, request: &InstallRequest) -> Result<RunPlan, InstallerError> {
        let directory = &self.options.checkout;
        let playbook = directory.join("cluster.yml");
        if !directory.is_absolute() || !playbook.is_file() {
            return Err(InstallerError::Prerequisite {
                what: "kubespray".to_owned(),
                detail: format!("looked for {}; name a checkout by --kubespray-dir", playbook.display()),
            });
        }
        if let Some(name) = OURS.iter().find(|name| request.variables.contains_key(**name)) {
            return Err(crate::inventory::invalid("variable", name, "not set by users: the installer sets it itself"));
        }
        let checkout = Checkout::read(directory);
        let ansible = checkout.ansible.and_then(|_| self.engine.ansible()).and_then(|program| self.ask(program));
        let memory = self.memories().load(&request.owner_uid)?;
        let skip = &self.options.skip_checks;
        let preflight = Preflight { checkout: &checkout, request, memory: &memory, skip, ansible: ansible.as_ref() };
        preflight.check()?;
        let kubernetes = preflight.kubernetes()?;
        let then = Memory {
            kubespray: checkout.version.map(|version| version.to_string()),
            kubernetes: kubernetes.map(|version| version.to_string()),
            first_master: preflight::masters(&request.inventory).first().map(ToString::to_string),
            node_prefix: networks::node_prefix(request, &memory),
            node_prefix_v6: networks::node_prefix_v6(request, &memory),
            at: None,
        };
        let steps = steps::steps(directory, request, !skip.contains("Hosts"))?;
        let layout = RunLayout::of(&self.engine.options().runs, &request.run_id)?;
        let mut own_variables = own_variables(&layout, &self.engine.credentials(&request.owner_uid)?);
        own_variables.extend(version_variables(&checkout, &then, kubernetes));
        own_variables.extend(steps::joining(&request.verb));
        own_variables.insert("hagane_skip_checks".to_owned(), json!(skip));
        own_variables.insert("hagane_defaults_role".to_owned(), json!(defaults_role(directory)));
        let mut files = steps::files();
        files.extend(steps.files);
        Ok(RunPlan {
            installer: InstallerKind::Kubespray,
            version: compared_with(directory, &then),
            steps: steps.steps,
            groups: steps.groups,
            files,
            own_variables,
            config_lines: config_lines(directory),
            must_read: vec![directory.clone()],
            tool: Some(described(&checkout, ansible.as_ref())),
            then: json!(then),
        })
    }

    /// Remembers what a run that has ended well left.
    fn remember(&self, run_id: &str, seen: &RunObservation) -> Result<(), InstallerError> {
        let (Some(finished), RunState::Finished(RunExit::Succeeded)) = (seen.finished_at, &seen.state) else {
            return Ok(());
        };
        let Some((owner, then)) = self.engine.once_ended(run_id)? else { return Ok(()) };
        let Ok(then) = serde_json::from_value::<Memory>(then) else { return Ok(()) };
        self.memories().remember(&owner, &then, finished)
    }
}

/// The versions that make runs alike; a tree that names none is compared with its own earlier runs alone.
fn compared_with(directory: &Path, then: &Memory) -> String {
    let kubespray = then.kubespray.clone().unwrap_or_else(|| directory.display().to_string());
    format!("{} by kubespray {kubespray}", then.kubernetes.as_deref().unwrap_or("its default"))
}

fn described(checkout: &Checkout, ansible: Option<&AnsibleVersion>) -> String {
    let ansible = ansible.map(|ansible| format!(", ansible-core {}", ansible.core)).unwrap_or_default();
    format!("{}{ansible}", checkout.described())
}

/// The role with the defaults; older checkouts spell it otherwise.
fn defaults_role(checkout: &Path) -> &'static str {
    let now = "kubespray_defaults";
    if checkout.join("roles").join(now).is_dir() { now } else { "kubespray-defaults" }
}

/// Versions and sizes that the checks settled.
fn version_variables(checkout: &Checkout, then: &Memory, kubernetes: Option<Version>) -> BTreeMap<String, Value> {
    let version = kubernetes.map(|version| json!(checkout.spelled(version)));
    let entries = [
        ("kube_version", version),
        ("kube_network_node_prefix", then.node_prefix.map(|prefix| json!(prefix))),
        ("kube_network_node_prefix_ipv6", then.node_prefix_v6.map(|prefix| json!(prefix))),
    ];
    entries.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

fn own_variables(layout: &RunLayout, credentials: &Path) -> BTreeMap<String, Value> {
    let entry = |name: &str, value: Value| (name.to_owned(), value);
    BTreeMap::from([
        entry("kubeconfig_localhost", json!(true)),
        entry("kubeconfig_localhost_ansible_host", json!(false)),
        entry("kubectl_localhost", json!(false)),
        entry("artifacts_dir", json!(layout.in_work("artifacts"))),
        entry("credentials_dir", json!(credentials)),
        entry("unsafe_show_logs", json!(false)),
    ])
}

/// The settings that kubespray's own `ansible.cfg` makes and its playbooks need.
fn config_lines(checkout: &Path) -> Vec<String> {
    vec![
        format!("roles_path = {}", checkout.join("roles").display()),
        format!("library = {}", checkout.join("library").display()),
        "force_valid_group_names = ignore".to_owned(),
        "deprecation_warnings = False".to_owned(),
    ]
}

#[async_trait]
impl ClusterInstaller for KubesprayInstaller {
    fn kind(&self) -> InstallerKind {
        InstallerKind::Kubespray
    }

    async fn start(&self, request: &InstallRequest) -> Result<RunHandle, InstallerError> {
        let (this, wanted) = (self.clone(), request.clone());
        let plan = blocking("prepare the run", move || this.plan(&wanted)).await?;
        self.engine.start(request, plan).await
    }

    async fn observe(&self, run_id: &str) -> Result<RunObservation, InstallerError> {
        let seen = self.engine.observe(run_id).await?;
        if matches!(seen.state, RunState::Finished(RunExit::Succeeded)) {
            let (this, id, seen) = (self.clone(), run_id.to_owned(), seen.clone());
            blocking("remember the cluster", move || this.remember(&id, &seen)).await?;
        }
        Ok(seen)
    }

    async fn kubeconfig(&self, run_id: &str) -> Result<Option<Vec<u8>>, InstallerError> {
        self.engine.kubeconfig(run_id).await
    }

    async fn cancel(&self, run_id: &str) -> Result<(), InstallerError> {
        self.engine.cancel(run_id).await
    }

    async fn forget(&self, run_id: &str) -> Result<(), InstallerError> {
        self.engine.forget(run_id).await
    }

    async fn forget_owned(&self, owner_uid: &str) -> Result<(), InstallerError> {
        self.engine.forget_owned(owner_uid).await?;
        let (memories, owner) = (self.memories(), owner_uid.to_owned());
        blocking("forget the cluster", move || memories.forget(&owner)).await
    }
}
