//! The order for an installer run, from the spec and the stored plan.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use hagane_api::bpa::provisioning::{Installer, ProvisioningSpec};
use hagane_api::bpa::reasons::RunVerb;
use serde_json::Value;

use super::facts::{Facts, RunRecord};
use crate::roles::NodeRole;

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
    /// Names of the nodes that are to join a cluster that stands; empty for an installation.
    pub joining: Vec<String>,
    /// The nodes, masters first, in an order that never changes for a plan.
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

/// Digest of what a spec asks for beside nodes: whether it changed, a cluster that stands must be told.
#[must_use]
pub fn settings(spec: &ProvisioningSpec) -> String {
    let empty_is_absent = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let asked = serde_json::json!([
        spec.installer,
        empty_is_absent(&spec.pod_subnet),
        empty_is_absent(&spec.service_subnet),
        spec.variables
    ]);
    fnv(&asked.to_string())
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

/// The order for the stored plan. `None` where a host of the plan has no address.
pub(super) fn order(facts: &Facts, spec: &ProvisioningSpec, run: &RunRecord) -> Option<InstallOrder> {
    let ssh_port = spec.ssh.as_ref().and_then(|ssh| ssh.port).and_then(|port| u16::try_from(port).ok()).unwrap_or(22);
    let mut nodes = Vec::new();
    for assignment in &facts.plan.as_ref()?.assignments {
        nodes.push(OrderNode {
            name: assignment.node.clone(),
            host: assignment.host.clone(),
            address: assignment.address.parse().ok()?,
            ssh_port,
            roles: super::demands::roles(&assignment.roles),
        });
    }
    let mut variables = spec.variables.clone();
    for (name, value) in [("kube_pods_subnet", &spec.pod_subnet), ("kube_service_addresses", &spec.service_subnet)] {
        if let Some(value) = value.as_ref().filter(|text| !text.is_empty()) {
            variables.insert(name.to_owned(), Value::String(value.clone()));
        }
    }
    let stands =
        |node: &str| facts.installed.iter().flat_map(|cluster| &cluster.nodes).any(|installed| installed.node == node);
    let joining = match run.verb {
        RunVerb::AddWorkers | RunVerb::AddMasters => {
            nodes.iter().map(|node| node.name.clone()).filter(|node| !stands(node)).collect()
        }
        _ => Vec::new(),
    };
    Some(InstallOrder {
        run: run.id.clone(),
        verb: run.verb,
        joining,
        installer: spec.installer,
        cluster: facts.cluster.clone(),
        nodes,
        variables,
        addons: spec.kud_plugins.clone(),
        user: spec.ssh.as_ref().and_then(|ssh| ssh.user.clone()).unwrap_or_else(|| "root".to_owned()),
        time_limit: time_limit(spec),
        stall_limit: stall_limit(spec),
        play_limit: minutes(spec.run_policy.as_ref().and_then(|policy| policy.play_minutes)),
    })
}
