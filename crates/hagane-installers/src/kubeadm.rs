//! The installer with our own playbooks around kubeadm and a payload.

mod settings;

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallVerb, InstallerError, InstallerKind, RunHandle, RunObservation,
};
use serde_json::{Value, json};

use crate::engine::{Engine, EngineOptions, RunPlan, Step};
use crate::payload::{self, Kind, Manifest};
use crate::playbooks;
use crate::run::RunLayout;

/// What an operator chose for the kubeadm installer.
#[derive(Clone, Debug)]
pub struct KubeadmOptions {
    /// Directory with `payload.yaml` and the files it lists.
    pub payload: PathBuf,
}

/// Installs Kubernetes from a payload with kubeadm.
pub struct KubeadmInstaller {
    engine: Engine,
    options: KubeadmOptions,
}

impl KubeadmInstaller {
    /// An installer with the given options; nothing is looked for yet but the user to run as.
    ///
    /// # Errors
    /// [`InstallerError::Prerequisite`] where that user is not there.
    pub fn new(engine: EngineOptions, options: KubeadmOptions) -> Result<Self, InstallerError> {
        Ok(Self { engine: Engine::new(engine)?, options })
    }

    fn plan(&self, request: &InstallRequest) -> Result<RunPlan, InstallerError> {
        let manifest = payload::load(&self.options.payload).map_err(|error| InstallerError::Prerequisite {
            what: "the Kubernetes payload".to_owned(),
            detail: format!(
                "looked in {}: {}; `hagane payload build` makes one",
                self.options.payload.display(),
                payload::chain(&error)
            ),
        })?;
        if !matches!(request.verb, InstallVerb::Install | InstallVerb::AddWorkers(_)) {
            let allowed = "Install or AddWorkers with this installer";
            return Err(crate::inventory::invalid("verb", format!("{:?}", request.verb), allowed));
        }
        settings::check(&request.variables, &request.inventory, &manifest)?;
        let layout = RunLayout::of(&self.engine.options().runs, &request.run_id)?;
        Ok(RunPlan {
            installer: InstallerKind::Kubeadm,
            version: format!("{} by hagane {}", manifest.kubernetes_version, env!("CARGO_PKG_VERSION")),
            // It converges: nodes that stand are left as they are, but for the routes to new ones.
            steps: vec![Step::of("playbooks/site.yml")],
            groups: Vec::new(),
            files: playbooks::kubeadm()
                .iter()
                .map(|(path, text)| (format!("playbooks/{path}"), (*text).to_owned()))
                .collect(),
            own_variables: self.own_variables(request, &layout, &manifest),
            config_lines: vec!["stdout_callback = ansible.builtin.default".to_owned()],
            must_read: vec![self.options.payload.clone()],
            tool: Some(format!("hagane {}, Kubernetes {}", env!("CARGO_PKG_VERSION"), manifest.kubernetes_version)),
            then: Value::Null,
        })
    }

    fn own_variables(
        &self,
        request: &InstallRequest,
        layout: &RunLayout,
        manifest: &Manifest,
    ) -> BTreeMap<String, Value> {
        let items = |kind: Kind| -> Vec<Value> {
            manifest.items.iter().filter(|item| item.kind == kind).map(|item| self.item(item)).collect()
        };
        let entry = |name: &str, value: Value| (name.to_owned(), value);
        BTreeMap::from([
            entry("hagane_owner", json!(request.owner_uid)),
            entry("hagane_kubernetes_version", json!(format!("v{}", manifest.kubernetes_version))),
            entry("hagane_binaries", json!(items(Kind::Binary))),
            entry("hagane_images", json!(items(Kind::Image))),
            entry("hagane_artifacts", json!(layout.in_work("artifacts"))),
        ])
    }

    fn item(&self, item: &payload::Item) -> Value {
        json!({
            "name": item.name,
            "sha256": item.sha256,
            "path": self.options.payload.join(&item.file),
            "roles": item.roles,
            "tag": item.tag,
        })
    }
}

#[async_trait]
impl ClusterInstaller for KubeadmInstaller {
    fn kind(&self) -> InstallerKind {
        InstallerKind::Kubeadm
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
