//! Which host each node of a Provisioning gets: what is recorded and stays, then what the planner says.

use std::collections::{BTreeMap, BTreeSet};

use hagane_api::bpa::provisioning::{Assignment, RolePlan};
use ipnet::IpNet;

use super::demands::Wanted;
use super::facts::{Claim, Host};
use crate::roles::{Availability, HostFacts, Plan, Recorded, plan_roles};

/// Recorded assignments that stay: still asked for, on a host that exists and that nobody else took.
pub(super) fn kept<'a>(stored: Option<&'a RolePlan>, wanted: &Wanted, hosts: &[Host]) -> Vec<&'a Assignment> {
    let asked: BTreeSet<&str> = wanted.demands.iter().map(|demand| demand.node.as_str()).collect();
    let hosts: BTreeMap<&str, &Host> = hosts.iter().map(|host| (host.facts.name.as_str(), host)).collect();
    let stays = |entry: &&Assignment| {
        let host = hosts.get(entry.host.as_str()).filter(|host| host.uid == entry.host_uid);
        asked.contains(entry.node.as_str()) && host.is_some_and(|host| !matches!(host.claim, Claim::Other(_)))
    };
    stored.into_iter().flat_map(|plan| &plan.assignments).filter(stays).collect()
}

/// The plan for what is asked for now, beside the stored one. Controllers store it before they use it; `hagane plan`
/// shows it.
#[must_use]
pub fn assign_roles(stored: Option<&RolePlan>, wanted: &Wanted, hosts: &[Host]) -> Plan {
    let role_of: BTreeMap<&str, &[_]> =
        wanted.demands.iter().map(|demand| (demand.node.as_str(), demand.roles.as_slice())).collect();
    let recorded: Vec<Recorded> = kept(stored, wanted, hosts)
        .into_iter()
        .map(|entry| Recorded {
            node: entry.node.clone(),
            roles: role_of.get(entry.node.as_str()).map_or_else(Vec::new, |roles| roles.to_vec()),
            host: entry.host.clone(),
        })
        .collect();
    let hosts: Vec<HostFacts> = hosts.iter().map(|host| usable(host, wanted.node_subnet)).collect();
    plan_roles(&hosts, &wanted.demands, &recorded)
}

/// The host as the planner may use it: a claim of ours is none, and a host without an address cannot be installed.
fn usable(host: &Host, subnet: Option<IpNet>) -> HostFacts {
    let facts = host.facts.clone();
    let available = match (&host.claim, &facts.available) {
        (Claim::Other(who), _) => Availability::ClaimedBy(who.clone()),
        (_, Availability::ClaimedBy(_)) => Availability::Free,
        (_, other) => other.clone(),
    };
    if available == Availability::Free && facts.address(None, subnet).is_none() {
        let elsewhere = facts.address(None, None).zip(subnet);
        let problem = elsewhere.map_or_else(
            || "no address is known".to_owned(),
            |(found, subnet)| format!("{} is not in spec.nodeSubnet {subnet}", found.address),
        );
        return HostFacts { available: Availability::NotReady(problem), ..facts };
    }
    HostFacts { available, ..facts }
}
