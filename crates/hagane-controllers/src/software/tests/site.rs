//! A cluster that stands, as its Provisioning tells, and hosts with package managers, around the equipment of this crate's tests.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hagane_api::keys::{DEFAULT_SSH_SECRET, SSH_HOST_KEYS_ANNOTATION};
use hagane_api::{bpa, metal3};
use hagane_testkit::fake::{FakeInstaller, FakePackages};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::runtime::Resource;
use crate::testing::{NAMESPACE, World, condition, text};

pub(super) const PRIVATE_KEY: &str =
    "-----BEGIN OPENSSH PRIVATE KEY-----\nVERY-SECRET\n-----END OPENSSH PRIVATE KEY-----";
/// Packages that can be had on every host.
const OFFERED: [(&str, &str); 3] = [("curl", "7.88"), ("jq", "1.7"), ("htop", "3.2")];

pub(super) fn softwares() -> Resource {
    Resource::of(bpa::GROUP, "softwares").expect("a kind of ours")
}

pub(super) fn provisionings() -> Resource {
    Resource::of(bpa::GROUP, "provisionings").expect("a kind of ours")
}

pub(super) fn hosts() -> Resource {
    Resource::of(metal3::GROUP, "baremetalhosts").expect("a kind of ours")
}

pub(super) struct Site {
    pub(super) world: World,
    pub(super) hosts: BTreeMap<String, FakePackages>,
}

impl Site {
    /// Cluster `edge-2` with these nodes (`m…` is a master, `b…` both, others workers); no control loop runs yet.
    pub(super) async fn quiet(nodes: &[&str]) -> Self {
        let mut world = World::quiet().await;
        world.selection = "software".parse().expect("a name of ours");
        let mut site = Self { world, hosts: BTreeMap::new() };
        site.secret(DEFAULT_SSH_SECRET, "ssh-privatekey", PRIVATE_KEY.as_bytes()).await;
        site.secret("edge-2-kubeconfig", "value", &FakeInstaller::kubeconfig_of("r1")).await;
        site.world.create(provisionings(), json!({"metadata": {"name": "edge-2"}, "spec": {"master": {}}})).await;
        site.stands(nodes).await;
        site
    }

    pub(super) async fn running(nodes: &[&str]) -> Self {
        let mut site = Self::quiet(nodes).await;
        site.world.start();
        site
    }

    /// The cluster has these nodes from now on.
    pub(super) async fn stands(&mut self, nodes: &[&str]) {
        let mut assignments = Vec::new();
        let mut installed = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let (host, address) = (format!("host-{node}"), address(node));
            if !self.hosts.contains_key(*node) {
                let key = self.world.shell.add_host(&address);
                self.hosts.insert((*node).to_owned(), FakePackages::on(&self.world.shell, &address, &OFFERED));
                self.world.nodes.add(node);
                let object = json!({
                    "metadata": {"name": host, "annotations": {SSH_HOST_KEYS_ANNOTATION: key.0}},
                    "spec": {"online": true, "bootMACAddress": format!("52:54:00:00:aa:{index:02x}")},
                });
                self.world.create(hosts(), object).await;
            }
            let uid = self.world.get(hosts(), &host).await.and_then(|host| host.metadata.uid).expect("a uid");
            let mut roles = Vec::new();
            if node.starts_with(['m', 'b']) {
                roles.push("master");
            }
            if !node.starts_with('m') {
                roles.push("worker");
            }
            installed.push(json!({"node": node, "roles": roles, "host": host, "hostUid": uid}));
            assignments.push(json!({
                "node": node, "roles": roles, "host": host, "hostUid": uid, "address": address, "reasons": ["r"],
            }));
        }
        self.provisioning_status(json!({
            "cluster": "edge-2", "plan": {"generation": 1, "assignments": assignments},
            "installed": {"run": "r1", "nodes": installed},
        }))
        .await;
    }

    pub(super) async fn provisioning_status(&self, status: Value) {
        self.status(provisionings(), "edge-2", status).await;
    }

    pub(super) async fn status(&self, resource: Resource, name: &str, status: Value) {
        let api = resource.api(&self.world.client, NAMESPACE);
        let change = Patch::Merge(json!({"status": status}));
        api.patch_status(name, &PatchParams::default(), &change).await.expect("patched");
    }

    async fn secret(&self, name: &str, field: &str, value: &[u8]) {
        let secret: k8s_openapi::api::core::v1::Secret = serde_json::from_value(json!({
            "metadata": {"name": name}, "data": {field: BASE64.encode(value)},
        }))
        .expect("a Secret");
        let api = Api::namespaced(self.world.client.clone(), NAMESPACE);
        api.create(&PostParams::default(), &secret).await.expect("created");
    }

    /// A Software for the cluster.
    pub(super) async fn ask_for(&self, name: &str, spec: Value) {
        let object = json!({"metadata": {"name": name, "labels": {"cluster": "edge-2"}}, "spec": spec});
        self.world.create(softwares(), object).await;
    }

    pub(super) async fn until(&self, name: &str, reason: &str) -> Value {
        self.world.until_ready_says(softwares(), name, reason).await
    }

    /// Waits until a condition has this reason.
    pub(super) async fn until_says(&self, name: &str, kind: &str, reason: &str) -> Value {
        let wanted = |object: &Value| condition(object, kind).is_some_and(|found| found["reason"] == reason);
        self.world.until(softwares(), name, &format!("{kind} {reason}"), wanted).await
    }

    /// Waits until the spec as it is now was carried out.
    pub(super) async fn until_done(&self, name: &str) -> Value {
        let done = |object: &Value| {
            object["status"]["phase"] == "Ready"
                && object["status"]["observedGeneration"] == object["metadata"]["generation"]
        };
        self.world.until(softwares(), name, "Ready with the newest spec", done).await
    }

    /// Waits until no unit of ours is left on a host: they are taken away after what they did was recorded.
    pub(super) async fn until_no_units(&self, node: &str) {
        for _ in 0..50 {
            if self.hosts[node].units().is_empty() {
                return;
            }
            self.a_while().await;
        }
        unreachable!("units are left on {node}: {:?}", self.hosts[node].units());
    }

    pub(super) fn installed(&self, node: &str) -> Vec<String> {
        self.hosts[node].installed()
    }

    pub(super) async fn a_while(&self) {
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    /// Texts of all events: reason and message.
    pub(super) async fn events(&self) -> Vec<(String, String)> {
        let api: Api<k8s_openapi::api::core::v1::Event> = Api::namespaced(self.world.client.clone(), NAMESPACE);
        let list = api.list(&ListParams::default()).await.expect("events");
        list.items
            .into_iter()
            .map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default()))
            .collect()
    }
}

pub(super) fn address(node: &str) -> String {
    format!("{node}.test")
}

pub(super) fn seed() -> Value {
    json!({"masterSoftware": ["curl", {"jq": {"version": "1.6-2.1"}}], "workerSoftware": ["htop"]})
}

/// Message of a condition.
pub(super) fn message(object: &Value, kind: &str) -> String {
    condition(object, kind).map_or_else(String::new, |condition| text(&condition["message"]))
}
