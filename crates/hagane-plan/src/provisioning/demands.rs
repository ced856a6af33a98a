//! From the spec of a Provisioning to the nodes it asks for.

use std::collections::{BTreeMap, BTreeSet};

use hagane_api::bpa::demand::{HostNeeds, NodeDemand, SizedNodes};
use hagane_api::bpa::provisioning::{Assignment, ProvisioningSpec, RolePlan, validate_spec};
use hagane_api::field::FieldError;
use hagane_api::names::dns_label_problem;
use hagane_api::quantity::{ByteSize, MilliCpus, Quantity};
use ipnet::IpNet;

use crate::roles::{Demand, Needs, NodeRole};

/// The nodes that a spec asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// One demand a node: named masters, masters by size, named workers, workers by size.
    pub demands: Vec<Demand>,
    /// The next number for a master by size, once these nodes are stored.
    pub next_master_index: i64,
    /// The next number for a worker by size, once these nodes are stored.
    pub next_worker_index: i64,
    /// Where the address of a host is looked for that does not tell which NIC it boots from.
    pub node_subnet: Option<IpNet>,
}

/// Translates a spec. Nodes by size that the stored plan names keep their names; further ones get numbers that were
/// never used.
///
/// # Errors
/// Every field that cannot be acted on.
pub fn wanted(spec: &ProvisioningSpec, cluster: &str, plan: Option<&RolePlan>) -> Result<Wanted, Vec<FieldError>> {
    let mut errors = validate_spec(spec);
    if let Some(problem) = dns_label_problem(cluster) {
        errors.push(FieldError::invalid("metadata.labels[cluster]", cluster, format!("is no cluster name: {problem}")));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut nodes = Nodes { cluster, plan, taken: BTreeSet::new(), demands: Vec::new() };
    nodes.named(spec.masters.as_deref().unwrap_or_default(), NodeRole::Master);
    nodes.named(spec.workers.as_deref().unwrap_or_default(), NodeRole::Worker);
    let workers = spec.worker.as_ref().map_or(0, |_| spec.replicas.unwrap_or(1));
    let masters = spec.master.as_ref().map_or(0, |master| master.replicas.unwrap_or(1));
    let next_master_index = nodes.sized(spec.master.as_ref(), NodeRole::Master, masters);
    let next_worker_index = nodes.sized(spec.worker.as_ref(), NodeRole::Worker, workers);
    let mut demands = nodes.demands;
    if let Some(long) = demands.iter().find(|demand| dns_label_problem(&demand.node).is_some()) {
        let detail = format!("is too long: it makes the node name {:?}", long.node);
        return Err(vec![FieldError::invalid("metadata.labels[cluster]", cluster, detail)]);
    }
    if !demands.iter().any(|demand| demand.roles.contains(&NodeRole::Worker)) {
        demands.iter_mut().for_each(|demand| demand.roles.push(NodeRole::Worker));
    }
    demands.sort_by_key(|demand| !demand.is_master());
    let node_subnet = spec.node_subnet.as_ref().and_then(|subnet| subnet.parse().ok());
    Ok(Wanted { demands, next_master_index, next_worker_index, node_subnet })
}

/// Roles as the stored plan spells them.
pub(super) fn roles(words: &[String]) -> Vec<NodeRole> {
    [NodeRole::Master, NodeRole::Worker]
        .into_iter()
        .filter(|role| words.iter().any(|word| word == role.as_str()))
        .collect()
}

struct Nodes<'a> {
    cluster: &'a str,
    plan: Option<&'a RolePlan>,
    taken: BTreeSet<String>,
    demands: Vec<Demand>,
}

impl Nodes<'_> {
    /// Nodes by name. One that stands in both lists is one node in both roles, and needs what either asks.
    fn named(&mut self, list: &[BTreeMap<String, NodeDemand>], role: NodeRole) {
        let known: BTreeMap<String, usize> =
            self.demands.iter().enumerate().map(|(place, demand)| (demand.node.clone(), place)).collect();
        for (name, entry) in list.iter().flatten() {
            let mac = entry.mac_address.as_deref().and_then(|text| text.parse().ok());
            let needs = Needs { mac, ..needs_of(&entry.needs) };
            for node in entry.nodes(name) {
                self.taken.insert(node.clone());
                match known.get(&node).and_then(|place| self.demands.get_mut(*place)) {
                    Some(known) => {
                        known.roles.push(role);
                        known.needs = both(&known.needs, &needs);
                    }
                    None => self.demands.push(Demand { node, roles: vec![role], needs: needs.clone() }),
                }
            }
        }
    }

    /// Nodes by size. Returns the next free number.
    fn sized(&mut self, size: Option<&SizedNodes>, role: NodeRole, count: i64) -> i64 {
        let stored = self.plan.map_or(0, |plan| match role {
            NodeRole::Master => plan.next_master_index,
            NodeRole::Worker => plan.next_worker_index,
        });
        let prefix = format!("{}-{}-", self.cluster, role.as_str());
        let mut numbers: Vec<i64> = self.recorded().filter_map(|node| number(&node.node, &prefix)).collect();
        numbers.sort_unstable();
        let mut next = stored.max(1).max(numbers.last().map_or(1, |last| last.saturating_add(1)));
        let (Some(size), Ok(count)) = (size, usize::try_from(count)) else { return next };
        let free = |node: &String| !self.taken.contains(node);
        let mut names: Vec<String> =
            numbers.iter().map(|number| format!("{prefix}{number}")).filter(free).take(count).collect();
        while names.len() < count {
            let name = format!("{prefix}{next}");
            next = next.saturating_add(1);
            names.extend(Some(name).filter(|name| !self.taken.contains(name)));
        }
        let needs = needs_of(&size.needs);
        for node in names {
            self.taken.insert(node.clone());
            self.demands.push(Demand { node, roles: vec![role], needs: needs.clone() });
        }
        next
    }

    fn recorded(&self) -> impl Iterator<Item = &Assignment> {
        self.plan.into_iter().flat_map(|plan| &plan.assignments)
    }
}

fn number(node: &str, prefix: &str) -> Option<i64> {
    let digits = node.strip_prefix(prefix)?;
    let number: i64 = digits.parse().ok()?;
    (number > 0 && number.to_string() == digits).then_some(number)
}

fn needs_of(asked: &HostNeeds) -> Needs {
    Needs {
        cpu: cpus(asked.cpu.as_ref()),
        memory: bytes(asked.memory.as_ref()),
        disk: bytes(asked.disk.as_ref()),
        nic_count: asked.nics.and_then(|nics| u32::try_from(nics).ok()).unwrap_or_default(),
        sriov: asked.sriov == Some(true),
        qat: asked.qat == Some(true),
        gpu: asked.gpu == Some(true),
        architecture: asked.architecture().map(str::to_owned),
        labels: asked.labels.clone(),
        failure_domain: asked.failure_domain.clone(),
        host_name: asked.host_name.clone(),
        mac: None,
    }
}

/// What either asks. They do not contradict each other: `validate_spec` looked.
fn both(left: &Needs, right: &Needs) -> Needs {
    Needs {
        cpu: left.cpu.max(right.cpu),
        memory: left.memory.max(right.memory),
        disk: left.disk.max(right.disk),
        nic_count: left.nic_count.max(right.nic_count),
        sriov: left.sriov || right.sriov,
        qat: left.qat || right.qat,
        gpu: left.gpu || right.gpu,
        architecture: left.architecture.clone().or_else(|| right.architecture.clone()),
        labels: left.labels.iter().chain(&right.labels).map(|(key, value)| (key.clone(), value.clone())).collect(),
        failure_domain: left.failure_domain.clone().or_else(|| right.failure_domain.clone()),
        mac: left.mac.or(right.mac),
        host_name: left.host_name.clone().or_else(|| right.host_name.clone()),
    }
}

// Amounts were checked by `validate_spec`; what it lets through can be read.
fn cpus(quantity: Option<&Quantity>) -> MilliCpus {
    quantity.and_then(|quantity| quantity.cpus().ok()).unwrap_or_default()
}

fn bytes(quantity: Option<&Quantity>) -> ByteSize {
    quantity.and_then(|quantity| quantity.bytes().ok()).unwrap_or_default()
}
