//! All assignments of a small case, judged by the goals word for word.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::super::facts::rank_order;
use super::super::fit::fits;
use super::super::{Availability, Demand, HostFacts, NodeRole, Recorded};

/// Goals 2 to 5 of one assignment; larger is better.
type Score = (usize, Vec<bool>, usize, Reverse<usize>, Reverse<usize>, Reverse<Vec<usize>>);

/// The best assignment: host by node, for the demands that are not recorded.
pub(super) fn best(hosts: &[HostFacts], demands: &[Demand], recorded: &[Recorded]) -> BTreeMap<String, String> {
    let mut ranked: Vec<&HostFacts> = hosts.iter().collect();
    ranked.sort_by(|left, right| rank_order(left, right));
    let open = |demand: &&Demand| !recorded.iter().any(|entry| entry.node == demand.node);
    let masters = demands.iter().filter(open).filter(|demand| demand.is_master());
    let others = demands.iter().filter(open).filter(|demand| !demand.is_master());
    let order: Vec<&Demand> = masters.chain(others).collect();
    let mut taken: Vec<bool> = ranked.iter().map(|host| recorded.iter().any(|entry| entry.host == host.name)).collect();
    let mut search = Search { ranked: &ranked, order: &order, recorded, best: None };
    search.go(&mut Vec::new(), &mut taken);
    let (_, choice) = search.best.expect("the empty assignment is always there");
    let named = order.iter().zip(choice).filter_map(|(demand, host)| Some((demand, host?)));
    named.map(|(demand, host)| (demand.node.clone(), ranked[host].name.clone())).collect()
}

struct Search<'a> {
    ranked: &'a [&'a HostFacts],
    order: &'a [&'a Demand],
    recorded: &'a [Recorded],
    best: Option<(Score, Vec<Option<usize>>)>,
}

impl Search<'_> {
    fn go(&mut self, choice: &mut Vec<Option<usize>>, taken: &mut [bool]) {
        if choice.len() == self.order.len() {
            let score = self.score(choice);
            if self.best.as_ref().is_none_or(|(best, _)| *best < score) {
                self.best = Some((score, choice.clone()));
            }
            return;
        }
        let needs = &self.order[choice.len()].needs;
        for host in 0..self.ranked.len() {
            let usable = self.ranked[host].available == Availability::Free && fits(self.ranked[host], needs);
            if usable && !taken[host] {
                taken[host] = true;
                choice.push(Some(host));
                self.go(choice, taken);
                choice.pop();
                taken[host] = false;
            }
        }
        // Goal 2 first: what cannot meet as many demands any more need not be looked at.
        let met = choice.iter().flatten().count() + self.order.len() - choice.len() - 1;
        if self.best.as_ref().is_none_or(|(best, _)| met >= best.0) {
            choice.push(None);
            self.go(choice, taken);
            choice.pop();
        }
    }

    fn score(&self, choice: &[Option<usize>]) -> Score {
        let met: Vec<bool> = choice.iter().map(Option::is_some).collect();
        let mut domains: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        let recorded = self.recorded.iter().filter(|entry| entry.roles.contains(&NodeRole::Master));
        let recorded = recorded.filter_map(|entry| self.ranked.iter().find(|host| host.name == entry.host).copied());
        let chosen = choice.iter().zip(self.order).filter(|(_, demand)| demand.is_master());
        let chosen = chosen.filter_map(|(host, _)| Some(self.ranked[(*host)?]));
        for host in recorded.chain(chosen) {
            *domains.entry(host.failure_domain.as_deref()).or_default() += 1;
        }
        let masters: usize = domains.values().sum();
        let ceiling = masters.div_ceil(domains.len().max(1));
        let over = domains.values().map(|count| count.saturating_sub(ceiling)).sum();
        let hosts: Vec<usize> = choice.iter().flatten().copied().collect();
        (
            hosts.len(),
            met,
            domains.len(),
            Reverse(over),
            Reverse(hosts.iter().sum()),
            Reverse(choice.iter().map(|host| host.unwrap_or(usize::MAX)).collect()),
        )
    }
}
