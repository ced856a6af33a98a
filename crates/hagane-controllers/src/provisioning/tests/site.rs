//! A site of hosts, an installer and clusters that answer, around the equipment of this crate's tests.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hagane_api::keys::{DEFAULT_SSH_SECRET, HARDWARE_DETAILS_ANNOTATION};
use hagane_api::{bpa, metal3};
use hagane_ports::{
    ClusterInstaller, InstallRequest, InstallerError, InstallerKind, RunExit, RunHandle, RunObservation,
};
use hagane_testkit::fake::{FakeInstaller, ShellAnswer};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client;
use kube::api::{Api, DynamicObject, ObjectMeta, PostParams};
use serde_json::{Value, json};

use crate::runtime::Resource;
use crate::testing::{Fuse, NAMESPACE, World, condition, ready, text};

pub(super) fn provisionings() -> Resource {
    Resource::of(bpa::GROUP, "provisionings").expect("a kind of ours")
}

pub(super) fn hosts() -> Resource {
    Resource::of(metal3::GROUP, "baremetalhosts").expect("a kind of ours")
}

/// Something that looks like a private key, and is found again where it must not be.
pub(super) const PRIVATE_KEY: &str =
    "-----BEGIN OPENSSH PRIVATE KEY-----\nVERY-SECRET\n-----END OPENSSH PRIVATE KEY-----";

/// The installer as the control loops see it: what it changes burns the fuse.
struct FusedInstaller {
    inner: Arc<FakeInstaller>,
    fuse: Arc<Fuse>,
}

#[async_trait]
impl ClusterInstaller for FusedInstaller {
    fn kind(&self) -> InstallerKind {
        self.inner.kind()
    }

    async fn start(&self, request: &InstallRequest) -> Result<RunHandle, InstallerError> {
        let answer = self.inner.start(request).await;
        self.fuse.burn(format!("start {}", request.run_id)).await;
        answer
    }

    async fn observe(&self, run_id: &str) -> Result<RunObservation, InstallerError> {
        self.inner.observe(run_id).await
    }

    async fn kubeconfig(&self, run_id: &str) -> Result<Option<Vec<u8>>, InstallerError> {
        self.inner.kubeconfig(run_id).await
    }

    async fn cancel(&self, run_id: &str) -> Result<(), InstallerError> {
        let before = self.inner.running().len();
        let answer = self.inner.cancel(run_id).await;
        if self.inner.running().len() < before {
            self.fuse.burn(format!("cancel {run_id}")).await;
        }
        answer
    }

    async fn forget(&self, run_id: &str) -> Result<(), InstallerError> {
        self.inner.forget(run_id).await
    }

    async fn forget_owned(&self, owner_uid: &str) -> Result<(), InstallerError> {
        let before = self.inner.recorded().len();
        let answer = self.inner.forget_owned(owner_uid).await;
        if self.inner.recorded().len() < before {
            self.fuse.burn("forget".to_owned()).await;
        }
        answer
    }
}

/// Everything of one test. Runs go on until the test ends them.
pub(super) struct Site {
    pub(super) world: World,
    pub(super) installer: Arc<FakeInstaller>,
}

impl Site {
    /// A site with an SSH key, without hosts, on which no control loop runs yet.
    pub(super) async fn quiet() -> Self {
        let site = Self::keyless().await;
        site.ssh_key(NAMESPACE, DEFAULT_SSH_SECRET, "ssh-privatekey", PRIVATE_KEY).await;
        site
    }

    /// The same without an SSH key.
    pub(super) async fn keyless() -> Self {
        let mut world = World::quiet().await;
        world.selection = "host,provisioning".parse().expect("names of ours");
        let installer = Arc::new(FakeInstaller::new(InstallerKind::Kubeadm));
        let fused = FusedInstaller { inner: Arc::clone(&installer), fuse: Arc::clone(&world.fuse) };
        world.installers.insert(InstallerKind::Kubeadm, Arc::new(fused));
        Self { world, installer }
    }

    /// A site with an SSH key and these hosts (number, CPUs, GiB) on which the control loops run.
    pub(super) async fn running(hosts: &[(u8, u64, u64)]) -> Self {
        let mut site = Self::quiet().await;
        for (number, cpus, gib) in hosts {
            site.host(*number, *cpus, *gib).await;
        }
        site.world.start();
        site
    }

    /// A host `host-N` with address 192.0.2.N that says of itself what is declared.
    pub(super) async fn host(&self, number: u8, cpus: u64, gib: u64) -> DynamicObject {
        self.answering(number, cpus, gib);
        self.world.create(hosts(), host_object(number, cpus, gib)).await
    }

    /// Puts a machine on the network that answers by SSH.
    pub(super) fn answering(&self, number: u8, cpus: u64, gib: u64) {
        let (shell, address) = (&self.world.shell, address(number));
        shell.add_host(&address);
        shell.answer(&address, &["nproc"], ShellAnswer::stdout(&format!("{cpus}\n")));
        let meminfo = format!("MemTotal: {} kB\n", gib * 1024 * 1024);
        shell.answer(&address, &["cat", "/proc/meminfo"], ShellAnswer::stdout(&meminfo));
    }

    pub(super) async fn ssh_key(&self, namespace: &str, name: &str, field: &str, value: &str) {
        let secret: Secret = serde_json::from_value(json!({
            "metadata": {"name": name}, "data": {field: BASE64.encode(value)},
        }))
        .expect("a Secret");
        let api: Api<Secret> = Api::namespaced(self.world.client.clone(), namespace);
        api.create(&PostParams::default(), &secret).await.expect("created");
    }

    pub(super) async fn namespace(&self, name: &str) {
        let namespace = Namespace {
            metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let api: Api<Namespace> = Api::all(self.world.client.clone());
        api.create(&PostParams::default(), &namespace).await.expect("created");
    }

    /// Creates a Provisioning and gives its uid.
    pub(super) async fn provision(&self, name: &str, spec: Value) -> String {
        let object = self.world.create(provisionings(), provisioning(name, spec)).await;
        object.metadata.uid.expect("a uid")
    }

    pub(super) async fn until(&self, name: &str, reason: &str) -> Value {
        self.world.until_ready_says(provisionings(), name, reason).await
    }

    pub(super) async fn until_true(&self, name: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.world.until(provisionings(), name, what, wanted).await
    }

    /// Waits for the run of a Provisioning, ends it well, and waits until the cluster stands.
    pub(super) async fn install(&self, name: &str) -> Value {
        self.end_run(name, RunExit::Succeeded).await;
        self.until(name, "Ready").await
    }

    /// Waits for the run of a Provisioning and ends it. Gives its id.
    pub(super) async fn end_run(&self, name: &str, exit: RunExit) -> String {
        let seen = self.until(name, "Installing").await;
        let id = text(&seen["status"]["run"]["id"]);
        self.installer.finish(&id, exit);
        id
    }

    pub(super) async fn get(&self, name: &str) -> Value {
        let object = self.world.get(provisionings(), name).await;
        serde_json::to_value(object.expect("there")).expect("JSON")
    }

    /// The Secret of this name, where there is one.
    pub(super) async fn secret(&self, name: &str) -> Option<Secret> {
        secret(&self.world.client, name).await
    }

    /// Names of the hosts that a Provisioning claimed.
    pub(super) async fn claimed(&self, uid: &str) -> Vec<String> {
        let list = hosts().api(&self.world.client, NAMESPACE).list(&kube::api::ListParams::default()).await;
        let mut names: Vec<String> = list
            .expect("hosts")
            .items
            .into_iter()
            .filter(|host| host.data["spec"]["consumerRef"]["uid"] == uid)
            .filter_map(|host| host.metadata.name)
            .collect();
        names.sort();
        names
    }

    /// Time for the control loops to do what they should not do.
    pub(super) async fn a_while(&self) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    /// No run began twice, or beside another one of its owner.
    pub(super) fn every_run_was_one(&self) {
        assert!(self.installer.begun().values().all(|times| *times == 1), "{:?}", self.installer.begun());
        assert_eq!(self.installer.overlaps(), Vec::<String>::new());
    }
}

pub(super) async fn secret(client: &Client, name: &str) -> Option<Secret> {
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    api.get_opt(name).await.expect("readable")
}

/// A `BareMetalHost` with facts by annotation.
pub(super) fn host_object(number: u8, cpus: u64, gib: u64) -> Value {
    let details = json!({
        "cpu": {"arch": "x86_64", "count": cpus}, "ramMebibytes": gib * 1024,
        "nics": [{"name": "eth0", "mac": mac(number), "ip": address(number)}],
    });
    json!({
        "metadata": {
            "name": format!("host-{number}"),
            "annotations": {HARDWARE_DETAILS_ANNOTATION: details.to_string()},
        },
        "spec": {"online": true, "externallyProvisioned": true, "bootMACAddress": mac(number)},
    })
}

pub(super) fn mac(number: u8) -> String {
    format!("52:54:00:6b:01:{number:02x}")
}

pub(super) fn address(number: u8) -> String {
    format!("192.0.2.{number}")
}

pub(super) fn provisioning(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Asks for one master of this size.
pub(super) fn one_master(cpu: u64, memory: &str) -> Value {
    json!({"master": {"cpu": cpu, "memory": memory}})
}

/// Node and host of every assignment of the stored plan.
pub(super) fn assigned(object: &Value) -> Vec<(String, String)> {
    let list = object["status"]["plan"]["assignments"].as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().map(|entry| (text(&entry["node"]), text(&entry["host"]))).collect()
}

/// Message of the condition `Ready`.
pub(super) fn message(object: &Value) -> String {
    condition(object, "Ready").map_or_else(String::new, |condition| text(&condition["message"]))
}

/// Status and reason of a condition.
pub(super) fn stands(object: &Value, name: &str) -> (String, String) {
    let found = condition(object, name).cloned().unwrap_or_default();
    (text(&found["status"]), text(&found["reason"]))
}

/// Phase and reason of the whole.
pub(super) fn state(object: &Value) -> (String, String) {
    (text(&object["status"]["phase"]), ready(object))
}
