//! The installer around an operator's checkout of kubespray.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallVerb, InstallerError, InstallerKind, RunHandle, RunObservation,
};
use serde_json::{Value, json};

use crate::engine::{Engine, EngineOptions, RunPlan, Step};
use crate::run::RunLayout;

/// Variables that decide what happens on this machine; a user's wish for them is refused, not overruled in silence.
const OURS: [&str; 8] = [
    "kubeconfig_localhost",
    "kubeconfig_localhost_ansible_host",
    "kubectl_localhost",
    "artifacts_dir",
    "credentials_dir",
    "download_localhost",
    "local_release_dir",
    "unsafe_show_logs",
];

/// What an operator chose for kubespray.
#[derive(Clone, Debug)]
pub struct KubesprayOptions {
    /// The checkout, at the tag that the operator wants.
    pub checkout: PathBuf,
}

/// Runs `cluster.yml`, and for further workers `scale.yml`, of a kubespray checkout.
pub struct KubesprayInstaller {
    engine: Engine,
    options: KubesprayOptions,
}

impl KubesprayInstaller {
    /// An installer with the given options; nothing is looked for yet but the user to run as.
    ///
    /// # Errors
    /// [`InstallerError::Prerequisite`] where that user is not there.
    pub fn new(engine: EngineOptions, options: KubesprayOptions) -> Result<Self, InstallerError> {
        Ok(Self { engine: Engine::new(engine)?, options })
    }

    fn plan(&self, request: &InstallRequest) -> Result<RunPlan, InstallerError> {
        let checkout = &self.options.checkout;
        let playbook = checkout.join(match &request.verb {
            InstallVerb::Install => "cluster.yml",
            // Without a limit: hosts that stand give their facts, and new ones are joined.
            InstallVerb::AddWorkers(_) => "scale.yml",
            other => return Err(not_here(other)),
        });
        if !checkout.is_absolute() || !playbook.is_file() {
            return Err(InstallerError::Prerequisite {
                what: "kubespray".to_owned(),
                detail: format!(
                    "looked for {}; clone kubespray at a release tag and name its absolute path by configuration",
                    playbook.display()
                ),
            });
        }
        if let Some(name) = OURS.iter().find(|name| request.variables.contains_key(**name)) {
            return Err(crate::inventory::invalid("variable", name, "not set by users: the installer sets it itself"));
        }
        let layout = RunLayout::of(&self.engine.options().runs, &request.run_id)?;
        Ok(RunPlan {
            installer: InstallerKind::Kubespray,
            steps: vec![Step::of(playbook)],
            files: Vec::new(),
            own_variables: own_variables(&layout),
            config_lines: config_lines(checkout),
            must_read: vec![checkout.clone()],
        })
    }
}

fn not_here(verb: &InstallVerb) -> InstallerError {
    crate::inventory::invalid("verb", format!("{verb:?}"), "Install or AddWorkers with this installer")
}

fn own_variables(layout: &RunLayout) -> BTreeMap<String, Value> {
    let entry = |name: &str, value: Value| (name.to_owned(), value);
    BTreeMap::from([
        entry("kubeconfig_localhost", json!(true)),
        entry("kubeconfig_localhost_ansible_host", json!(false)),
        entry("kubectl_localhost", json!(false)),
        entry("artifacts_dir", json!(layout.in_work("artifacts"))),
        entry("credentials_dir", json!(layout.in_work("credentials"))),
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
        let plan = self.plan(request)?;
        self.engine.start(request, plan).await
    }

    async fn observe(&self, run_id: &str) -> Result<RunObservation, InstallerError> {
        self.engine.observe(run_id).await
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
        self.engine.forget_owned(owner_uid).await
    }
}
