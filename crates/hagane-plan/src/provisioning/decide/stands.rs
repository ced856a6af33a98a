//! The cluster that stands, as runs that ended left it.

use std::collections::BTreeSet;

use hagane_api::bpa::provisioning::{Assignment, InstalledCluster, InstalledNode};
use hagane_api::bpa::reasons::RunVerb;

use super::super::facts::{Facts, RunRecord, SecretFact};
use super::super::order::{asked_version, settings};
use super::run::{may_have_begun, succeeded};

/// The cluster that the last successful run left, and what later ones may have touched. The plan may already be of a later
/// one.
#[must_use]
pub fn installed(facts: &Facts) -> Option<InstalledCluster> {
    let Some(run) = &facts.run else { return facts.installed.clone() };
    let Some(recorded) = facts.installed.clone() else { return first(facts, run) };
    if recorded.run == run.id {
        return Some(with_version(recorded, facts));
    }
    Some(if succeeded(facts) { after(recorded, facts, run) } else { touched(recorded, facts, run) })
}

/// The cluster that stands: installed, and its kubeconfig kept.
pub(super) fn standing(facts: &Facts) -> Option<InstalledCluster> {
    installed(facts).filter(|_| matches!(facts.secret, SecretFact::Ours { .. }))
}

/// What an installation left.
fn first(facts: &Facts, run: &RunRecord) -> Option<InstalledCluster> {
    let plan = facts.plan.as_ref().filter(|_| succeeded(facts) && run.verb != RunVerb::Reset)?;
    // Until a run has ended well, and this was recorded, nothing changes the plan that it follows.
    let now = facts.spec.as_ref().ok().filter(|_| run.generation == facts.generation);
    let cluster = InstalledCluster {
        run: run.id.clone(),
        settings: run.settings.clone().or(now.map(settings)),
        kubernetes_version: run.version.clone().or(now.and_then(asked_version)),
        renewed: facts.renew.clone(),
        nodes: plan.assignments.iter().map(node_of).collect(),
        unfinished: Vec::new(),
    };
    Some(with_version(cluster, facts))
}

/// What the cluster says of its version counts where nothing else is known.
fn with_version(cluster: InstalledCluster, facts: &Facts) -> InstalledCluster {
    let version = cluster.kubernetes_version.clone().or_else(|| facts.cluster_version.clone());
    InstalledCluster { kubernetes_version: version, ..cluster }
}

fn after(mut cluster: InstalledCluster, facts: &Facts, run: &RunRecord) -> InstalledCluster {
    cluster.run.clone_from(&run.id);
    let concerned: BTreeSet<&String> = run.nodes.iter().collect();
    let is_for = |node: &String| concerned.is_empty() || concerned.contains(node);
    match run.verb {
        RunVerb::Install => {
            return first(facts, run).unwrap_or(cluster);
        }
        RunVerb::AddWorkers | RunVerb::AddMasters => {
            let known: BTreeSet<String> = cluster.nodes.iter().map(|node| node.node.clone()).collect();
            let planned = facts.plan.iter().flat_map(|plan| &plan.assignments);
            let joined = planned.filter(|entry| is_for(&entry.node) && !known.contains(&entry.node));
            cluster.nodes.extend(joined.map(node_of));
            cluster.nodes.sort_by_key(|node| !is_master(node));
            cluster.unfinished.retain(|node| !is_for(node));
        }
        RunVerb::RemoveNodes | RunVerb::RecoverControlPlane => {
            cluster.nodes.retain(|node| !concerned.contains(&node.node));
            cluster.unfinished.retain(|node| !concerned.contains(node));
        }
        RunVerb::Upgrade => cluster.kubernetes_version.clone_from(&run.version),
        RunVerb::Reconfigure => cluster.settings.clone_from(&run.settings),
        RunVerb::RenewCertificates => cluster.renewed.clone_from(&run.renews),
        RunVerb::Reset => cluster.nodes.clear(),
    }
    cluster
}

/// Nodes that a run which has not ended well was joining or removing.
fn touched(mut cluster: InstalledCluster, facts: &Facts, run: &RunRecord) -> InstalledCluster {
    let moves = run.verb.joins() || matches!(run.verb, RunVerb::RemoveNodes | RunVerb::RecoverControlPlane);
    if !moves || !may_have_begun(facts) {
        return cluster;
    }
    let planned = facts.plan.iter().flat_map(|plan| &plan.assignments).map(|entry| entry.node.clone());
    let stands = |node: &String| cluster.nodes.iter().any(|known| known.node == *node);
    let concerned: Vec<String> = match (run.nodes.is_empty(), run.verb.joins()) {
        (true, true) => planned.filter(|node| !stands(node)).collect(),
        _ => run.nodes.clone(),
    };
    for node in concerned {
        if !cluster.unfinished.contains(&node) {
            cluster.unfinished.push(node);
        }
    }
    cluster
}

fn node_of(entry: &Assignment) -> InstalledNode {
    InstalledNode {
        node: entry.node.clone(),
        roles: entry.roles.clone(),
        host: entry.host.clone(),
        host_uid: entry.host_uid.clone(),
        address: entry.address.clone(),
    }
}

/// Whether a node that stands is part of the control plane.
pub(super) fn is_master(node: &InstalledNode) -> bool {
    node.roles.iter().any(|role| role == "master")
}
