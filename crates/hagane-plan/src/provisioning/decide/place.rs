//! From demands to claimed, reachable hosts, and the intent of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hagane_api::bpa::provisioning::{Assignment, PlannedRun, RejectedHost, RolePlan, SpareCapacity, UnmetDemand};
use hagane_api::bpa::reasons::{
    ProvisioningCondition as Type, ProvisioningPhase as Phase, ProvisioningReason as Reason, ProvisioningWait as Wait,
    RunVerb,
};
use hagane_api::condition::ConditionStatus::{False, True, Unknown};

use super::super::assign::{assign_roles, kept};
use super::super::demands::{Wanted, roles};
use super::super::facts::{Claim, Facts, Host, HostCheck, HostCheckResult, Login};
use super::super::order::run_id;
use super::super::{Action, Decision, HostRef};
use super::say::Say;
use crate::decision::{Next, names};
use crate::roles::Plan;

/// Pause before hosts, keys and names are looked at again without a change.
pub(super) const RETRY: Duration = Duration::from_secs(30);
const SSH_RETRY: Duration = Duration::from_secs(10);
/// Most rejected hosts kept in status.
const REJECTED_MAX: usize = 50;
/// Declared and real amounts may differ by this much, in per cent.
const TOLERANCE_PERCENT: u64 = 10;

/// Hosts for what is asked for, then an installation, or the run by which they join a cluster that stands.
pub(super) fn decide(facts: &Facts, wanted: &Wanted, joins: Option<&PlannedRun>, say: Say) -> Decision {
    let reached = assign(facts, wanted, say).and_then(|(used, say)| {
        let say = no_installer(facts, say).and_then(|say| no_key(facts, say))?;
        reachable(facts, &used, say)
    });
    match (reached, joins) {
        (Ok(say), Some(planned)) => super::launch::launch(facts, planned, say),
        (Ok(say), None) => install(facts, say),
        (Err(decision), _) => *decision,
    }
}

fn install(facts: &Facts, say: Say) -> Decision {
    let id = run_id(&facts.uid, facts.generation, facts.retry.as_deref());
    let planned = PlannedRun { id, verb: RunVerb::Install, ..PlannedRun::default() };
    say.with(Type::Installed, False, Reason::Starting, "").does(
        Phase::Installing,
        Reason::Starting,
        format!("run {} is recorded", planned.id),
        vec![super::launch::intent(facts, &planned)],
    )
}

/// Hosts for what is asked for, where nothing is to be run for it.
pub(super) fn keep(facts: &Facts, wanted: &Wanted, say: Say) -> Decision {
    match assign(facts, wanted, say) {
        Ok((_, say)) => say.with(Type::UpToDate, True, Reason::UpToDate, "").ready(),
        Err(decision) => *decision,
    }
}

/// Goes on with the names of the plan's hosts, once it is stored and they are claimed.
fn assign<'a>(facts: &'a Facts, wanted: &Wanted, say: Say) -> Result<(BTreeSet<&'a str>, Say), Box<Decision>> {
    let kept = kept(facts.plan.as_ref(), wanted, &facts.hosts);
    let plan = match facts.plan.as_ref().filter(|plan| is_complete(plan, &kept, wanted, facts.generation)) {
        Some(plan) => plan,
        None => return Err(Box::new(plan_anew(facts, wanted, &kept, say))),
    };
    let say = say.with(Type::HostsAssigned, True, Reason::HostsAssigned, count_of_nodes(plan.assignments.len()));
    let used: BTreeSet<&str> = plan.assignments.iter().map(|entry| entry.host.as_str()).collect();
    let in_plan = |host: &&Host| used.contains(host.facts.name.as_str());
    let spare = refs(facts.hosts.iter().filter(|host| host.claim == Claim::Ours && !in_plan(host)));
    let unclaimed = refs(facts.hosts.iter().filter(in_plan).filter(|host| host.claim == Claim::None));
    if !spare.is_empty() || !unclaimed.is_empty() {
        let message = format!("claiming {}", host_names(&unclaimed));
        let mut actions = Vec::new();
        actions.extend((!spare.is_empty()).then_some(Action::ReleaseHosts(spare)));
        actions.extend((!unclaimed.is_empty()).then_some(Action::ClaimHosts(unclaimed)));
        return Err(Box::new(say.does(Phase::Pending, Reason::ClaimingHosts, message, actions)));
    }
    Ok((used, say))
}

fn is_complete(plan: &RolePlan, kept: &[&Assignment], wanted: &Wanted, generation: i64) -> bool {
    let same_roles = |entry: &&Assignment| {
        wanted.demands.iter().any(|demand| demand.node == entry.node && demand.roles == roles(&entry.roles))
    };
    plan.generation == generation
        && plan.unsatisfied.is_empty()
        && kept.len() == plan.assignments.len()
        && kept.len() == wanted.demands.len()
        && kept.iter().all(same_roles)
}

fn plan_anew(facts: &Facts, wanted: &Wanted, kept: &[&Assignment], say: Say) -> Decision {
    let result = assign_roles(facts.plan.as_ref(), wanted, &facts.hosts);
    let plan = to_store(facts, wanted, kept, &result);
    if result.is_complete() {
        let message = format!("hosts are found for {}", count_of_nodes(plan.assignments.len()));
        return say.with(Type::HostsAssigned, False, Reason::Planning, "").does(
            Phase::Pending,
            Reason::Planning,
            message,
            vec![Action::RecordPlan(Box::new(plan))],
        );
    }
    let short: Vec<String> =
        plan.unsatisfied.iter().map(|unmet| format!("{}: {}", unmet.demand, unmet.short)).collect();
    let message = names_of_unmet(&short);
    let say = say.with(Type::HostsAssigned, False, Reason::NoSuitableHosts, message.clone());
    let next = Next::After(RETRY, Wait::Hosts);
    let decision = say.ends(Phase::Waiting, Reason::NoSuitableHosts, message, next);
    let mut actions = Vec::new();
    if facts.plan.as_ref() != Some(&plan) {
        actions.push(Action::RecordPlan(Box::new(plan)));
    }
    // Hosts that nothing was installed on are not kept from others while this one waits for more.
    let idle = refs(facts.hosts.iter().filter(|host| host.claim == Claim::Ours && facts.run.is_none()));
    actions.extend((!idle.is_empty()).then_some(Action::ReleaseHosts(idle)));
    Decision { actions, ..decision }
}

fn names_of_unmet(short: &[String]) -> String {
    const MOST: usize = 3;
    let shown = short.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join("; ");
    match short.len().checked_sub(MOST) {
        Some(more) if more > 0 => format!("{shown}; and {more} more nodes"),
        _ => shown,
    }
}

/// The plan in its stored form. While demands are unmet only what was recorded before stays recorded.
fn to_store(facts: &Facts, wanted: &Wanted, kept: &[&Assignment], result: &Plan) -> RolePlan {
    let complete = result.is_complete();
    let by_name: BTreeMap<&str, &Host> = facts.hosts.iter().map(|host| (host.facts.name.as_str(), host)).collect();
    let macs: BTreeMap<&str, _> =
        wanted.demands.iter().map(|demand| (demand.node.as_str(), demand.needs.mac)).collect();
    let mut assignments = Vec::new();
    for entry in result.assignments.iter().take(if complete { usize::MAX } else { kept.len() }) {
        let host = by_name.get(entry.host.as_str());
        let before = kept.iter().find(|kept| kept.node == entry.node);
        let mac = macs.get(entry.node.as_str()).copied().flatten();
        let found = host.and_then(|host| host.facts.address(mac, wanted.node_subnet));
        let found = found.map(|found| (found.address.to_string(), found.reason));
        let (address, address_reason) = found
            .or_else(|| before.map(|kept| (kept.address.clone(), kept.address_reason.clone())))
            .unwrap_or_default();
        assignments.push(Assignment {
            node: entry.node.clone(),
            roles: entry.roles.iter().map(|role| role.as_str().to_owned()).collect(),
            host: entry.host.clone(),
            host_uid: host.map(|host| host.uid.clone()).unwrap_or_default(),
            address,
            address_reason,
            reasons: before.map_or_else(|| entry.reasons.clone(), |kept| kept.reasons.clone()),
        });
    }
    let demand_text = |node: &str| {
        let demand = wanted.demands.iter().find(|demand| demand.node == node);
        let needs = demand.map(|demand| demand.needs.to_string()).unwrap_or_default();
        if needs.is_empty() { node.to_owned() } else { format!("{node} ({needs})") }
    };
    let (next_master, next_worker) = match &facts.plan {
        _ if complete => (wanted.next_master_index, wanted.next_worker_index),
        Some(plan) => (plan.next_master_index, plan.next_worker_index),
        None => (0, 0),
    };
    RolePlan {
        generation: facts.generation,
        assignments,
        rejected: result
            .rejected
            .iter()
            .take(REJECTED_MAX)
            .map(|entry| RejectedHost { host: entry.host.clone(), reasons: entry.reasons.clone() })
            .collect(),
        rejected_more: result.rejected.len().checked_sub(REJECTED_MAX).filter(|more| *more > 0).map(whole),
        spare: Some(SpareCapacity {
            hosts: whole(result.spare.hosts),
            cpu: result.spare.cpu.to_string(),
            memory: result.spare.memory.quantity(),
            disk: result.spare.disk.quantity(),
            unknown: whole(result.spare.unknown),
        }),
        unsatisfied: result
            .unsatisfied
            .iter()
            .map(|entry| UnmetDemand {
                demand: demand_text(&entry.demand),
                short: entry.short.to_string(),
                change: entry.change.to_string(),
            })
            .collect(),
        next_master_index: next_master,
        next_worker_index: next_worker,
    }
}

fn whole(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Goes on where the installer is set up; else says what is missing.
pub(super) fn no_installer(facts: &Facts, say: Say) -> Result<Say, Box<Decision>> {
    let Some(problem) = &facts.installer_missing else { return Ok(say) };
    let next = Next::After(RETRY, Wait::Installer);
    Err(Box::new(say.ends(Phase::Waiting, Reason::InstallerNotReady, problem.clone(), next)))
}

/// Goes on where there is an SSH key; else says what is missing.
pub(super) fn no_key(facts: &Facts, say: Say) -> Result<Say, Box<Decision>> {
    let (reason, message) = match &facts.login {
        Login::Present => return Ok(say),
        Login::Missing { secret } => {
            (Reason::SshKeyMissing, format!("Secret {secret} with key ssh-privatekey is not there"))
        }
        Login::Invalid { secret, problem } => (Reason::SshKeyInvalid, format!("Secret {secret}: {problem}")),
    };
    Err(Box::new(say.ends(Phase::Waiting, reason, message, Next::After(SSH_RETRY, Wait::SshKey))))
}

/// Host keys and facts of these hosts: goes on where all of them answer.
pub(super) fn reachable(facts: &Facts, used: &BTreeSet<&str>, say: Say) -> Result<Say, Box<Decision>> {
    let in_plan = facts.hosts.iter().filter(|host| used.contains(host.facts.name.as_str()));
    let unpinned = refs(in_plan.clone().filter(|host| !host.pinned));
    if !unpinned.is_empty() {
        let Some(failures) = &facts.scans else {
            let message = format!("asking {} for their SSH host keys", host_names(&unpinned));
            let pin = vec![Action::PinHostKeys(unpinned)];
            return Err(Box::new(say.does(Phase::Waiting, Reason::PinningHostKeys, message, pin)));
        };
        let told: Vec<String> = failures.iter().map(|(host, problem)| format!("{host}: {problem}")).collect();
        let next = Next::After(SSH_RETRY, Wait::Ssh);
        return Err(Box::new(say.ends(Phase::Waiting, Reason::HostUnreachable, names(&told), next)));
    }
    let Some(checks) = &facts.checks else {
        let say = say.with(Type::FactsDiffer, Unknown, Reason::FactsNotChecked, "");
        let check = vec![Action::CheckFacts(refs(in_plan))];
        return Err(Box::new(say.does(Phase::Waiting, Reason::CheckingFacts, "", check)));
    };
    let say = let_in(checks, say)?;
    let differences: Vec<String> = in_plan.flat_map(|host| differences(host, checks)).collect();
    Ok(if differences.is_empty() {
        say.with(Type::FactsDiffer, False, Reason::FactsAgree, "")
    } else {
        say.with(Type::FactsDiffer, True, Reason::FactsDiffer, names(&differences))
    })
}

/// Goes on where every host that was asked answered.
pub(super) fn let_in(checks: &[HostCheck], say: Say) -> Result<Say, Box<Decision>> {
    match unreachable(checks) {
        Some((reason, message)) => {
            Err(Box::new(say.ends(Phase::Waiting, reason, message, Next::After(SSH_RETRY, Wait::Ssh))))
        }
        None => Ok(say),
    }
}

fn unreachable(checks: &[HostCheck]) -> Option<(Reason, String)> {
    let find = |reason: Reason, get: fn(&HostCheckResult) -> Option<&String>| {
        let found: Vec<String> = checks
            .iter()
            .filter_map(|check| get(&check.result).map(|problem| format!("{}: {problem}", check.host)))
            .collect();
        (!found.is_empty()).then(|| (reason, names(&found)))
    };
    find(Reason::HostKeyChanged, |result| match result {
        HostCheckResult::HostKeyChanged(problem) => Some(problem),
        _ => None,
    })
    .or_else(|| {
        find(Reason::LoginRefused, |result| match result {
            HostCheckResult::LoginRefused(problem) => Some(problem),
            _ => None,
        })
    })
    .or_else(|| {
        find(Reason::HostUnreachable, |result| match result {
            HostCheckResult::Unreachable(problem) => Some(problem),
            _ => None,
        })
    })
}

fn differences(host: &Host, checks: &[HostCheck]) -> Vec<String> {
    let Some(HostCheckResult::Answered { cpus, memory }) =
        checks.iter().find(|check| check.host == host.facts.name).map(|check| &check.result)
    else {
        return Vec::new();
    };
    let name = &host.facts.name;
    let mut found = Vec::new();
    if let (Some(declared), Some(real)) = (host.facts.cpus, cpus)
        && differ(declared.0, real.0)
    {
        found.push(format!("{name}: {declared} CPUs declared, {real} found"));
    }
    if let (Some(declared), Some(real)) = (host.facts.memory, memory)
        && differ(declared.0, real.0)
    {
        found.push(format!("{name}: {declared} of memory declared, {real} found"));
    }
    found
}

fn differ(declared: u64, real: u64) -> bool {
    u128::from(declared.abs_diff(real)) * 100 > u128::from(declared) * u128::from(TOLERANCE_PERCENT)
}

pub(super) fn refs<'a>(hosts: impl Iterator<Item = &'a Host>) -> Vec<HostRef> {
    hosts.map(|host| HostRef { name: host.facts.name.clone(), uid: host.uid.clone() }).collect()
}

pub(super) fn host_names(hosts: &[HostRef]) -> String {
    names(&hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>())
}

fn count_of_nodes(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}
