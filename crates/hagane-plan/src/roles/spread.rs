//! Goals 3 and 4: the masters' failure domains and the least ranks, for a fixed number of units of each shape.

use std::cmp::Reverse;

use super::candidates::Problem;
use super::network::Network;

/// How good a solution is; a larger value is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Value {
    /// Failure domains with a master.
    pub domains: u32,
    /// Masters above the ceiling, summed over the domains.
    pub over: Reverse<u32>,
    /// Sum of ranks.
    pub rank: Reverse<u64>,
}

/// What is left to place.
#[derive(Clone)]
pub(super) struct Setup {
    /// Units by shape that any of the shape's hosts may serve.
    pub units: Vec<usize>,
    /// Masters of a shape whose failure domain is fixed: shape, domain, units.
    pub fixed: Vec<(usize, u32, usize)>,
    /// Masters by failure domain that are recorded or settled.
    pub base: Vec<u32>,
    /// Hosts that are settled, as pool numbers.
    pub blocked: Vec<u32>,
    /// Sum of the ranks of the settled hosts.
    pub settled_rank: u64,
    /// Whether the failure domains can make a difference at all.
    pub spreads: bool,
}

impl Setup {
    /// Everything that can be met, nothing settled.
    pub(super) fn new(problem: &Problem<'_>, met: &[usize]) -> Self {
        let base = problem.recorded_masters.clone();
        let placed: usize = (0..met.len()).filter(|shape| problem.shapes[*shape].master).map(|shape| met[shape]).sum();
        let masters = placed + base.iter().map(|count| *count as usize).sum::<usize>();
        let spreads = masters > 1 && problem.domain_count > 1;
        let mut setup =
            Self { units: met.to_vec(), fixed: Vec::new(), base, blocked: Vec::new(), settled_rank: 0, spreads };
        setup.fix_the_obvious(problem);
        setup
    }

    /// Fixes the failure domain of masters that have only one.
    fn fix_the_obvious(&mut self, problem: &Problem<'_>) {
        for (shape, facts) in problem.shapes.iter().enumerate() {
            if self.spreads
                && facts.master
                && self.units[shape] > 0
                && let [domain] = problem.domains_of(shape)[..]
            {
                self.fix(shape, domain, self.units[shape]);
            }
        }
    }

    fn fix(&mut self, shape: usize, domain: u32, units: usize) {
        self.units[shape] -= units;
        match self.fixed.iter_mut().find(|entry| (entry.0, entry.1) == (shape, domain)) {
            Some(entry) => entry.2 += units,
            None => self.fixed.push((shape, domain, units)),
        }
    }

    /// Shapes of masters whose failure domains are still to be chosen.
    pub(super) fn open_shapes(&self, problem: &Problem<'_>) -> Vec<usize> {
        let open = |shape: &usize| self.spreads && problem.shapes[*shape].master && self.units[*shape] > 0;
        (0..self.units.len()).filter(open).collect()
    }

    /// Puts one unit of a shape on a host for good.
    pub(super) fn settle(&mut self, problem: &Problem<'_>, shape: usize, host: u32) {
        let domain = problem.domain[host as usize];
        let fixed = self.fixed.iter_mut().find(|entry| (entry.0, entry.1) == (shape, domain) && entry.2 > 0);
        match fixed {
            Some(entry) => entry.2 -= 1,
            None => self.units[shape] = self.units[shape].saturating_sub(1),
        }
        if problem.shapes[shape].master {
            self.base[domain as usize] += 1;
        }
        self.blocked.push(host);
        self.settled_rank += u64::from(problem.pool[host as usize]);
    }
}

/// Solves a setup with at most one open shape of masters exactly. `None`: the units do not all find hosts.
pub(super) fn solve<'p>(problem: &'p Problem<'p>, setup: &Setup) -> Option<(Network<'p>, Value)> {
    through_hub(problem, setup, &setup.open_shapes(problem))
}

/// Sends all units of the `hub` shapes through the hub, as if they were of one shape.
fn through_hub<'p>(problem: &'p Problem<'p>, setup: &Setup, hub: &[usize]) -> Option<(Network<'p>, Value)> {
    let (mut network, value) = flow(problem, setup, hub, 0)?;
    let ceiling = ceiling(&network.masters());
    if value.over.0 == 0 || hub.is_empty() {
        // Nothing above the ceiling: the same flow is best with the ceiling's price as well.
        network.tiers.ceiling = ceiling;
        return Some((network, value));
    }
    flow(problem, setup, hub, ceiling)
}

fn ceiling(masters: &[u32]) -> u32 {
    let used = masters.iter().filter(|count| **count > 0).count();
    let used = u32::try_from(used).unwrap_or(u32::MAX);
    masters.iter().sum::<u32>().div_ceil(used.max(1))
}

fn flow<'p>(problem: &'p Problem<'p>, setup: &Setup, hub: &[usize], ceiling: u32) -> Option<(Network<'p>, Value)> {
    let plain = (0..setup.units.len()).filter(|shape| setup.units[*shape] > 0 && !hub.contains(shape));
    let mut lanes: Vec<(Vec<usize>, Option<u32>)> = Vec::new();
    let mut units: Vec<usize> = Vec::new();
    for shape in plain {
        lanes.push((vec![shape], None));
        units.push(setup.units[shape]);
    }
    let mut base = setup.base.clone();
    for (shape, domain, count) in setup.fixed.iter().filter(|entry| entry.2 > 0) {
        lanes.push((vec![*shape], Some(*domain)));
        units.push(*count);
        base[*domain as usize] += u32::try_from(*count).unwrap_or(u32::MAX);
    }
    let hub_start = lanes.len();
    lanes.extend(domains_of(problem, hub).into_iter().map(|domain| (hub.to_vec(), Some(domain))));
    let mut network = Network::new(problem, &lanes, hub_start, base, &setup.blocked);
    network.tiers.ceiling = ceiling;
    for (lane, count) in units.iter().enumerate() {
        for _ in 0..*count {
            network.place(lane).ok()?;
        }
    }
    for _ in 0..hub.iter().map(|shape| setup.units[*shape]).sum() {
        if !network.place_from_hub() {
            return None;
        }
    }
    let value = value_of(&network, setup);
    Some((network, value))
}

fn domains_of(problem: &Problem<'_>, shapes: &[usize]) -> Vec<u32> {
    let mut domains: Vec<u32> = shapes.iter().flat_map(|shape| problem.domains_of(*shape)).collect();
    domains.sort_unstable();
    domains.dedup();
    domains
}

/// How good a finished network is.
pub(super) fn value_of(network: &Network<'_>, setup: &Setup) -> Value {
    let masters = network.masters();
    let ceiling = ceiling(&masters);
    let domains = masters.iter().filter(|count| **count > 0).count();
    Value {
        domains: u32::try_from(domains).unwrap_or(u32::MAX),
        over: Reverse(masters.iter().map(|count| count.saturating_sub(ceiling)).sum()),
        rank: Reverse(network.rank_sum() + setup.settled_rank),
    }
}

/// The best value of any setup. Stops early at `target`, which nothing can exceed.
pub(super) fn best<'p>(problem: &'p Problem<'p>, setup: &Setup, target: Option<Value>) -> Option<(Setup, Value)> {
    let open = setup.open_shapes(problem);
    if open.len() <= 1 {
        return solve(problem, setup).map(|(_, value)| (setup.clone(), value));
    }
    let bound = bound(problem, setup)?;
    if target.is_some_and(|target| bound < target) {
        return None;
    }
    let mut search = Search { problem, best: None, stop: target.unwrap_or(bound) };
    search.descend_by_coordinates(setup);
    if !search.done() {
        search.branch(setup, None);
    }
    search.best
}

/// A value that no choice of failure domains exceeds. Two easier problems give it: goal 3 as if all open masters were of
/// one shape that any of their hosts fits, and the ranks without goal 3.
fn bound(problem: &Problem<'_>, setup: &Setup) -> Option<Value> {
    let relaxed = Setup { spreads: false, ..setup.clone() };
    let (_, free) = flow(problem, &relaxed, &[], 0)?;
    let (_, alike) = through_hub(problem, setup, &setup.open_shapes(problem))?;
    Some(Value { rank: alike.rank.min(free.rank), ..alike })
}

struct Search<'p> {
    problem: &'p Problem<'p>,
    best: Option<(Setup, Value)>,
    stop: Value,
}

impl<'p> Search<'p> {
    fn done(&self) -> bool {
        self.best.as_ref().is_some_and(|(_, value)| *value >= self.stop)
    }

    fn offer(&mut self, setup: &Setup, value: Value) {
        if self.best.as_ref().is_none_or(|(_, best)| *best < value) {
            self.best = Some((setup.clone(), value));
        }
    }

    /// A good start: one shape after another finds its best failure domains while the others stay, until none moves.
    fn descend_by_coordinates(&mut self, setup: &Setup) {
        let open = setup.open_shapes(self.problem);
        let mut placed: Vec<Vec<u32>> = vec![Vec::new(); open.len()];
        let mut last = None;
        for _ in 0..4 {
            for turn in 0..open.len() {
                let mut trial = setup.clone();
                for (other, shape) in open.iter().enumerate().filter(|(other, _)| *other != turn) {
                    for domain in &placed[other] {
                        trial.fix(*shape, *domain, 1);
                    }
                }
                // Shapes that were not placed yet take part without a domain.
                let hub = std::slice::from_ref(&open[turn]);
                let Some((network, value)) = through_hub(self.problem, &trial, hub) else { return };
                let hub_lanes = &network.lanes[network.hub_start..];
                placed[turn] = hub_lanes.iter().flat_map(|lane| lane.used.iter().filter_map(|_| lane.domain)).collect();
                if trial.open_shapes(self.problem).len() <= 1 {
                    self.offer(&trial, value);
                }
                if self.done() {
                    return;
                }
            }
            let value = self.best.as_ref().map(|(_, value)| *value);
            if value == last {
                return;
            }
            last = value;
        }
    }

    /// Tries the failure domains of the open shapes, the largest last: that one is solved without trying.
    fn branch(&mut self, setup: &Setup, least: Option<(usize, u32)>) {
        let mut open = setup.open_shapes(self.problem);
        open.sort_by_key(|shape| setup.units[*shape]);
        let current = least.map(|(shape, _)| shape).filter(|shape| setup.units[*shape] > 0);
        if open.len() <= 1 {
            if let Some((_, value)) = solve(self.problem, setup) {
                self.offer(setup, value);
            }
            return;
        }
        let shape = current.unwrap_or(open[0]);
        let from = least.filter(|(last, _)| *last == shape).map_or(0, |(_, domain)| domain);
        for domain in self.problem.domains_of(shape).into_iter().filter(|domain| *domain >= from) {
            let mut next = setup.clone();
            next.fix(shape, domain, 1);
            let Some(bound) = bound(self.problem, &next) else { continue };
            if self.best.as_ref().is_none_or(|(_, best)| bound > *best) {
                self.branch(&next, Some((shape, domain)));
            }
            if self.done() {
                return;
            }
        }
    }
}
