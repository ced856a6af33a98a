//! Why a host was taken, or not.

use std::collections::HashMap;
use std::ops::ControlFlow;

use hagane_api::quantity::{ByteSize, MilliCpus};

use super::super::candidates::{Problem, Shape};
use super::super::demand::{Demand, Needs, Recorded};
use super::super::facts::{Availability, HostFacts};
use super::super::fit::{examine, fits, lacks};
use super::Assignment;

pub(super) fn recorded_assignment(entry: &Recorded, host: Option<&HostFacts>) -> Assignment {
    let mut reasons = vec!["recorded before, and stays".to_owned()];
    match host.map(|host| &host.available) {
        None => reasons.push("the host is gone".to_owned()),
        Some(Availability::Free) => {}
        Some(state) => reasons.push(format!("the host {}", unavailable(state))),
    }
    Assignment { node: entry.node.clone(), roles: entry.roles.clone(), host: entry.host.clone(), reasons }
}

pub(super) fn new_assignment(
    problem: &Problem<'_>,
    demand: usize,
    host: u32,
    serving: &HashMap<u32, usize>,
    spread: Option<u32>,
) -> Assignment {
    let shape = &problem.shapes[problem.shape_of[demand]];
    let facts = problem.host(host);
    let mut reasons = Vec::new();
    let (met, spare) = (met_needs(shape.needs, facts), to_spare(shape.needs, facts));
    reasons.extend((!met.is_empty()).then(|| format!("has {}", met.join(", "))));
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
    reasons.extend((!spare.is_empty()).then(|| format!("to spare: {}", spare.join(", "))));
    let Demand { node, roles, .. } = &problem.demands[demand];
    Assignment { node: node.clone(), roles: roles.clone(), host: facts.name.clone(), reasons }
}

/// What the host has of what is needed.
fn met_needs(needs: &Needs, host: &HostFacts) -> Vec<String> {
    let mut met = Vec::new();
    met.extend(needs.host_name.as_ref().map(|name| format!("the name {name}")));
    met.extend(needs.mac.map(|mac| format!("MAC address {mac}")));
    if let (true, Some(has)) = (needs.cpu.0 > 0, host.cpus) {
        met.push(format!("{has} CPUs for {}", needs.cpu));
    }
    if let (true, Some(has)) = (needs.memory.0 > 0, host.memory) {
        met.push(format!("{} of memory for {}", has.bytes(), needs.memory));
    }
    if let (true, Some(has)) = (needs.disk.0 > 0, host.disk) {
        met.push(format!("{has} of disk for {}", needs.disk));
    }
    if let (true, Some(nics)) = (needs.nic_count > 0, &host.nics) {
        met.push(format!("{} NICs for {}", nics.len(), needs.nic_count));
    }
    for (name, needed) in [("sriov", needs.sriov), ("qat", needs.qat), ("gpu", needs.gpu)] {
        met.extend(needed.then(|| name.to_owned()));
    }
    met.extend(needs.architecture.as_ref().map(|name| format!("architecture {name}")));
    met.extend(needs.failure_domain.as_ref().map(|name| format!("failure domain {name}")));
    met.extend(needs.labels.iter().map(|(key, value)| format!("label {key}={value}")));
    met
}

/// What the host has beyond what is needed, of the amounts that are asked for.
fn to_spare(needs: &Needs, host: &HostFacts) -> Vec<String> {
    let mut spare = Vec::new();
    let over = |has: u64, needs: u64| Some(has.saturating_sub(needs)).filter(|over| needs > 0 && *over > 0);
    let cpus = over(host.cpus.unwrap_or_default().0, needs.cpu.0);
    spare.extend(cpus.map(|over| format!("{} CPUs", MilliCpus(over))));
    let memory = over(host.memory.unwrap_or_default().bytes().0, needs.memory.0);
    spare.extend(memory.map(|over| format!("{} of memory", ByteSize(over))));
    let disk = over(host.disk.unwrap_or_default().0, needs.disk.0);
    spare.extend(disk.map(|over| format!("{} of disk", ByteSize(over))));
    spare
}

pub(super) fn unavailable(state: &Availability) -> String {
    match state {
        Availability::Free => "is free".to_owned(),
        Availability::ClaimedBy(who) => format!("is claimed by {who}"),
        Availability::Unhealthy(why) => format!("is marked unhealthy: {why}"),
        Availability::NotReady(why) => format!("cannot be used: {why}"),
    }
}

/// What stands against a host that was not taken.
pub(super) struct Against<'p> {
    problem: &'p Problem<'p>,
    /// By shape of masters: the highest rank that serves it, and the name of that host.
    highest: Vec<Option<(u32, &'p str)>>,
}

impl<'p> Against<'p> {
    pub(super) fn new(problem: &'p Problem<'p>, chosen: &HashMap<usize, u32>) -> Self {
        let mut highest: Vec<Option<(u32, &str)>> = vec![None; problem.shapes.len()];
        for (demand, host) in chosen {
            let shape = problem.shape_of[*demand];
            let (rank, name) = (problem.pool[*host as usize], problem.host(*host).name.as_str());
            if problem.shapes[shape].master && highest[shape].is_none_or(|(known, _)| known < rank) {
                highest[shape] = Some((rank, name));
            }
        }
        Self { problem, highest }
    }

    pub(super) fn reasons(&self, rank: u32, host: &HostFacts) -> Vec<String> {
        if host.available != Availability::Free {
            return vec![unavailable(&host.available)];
        }
        let shapes = &self.problem.shapes;
        let higher = shapes.iter().zip(&self.highest).find_map(|(shape, highest)| {
            let (_, name) = highest.filter(|(highest, _)| *highest > rank)?;
            fits(host, shape.needs).then_some(name)
        });
        if let Some(name) = higher {
            return vec![format!("not needed: in the place of {name} it would put masters closer together")];
        }
        if shapes.iter().any(|shape| fits(host, shape.needs)) {
            return vec!["not needed: hosts of a lower rank serve the nodes it fits".to_owned()];
        }
        let Some(nearest) = self.nearest_shape(host) else {
            return vec!["not needed: no node is without a host".to_owned()];
        };
        let node = nearest.members.first().map_or("", |first| self.problem.demands[*first].node.as_str());
        lacks(host, nearest.needs).iter().map(|lack| format!("for {node}: {lack}")).collect()
    }

    /// The shape of which the host lacks the fewest things.
    fn nearest_shape(&self, host: &HostFacts) -> Option<&Shape<'p>> {
        let mut best: Option<(usize, &Shape<'p>)> = None;
        for shape in &self.problem.shapes {
            let most = best.map_or(usize::MAX, |(count, _)| count);
            let mut count = 0_usize;
            let whole = examine(host, shape.needs, |_| {
                count += 1;
                if count < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            });
            if whole.is_continue() {
                best = Some((count, shape));
            }
        }
        best.map(|(_, shape)| shape)
    }
}
