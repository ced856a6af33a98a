//! The problem in numbers: hosts by rank, demands by shape, and the few hosts of each shape that can matter.

use std::collections::{HashMap, HashSet};

use super::demand::{Demand, Needs, Recorded};
use super::facts::{Availability, HostFacts, rank_order};
use super::fit::fits;

/// Equal demands: same needs, and all masters or none.
pub(super) struct Shape<'a> {
    pub needs: &'a Needs,
    pub master: bool,
    /// Indexes of its demands, in order of priority.
    pub members: Vec<usize>,
    /// Its hosts that can matter, as pool numbers in ascending rank.
    pub candidates: Vec<u32>,
}

/// The part of the facts that the search looks at. A pool number stands for a host; a lower one has a lower rank.
pub(super) struct Problem<'a> {
    pub hosts: &'a [HostFacts],
    pub demands: &'a [Demand],
    /// Open demands in order of priority: masters, then the listed order.
    pub priority: Vec<usize>,
    pub shapes: Vec<Shape<'a>>,
    /// Shape of each demand; unused for demands that are recorded.
    pub shape_of: Vec<usize>,
    /// Index into `hosts` by rank.
    pub by_rank: Vec<u32>,
    /// Rank by pool number.
    pub pool: Vec<u32>,
    /// Failure domain by pool number.
    pub domain: Vec<u32>,
    pub domain_count: usize,
    /// Recorded masters by failure domain.
    pub recorded_masters: Vec<u32>,
}

impl<'a> Problem<'a> {
    pub(super) fn new(hosts: &'a [HostFacts], demands: &'a [Demand], recorded: &[Recorded]) -> Self {
        let by_rank = by_rank(hosts);
        let known: HashSet<&str> = recorded.iter().map(|entry| entry.node.as_str()).collect();
        let taken: HashSet<&str> = recorded.iter().map(|entry| entry.host.as_str()).collect();
        let open = |master: bool| {
            let known = &known;
            (0..demands.len()).filter(move |index| {
                demands[*index].is_master() == master && !known.contains(demands[*index].node.as_str())
            })
        };
        let priority: Vec<usize> = open(true).chain(open(false)).collect();
        let (mut shapes, shape_of) = group(demands, &priority);
        let mut domains = Domains::default();
        let recorded_masters = recorded_domains(hosts, recorded, &mut domains);
        let ranked = choose(hosts, &by_rank, &mut shapes, &taken, &mut domains, priority.len() + recorded.len());
        let (pool, domain) = renumber(&mut shapes, &ranked);
        let domain_count = domains.ids.len();
        let mut recorded_masters = recorded_masters;
        recorded_masters.resize(domain_count, 0);
        Self { hosts, demands, priority, shapes, shape_of, by_rank, pool, domain, domain_count, recorded_masters }
    }

    /// The host behind a pool number.
    pub(super) fn host(&self, pool: u32) -> &'a HostFacts {
        &self.hosts[self.by_rank[self.pool[pool as usize] as usize] as usize]
    }

    /// Failure domains that a shape's candidates stand in, ascending, without repeats.
    pub(super) fn domains_of(&self, shape: usize) -> Vec<u32> {
        let mut domains: Vec<u32> =
            self.shapes[shape].candidates.iter().map(|host| self.domain[*host as usize]).collect();
        domains.sort_unstable();
        domains.dedup();
        domains
    }
}

/// Sorted by amounts that lie side by side: to compare the facts themselves, spread over memory, takes several times as
/// long. They decide where the amounts are equal.
fn by_rank(hosts: &[HostFacts]) -> Vec<u32> {
    let known = |amount: Option<u64>| amount.map_or(u64::MAX, |amount| amount.min(u64::MAX - 1));
    let key = |host: &HostFacts| {
        [
            known(host.memory.map(|memory| memory.0)),
            known(host.cpus.map(|cpus| cpus.0)),
            known(host.disk.map(|disk| disk.0)),
        ]
    };
    let mut keys: Vec<([u64; 3], u32)> = (0_u32..).zip(hosts).map(|(index, host)| (key(host), index)).collect();
    keys.sort_unstable_by(|(left, left_index), (right, right_index)| {
        let facts = || rank_order(&hosts[*left_index as usize], &hosts[*right_index as usize]);
        left.cmp(right).then_with(facts)
    });
    keys.into_iter().map(|(_, index)| index).collect()
}

#[derive(Default)]
struct Domains<'a> {
    ids: HashMap<Option<&'a str>, u32>,
}

impl<'a> Domains<'a> {
    fn id(&mut self, host: &'a HostFacts) -> u32 {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        *self.ids.entry(host.failure_domain.as_deref()).or_insert(next)
    }
}

fn recorded_domains<'a>(hosts: &'a [HostFacts], recorded: &[Recorded], domains: &mut Domains<'a>) -> Vec<u32> {
    let mut counts: Vec<u32> = Vec::new();
    let masters = recorded.iter().filter(|entry| entry.roles.contains(&super::demand::NodeRole::Master));
    for entry in masters {
        let Some(host) = hosts.iter().find(|host| host.name == entry.host) else { continue };
        let id = domains.id(host) as usize;
        counts.resize(counts.len().max(id + 1), 0);
        counts[id] += 1;
    }
    counts
}

fn group<'a>(demands: &'a [Demand], priority: &[usize]) -> (Vec<Shape<'a>>, Vec<usize>) {
    let mut shapes: Vec<Shape<'a>> = Vec::new();
    let mut known: HashMap<(&Needs, bool), usize> = HashMap::new();
    let mut shape_of = vec![usize::MAX; demands.len()];
    for index in priority {
        let demand = &demands[*index];
        let master = demand.is_master();
        let shape = *known.entry((&demand.needs, master)).or_insert_with(|| {
            shapes.push(Shape { needs: &demand.needs, master, members: Vec::new(), candidates: Vec::new() });
            shapes.len() - 1
        });
        shapes[shape].members.push(*index);
        shape_of[*index] = shape;
    }
    (shapes, shape_of)
}

/// Fills the candidates of every shape with ranks, and returns those used with their domain.
///
/// A shape never needs more than its `most` lowest-ranked sufficient hosts: of these one is always left by the others,
/// and it is cheaper. For masters the same holds within a failure domain, and for the domains by their lowest host.
fn choose<'a>(
    hosts: &'a [HostFacts],
    by_rank: &[u32],
    shapes: &mut [Shape<'a>],
    taken: &HashSet<&str>,
    domains: &mut Domains<'a>,
    most: usize,
) -> Vec<(u32, u32)> {
    let mut ranked = Vec::new();
    let mut in_domain: Vec<HashMap<u32, usize>> = vec![HashMap::new(); shapes.len()];
    let mut open: Vec<usize> = (0..shapes.len()).collect();
    for (rank, index) in (0_u32..).zip(by_rank) {
        if open.is_empty() {
            break;
        }
        let host = &hosts[*index as usize];
        if host.available != Availability::Free || taken.contains(host.name.as_str()) {
            continue;
        }
        let domain = domains.id(host);
        let mut wanted = false;
        open.retain(|shape| {
            let counts = &mut in_domain[*shape];
            let shape = &mut shapes[*shape];
            if !fits(host, shape.needs) {
                return true;
            }
            if shape.master {
                let known = counts.len();
                let count = counts.get(&domain).copied().unwrap_or(0);
                if (count == 0 && known >= most) || count >= most {
                    return true;
                }
                counts.insert(domain, count + 1);
            }
            shape.candidates.push(rank);
            wanted = true;
            shape.master || shape.candidates.len() < most
        });
        if wanted {
            ranked.push((rank, domain));
        }
    }
    ranked
}

/// Numbers the hosts that are any shape's candidate from 0 in rank order.
fn renumber(shapes: &mut [Shape<'_>], ranked: &[(u32, u32)]) -> (Vec<u32>, Vec<u32>) {
    let last = ranked.last().map_or(0, |(rank, _)| *rank as usize + 1);
    let mut number = vec![u32::MAX; last];
    for (pool, (rank, _)) in (0_u32..).zip(ranked) {
        number[*rank as usize] = pool;
    }
    for shape in shapes {
        for candidate in &mut shape.candidates {
            *candidate = number[*candidate as usize];
        }
    }
    ranked.iter().copied().unzip()
}
