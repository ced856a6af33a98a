//! The plan as it is stored and printed, with a reason for every host.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::ops::ControlFlow;

use serde::{Serialize, Serializer};

use super::candidates::{Problem, Shape};
use super::demand::{Demand, NodeRole, Recorded};
use super::facts::{Availability, HostFacts};
use super::fit::{Lack, examine, fits, lacks};

/// Most names listed in a text.
const NAMES_MAX: usize = 8;

/// A role plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Plan {
    /// Recorded assignments first, then new ones: masters, then the listed order.
    pub assignments: Vec<Assignment>,
    /// Hosts not taken, by rank.
    pub rejected: Vec<Rejected>,
    /// Demands not met, in order of priority.
    pub unsatisfied: Vec<Unsatisfied>,
}

impl Plan {
    /// Whether every demand is met.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unsatisfied.is_empty()
    }
}

/// A node and its host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Assignment {
    /// Name of the node.
    pub node: String,
    /// Its roles.
    pub roles: Vec<NodeRole>,
    /// Name of its host.
    pub host: String,
    /// Why this host.
    pub reasons: Vec<String>,
}

/// A host that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rejected {
    /// Name of the host.
    pub host: String,
    /// Why not.
    pub reasons: Vec<String>,
}

/// A demand that is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsatisfied {
    /// Name of the node.
    pub demand: String,
    /// What is missing. Printed as one line.
    #[serde(serialize_with = "as_text")]
    pub short: Shortage,
}

/// Demands that together need more hosts than fit any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortage {
    /// How many hosts are missing.
    pub missing: usize,
    /// Nodes that compete, this one included.
    pub demands: Vec<String>,
    /// Hosts that fit any of them.
    pub hosts: Vec<String>,
    /// The host that comes nearest to what this node needs, among those that do not serve it.
    pub nearest: Option<Nearest>,
}

/// The host that comes nearest to a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Name of the host.
    pub host: String,
    /// What stands against it.
    pub lacks: Vec<String>,
}

impl std::fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plural = if self.missing == 1 { "host" } else { "hosts" };
        write!(formatter, "{} {plural} short: ", self.missing)?;
        let nodes = some_names(&self.demands);
        match (self.demands.len(), self.hosts.len()) {
            (_, 0) => write!(formatter, "no free host fits {nodes}")?,
            (_, hosts) => write!(
                formatter,
                "{} of {} nodes can be placed: {nodes} fit only {}",
                hosts.min(self.demands.len()),
                self.demands.len(),
                some_names(&self.hosts)
            )?,
        }
        match &self.nearest {
            Some(nearest) => write!(formatter, "; nearest is {}: {}", nearest.host, nearest.lacks.join(", ")),
            None => formatter.write_str("; there is no other host"),
        }
    }
}

fn some_names(names: &[String]) -> String {
    let mut text = names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_MAX {
        let _ = write!(text, " and {} more", names.len() - NAMES_MAX);
    }
    text
}

fn as_text<S: Serializer>(shortage: &Shortage, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(shortage)
}

/// Shapes that compete for too few hosts, and the demands that got none.
pub(super) struct Violation {
    pub shapes: Vec<usize>,
    pub unmet: Vec<usize>,
}

pub(super) fn report(
    problem: &Problem<'_>,
    recorded: &[Recorded],
    chosen: &HashMap<usize, u32>,
    violations: &[Violation],
    spread: Option<u32>,
) -> Plan {
    let known: HashMap<&str, &HostFacts> = if recorded.is_empty() {
        HashMap::new()
    } else {
        problem.hosts.iter().map(|host| (host.name.as_str(), host)).collect()
    };
    let mut assignments: Vec<Assignment> =
        recorded.iter().map(|entry| recorded_assignment(entry, known.get(entry.host.as_str()).copied())).collect();
    let serving: HashMap<u32, usize> = chosen.iter().map(|(demand, host)| (*host, *demand)).collect();
    for demand in &problem.priority {
        if let Some(host) = chosen.get(demand) {
            assignments.push(new_assignment(problem, *demand, *host, &serving, spread));
        }
    }
    let taken: HashSet<&str> = assignments.iter().map(|assignment| assignment.host.as_str()).collect();
    let rejected = problem
        .by_rank
        .iter()
        .map(|index| &problem.hosts[*index as usize])
        .filter(|host| !taken.contains(host.name.as_str()))
        .map(|host| Rejected { host: host.name.clone(), reasons: against(problem, host) })
        .collect();
    let unsatisfied = unsatisfied(problem, violations, &taken);
    Plan { assignments, rejected, unsatisfied }
}

fn recorded_assignment(entry: &Recorded, host: Option<&HostFacts>) -> Assignment {
    let mut reasons = vec!["recorded before, and stays".to_owned()];
    match host.map(|host| &host.available) {
        None => reasons.push("the host is gone".to_owned()),
        Some(Availability::Free) => {}
        Some(state) => reasons.push(format!("the host {}", unavailable(state))),
    }
    Assignment { node: entry.node.clone(), roles: entry.roles.clone(), host: entry.host.clone(), reasons }
}

fn new_assignment(
    problem: &Problem<'_>,
    demand: usize,
    host: u32,
    serving: &HashMap<u32, usize>,
    spread: Option<u32>,
) -> Assignment {
    let shape = &problem.shapes[problem.shape_of[demand]];
    let facts = problem.host(host);
    let mut reasons = Vec::new();
    if let Some(has) = met_needs(shape.needs, facts) {
        reasons.push(has);
    }
    let lower: Vec<u32> = shape.candidates.iter().copied().take_while(|other| *other < host).collect();
    let busy = lower.iter().filter(|other| serving.contains_key(other)).count();
    match lower.len() {
        0 => reasons.push("lowest-ranked host that fits".to_owned()),
        all if all == busy => {
            reasons.push(format!("lowest-ranked host that fits, after {busy} that serve other nodes"));
        }
        all => reasons.push(format!(
            "{busy} lower-ranked hosts serve other nodes, {} would put masters closer together",
            all - busy
        )),
    }
    if let (true, Some(domains)) = (shape.master, spread) {
        let own =
            facts.failure_domain.as_deref().map_or_else(|| "none known".to_owned(), |domain| format!("{domain:?}"));
        reasons.push(format!("failure domain {own}: masters stand in {domains}"));
    }
    let Demand { node, roles, .. } = &problem.demands[demand];
    Assignment { node: node.clone(), roles: roles.clone(), host: facts.name.clone(), reasons }
}

/// What the host has of what is needed.
fn met_needs(needs: &super::demand::Needs, host: &HostFacts) -> Option<String> {
    let mut met = Vec::new();
    if let Some(mac) = needs.mac {
        met.push(format!("MAC address {mac}"));
    }
    if let (true, Some(has)) = (needs.cpu.0 > 0, host.cpus) {
        met.push(format!("{has} CPUs for {}", needs.cpu));
    }
    if let (true, Some(has)) = (needs.memory.0 > 0, host.memory) {
        met.push(format!("{} of memory for {}", has.bytes(), needs.memory));
    }
    if let (true, Some(has)) = (needs.disk.0 > 0, host.disk) {
        met.push(format!("{has} of disk for {}", needs.disk));
    }
    for (name, needed) in [("sriov", needs.sriov), ("qat", needs.qat), ("gpu", needs.gpu)] {
        if needed {
            met.push(name.to_owned());
        }
    }
    (!met.is_empty()).then(|| format!("has {}", met.join(", ")))
}

fn unavailable(state: &Availability) -> String {
    match state {
        Availability::Free => "is free".to_owned(),
        Availability::ClaimedBy(who) => format!("is claimed by {who}"),
        Availability::Unhealthy(why) => format!("is marked unhealthy: {why}"),
        Availability::NotReady(why) => format!("cannot be used: {why}"),
    }
}

fn against(problem: &Problem<'_>, host: &HostFacts) -> Vec<String> {
    if host.available != Availability::Free {
        return vec![unavailable(&host.available)];
    }
    if problem.shapes.iter().any(|shape| fits(host, shape.needs)) {
        return vec!["not needed: hosts of a lower rank serve the nodes it fits".to_owned()];
    }
    let count = |shape: &&Shape<'_>| {
        let mut count = 0_usize;
        let _ = examine(host, shape.needs, |_| {
            count += 1;
            ControlFlow::<()>::Continue(())
        });
        count
    };
    let Some(nearest) = problem.shapes.iter().min_by_key(count) else {
        return vec!["not needed: no node is without a host".to_owned()];
    };
    let node = nearest.members.first().map_or("", |first| problem.demands[*first].node.as_str());
    lacks(host, nearest.needs).iter().map(|lack| format!("for {node}: {lack}")).collect()
}

fn unsatisfied(problem: &Problem<'_>, violations: &[Violation], taken: &HashSet<&str>) -> Vec<Unsatisfied> {
    let mut by_demand: BTreeMap<usize, Unsatisfied> = BTreeMap::new();
    let place: HashMap<usize, usize> = problem.priority.iter().enumerate().map(|(at, demand)| (*demand, at)).collect();
    for violation in violations {
        let mut nodes: Vec<usize> =
            violation.shapes.iter().flat_map(|shape| problem.shapes[*shape].members.iter().copied()).collect();
        nodes.sort_unstable_by_key(|demand| place.get(demand));
        let mut hosts: Vec<u32> =
            violation.shapes.iter().flat_map(|shape| problem.shapes[*shape].candidates.iter().copied()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let mut nearest_by_shape: HashMap<usize, Option<Nearest>> = HashMap::new();
        for demand in &violation.unmet {
            let shape = problem.shape_of[*demand];
            let nearest = nearest_by_shape.entry(shape).or_insert_with(|| nearest(problem, shape, taken));
            let short = Shortage {
                missing: nodes.len().saturating_sub(hosts.len()),
                demands: nodes.iter().map(|demand| problem.demands[*demand].node.clone()).collect(),
                hosts: hosts.iter().map(|host| problem.host(*host).name.clone()).collect(),
                nearest: nearest.clone(),
            };
            let at = place.get(demand).copied().unwrap_or(usize::MAX);
            by_demand.insert(at, Unsatisfied { demand: problem.demands[*demand].node.clone(), short });
        }
    }
    by_demand.into_values().collect()
}

/// The nearest host that serves nobody: fewest things that no hardware change of degree mends, then least missing.
fn nearest(problem: &Problem<'_>, shape: usize, taken: &HashSet<&str>) -> Option<Nearest> {
    let needs = problem.shapes[shape].needs;
    let mut best: Option<((usize, u64), &HostFacts)> = None;
    for index in &problem.by_rank {
        let host = &problem.hosts[*index as usize];
        if taken.contains(host.name.as_str()) {
            continue;
        }
        let lacks = lacks(host, needs);
        let hard = lacks.iter().filter(|lack| per_mille(lack).is_none()).count();
        let hard = hard + usize::from(host.available != Availability::Free);
        let distance = (hard, lacks.iter().filter_map(per_mille).sum());
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, host));
        }
    }
    let (_, host) = best?;
    let mut reasons: Vec<String> = lacks(host, needs).iter().map(ToString::to_string).collect();
    reasons.extend((host.available != Availability::Free).then(|| unavailable(&host.available)));
    Some(Nearest { host: host.name.clone(), lacks: reasons })
}

/// How much of an amount is missing, in thousandths of what is needed; nothing where it is no matter of degree.
fn per_mille(lack: &Lack<'_>) -> Option<u64> {
    let part = |has: u64, needs: u64| {
        u64::try_from(u128::from(needs.saturating_sub(has)) * 1000 / u128::from(needs.max(1))).ok()
    };
    match lack {
        Lack::Cpu { has: Some(has), needs } => part(has.0, needs.0),
        Lack::Memory { has: Some(has), needs } => part(has.bytes().0, needs.0),
        Lack::Disk { has: Some(has), needs } => part(has.0, needs.0),
        Lack::Nics { has: Some(has), needs } => part(u64::try_from(*has).unwrap_or(u64::MAX), u64::from(*needs)),
        _ => None,
    }
}
