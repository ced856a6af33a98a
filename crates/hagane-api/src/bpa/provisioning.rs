//! `Provisioning`: a cluster to be installed on hosts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reasons::ProvisioningPhase;
pub use super::run::{FailedTask, HostCounts, PlannedRun, RunPolicy, RunStatus};
use crate::condition::Condition;
use crate::field::FieldError;

pub use super::demand::{HostNeeds, NodeDemand, SizedNodes};

/// Spec of a `Provisioning`. Nodes are asked for by size (`master`, `worker`, `replicas`), by name (`masters`,
/// `workers`), or both.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningSpec {
    /// Masters by size: `replicas` of them (1, 3 or 5), named `<cluster>-master-N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub master: Option<SizedNodes>,
    /// Workers by size: `spec.replicas` of them, named `<cluster>-worker-N`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker: Option<SizedNodes>,
    /// How many workers of `worker`'s size; 1 where `worker` is given and this is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 5000))]
    pub replicas: Option<i64>,
    /// Masters by name: a list of single-entry maps from node name to what it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub masters: Option<Vec<BTreeMap<String, NodeDemand>>>,
    /// Workers by name: a list of single-entry maps from node name to what it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<Vec<BTreeMap<String, NodeDemand>>>,
    /// Names of add-ons. With the installer kubespray: argocd, cert-manager, gateway-api, helm, local-path-provisioner,
    /// local-volume-provisioner, metallb, metrics-server, multus, nfd (or node-feature-discovery), registry. Any other stops
    /// nothing: the condition `PluginIgnored` names it.
    #[serde(rename = "KUDPlugins", default, skip_serializing_if = "Vec::is_empty")]
    pub kud_plugins: Vec<String>,
    /// CIDR in which the address of a host is looked for where it does not say by `bootMACAddress` which of its NICs it boots
    /// from; the first known address where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_subnet: Option<String>,
    /// The cluster's pod CIDR.
    #[serde(rename = "PodSubnet", default, skip_serializing_if = "Option::is_none")]
    pub pod_subnet: Option<String>,
    /// The cluster's service CIDR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_subnet: Option<String>,
    /// Which installer runs; the operator's default where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installer: Option<Installer>,
    /// The cluster's Kubernetes version, such as `1.36.3`; the newest that the installer has where not given. A cluster that
    /// stands is upgraded to it, by one minor version at most; never back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Name or address under which all masters are reached: a virtual address or a load balancer. Nodes talk to the first
    /// master alone where it is not given. It cannot be changed for a cluster that stands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// What becomes of the cluster when the object is deleted: `Keep` (where not given) leaves it running on its hosts, `Reset`
    /// takes Kubernetes off them before they are given back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_policy: Option<DeletionPolicy>,
    /// How the hosts are logged in to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh: Option<SshLogin>,
    /// Most minutes that one installer run may take; 60 where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub time_limit_minutes: Option<i64>,
    /// Limits of installer runs beside `timeLimitMinutes`, and how often a run is tried again by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_policy: Option<RunPolicy>,
    /// Further variables for the playbooks, as data.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub variables: BTreeMap<String, Value>,
}

/// Which installer runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Installer {
    /// Our own playbooks around kubeadm.
    Kubeadm,
    /// The operator's checkout of kubespray.
    Kubespray,
}

/// Where all masters are reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ControlPlaneEndpoint {
    /// DNS name or IP address.
    pub host: String,
    /// TCP port; 6443 where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i64>,
}

/// What becomes of a cluster when its Provisioning is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DeletionPolicy {
    /// It runs on.
    Keep,
    /// Kubernetes is taken off the hosts.
    Reset,
}

/// How the hosts are logged in to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SshLogin {
    /// Login user; `root` where not given. Any other needs passwordless sudo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// TCP port; 22 where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i64>,
    /// Name of the Secret with key `ssh-privatekey`; `ssh-key-secret` where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_name: Option<String>,
}

/// Status of a `Provisioning`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningStatus {
    /// Where the installation is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ProvisioningPhase>,
    /// Name of the cluster: the label `cluster`, else the object's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What holds now, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Which host plays which role. Stored before it is used, and never reshuffled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<RolePlan>,
    /// The run that comes next to bring a cluster that stands to what the spec asks for. Stored before it is started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_run: Option<PlannedRun>,
    /// The installer run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatus>,
    /// What stands: the nodes that the last successful run left.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installed: Option<InstalledCluster>,
    /// Name of the Secret with the kubeconfig, once it was checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret: Option<String>,
}

/// A cluster as a successful run left it. Later changes of the spec are compared with this, never with the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledCluster {
    /// Id of the run.
    pub run: String,
    /// Digest of what the spec asked for beside nodes; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<String>,
    /// Its Kubernetes version, without `v`; absent where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Value of the annotation that the last renewal of certificates answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewed: Option<String>,
    /// Its nodes, masters first, in the order in which they came.
    pub nodes: Vec<InstalledNode>,
    /// Nodes that a run which has not ended well was joining or removing: nobody knows how far it came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfinished: Vec<String>,
}

/// A node of a cluster that stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstalledNode {
    /// Kubernetes node name.
    pub node: String,
    /// `master`, `worker` or both.
    pub roles: Vec<String>,
    /// Name of the `BareMetalHost`.
    pub host: String,
    /// `metadata.uid` of the `BareMetalHost`.
    pub host_uid: String,
    /// Address of the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address: String,
}

/// A stored role plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolePlan {
    /// Generation of the spec it was made for.
    pub generation: i64,
    /// One entry a node.
    pub assignments: Vec<Assignment>,
    /// Hosts not taken, and why (at most 50).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rejected: Vec<RejectedHost>,
    /// How many more hosts were not taken than `rejected` lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_more: Option<i64>,
    /// What the free hosts that were not taken have together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spare: Option<SpareCapacity>,
    /// Demands not met; nothing is installed while there are any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsatisfied: Vec<UnmetDemand>,
    /// The next number for a `<cluster>-master-N` name: numbers are never used again.
    #[serde(default)]
    pub next_master_index: i64,
    /// The next number for a `<cluster>-worker-N` name: numbers are never used again.
    #[serde(default)]
    pub next_worker_index: i64,
}

/// A node and its host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// Kubernetes node name.
    pub node: String,
    /// `master`, `worker` or both.
    pub roles: Vec<String>,
    /// Name of the `BareMetalHost`.
    pub host: String,
    /// `metadata.uid` of the `BareMetalHost`.
    #[serde(default)]
    pub host_uid: String,
    /// Address of the host.
    #[serde(default)]
    pub address: String,
    /// Which NIC the address is of, and why that one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub address_reason: String,
    /// Why this host, one reason a line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
}

/// A host that was not taken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RejectedHost {
    /// Name of the `BareMetalHost`.
    pub host: String,
    /// Why not.
    pub reasons: Vec<String>,
}

/// A demand that no free host meets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnmetDemand {
    /// Node name and what it needs.
    pub demand: String,
    /// What is missing, and the nearest host.
    pub short: String,
    /// The nearest change that meets it, once the changes of those before it are made.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub change: String,
}

/// What free hosts have together. An amount that is not known adds nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpareCapacity {
    /// How many hosts.
    pub hosts: i64,
    /// CPUs, as a quantity.
    pub cpu: String,
    /// Memory, as a quantity.
    pub memory: String,
    /// Size of the largest disk of each, as a quantity.
    pub disk: String,
    /// Hosts of which CPUs, memory or disks are not known.
    pub unknown: i64,
}

/// Checks what the schema leaves open; every message names the field, the value and what is allowed.
#[must_use]
pub fn validate(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let spec = new.get("spec").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    match serde_json::from_value::<ProvisioningSpec>(spec) {
        Ok(spec) => validate_spec(&spec),
        Err(error) => vec![FieldError::invalid("spec", "", error.to_string())],
    }
}

/// Checks a parsed spec. Controllers use it too: a real API server does not run [`validate`].
#[must_use]
pub fn validate_spec(spec: &ProvisioningSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    super::demand::check(&mut errors, spec);
    super::checks::check(&mut errors, spec);
    let cidrs = [
        ("spec.PodSubnet", &spec.pod_subnet),
        ("spec.serviceSubnet", &spec.service_subnet),
        ("spec.nodeSubnet", &spec.node_subnet),
    ];
    for (field, cidr) in cidrs {
        if let Some(cidr) = cidr.as_ref().filter(|text| !text.is_empty())
            && cidr.parse::<ipnet::IpNet>().is_err()
        {
            errors.push(FieldError::invalid(field, cidr, "must be a CIDR such as 10.244.0.0/16"));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn errors(spec: &Value) -> Vec<String> {
        validate(&json!({"spec": spec}), None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn takes_sizes_names_and_both() {
        let by_size =
            json!({"master": {"cpu": 10, "memory": "4Gi"}, "worker": {"cpu": 20, "memory": "8Gi"}, "replicas": 2});
        let by_name = json!({
            "masters": [{"master-1": {"mac-address": "52:54:00:6b:01:0a", "cpu": 4, "memory": "8Gi"}}],
            "workers": [{"worker-2": {"cpu": "2", "memory": 4_294_967_296_i64, "qat": false}}],
            "KUDPlugins": ["multus"], "PodSubnet": "10.244.64.0/18",
        });
        let both = json!({"master": {}, "workers": [{"w": {}}], "PodSubnet": ""});
        for spec in [by_size, by_name, both] {
            assert_eq!(errors(&spec), Vec::<String>::new(), "{spec}");
        }
    }

    #[test]
    fn one_machine_in_both_lists_is_one_node_in_both_roles() {
        let spec = json!({
            "masters": [{"a": {"mac-address": "52:54:00:00:10:01"}}], "workers": [{"a": {"mac-address": "52-54-00-00-10-01"}}],
        });
        assert_eq!(errors(&spec), Vec::<String>::new());
    }

    #[test]
    fn names_field_value_and_what_is_allowed() {
        let mac = "52:54:00:00:10:01";
        for (spec, start) in [
            (json!({}), "spec.masters: Required value"),
            (json!({"masters": []}), "spec.masters: Required value"),
            (json!({"master": {"replicas": 2}}), "spec.master.replicas: Invalid value: 2: must be 1, 3 or 5"),
            (json!({"master": {"memory": "4GB"}}), "spec.master.memory: Invalid value: \"4GB\""),
            (json!({"master": {"memory": ""}}), "spec.master.memory: Invalid value: \"\""),
            (json!({"master": {"memory": "99999999999999999999Ei"}}), "spec.master.memory"),
            (json!({"master": {"cpu": -2}}), "spec.master.cpu: Invalid value: -2: must not be negative"),
            (json!({"master": {}, "replicas": 2}), "spec.replicas: Invalid value: 2"),
            (json!({"master": {}, "worker": {}, "replicas": -1}), "spec.replicas: Invalid value: -1"),
            (json!({"masters": [{"a": {}, "b": {}}]}), "spec.masters[0]: Invalid value: [\"a\",\"b\"]"),
            (json!({"masters": [{}]}), "spec.masters[0]: Invalid value: []"),
            (json!({"masters": [{"A b": {}}]}), "spec.masters[0]: Invalid value: \"A b\""),
            (json!({"masters": [{"a": {"mac-address": "x"}}]}), "spec.masters[0].a.mac-address: Invalid value: \"x\""),
            (json!({"masters": [{"a": {}}, {"a": {}}, {"b": {}}]}), "spec.masters[1].a: Duplicate value: \"a\""),
            (
                json!({"masters": [{"a": {"mac-address": mac}}], "workers": [{"b": {"mac-address": mac}}]}),
                "spec.workers[0].b.mac-address: Duplicate value",
            ),
            (json!({"master": {}, "PodSubnet": "10.0.0.0/99"}), "spec.PodSubnet: Invalid value"),
            (json!({"master": {}, "nodeSubnet": "eth0"}), "spec.nodeSubnet: Invalid value: \"eth0\": must be a CIDR"),
        ] {
            let found = errors(&spec);
            assert!(found.len() == 1 && found[0].starts_with(start), "{spec}: {found:?}");
        }
    }
}
