//! The installer with our own playbooks around kubeadm and a payload.

mod settings;
mod verb;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use hagane_ports::installer::{
    ClusterInstaller, GroupNames, InstallRequest, InstallVerb, InstallerError, InstallerKind, Inventory, RunHandle,
    RunObservation,
};
use serde_json::{Value, json};

use crate::engine::{Engine, EngineOptions, RunPlan, Step};
use crate::payload::{self, Kind, Shelf};
use crate::playbooks;
use crate::run::RunLayout;

/// What an operator chose for the kubeadm installer.
#[derive(Clone, Debug)]
pub struct KubeadmOptions {
    /// Payloads, one a version of Kubernetes: directories with `payload.yaml` and the files it lists, or directories
    /// with such ones directly below them.
    pub payloads: Vec<PathBuf>,
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
        let shelf = self.shelf(&request.verb)?;
        let parts = verb::parts(request)?;
        settings::check(&request.variables, &request.inventory)?;
        let version = verb::version(request, &shelf)?;
        let layout = RunLayout::of(&self.engine.options().runs, &request.run_id)?;
        let files = playbooks::kubeadm().map(|(path, text)| (format!("playbooks/{path}"), text.to_owned()));
        Ok(RunPlan {
            installer: InstallerKind::Kubeadm,
            version: format!("{} by hagane {}", version.unwrap_or("as it stands"), env!("CARGO_PKG_VERSION")),
            steps: vec![Step::of(format!("playbooks/{}", parts.playbook))],
            groups: parts.groups(),
            files: files.collect(),
            own_variables: own_variables(request, &layout, &shelf, version),
            config_lines: vec!["stdout_callback = ansible.builtin.default".to_owned()],
            must_read: shelf.payloads().iter().map(|stored| stored.directory.clone()).collect(),
            tool: Some(tool(version)),
            then: Value::Null,
        })
    }

    /// The payloads; none where the verb lays nothing on hosts and they cannot be read.
    fn shelf(&self, verb: &InstallVerb) -> Result<Shelf, InstallerError> {
        match Shelf::read(&self.options.payloads) {
            Ok(shelf) => Ok(shelf),
            Err(_) if !verb::needs_payload(verb) => Ok(Shelf::default()),
            Err(error) => {
                let places: Vec<_> = self.options.payloads.iter().map(|place| place.display().to_string()).collect();
                Err(InstallerError::Prerequisite {
                    what: "the Kubernetes payload".to_owned(),
                    detail: format!(
                        "looked in {}: {}; `hagane payload build` makes one",
                        places.join(", "),
                        payload::chain(&error)
                    ),
                })
            }
        }
    }
}

/// What the run works with, for people.
fn tool(version: Option<&str>) -> String {
    format!("hagane {}, Kubernetes {}", env!("CARGO_PKG_VERSION"), version.unwrap_or("as it stands"))
}

/// The request as the playbooks expect it: with the groups' names of today.
fn with_current_names(request: &InstallRequest) -> InstallRequest {
    let inventory = Inventory { group_names: GroupNames::Current, ..request.inventory.clone() };
    InstallRequest { inventory, ..request.clone() }
}

fn own_variables(
    request: &InstallRequest,
    layout: &RunLayout,
    shelf: &Shelf,
    version: Option<&str>,
) -> BTreeMap<String, Value> {
    let payloads: BTreeMap<&str, Value> = shelf
        .payloads()
        .iter()
        .map(|stored| {
            let items = |kind: Kind| -> Vec<Value> {
                let of_kind = stored.manifest.items.iter().filter(|item| item.kind == kind);
                of_kind.map(|item| item_variables(item, &stored.directory)).collect()
            };
            let value = json!({ "binaries": items(Kind::Binary), "images": items(Kind::Image) });
            (stored.manifest.kubernetes_version.as_str(), value)
        })
        .collect();
    let newest = shelf.newest().map_or("", |stored| stored.manifest.kubernetes_version.as_str());
    let entry = |name: &str, value: Value| (name.to_owned(), value);
    BTreeMap::from([
        entry("hagane_owner", json!(request.owner_uid)),
        entry("hagane_requested_version", json!(version.unwrap_or_default())),
        entry("hagane_newest_version", json!(newest)),
        entry("hagane_payloads", json!(payloads)),
        entry("hagane_artifacts", json!(layout.in_work("artifacts"))),
    ])
}

fn item_variables(item: &payload::Item, directory: &Path) -> Value {
    json!({
        "name": item.name,
        "sha256": item.sha256,
        "path": directory.join(&item.file),
        "roles": item.roles,
        "tag": item.tag,
    })
}

#[async_trait]
impl ClusterInstaller for KubeadmInstaller {
    fn kind(&self) -> InstallerKind {
        InstallerKind::Kubeadm
    }

    async fn start(&self, request: &InstallRequest) -> Result<RunHandle, InstallerError> {
        let plan = self.plan(request)?;
        self.engine.start(&with_current_names(request), plan).await
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
