//! The plan as it is stored and printed, with a reason for every host.

mod reasons;
mod short;

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Write as _};

use hagane_api::quantity::{ByteSize, MilliCpus};
use serde::{Serialize, Serializer};

use super::candidates::Problem;
use super::demand::{NodeRole, Recorded};
use super::facts::{Availability, HostFacts};
use reasons::{Against, new_assignment, recorded_assignment};

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
    /// What the free hosts that were not taken have together.
    pub spare: Spare,
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

/// What free hosts that serve nobody have together. An unknown amount adds nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spare {
    /// How many hosts.
    pub hosts: usize,
    /// Their CPUs. Printed as a quantity.
    #[serde(serialize_with = "as_text")]
    pub cpu: MilliCpus,
    /// Their memory. Printed as a quantity.
    #[serde(serialize_with = "as_quantity")]
    pub memory: ByteSize,
    /// The largest disk of each. Printed as a quantity.
    #[serde(serialize_with = "as_quantity")]
    pub disk: ByteSize,
    /// Hosts of which CPUs, memory or disks are not known.
    pub unknown: usize,
}

impl Spare {
    fn add(&mut self, host: &HostFacts) {
        self.hosts += 1;
        self.cpu.0 = self.cpu.0.saturating_add(host.cpus.unwrap_or_default().0);
        self.memory.0 = self.memory.0.saturating_add(host.memory.unwrap_or_default().bytes().0);
        self.disk.0 = self.disk.0.saturating_add(host.disk.unwrap_or_default().0);
        self.unknown += usize::from(host.cpus.is_none() || host.memory.is_none() || host.disk.is_none());
    }
}

impl std::ops::AddAssign for Spare {
    fn add_assign(&mut self, other: Self) {
        self.hosts += other.hosts;
        self.cpu.0 = self.cpu.0.saturating_add(other.cpu.0);
        self.memory.0 = self.memory.0.saturating_add(other.memory.0);
        self.disk.0 = self.disk.0.saturating_add(other.disk.0);
        self.unknown += other.unknown;
    }
}

/// A demand that is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unsatisfied {
    /// Name of the node.
    pub demand: String,
    /// What is missing. Printed as one line.
    #[serde(serialize_with = "as_text")]
    pub short: Shortage,
    /// The nearest change that meets it, once those told before are made. Printed as one line.
    #[serde(serialize_with = "as_text")]
    pub change: Change,
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
    /// The host that comes nearest to what this node needs, among those that serve nobody.
    pub nearest: Looked<Nearest>,
}

/// Something that was looked for, but not for every demand of a very long list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked<T> {
    /// It was found.
    Found(T),
    /// There is none.
    None,
    /// Enough was told of other demands.
    NotLooked,
}

/// The host that comes nearest to a need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// Name of the host.
    pub host: String,
    /// What stands against it.
    pub lacks: Vec<String>,
}

impl fmt::Display for Shortage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
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
            Looked::Found(nearest) => write!(formatter, "; nearest is {}: {}", nearest.host, nearest.lacks.join(", ")),
            Looked::None => formatter.write_str("; there is no other host"),
            Looked::NotLooked => Ok(()),
        }
    }
}

/// What would meet a demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// A host that serves nobody would do after these steps.
    pub edit: Option<Edit>,
    /// What a further host must have. `None` where the one host that is asked for by name or MAC address is there.
    pub further: Option<String>,
    /// The one host that is asked for, and the node that it serves.
    pub taken: Option<(String, String)>,
}

/// Steps after which a host will do for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Name of the node. Where it is another one than that of the demand, it leaves its own host to that.
    pub node: String,
    /// Name of the host.
    pub host: String,
    /// What to change, each in words.
    pub steps: Vec<String>,
    /// Whether another node than that of the demand is to be changed.
    pub other: bool,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ways = Vec::new();
        ways.extend(self.edit.as_ref().map(ToString::to_string));
        ways.extend(self.further.as_ref().map(|needs| match needs.as_str() {
            "" => "add a host".to_owned(),
            needs => format!("add a host with {needs}"),
        }));
        let taken = self.taken.as_ref();
        ways.extend(taken.map(|(host, node)| format!("ask for another host than {host}, which serves {node}")));
        formatter.write_str(&ways.join("; or "))
    }
}

impl fmt::Display for Edit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, host, steps, other } = self;
        write!(formatter, "{}, and host {host} will do for {node}", steps.join(", "))?;
        if *other { formatter.write_str(", which leaves its own") } else { Ok(()) }
    }
}

fn some_names(names: &[String]) -> String {
    let mut text = names.iter().take(NAMES_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > NAMES_MAX {
        let _ = write!(text, " and {} more", names.len() - NAMES_MAX);
    }
    text
}

fn as_text<S: Serializer>(value: &impl fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn as_quantity<S: Serializer>(size: &ByteSize, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&size.quantity())
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
    let mut taken = vec![false; problem.by_rank.len()];
    chosen.values().for_each(|host| taken[problem.pool[*host as usize] as usize] = true);
    let kept: HashSet<&str> = recorded.iter().map(|entry| entry.host.as_str()).collect();
    let ranked = (0_u32..).zip(problem.by_rank.iter().map(|index| &problem.hosts[*index as usize]));
    let left: Vec<(u32, &HostFacts)> =
        ranked.filter(|(rank, host)| !taken[*rank as usize] && !kept.contains(host.name.as_str())).collect();
    let mut spare = Spare::default();
    left.iter().filter(|(_, host)| host.available == Availability::Free).for_each(|(_, host)| spare.add(host));
    let unsatisfied = short::unsatisfied(problem, violations, &left, &assignments);
    let against = Against::new(problem, chosen);
    let rejected =
        left.iter().map(|(rank, host)| Rejected { host: host.name.clone(), reasons: against.reasons(*rank, host) });
    let rejected = rejected.collect();
    Plan { assignments, rejected, unsatisfied, spare }
}
