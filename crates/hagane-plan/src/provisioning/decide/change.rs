//! From the cluster that stands to the one that the spec asks for now: the run that comes next.

use std::collections::{BTreeMap, BTreeSet};

use hagane_api::bpa::kubernetes_version;
use hagane_api::bpa::provisioning::{InstalledCluster, InstalledNode, PlannedRun, ProvisioningSpec};
use hagane_api::bpa::reasons::{ProvisioningReason as Reason, RunVerb};

use super::super::demands::{Wanted, roles};
use super::super::facts::Facts;
use super::super::order::{Settings, asked_version, change_id, compare_settings};
use super::stands::is_master;
use crate::decision::names;
use crate::roles::Demand;

/// What the spec asks for beyond what stands.
pub(super) enum Change {
    /// Nothing.
    None,
    /// A run on the hosts that are used already.
    Run(PlannedRun),
    /// A run by which nodes join, on hosts that are to be found.
    Join(PlannedRun),
    /// Something that is not carried out: why, and what, one line.
    Unsupported(Reason, String),
}

/// Compares what is asked for with what stands. The first difference counts: what is lost, what cannot be, what goes,
/// masters, workers, version, settings, certificates.
pub(super) fn change(facts: &Facts, standing: &InstalledCluster, wanted: &Wanted) -> Change {
    let Ok(spec) = &facts.spec else { return Change::None };
    let view = View { facts, standing, wanted };
    view.lost()
        .or_else(|| view.refused(spec))
        .or_else(|| view.leaving())
        .or_else(|| view.joining())
        .or_else(|| view.version(spec))
        .or_else(|| view.settings(spec))
        .or_else(|| view.certificates())
        .unwrap_or(Change::None)
}

struct View<'a> {
    facts: &'a Facts,
    standing: &'a InstalledCluster,
    wanted: &'a Wanted,
}

impl<'a> View<'a> {
    fn masters(&self) -> impl Iterator<Item = &'a InstalledNode> {
        self.standing.nodes.iter().filter(|node| is_master(node))
    }

    fn asked(&self) -> BTreeMap<&'a str, &'a Demand> {
        self.wanted.demands.iter().map(|demand| (demand.node.as_str(), demand)).collect()
    }

    fn planned(&self, verb: RunVerb, nodes: Vec<String>, reason: String) -> PlannedRun {
        named(self.facts, self.standing, PlannedRun { verb, nodes, reason, ..PlannedRun::default() })
    }

    /// Nodes whose hosts are gone.
    fn lost(&self) -> Option<Change> {
        let lost: Vec<&InstalledNode> = self.standing.nodes.iter().filter(|node| self.facts.has_lost(node)).collect();
        if lost.is_empty() {
            return None;
        }
        let told: Vec<String> = lost.iter().map(|node| told_lost(node)).collect();
        let masters: Vec<&InstalledNode> = self.masters().collect();
        let lost_masters: Vec<&InstalledNode> = lost.iter().copied().filter(|node| is_master(node)).collect();
        if lost_masters.len() == masters.len() {
            let message = format!("no master is left: {}; the cluster is lost", names(&told));
            return Some(Change::Unsupported(Reason::HostLost, message));
        }
        // Etcd takes members out by itself only while more than half of them live, and only the first master manages it.
        let first = masters.first().is_some_and(|first| lost_masters.iter().any(|node| node.node == first.node));
        let recovers = first || lost_masters.len() * 2 >= masters.len();
        let (verb, gone) =
            if recovers { (RunVerb::RecoverControlPlane, lost_masters) } else { (RunVerb::RemoveNodes, lost) };
        let nodes: Vec<String> = gone.iter().map(|node| node.node.clone()).collect();
        let planned = self.planned(verb, nodes.clone(), names(&told));
        Some(Change::Run(named(self.facts, self.standing, PlannedRun { lost: nodes, needs_approval: true, ..planned })))
    }

    /// What no run brings about.
    fn refused(&self, spec: &ProvisioningSpec) -> Option<Change> {
        let asked = self.asked();
        let mut problems = Vec::new();
        for node in &self.standing.nodes {
            problems.extend(asked.get(node.node.as_str()).and_then(|demand| other_roles(node, demand)));
        }
        if compare_settings(self.standing.settings.as_deref(), spec) == Settings::Fixed {
            problems.push(
                "installer, networks or control plane endpoint are others than those that were installed".to_owned(),
            );
        }
        if let Some(first) = self.masters().next().filter(|first| !asked.contains_key(first.node.as_str())) {
            problems.push(format!(
                "{} would be removed: the first master stays as long as its host lives, since the others were made from it",
                first.node
            ));
        }
        (!problems.is_empty())
            .then(|| Change::Unsupported(Reason::SpecChanged, format!("not carried out: {}", names(&problems))))
    }

    /// Nodes that are not asked for any more, and those that were half removed.
    fn leaving(&self) -> Option<Change> {
        let asked = self.asked();
        let unfinished: BTreeSet<&str> = self.standing.unfinished.iter().map(String::as_str).collect();
        let goes = |node: &str| !asked.contains_key(node) || unfinished.contains(node);
        let mut nodes: Vec<String> =
            self.standing.nodes.iter().map(|node| node.node.clone()).filter(|node| goes(node)).collect();
        let half = self.standing.unfinished.iter().filter(|node| !asked.contains_key(node.as_str()));
        let known: BTreeSet<String> = nodes.iter().cloned().collect();
        nodes.extend(half.filter(|node| !known.contains(*node) && self.is_planned(node)).cloned());
        if nodes.is_empty() {
            return None;
        }
        let needs_approval = self.masters().any(|master| nodes.contains(&master.node));
        let reason = format!("no longer asked for, or half removed: {}", names(&nodes));
        Some(Change::Run(PlannedRun { needs_approval, ..self.planned(RunVerb::RemoveNodes, nodes, reason) }))
    }

    fn is_planned(&self, node: &str) -> bool {
        self.facts.plan.iter().flat_map(|plan| &plan.assignments).any(|entry| entry.node == node)
    }

    /// Nodes that are asked for and do not stand: masters first.
    fn joining(&self) -> Option<Change> {
        let known: BTreeSet<&str> = self.standing.nodes.iter().map(|node| node.node.as_str()).collect();
        let added = || self.wanted.demands.iter().filter(|demand| !known.contains(demand.node.as_str()));
        let masters: Vec<String> =
            added().filter(|demand| demand.is_master()).map(|demand| demand.node.clone()).collect();
        let workers: Vec<String> = added().map(|demand| demand.node.clone()).collect();
        let (verb, nodes) = match (masters.is_empty(), workers.is_empty()) {
            (false, _) => (RunVerb::AddMasters, masters),
            (true, false) => (RunVerb::AddWorkers, workers),
            (true, true) => return None,
        };
        let reason = format!("asked for and not there: {}", names(&nodes));
        Some(Change::Join(self.planned(verb, nodes, reason)))
    }

    fn version(&self, spec: &ProvisioningSpec) -> Option<Change> {
        let wanted = asked_version(spec)?;
        let is = self.standing.kubernetes_version.clone();
        if is.as_ref() == Some(&wanted) {
            return None;
        }
        if let Some(problem) = is.as_ref().and_then(|is| no_way(is, &wanted)) {
            return Some(Change::Unsupported(Reason::VersionNotReachable, problem));
        }
        let from = is.clone().unwrap_or_else(|| "an unknown version".to_owned());
        let planned = PlannedRun {
            verb: RunVerb::Upgrade,
            from_version: is,
            reason: format!("from {from} to {wanted}"),
            to_version: Some(wanted),
            ..PlannedRun::default()
        };
        Some(Change::Run(named(self.facts, self.standing, planned)))
    }

    fn settings(&self, spec: &ProvisioningSpec) -> Option<Change> {
        let same = compare_settings(self.standing.settings.as_deref(), spec) != Settings::Variables;
        let reason = || "variables are others than those that were installed".to_owned();
        (!same).then(|| Change::Run(self.planned(RunVerb::Reconfigure, Vec::new(), reason())))
    }

    fn certificates(&self) -> Option<Change> {
        let asked = self.facts.renew.is_some() && self.facts.renew != self.standing.renewed;
        let reason = match &self.facts.certificates_end {
            Some(soon) => soon.clone(),
            None if asked => format!("the annotation {} asks for it", hagane_api::keys::RENEW_CERTIFICATES_ANNOTATION),
            None => return None,
        };
        Some(Change::Run(self.planned(RunVerb::RenewCertificates, Vec::new(), reason)))
    }
}

/// Gives a planned run the id that belongs to what it does.
pub(super) fn named(facts: &Facts, standing: &InstalledCluster, planned: PlannedRun) -> PlannedRun {
    let renews = facts.renew.as_ref().filter(|_| planned.verb == RunVerb::RenewCertificates);
    let settings =
        facts.spec.as_ref().ok().filter(|_| planned.verb == RunVerb::Reconfigure).map(super::super::order::settings);
    let purpose =
        serde_json::json!([planned.verb.as_str(), planned.nodes, planned.lost, planned.to_version, renews, settings]);
    PlannedRun { id: change_id(facts, &standing.run, &purpose), ..planned }
}

fn told_lost(node: &InstalledNode) -> String {
    format!("the host {} of {} is gone or used by another object", node.host, node.node)
}

fn other_roles(node: &InstalledNode, demand: &Demand) -> Option<String> {
    let same = demand.roles == roles(&node.roles);
    let words = demand.roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(" and ");
    (!same).then(|| format!("{} is {} and would be {words}", node.node, node.roles.join(" and ")))
}

/// Why a cluster cannot go from one version to another.
fn no_way(from: &str, to: &str) -> Option<String> {
    let ([major, minor, patch], [to_major, to_minor, to_patch]) = (kubernetes_version(from)?, kubernetes_version(to)?);
    if (to_major, to_minor, to_patch) < (major, minor, patch) {
        return Some(format!("spec.kubernetesVersion is {to} and the cluster is at {from}: it never goes back"));
    }
    let next = minor.saturating_add(1);
    (to_major != major || to_minor > next).then(|| {
        format!(
            "spec.kubernetesVersion is {to} and the cluster is at {from}: upgrade to a {major}.{next} version first"
        )
    })
}
