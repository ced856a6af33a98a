//! From a planned run to its intent: stored as planned, approved where it may lose data, its hosts in reach.

use std::collections::BTreeSet;

use hagane_api::bpa::provisioning::{InstalledCluster, PlannedRun};
use hagane_api::bpa::reasons::{ProvisioningPhase as Phase, ProvisioningReason as Reason, RunVerb};
use hagane_api::keys::APPROVE_RUN_ANNOTATION;

use super::super::facts::{Claim, Facts, Host, HostCheckResult};
use super::super::order::{asked_version, settings};
use super::super::{Action, Decision};
use super::change::named;
use super::place::{host_names, no_installer, no_key, reachable, refs};
use super::say::Say;
use crate::decision::{Next, names};

/// Brings about a run on hosts that are used already.
pub(super) fn run(facts: &Facts, standing: &InstalledCluster, planned: PlannedRun, say: Say) -> Decision {
    match in_reach(facts, standing, planned, say) {
        Ok((planned, say)) => launch(facts, &planned, say),
        Err(decision) => *decision,
    }
}

/// The hosts that are worked on answer; those that leave and do not are lost.
fn in_reach(
    facts: &Facts,
    standing: &InstalledCluster,
    planned: PlannedRun,
    say: Say,
) -> Result<(PlannedRun, Say), Box<Decision>> {
    let say = no_installer(facts, say).and_then(|say| no_key(facts, say))?;
    let stands = |uid: &str| standing.nodes.iter().any(|node| node.host_uid == uid);
    let unclaimed = refs(facts.hosts.iter().filter(|host| host.claim == Claim::None && stands(&host.uid)));
    if !unclaimed.is_empty() {
        let message = format!("claiming {}", host_names(&unclaimed));
        return Err(Box::new(say.does(
            Phase::Updating,
            Reason::ClaimingHosts,
            message,
            vec![Action::ClaimHosts(unclaimed)],
        )));
    }
    if planned.verb != RunVerb::RemoveNodes {
        let lives = |node: &&str| !planned.lost.iter().any(|lost| lost == node);
        let nodes: BTreeSet<&str> = standing.nodes.iter().map(|node| node.node.as_str()).filter(lives).collect();
        let used = hosts_of(facts, standing, |node| nodes.contains(node));
        return reachable(facts, &used, say).map(|say| (planned, say));
    }
    let leaves =
        |node: &str| planned.nodes.iter().any(|name| name == node) && !planned.lost.iter().any(|lost| lost == node);
    let used = hosts_of(facts, standing, leaves);
    if used.is_empty() {
        return Ok((planned, say));
    }
    let Some(checks) = &facts.checks else {
        let hosts = refs(facts.hosts.iter().filter(|host| used.contains(host.facts.name.as_str())));
        let message = format!("asking whether {} answer before they leave", host_names(&hosts));
        return Err(Box::new(say.does(
            Phase::Waiting,
            Reason::CheckingFacts,
            message,
            vec![Action::CheckFacts(hosts)],
        )));
    };
    let silent = |check: &&super::super::HostCheck| matches!(check.result, HostCheckResult::Unreachable(_));
    let silent: BTreeSet<&str> = checks.iter().filter(silent).map(|check| check.host.as_str()).collect();
    // What does not answer is lost; what answers and lets nobody in is put right first.
    let others: Vec<_> = checks.iter().filter(|check| !silent.contains(check.host.as_str())).cloned().collect();
    let say = super::place::let_in(&others, say)?;
    let lost = planned.nodes.iter().filter(|node| {
        planned.lost.contains(node) || host_of(facts, standing, node).is_some_and(|host| silent.contains(host))
    });
    let lost: Vec<String> = lost.cloned().collect();
    let needs_approval = planned.needs_approval || !lost.is_empty();
    let reason = match lost.iter().filter(|node| !planned.lost.contains(node)).collect::<Vec<_>>() {
        newly if newly.is_empty() => planned.reason.clone(),
        newly => format!("{}; without an answer: {}", planned.reason, names(&newly)),
    };
    Ok((named(facts, standing, PlannedRun { lost, needs_approval, reason, ..planned }), say))
}

/// The host of a node, by the cluster that stands or by the plan.
fn host_of<'a>(facts: &'a Facts, standing: &'a InstalledCluster, node: &str) -> Option<&'a str> {
    let stands = standing.nodes.iter().find(|known| known.node == node).map(|known| known.host.as_str());
    let planned = || facts.plan.iter().flat_map(|plan| &plan.assignments).find(|entry| entry.node == node);
    stands.or_else(|| planned().map(|entry| entry.host.as_str()))
}

fn hosts_of<'a>(
    facts: &'a Facts,
    standing: &'a InstalledCluster,
    is_meant: impl Fn(&str) -> bool,
) -> BTreeSet<&'a str> {
    let stands = standing.nodes.iter().map(|node| (node.node.as_str(), node.host.as_str()));
    let planned = facts.plan.iter().flat_map(|plan| &plan.assignments);
    let planned = planned.map(|entry| (entry.node.as_str(), entry.host.as_str()));
    let there = |host: &str| facts.hosts.iter().any(|known: &Host| known.facts.name == host);
    stands.chain(planned).filter(|(node, host)| is_meant(node) && there(host)).map(|(_, host)| host).collect()
}

/// Stored as planned, approved, recorded.
pub(super) fn launch(facts: &Facts, planned: &PlannedRun, say: Say) -> Decision {
    if facts.planned.as_ref() != Some(planned) {
        let record = Action::RecordPlannedRun(Some(Box::new(planned.clone())));
        return say.does(Phase::Updating, Reason::RunPlanned, told(planned), vec![record]);
    }
    if planned.needs_approval && facts.approved.as_ref() != Some(&planned.id) {
        let message = format!(
            "{}; data may be lost: `hagane approve provisioning {}`, or the annotation {APPROVE_RUN_ANNOTATION}={}, lets it begin",
            told(planned),
            facts.name,
            planned.id
        );
        return say.ends(Phase::Updating, Reason::WaitingForApproval, message, Next::AwaitChange);
    }
    say.does(
        Phase::Installing,
        Reason::Starting,
        format!("run {} is recorded", planned.id),
        vec![intent(facts, planned)],
    )
}

fn told(planned: &PlannedRun) -> String {
    format!("run {} ({}) is planned: {}", planned.id, planned.verb.as_str(), planned.reason)
}

/// The intent of a planned run.
pub(super) fn intent(facts: &Facts, planned: &PlannedRun) -> Action {
    let spec = facts.spec.as_ref().ok();
    Action::RecordRunIntent {
        id: planned.id.clone(),
        generation: facts.generation,
        retry: facts.retry.clone(),
        verb: planned.verb,
        nodes: planned.nodes.clone(),
        lost: planned.lost.clone(),
        version: match planned.verb {
            RunVerb::Install => spec.and_then(asked_version),
            _ => planned.to_version.clone(),
        },
        renews: facts.renew.clone().filter(|_| planned.verb == RunVerb::RenewCertificates),
        settings: spec.map(settings),
    }
}
