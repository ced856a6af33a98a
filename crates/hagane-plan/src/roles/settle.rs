//! Goal 5: in order of priority, each demand gets the lowest-ranked host that leaves the rest solvable.

use std::collections::HashMap;

use super::candidates::Problem;
use super::network::{Network, Paths};
use super::spread::{Setup, best, solve};

/// The host of every met demand, by demand, as pool numbers, and the number of failure domains with masters. `demands`
/// are those met, in order of priority.
pub(super) fn settle(problem: &Problem<'_>, setup: Setup, demands: &[usize]) -> (HashMap<usize, u32>, Option<u32>) {
    let mut chosen = HashMap::new();
    let mut domains = None;
    let (setup, rest) = settle_by_trial(problem, setup, demands, &mut chosen);
    if let Some((mut network, value)) = solve(problem, &setup) {
        domains = Some(value.domains);
        for demand in rest {
            let shape = problem.shape_of[*demand];
            let host = if problem.shapes[shape].master {
                settle_master(problem, &mut network, shape)
            } else {
                settle_worker(problem, &mut network, shape)
            };
            if let Some(host) = host {
                chosen.insert(*demand, host);
            }
        }
    }
    (chosen, domains)
}

/// While masters of several shapes have their failure domains open: tries hosts one by one.
fn settle_by_trial<'d>(
    problem: &Problem<'_>,
    mut setup: Setup,
    mut demands: &'d [usize],
    chosen: &mut HashMap<usize, u32>,
) -> (Setup, &'d [usize]) {
    if setup.open_shapes(problem).len() <= 1 {
        return (setup, demands);
    }
    let Some((_, target)) = best(problem, &setup, None) else { return (setup, demands) };
    while let Some((demand, rest)) = demands.split_first() {
        if setup.open_shapes(problem).len() <= 1 {
            break;
        }
        let shape = problem.shape_of[*demand];
        let trial = |host: &u32| {
            let mut trial = setup.clone();
            trial.settle(problem, shape, *host);
            let reached = best(problem, &trial, Some(target)).is_some_and(|(_, value)| value == target);
            reached.then_some((*host, trial))
        };
        let free = |host: &&u32| !setup.blocked.contains(host);
        let Some((host, next)) = problem.shapes[shape].candidates.iter().filter(free).find_map(trial) else { break };
        chosen.insert(*demand, host);
        setup = next;
        demands = rest;
    }
    (setup, demands)
}

/// The lowest-ranked host that some best solution gives to a master of the shape.
fn settle_master(problem: &Problem<'_>, network: &mut Network<'_>, shape: usize) -> Option<u32> {
    let in_hub = network.lanes[network.hub_start..].iter().any(|lane| lane.shape == shape);
    let mut paths: HashMap<usize, Paths> = HashMap::new();
    for host in problem.shapes[shape].candidates.iter().copied() {
        let domain = problem.domain[host as usize];
        let serves = |lane: &super::network::Lane| lane.shape == shape && lane.domain.is_none_or(|own| own == domain);
        let Some(lane) = network.lanes.iter().position(serves) else { continue };
        let user = network.lane_using(host);
        if user.is_none() && !network.is_free(host) {
            continue;
        }
        if user == Some(lane) {
            return Some(take(network, host, in_hub.then_some(domain)));
        }
        // The unit that held the host finds another one, until a unit of the shape gives its own back: in the same lane, or
        // through the hub in another failure domain.
        let start = user.unwrap_or(network.sink());
        let price = if user.is_none() { network.rank(host) } else { 0 };
        let found = paths.entry(start).or_insert_with(|| network.paths(start, true));
        if found.cost[lane].checked_add(price) != Some(0) {
            continue;
        }
        let host = take(network, host, in_hub.then_some(domain));
        network.walk(found, start, lane);
        return Some(host);
    }
    None
}

fn take(network: &mut Network<'_>, host: u32, domain: Option<u32>) -> u32 {
    network.retire(host);
    if let Some(domain) = domain {
        network.base[domain as usize] += 1;
    }
    host
}

/// The same for a worker: all masters are settled, so the set of hosts is fixed and only who gets which is open.
fn settle_worker(problem: &Problem<'_>, network: &mut Network<'_>, shape: usize) -> Option<u32> {
    let lane = network.lanes.iter().position(|lane| lane.shape == shape)?;
    let mut reaches = None;
    for host in problem.shapes[shape].candidates.iter().copied() {
        let Some(user) = network.lane_using(host) else { continue };
        if user == lane {
            network.retire(host);
            return Some(host);
        }
        let reaches = reaches.get_or_insert_with(|| network.lanes_that_reach(lane));
        if reaches[user] {
            let paths = network.paths(user, false);
            network.retire(host);
            network.walk(&paths, user, lane);
            return Some(host);
        }
    }
    None
}
