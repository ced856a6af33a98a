//! The order for an installer run, from the spec and the stored plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use hagane_api::bpa::provisioning::{InstalledNode, Installer, ProvisioningSpec};
use hagane_api::bpa::reasons::RunVerb;
use serde_json::Value;

use super::facts::{Facts, RunRecord};
use crate::roles::NodeRole;

/// The playbooks' name of the Kubernetes version.
const VERSION: &str = "kube_version";
/// Port of the API where a control plane endpoint names none.
const API_PORT: i64 = 6443;

/// What is to be installed where.
#[derive(Clone, Debug, PartialEq)]
pub struct InstallOrder {
    /// Id of the run.
    pub run: String,
    /// Which installer; the operator's default where `None`.
    pub installer: Option<Installer>,
    /// Name of the cluster.
    pub cluster: String,
    /// What the run is for.
    pub verb: RunVerb,
    /// Names of the nodes that are to join a cluster that stands, or to leave it; empty for an installation.
    pub concerned: Vec<String>,
    /// Those of them that are gone or do not answer.
    pub lost: Vec<String>,
    /// The Kubernetes version that an upgrade is to.
    pub version: Option<String>,
    /// The nodes, masters first, in an order that never changes for a cluster.
    pub nodes: Vec<OrderNode>,
    /// What the user asked for, by the playbooks' variable names: data, never templates.
    pub variables: BTreeMap<String, Value>,
    /// Names of add-ons.
    pub addons: Vec<String>,
    /// Login user.
    pub user: String,
    /// Time limit of the whole run.
    pub time_limit: Duration,
    /// Most time without a sign of life.
    pub stall_limit: Duration,
    /// Most time for one play.
    pub play_limit: Option<Duration>,
}

/// A node of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderNode {
    /// Node name.
    pub name: String,
    /// Name of its host object.
    pub host: String,
    /// Its address.
    pub address: IpAddr,
    /// SSH port.
    pub ssh_port: u16,
    /// Its roles.
    pub roles: Vec<NodeRole>,
}

/// Names a run for ever: another spec or another retry has another id.
#[must_use]
pub fn run_id(uid: &str, generation: i64, retry: Option<&str>) -> String {
    let mut id = format!("{uid}-{generation}");
    if let Some(retry) = retry {
        // Annotation values are not legal in file names.
        let _ = write!(id, "-{}", fnv(retry));
    }
    id
}

/// Names a run on a cluster that stands: another purpose, other nodes, or another run before it make another id.
pub(super) fn change_id(facts: &Facts, before: &str, purpose: &Value) -> String {
    let base = run_id(&facts.uid, facts.generation, facts.retry.as_deref());
    format!("{base}-{}", fnv(&serde_json::json!([before, purpose]).to_string()))
}

/// Digest of what a spec asks for beside nodes and version: `FIXED.VARIABLES`. What is in the first part stays as it was
/// installed; where the second one changed, a cluster that stands must be told.
#[must_use]
pub fn settings(spec: &ProvisioningSpec) -> String {
    let mut fixed = serde_json::json!([spec.installer, given(&spec.pod_subnet), given(&spec.service_subnet)]);
    // One that is not given is nothing, as before there was the field.
    if let (Some(endpoint), Some(list)) = (&spec.control_plane_endpoint, fixed.as_array_mut()) {
        list.push(serde_json::json!(endpoint));
    }
    format!("{}.{}", fnv(&fixed.to_string()), fnv(&asked_variables(spec).to_string()))
}

/// How settings that an earlier version recorded compare with what a spec asks for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settings {
    Same,
    /// Variables alone.
    Variables,
    /// More than can be changed.
    Fixed,
}

/// Compares recorded settings with a spec.
pub(super) fn compare_settings(recorded: Option<&str>, spec: &ProvisioningSpec) -> Settings {
    let now = settings(spec);
    let Some(recorded) = recorded else { return Settings::Fixed };
    match (recorded.split_once('.'), now.split_once('.')) {
        _ if recorded == now => Settings::Same,
        (Some((before, _)), Some((fixed, _))) if before == fixed => Settings::Variables,
        // A digest of everything in one.
        (None, _) if recorded == whole(spec) => Settings::Same,
        _ => Settings::Fixed,
    }
}

fn whole(spec: &ProvisioningSpec) -> String {
    let asked =
        serde_json::json!([spec.installer, given(&spec.pod_subnet), given(&spec.service_subnet), spec.variables]);
    fnv(&asked.to_string())
}

fn given(text: &Option<String>) -> Option<&String> {
    text.as_ref().filter(|text| !text.is_empty())
}

/// The version has a run of its own.
fn asked_variables(spec: &ProvisioningSpec) -> Value {
    let others = spec.variables.iter().filter(|(name, _)| name.as_str() != VERSION);
    let asked = serde_json::json!(others.collect::<BTreeMap<_, _>>());
    let addons = super::addons::variables(spec);
    if addons.is_empty() { asked } else { serde_json::json!([asked, addons]) }
}

/// The Kubernetes version that a spec asks for, without `v`: by its field, or by the playbooks' variable.
#[must_use]
pub fn asked_version(spec: &ProvisioningSpec) -> Option<String> {
    let variable = || spec.variables.get(VERSION).and_then(Value::as_str);
    let asked = spec.kubernetes_version.as_deref().or_else(variable).filter(|version| !version.is_empty())?;
    Some(asked.strip_prefix('v').unwrap_or(asked).to_owned())
}

/// FNV-1a: what it is used for needs no secrecy.
fn fnv(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

/// Most time a run of this spec may take.
#[must_use]
pub fn time_limit(spec: &ProvisioningSpec) -> Duration {
    const MINUTES: u64 = 60;
    let minutes = spec.time_limit_minutes.and_then(|minutes| u64::try_from(minutes).ok());
    Duration::from_secs(60 * minutes.unwrap_or(MINUTES))
}

/// Most time without a sign of life. Pulling all images of a node in one task can take that long.
fn stall_limit(spec: &ProvisioningSpec) -> Duration {
    minutes(spec.run_policy.as_ref().and_then(|policy| policy.stall_minutes)).unwrap_or(Duration::from_secs(30 * 60))
}

fn minutes(count: Option<i64>) -> Option<Duration> {
    let count = count.and_then(|count| u64::try_from(count).ok())?;
    Some(Duration::from_secs(count.saturating_mul(60)))
}

/// Id of the next try of a run.
pub(super) fn next_try(run: &RunRecord) -> String {
    let base = run.id.strip_suffix(&format!("-try{}", run.attempt)).unwrap_or(&run.id);
    format!("{base}-try{}", run.attempt.saturating_add(1))
}

/// The order for the recorded run. `None` where the address of a host is not known.
pub(super) fn order(facts: &Facts, spec: &ProvisioningSpec, run: &RunRecord) -> Option<InstallOrder> {
    Some(InstallOrder {
        run: run.id.clone(),
        verb: run.verb,
        concerned: concerned(facts, run),
        lost: run.lost.clone(),
        version: run.version.clone().filter(|_| run.verb == RunVerb::Upgrade),
        installer: spec.installer,
        cluster: facts.cluster.clone(),
        nodes: nodes(facts, spec, run)?,
        variables: variables(facts, spec, run),
        addons: spec.kud_plugins.clone(),
        user: spec.ssh.as_ref().and_then(|ssh| ssh.user.clone()).unwrap_or_else(|| "root".to_owned()),
        time_limit: time_limit(spec),
        stall_limit: stall_limit(spec),
        play_limit: minutes(spec.run_policy.as_ref().and_then(|policy| policy.play_minutes)),
    })
}

/// The nodes that join or leave. A run that an earlier version recorded names none: all that do not stand join.
fn concerned(facts: &Facts, run: &RunRecord) -> Vec<String> {
    if !run.nodes.is_empty() || !run.verb.joins() {
        return run.nodes.clone();
    }
    let stands = |node: &str| facts.installed.iter().flat_map(|cluster| &cluster.nodes).any(|known| known.node == node);
    let planned = facts.plan.iter().flat_map(|plan| &plan.assignments).map(|entry| entry.node.clone());
    planned.filter(|node| !stands(node)).collect()
}

/// What stands in the order in which it came, then what joins or was half joined; masters first. An installation, and
/// what follows one that did not end well, is for the whole plan.
fn nodes(facts: &Facts, spec: &ProvisioningSpec, run: &RunRecord) -> Option<Vec<OrderNode>> {
    let ssh_port = spec.ssh.as_ref().and_then(|ssh| ssh.port).and_then(|port| u16::try_from(port).ok()).unwrap_or(22);
    let planned = facts.plan.as_ref().map_or(&[][..], |plan| &plan.assignments);
    let mut nodes = Vec::new();
    let mut add = |node: &str, host: &str, address: &str, roles: &[String]| {
        let node = OrderNode {
            name: node.to_owned(),
            host: host.to_owned(),
            address: address.parse().ok()?,
            ssh_port,
            roles: super::demands::roles(roles),
        };
        nodes.push(node);
        Some(())
    };
    let standing = facts.installed.as_ref().filter(|_| run.verb != RunVerb::Install);
    let in_use = |node: &&InstalledNode| !facts.leaves_out(run, node);
    for known in standing.iter().flat_map(|cluster| &cluster.nodes).filter(in_use) {
        let entry = planned.iter().find(|entry| entry.node == known.node && entry.host_uid == known.host_uid);
        let address = entry.map_or(&known.address, |entry| &entry.address);
        add(&known.node, &known.host, address, &known.roles)?;
    }
    let stands = |node: &str| standing.iter().flat_map(|cluster| &cluster.nodes).any(|known| known.node == node);
    let concerned = concerned(facts, run);
    let unfinished = standing.map_or(&[][..], |cluster| &cluster.unfinished);
    for entry in planned.iter().filter(|entry| !stands(&entry.node)) {
        let is_for = standing.is_none()
            || concerned.contains(&entry.node)
            || (run.verb == RunVerb::Reset && unfinished.contains(&entry.node));
        if is_for {
            add(&entry.node, &entry.host, &entry.address, &entry.roles)?;
        }
    }
    if run.verb == RunVerb::Reset {
        // Nothing can be taken off a host that is gone.
        nodes.retain(|node| facts.hosts.iter().any(|host| host.facts.name == node.host));
    }
    nodes.sort_by_key(|node| !node.roles.contains(&NodeRole::Master));
    Some(nodes)
}

fn variables(facts: &Facts, spec: &ProvisioningSpec, run: &RunRecord) -> BTreeMap<String, Value> {
    let mut variables = spec.variables.clone();
    for (name, value) in [("kube_pods_subnet", &spec.pod_subnet), ("kube_service_addresses", &spec.service_subnet)] {
        if let Some(value) = value.as_ref().filter(|text| !text.is_empty()) {
            variables.insert(name.to_owned(), Value::String(value.clone()));
        }
    }
    for name in super::addons::variables(spec) {
        // What a user says by variable stands.
        variables.entry(name.to_owned()).or_insert(Value::Bool(true));
    }
    if let Some(endpoint) = &spec.control_plane_endpoint {
        let balancer = serde_json::json!({"address": endpoint.host, "port": endpoint.port.unwrap_or(API_PORT)});
        variables.insert("loadbalancer_apiserver".to_owned(), balancer);
    }
    // Only an upgrade changes the version of what stands.
    let stands = facts.installed.as_ref().and_then(|cluster| cluster.kubernetes_version.clone());
    let version = match run.verb {
        RunVerb::Install | RunVerb::Upgrade => run.version.clone(),
        _ => stands,
    };
    if let Some(version) = version.or_else(|| asked_version(spec)) {
        variables.insert(VERSION.to_owned(), Value::String(version));
    }
    variables
}
