//! A flow network of units (nodes to be placed) over lanes (shapes, perhaps within one failure domain) to hosts.
//!
//! Every placed unit holds one host. A lane may take a host from another lane that can find a new one; the cost of a
//! host is its rank. At most one shape of masters runs through the hub, whose arcs to the lanes of the failure domains
//! cost what goal 3 says: a first master in a domain earns, one above the ceiling costs.

use std::collections::VecDeque;

use super::candidates::Problem;

/// Nobody uses the host.
const FREE: u32 = u32::MAX;
/// The host is out of the game: settled, or blocked.
const OUT: u32 = u32::MAX - 1;
const UNREACHED: i128 = i128::MAX;
/// Rewards and penalties, far enough apart that the goals stay in order: a sum of ranks stays below the first, a sum
/// of penalties below the second.
const OVER: i128 = 1 << 48;
const NEW: i128 = 1 << 80;

/// A shape, perhaps within one failure domain.
pub(super) struct Lane {
    /// The first of its shapes.
    pub shape: usize,
    pub domain: Option<u32>,
    hosts: Vec<u32>,
    head: usize,
    pub used: Vec<u32>,
}

/// Costs of the hub's arcs.
#[derive(Clone, Copy, Default)]
pub(super) struct Tiers {
    /// Most masters in a domain before each further one costs; 0 is no limit.
    pub ceiling: u32,
}

/// See the module.
pub(super) struct Network<'p> {
    problem: &'p Problem<'p>,
    pub lanes: Vec<Lane>,
    /// Lanes from here on belong to the hub.
    pub hub_start: usize,
    words: usize,
    signature: Vec<u64>,
    user: Vec<u32>,
    steals: Vec<u32>,
    pub tiers: Tiers,
    /// Masters by failure domain that do not run through the hub.
    pub base: Vec<u32>,
}

/// Costs and predecessors of the cheapest paths from one node.
pub(super) struct Paths {
    pub cost: Vec<i128>,
    parent: Vec<usize>,
}

impl<'p> Network<'p> {
    /// `lanes` are shapes, usually one, with their failure domain; those of the hub come last, from `hub_start` on. A host
    /// serves a lane if it is a candidate of any of the lane's shapes.
    pub(super) fn new(
        problem: &'p Problem<'p>,
        lanes: &[(Vec<usize>, Option<u32>)],
        hub_start: usize,
        base: Vec<u32>,
        blocked: &[u32],
    ) -> Self {
        let words = lanes.len().div_ceil(64);
        let mut signature = vec![0_u64; problem.pool.len() * words];
        let mut built = Vec::with_capacity(lanes.len());
        for (number, (shapes, domain)) in lanes.iter().enumerate() {
            let within = |host: &&u32| domain.is_none_or(|domain| problem.domain[**host as usize] == domain);
            let candidates = shapes.iter().flat_map(|shape| &problem.shapes[*shape].candidates);
            let mut hosts: Vec<u32> = candidates.filter(within).copied().collect();
            if shapes.len() > 1 {
                hosts.sort_unstable();
                hosts.dedup();
            }
            for host in &hosts {
                signature[*host as usize * words + number / 64] |= 1 << (number % 64);
            }
            let shape = shapes.first().copied().unwrap_or(usize::MAX);
            built.push(Lane { shape, domain: *domain, hosts, head: 0, used: Vec::new() });
        }
        let mut user = vec![FREE; problem.pool.len()];
        for host in blocked {
            user[*host as usize] = OUT;
        }
        let steals = vec![0; lanes.len() * lanes.len()];
        let tiers = Tiers::default();
        Self { problem, lanes: built, hub_start, words, signature, user, steals, tiers, base }
    }

    fn hub(&self) -> usize {
        self.lanes.len()
    }

    pub(super) fn sink(&self) -> usize {
        self.lanes.len() + 1
    }

    /// Lane that uses the host, if one does.
    pub(super) fn lane_using(&self, host: u32) -> Option<usize> {
        let user = self.user[host as usize];
        (user < OUT).then_some(user as usize)
    }

    pub(super) fn is_free(&self, host: u32) -> bool {
        self.user[host as usize] == FREE
    }

    /// Cost of using a host.
    pub(super) fn rank(&self, host: u32) -> i128 {
        i128::from(self.problem.pool[host as usize])
    }

    /// Sum of the ranks in use.
    pub(super) fn rank_sum(&self) -> u64 {
        self.lanes.iter().flat_map(|lane| &lane.used).map(|host| u64::from(self.problem.pool[*host as usize])).sum()
    }

    /// Masters by failure domain.
    pub(super) fn masters(&self) -> Vec<u32> {
        let mut counts = self.base.clone();
        for lane in &self.lanes[self.hub_start..] {
            if let Some(domain) = lane.domain {
                counts[domain as usize] += u32::try_from(lane.used.len()).unwrap_or(u32::MAX);
            }
        }
        counts
    }

    fn is_candidate(&self, lane: usize, host: u32) -> bool {
        self.signature[host as usize * self.words + lane / 64] & (1 << (lane % 64)) != 0
    }

    fn lanes_of(&self, host: u32) -> Vec<usize> {
        let from = host as usize * self.words;
        let mut lanes = Vec::new();
        for (word, bits) in self.signature[from..from + self.words].iter().enumerate() {
            let mut bits = *bits;
            while bits != 0 {
                lanes.push(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
        lanes
    }

    fn head(&mut self, lane: usize) -> Option<u32> {
        let Lane { hosts, head, .. } = &mut self.lanes[lane];
        while let Some(host) = hosts.get(*head) {
            if self.user[*host as usize] == FREE {
                return Some(*host);
            }
            *head += 1;
        }
        None
    }

    fn give(&mut self, host: u32, to: u32) {
        let count = self.lanes.len();
        let adjacent = self.lanes_of(host);
        if let Some(from) = self.lane_using(host) {
            self.lanes[from].used.retain(|other| *other != host);
            for lane in &adjacent {
                self.steals[lane * count + from] -= 1;
            }
        }
        self.user[host as usize] = to;
        if to == FREE {
            for lane in adjacent {
                self.lanes[lane].head = 0;
            }
        } else if to != OUT {
            self.lanes[to as usize].used.push(host);
            for lane in adjacent {
                self.steals[lane * count + to as usize] += 1;
            }
        }
    }

    /// Takes the host out of the game, with the unit that held it.
    pub(super) fn retire(&mut self, host: u32) {
        self.give(host, OUT);
    }

    /// Places one more unit of a lane outside the hub at the least cost, moving others where need be. Where that cannot
    /// be, returns the lanes that compete for the same hosts.
    pub(super) fn place(&mut self, start: usize) -> Result<(), Vec<usize>> {
        let count = self.lanes.len();
        let mut parent = vec![usize::MAX; count];
        let mut reached = vec![start];
        parent[start] = start;
        let mut best: Option<(u32, usize)> = None;
        let mut next = 0;
        while let Some(lane) = reached.get(next).copied() {
            next += 1;
            if let Some(host) = self.head(lane)
                && best.is_none_or(|(least, _)| host < least)
            {
                best = Some((host, lane));
            }
            let row = &self.steals[lane * count..(lane + 1) * count];
            for (other, (parent, hosts)) in parent.iter_mut().zip(row).enumerate() {
                if *parent == usize::MAX && *hosts > 0 {
                    *parent = lane;
                    reached.push(other);
                }
            }
        }
        let Some((host, end)) = best else { return Err(reached) };
        let mut moves = vec![(host, end)];
        let mut lane = end;
        while lane != start {
            let before = parent[lane];
            moves.extend(self.stolen(before, lane).map(|host| (host, before)));
            lane = before;
        }
        for (host, to) in moves {
            self.give(host, u32::try_from(to).unwrap_or(OUT));
        }
        Ok(())
    }

    /// A host that `taker` can take from `from`.
    fn stolen(&self, taker: usize, from: usize) -> Option<u32> {
        self.lanes[from].used.iter().copied().find(|host| self.is_candidate(taker, *host))
    }

    /// Places one more unit of the hub at the least cost.
    pub(super) fn place_from_hub(&mut self) -> bool {
        let (hub, sink) = (self.hub(), self.sink());
        let paths = self.paths(hub, false);
        if paths.cost[sink] == UNREACHED {
            return false;
        }
        self.walk(&paths, hub, sink);
        true
    }

    /// Cost of one more master in a lane of the hub.
    fn next_step(&self, lane: usize) -> i128 {
        self.step(self.masters_in(lane))
    }

    fn masters_in(&self, lane: usize) -> u32 {
        let lane = &self.lanes[lane];
        let base = lane.domain.map_or(0, |domain| self.base[domain as usize]);
        base + u32::try_from(lane.used.len()).unwrap_or(u32::MAX)
    }

    fn step(&self, count: u32) -> i128 {
        match count {
            0 => -NEW,
            count if self.tiers.ceiling > 0 && count >= self.tiers.ceiling => OVER,
            _ => 0,
        }
    }

    /// Cheapest paths from a node to all others. `through_sink`: a host may also be swapped for a free one.
    pub(super) fn paths(&mut self, start: usize, through_sink: bool) -> Paths {
        let nodes = self.lanes.len() + 2;
        let mut paths = Paths { cost: vec![UNREACHED; nodes], parent: vec![usize::MAX; nodes] };
        let mut waiting = VecDeque::from([start]);
        let mut queued = vec![false; nodes];
        paths.cost[start] = 0;
        while let Some(node) = waiting.pop_front() {
            queued[node] = false;
            for (other, cost) in self.arcs(node, through_sink || node == start) {
                let cost = paths.cost[node] + cost;
                if cost < paths.cost[other] {
                    paths.cost[other] = cost;
                    paths.parent[other] = node;
                    if !std::mem::replace(&mut queued[other], true) {
                        waiting.push_back(other);
                    }
                }
            }
        }
        paths
    }

    fn arcs(&mut self, node: usize, from_sink: bool) -> Vec<(usize, i128)> {
        let (count, hub, sink) = (self.lanes.len(), self.hub(), self.sink());
        if node == hub {
            return (self.hub_start..count).map(|lane| (lane, self.next_step(lane))).collect();
        }
        if node == sink {
            let dropped = |lane: usize| Some((lane, -self.rank(self.lanes[lane].used.iter().copied().max()?)));
            return if from_sink { (0..count).filter_map(dropped).collect() } else { Vec::new() };
        }
        let row = &self.steals[node * count..(node + 1) * count];
        let stealable = |(other, hosts): (usize, &u32)| (*hosts > 0 && other != node).then_some((other, 0));
        let mut arcs: Vec<(usize, i128)> = row.iter().enumerate().filter_map(stealable).collect();
        if let Some(host) = self.head(node) {
            arcs.push((sink, self.rank(host)));
        }
        if node >= self.hub_start && !self.lanes[node].used.is_empty() {
            arcs.push((hub, -self.step(self.masters_in(node) - 1)));
        }
        arcs
    }

    /// Moves hosts along a path.
    pub(super) fn walk(&mut self, paths: &Paths, start: usize, end: usize) {
        let (hub, sink) = (self.hub(), self.sink());
        let mut moves = Vec::new();
        let mut node = end;
        while node != start {
            let before = paths.parent[node];
            let step = if before == hub || node == hub {
                None
            } else if node == sink {
                self.head(before).map(|host| (host, before))
            } else if before == sink {
                self.lanes[node].used.iter().copied().max().map(|host| (host, usize::MAX))
            } else {
                self.stolen(before, node).map(|host| (host, before))
            };
            moves.extend(step);
            node = before;
        }
        for (host, to) in moves {
            self.give(host, u32::try_from(to).unwrap_or(FREE));
        }
    }

    /// Lanes that can hand over a unit's host and end up with one of `lane`'s, without using another host.
    pub(super) fn lanes_that_reach(&self, lane: usize) -> Vec<bool> {
        let count = self.lanes.len();
        let mut reaches = vec![false; count];
        reaches[lane] = true;
        let mut found = vec![lane];
        while let Some(target) = found.pop() {
            for (other, reaches) in reaches.iter_mut().enumerate() {
                if !*reaches && self.steals[other * count + target] > 0 {
                    *reaches = true;
                    found.push(other);
                }
            }
        }
        reaches
    }
}
