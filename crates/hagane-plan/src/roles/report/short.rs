//! What unmet demands are short of, and the nearest change that meets each.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::ControlFlow;

use hagane_api::quantity::ByteSize;

use super::super::candidates::Problem;
use super::super::demand::Needs;
use super::super::facts::{Availability, HostFacts};
use super::super::fit::{Lack, examine, lacks};
use super::reasons::unavailable;
use super::{Assignment, Change, Edit, Looked, Nearest, Shortage, Unsatisfied, Violation};

/// Most shapes for which near hosts are looked for: each looks at every host.
const SHAPES_MAX: usize = 100;

/// Says of every unmet demand what is short. `left` are the hosts that serve nobody, by rank; `serving` are the others.
pub(super) fn unsatisfied(
    problem: &Problem<'_>,
    violations: &[Violation],
    left: &[(u32, &HostFacts)],
    serving: &[Assignment],
) -> Vec<Unsatisfied> {
    let place: HashMap<usize, usize> = problem.priority.iter().enumerate().map(|(at, demand)| (*demand, at)).collect();
    let sets: Vec<(Vec<String>, Vec<String>)> =
        violations.iter().map(|violation| competitors(problem, violation, &place)).collect();
    let unmet: BTreeMap<usize, (usize, usize)> = violations
        .iter()
        .enumerate()
        .flat_map(|(number, violation)| violation.unmet.iter().map(move |demand| (*demand, number)))
        .map(|(demand, number)| (place.get(&demand).copied().unwrap_or(usize::MAX), (demand, number)))
        .collect();
    let mut near = Near { problem, left, most: unmet.len(), found: HashMap::new() };
    let serving: HashMap<&str, &str> = serving.iter().map(|entry| (entry.host.as_str(), entry.node.as_str())).collect();
    let mut told = Told::default();
    let mut list = Vec::with_capacity(unmet.len());
    for (demand, number) in unmet.into_values() {
        let shape = problem.shape_of[demand];
        let (demands, hosts) = &sets[number];
        let nearest = match near.of(shape) {
            None => Looked::NotLooked,
            Some(hosts) => hosts.first().map_or(Looked::None, |host| Looked::Found(nearest(problem, shape, host.host))),
        };
        let short = Shortage {
            missing: demands.len().saturating_sub(hosts.len()),
            demands: demands.clone(),
            hosts: hosts.clone(),
            nearest,
        };
        let edit = told.edit(&mut near, demand, &violations[number].shapes);
        let other =
            without_edit(problem, shape, |host| told.hosts.get(host).copied().or_else(|| serving.get(host).copied()));
        let change = Change { edit, ..other };
        list.push(Unsatisfied { demand: problem.demands[demand].node.clone(), short, change });
    }
    list
}

/// The nodes that compete, by priority, and the hosts that fit any of them.
fn competitors(
    problem: &Problem<'_>,
    violation: &Violation,
    place: &HashMap<usize, usize>,
) -> (Vec<String>, Vec<String>) {
    let members = violation.shapes.iter().flat_map(|shape| problem.shapes[*shape].members.iter().copied());
    let mut nodes: Vec<usize> = members.collect();
    nodes.sort_unstable_by_key(|demand| place.get(demand));
    let candidates = violation.shapes.iter().flat_map(|shape| problem.shapes[*shape].candidates.iter().copied());
    let hosts: BTreeSet<u32> = candidates.collect();
    (
        nodes.iter().map(|demand| problem.demands[*demand].node.clone()).collect(),
        hosts.iter().map(|host| problem.host(*host).name.clone()).collect(),
    )
}

fn nearest(problem: &Problem<'_>, shape: usize, host: &HostFacts) -> Nearest {
    let mut reasons: Vec<String> = lacks(host, problem.shapes[shape].needs).iter().map(ToString::to_string).collect();
    reasons.extend((host.available != Availability::Free).then(|| unavailable(&host.available)));
    Nearest { host: host.name.clone(), lacks: reasons }
}

/// How far a host is from a need: things that are no matter of degree, then thousandths that are missing of amounts.
type Distance = (usize, u64);

#[derive(Clone, Copy)]
struct NearHost<'p> {
    distance: Distance,
    rank: u32,
    host: &'p HostFacts,
}

/// The nearest hosts by shape.
struct Near<'p> {
    problem: &'p Problem<'p>,
    left: &'p [(u32, &'p HostFacts)],
    /// How many are kept for a shape: as many as can be used up.
    most: usize,
    found: HashMap<usize, Vec<NearHost<'p>>>,
}

impl<'p> Near<'p> {
    fn of(&mut self, shape: usize) -> Option<&[NearHost<'p>]> {
        if self.found.len() >= SHAPES_MAX && !self.found.contains_key(&shape) {
            return None;
        }
        let (needs, left, most) = (self.problem.shapes[shape].needs, self.left, self.most);
        Some(self.found.entry(shape).or_insert_with(|| {
            let all = left.iter().map(|(rank, host)| NearHost { distance: distance(host, needs), rank: *rank, host });
            let mut all: Vec<NearHost<'p>> = all.collect();
            let key = |near: &NearHost<'p>| (near.distance, near.rank);
            if all.len() > most {
                all.select_nth_unstable_by_key(most, key);
                all.truncate(most);
            }
            all.sort_unstable_by_key(key);
            all
        }))
    }
}

/// Changes that were told: each later one is on top of them.
#[derive(Default)]
struct Told<'p> {
    /// Node that is to get the host.
    hosts: HashMap<&'p str, &'p str>,
    shapes: HashSet<usize>,
}

impl<'p> Told<'p> {
    /// The nearest edit for a demand. The first demand of those that compete gets its host by a change of any of them.
    /// What becomes free later could serve an earlier one instead: a later demand is met for sure only by a host of its
    /// own.
    fn edit(&mut self, near: &mut Near<'p>, demand: usize, competing: &[usize]) -> Option<Edit> {
        let problem = near.problem;
        let own = problem.shape_of[demand];
        let first = competing.iter().all(|shape| !self.shapes.contains(shape));
        self.shapes.extend(competing);
        let others = competing.iter().copied().filter(|shape| first && *shape != own);
        let mut best: Option<(Distance, usize, NearHost<'p>)> = None;
        for shape in std::iter::once(own).chain(others) {
            let hosts = near.of(shape).unwrap_or_default();
            let Some(host) = hosts.iter().find(|near| !self.hosts.contains_key(near.host.name.as_str())) else {
                continue;
            };
            if best.is_none_or(|(least, _, _)| host.distance < least) {
                best = Some((host.distance, shape, *host));
            }
        }
        best.map(|(_, shape, NearHost { host, .. })| {
            let changed = if shape == own { Some(&demand) } else { problem.shapes[shape].members.first() };
            let node = changed.map_or("", |demand| problem.demands[*demand].node.as_str());
            self.hosts.insert(&host.name, node);
            let steps = steps(node, host, problem.shapes[shape].needs);
            Edit { node: node.to_owned(), host: host.name.clone(), steps, other: shape != own }
        })
    }
}

/// What else would meet a demand: a further host, unless the one that is asked for is there.
fn without_edit<'n>(problem: &Problem<'_>, shape: usize, node_on: impl Fn(&str) -> Option<&'n str>) -> Change {
    let needs = problem.shapes[shape].needs;
    let named = |host: &&HostFacts| {
        needs.host_name.as_ref().is_none_or(|name| *name == host.name) && needs.mac.is_none_or(|mac| host.has_mac(mac))
    };
    let asked = needs.host_name.is_some() || needs.mac.is_some();
    let by_rank = || problem.by_rank.iter().map(|index| &problem.hosts[*index as usize]);
    let there = || by_rank().filter(|_| asked).filter(named).map(|host| host.name.as_str());
    // A recorded host may be gone, and stays taken.
    let mut all = there().chain(needs.host_name.as_deref());
    let taken = all.find_map(|host| Some((host.to_owned(), node_on(host)?.to_owned())));
    let further = (there().next().is_none() && taken.is_none()).then(|| needs.to_string());
    Change { edit: None, further, taken }
}

fn distance(host: &HostFacts, needs: &Needs) -> Distance {
    let mut hard = usize::from(host.available != Availability::Free);
    let mut missing = 0;
    let _ = examine(host, needs, |lack| {
        match per_mille(&lack) {
            Some(part) => missing += part,
            None => hard += 1,
        }
        ControlFlow::<()>::Continue(())
    });
    (hard, missing)
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

/// What to do so that the host will do for the node: first about what is asked, then about the host.
fn steps(node: &str, host: &HostFacts, needs: &Needs) -> Vec<String> {
    let lacks = lacks(host, needs);
    let asked: Vec<String> = lacks.iter().filter_map(less).collect();
    let mut steps = Vec::new();
    steps.extend((!asked.is_empty()).then(|| format!("ask {node} for {}", asked.join(", "))));
    let at_host = lacks.iter().filter(|lack| less(lack).is_none());
    steps.extend(at_host.filter_map(|lack| mend(&host.name, lack)));
    let name = &host.name;
    match &host.available {
        Availability::Free => {}
        Availability::ClaimedBy(who) => steps.push(format!("free {name} of {who}")),
        Availability::Unhealthy(why) => steps.push(format!("take the mark of {name} away ({why})")),
        Availability::NotReady(why) => steps.push(format!("make {name} ready ({why})")),
    }
    steps
}

/// The field as it would have to be asked for. Nothing where the host is to be changed.
fn less(lack: &Lack<'_>) -> Option<String> {
    match lack {
        Lack::Cpu { has: Some(has), .. } => Some(format!("cpu {has}")),
        Lack::Memory { has: Some(has), .. } => Some(format!("memory {}", has.bytes().quantity())),
        Lack::Disk { has: Some(has), .. } => Some(format!("disk {}", ByteSize::quantity(*has))),
        Lack::Nics { has: Some(has), .. } => Some(format!("nics {has}")),
        Lack::Feature { name, known: true } => Some(format!("no {name}")),
        Lack::Architecture { has: Some(has), .. } => Some(format!("arch {has}")),
        Lack::FailureDomain { has: Some(has), .. } => Some(format!("failureDomain {has}")),
        Lack::Mac(_) => Some("no mac-address".to_owned()),
        Lack::Name(_) => Some("no hostName".to_owned()),
        _ => None,
    }
}

/// What is to be done about the host.
fn mend(host: &str, lack: &Lack<'_>) -> Option<String> {
    match lack {
        Lack::Cpu { needs, .. } => Some(format!("tell the CPUs of {host} (at least {needs})")),
        Lack::Memory { needs, .. } => Some(format!("tell the memory of {host} (at least {needs})")),
        Lack::Disk { needs, .. } => Some(format!("tell the disks of {host} (at least {needs})")),
        Lack::Nics { needs, .. } => Some(format!("tell the NICs of {host} (at least {needs})")),
        Lack::Feature { name, .. } => Some(format!("label {host} hagane.dev/feature.{name}=true")),
        Lack::Architecture { needs, .. } => Some(format!("tell the architecture of {host} ({needs})")),
        Lack::Label { key, needs, .. } => Some(format!("label {host} {key}={needs}")),
        Lack::FailureDomain { needs, .. } => Some(format!("label {host} hagane.dev/failure-domain={needs}")),
        Lack::Mac(_) | Lack::Name(_) => None,
    }
}
