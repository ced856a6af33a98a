//! From the cluster that stands to the one that the spec asks for now.

use std::collections::{BTreeMap, BTreeSet};

use hagane_api::bpa::provisioning::{InstalledCluster, InstalledNode};
use hagane_api::bpa::reasons::{ProvisioningReason as Reason, RunVerb};

use super::super::demands::{Wanted, roles};
use super::super::facts::{Claim, Facts, SecretFact};
use super::super::order::settings;
use super::run::{may_have_begun, succeeded};
use crate::decision::names;
use crate::roles::Demand;

/// What the spec asks for beyond what stands.
pub(super) enum Change {
    /// Nothing.
    None,
    /// Further workers.
    Workers,
    /// Something that is not carried out: why, and what, one line.
    Unsupported(Reason, String),
}

/// The cluster that the last successful run left. The plan may already be of a later one.
#[must_use]
pub fn installed(facts: &Facts) -> Option<InstalledCluster> {
    let recorded = facts.installed.as_ref();
    let Some((run, plan)) = facts.run.as_ref().zip(facts.plan.as_ref()) else { return recorded.cloned() };
    if recorded.is_some_and(|cluster| cluster.run == run.id) || !succeeded(facts) {
        return recorded.cloned();
    }
    // Until a run has ended well, and this was recorded, nothing changes the plan that it follows.
    let nodes = plan.assignments.iter().map(|entry| InstalledNode {
        node: entry.node.clone(),
        roles: entry.roles.clone(),
        host: entry.host.clone(),
        host_uid: entry.host_uid.clone(),
    });
    let now = facts.spec.as_ref().ok().filter(|_| run.generation == facts.generation).map(settings);
    Some(InstalledCluster { run: run.id.clone(), settings: run.settings.clone().or(now), nodes: nodes.collect() })
}

/// The cluster that stands: installed, and its kubeconfig kept.
pub(super) fn standing(facts: &Facts) -> Option<InstalledCluster> {
    installed(facts).filter(|_| matches!(facts.secret, SecretFact::Ours { .. }))
}

/// Compares what is asked for with what stands.
pub(super) fn change(facts: &Facts, standing: &InstalledCluster, wanted: &Wanted) -> Change {
    let asked: BTreeMap<&str, &Demand> = wanted.demands.iter().map(|demand| (demand.node.as_str(), demand)).collect();
    let known: BTreeSet<&str> = standing.nodes.iter().map(|node| node.node.as_str()).collect();
    let added: Vec<&Demand> = wanted.demands.iter().filter(|demand| !known.contains(demand.node.as_str())).collect();
    let lost: Vec<String> = standing.nodes.iter().filter_map(|node| lost(facts, node)).collect();
    if !lost.is_empty() {
        return Change::Unsupported(Reason::HostLost, names(&lost));
    }
    let mut problems = Vec::new();
    for node in &standing.nodes {
        problems.extend(problem_of(node, asked.get(node.node.as_str()).copied()));
    }
    let now = facts.spec.as_ref().ok().map(settings);
    if standing.settings.is_none() || standing.settings != now {
        problems.push("installer, variables or networks are others than those that were installed".to_owned());
    }
    let masters: Vec<&str> =
        added.iter().filter(|demand| demand.is_master()).map(|demand| demand.node.as_str()).collect();
    if !masters.is_empty() {
        problems.push(format!("{} would be further masters", names(&masters)));
    }
    let half_made: Vec<&str> = begun(facts, &known).filter(|node| !asked.contains_key(node)).collect();
    if !half_made.is_empty() {
        problems.push(format!("a run that did not end well was joining {}, and may have", names(&half_made)));
    }
    if !problems.is_empty() {
        let message = format!("not carried out yet: {}", names(&problems));
        return Change::Unsupported(Reason::SpecChanged, message);
    }
    if added.is_empty() { Change::None } else { Change::Workers }
}

fn lost(facts: &Facts, node: &InstalledNode) -> Option<String> {
    let stands = facts.hosts.iter().any(|host| host.uid == node.host_uid && host.claim == Claim::Ours);
    (!stands).then(|| format!("the host {} of {} is gone or used by another object", node.host, node.node))
}

fn problem_of(node: &InstalledNode, demand: Option<&Demand>) -> Option<String> {
    let name = &node.node;
    let Some(demand) = demand else { return Some(format!("{name} would be removed")) };
    let same = demand.roles == roles(&node.roles);
    (!same).then(|| format!("{name} is {} and would be {}", node.roles.join(" and "), words(demand)))
}

fn words(demand: &Demand) -> String {
    demand.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(" and ")
}

/// Nodes beside the standing ones that an unfinished run may have touched.
fn begun<'a>(facts: &'a Facts, known: &'a BTreeSet<&str>) -> impl Iterator<Item = &'a str> {
    let touched = facts.run.as_ref().is_some_and(|run| run.verb == RunVerb::AddWorkers) && may_have_begun(facts);
    let plan = facts.plan.iter().filter(move |_| touched);
    let nodes = plan.flat_map(|plan| &plan.assignments).map(|entry| entry.node.as_str());
    nodes.filter(|node| !known.contains(node))
}
