//! What is said of a Software: conditions, phase, and when to look again.

use std::time::Duration;

use hagane_api::bpa::software_reasons::{
    JobStep, PackageState, SoftwareCondition as Type, SoftwareHostState as State, SoftwarePhase as Phase,
    SoftwareReason as Reason, SoftwareWait as Wait,
};
use hagane_api::bpa::software_status::SoftwareHost;
use hagane_api::condition::{ConditionDraft, ConditionStatus as Status};
use jiff::Timestamp;

use super::advance::View;
use super::decide::{AT_ONCE, Outcome, Turn, did_not_come_back, given_up, is_due, leaving, next_check};
use super::facts::Facts;
use super::gate::Closed;
use super::{Action, Decision};
use crate::decision::{Next, draft, names};

/// How often work on hosts is looked at.
const WORK: Duration = Duration::from_secs(2);
/// How often hosts that do not answer, a cluster that does not stand, and a turn that is not ours are looked at.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn outcome(
    facts: &Facts,
    views: Vec<View>,
    actions: Vec<Action>,
    closed: Option<Closed>,
    turn: Turn,
) -> Outcome {
    let (turn_since, waits) = match turn {
        Turn::NotNeeded => (None, None),
        Turn::Ours(since) | Turn::Taking(since) => (Some(since), None),
        Turn::Waits { holder, kept } => {
            (kept, Some(Closed::new(Reason::WaitingForTurn, format!("waits for Software {holder} to end its work"))))
        }
    };
    let taking = turn_since.is_some() && facts.status.turn_since.is_none();
    if facts.deleting.is_some() {
        return deletion(facts, views, actions, turn_since, waits);
    }
    let hosts: Vec<SoftwareHost> = views.into_iter().map(|view| view.host).collect();
    let whole = whole(facts, &hosts, closed.as_ref().or(waits.as_ref()));
    let mut conditions = vec![whole.ready.clone(), spec_valid(closed.as_ref())];
    conditions.push(up_to_date(&hosts, &whole));
    let next = match whole.phase {
        _ if taking && hosts.iter().all(|host| host.job.is_none()) => AT_ONCE,
        Phase::Ready | Phase::Failed => Next::After(next_check(facts, &hosts), Wait::Drift),
        Phase::Installing => Next::After(WORK, Wait::Work),
        _ if closed.is_some() => Next::After(PATIENCE, Wait::Cluster),
        _ if waits.is_some() => Next::After(PATIENCE, Wait::Turn),
        _ => Next::After(PATIENCE, Wait::Ssh),
    };
    let decision = Decision { actions, conditions, phase: Some(whole.phase), next };
    Outcome { decision, hosts, turn_since, left: None }
}

struct Whole {
    phase: Phase,
    ready: ConditionDraft,
    reason: Reason,
    message: String,
}

fn whole(facts: &Facts, hosts: &[SoftwareHost], closed: Option<&Closed>) -> Whole {
    let told = |phase: Phase, reason: Reason, message: String| {
        let status = if phase == Phase::Ready { Status::True } else { Status::False };
        let ready = condition(Type::Ready, status, reason, message.clone());
        Whole { phase, ready, reason, message }
    };
    let working: Vec<&SoftwareHost> = hosts.iter().filter(|host| host.job.is_some()).collect();
    let failed: Vec<&SoftwareHost> = hosts.iter().filter(|host| host.state == State::Failed).collect();
    let waiting: Vec<&SoftwareHost> =
        hosts.iter().filter(|host| host.job.is_none() && host.state == State::Waiting).collect();
    if let Some(first) = working.first() {
        let reason = reason_of(first).unwrap_or_else(|| step_reason(first));
        let others = if failed.is_empty() { String::new() } else { format!("; failed: {}", lines(&failed)) };
        return told(Phase::Installing, reason, counted(hosts, &format!("{}{others}", lines(&working))));
    }
    if let Some(closed) = closed.filter(|closed| closed.is_invalid() || !waiting.is_empty() || hosts.is_empty()) {
        let phase = if closed.is_invalid() { Phase::Failed } else { Phase::Waiting };
        return told(phase, closed.reason, closed.message.clone());
    }
    if let Some(stuck) = failed.iter().find(|host| did_not_come_back(host)) {
        return told(Phase::Failed, Reason::RebootFailed, counted(hosts, &lines(&[stuck])));
    }
    let beginning = waiting.iter().any(|host| host.reason.is_none() && host.checked_at.is_some());
    if beginning {
        return told(Phase::Installing, Reason::Installing, counted(hosts, "about to begin"));
    }
    if let Some(first) = failed.first() {
        let reason = reason_of(first).unwrap_or(Reason::InstallFailed);
        let and = if waiting.is_empty() { String::new() } else { format!("; {}", lines(&waiting)) };
        return told(Phase::Failed, reason, counted(hosts, &format!("{}{and}", lines(&failed))));
    }
    if let Some(first) = waiting.first() {
        let reason = reason_of(first).unwrap_or(Reason::Checking);
        return told(Phase::Waiting, reason, counted(hosts, &lines(&waiting)));
    }
    debug_assert!(hosts.iter().all(|host| !is_due(facts, host)), "every host that is due waits");
    told(Phase::Ready, Reason::Ready, format!("all {} hosts were given what is asked for", hosts.len()))
}

fn step_reason(host: &SoftwareHost) -> Reason {
    match host.job.as_ref().map(|job| job.step) {
        Some(JobStep::Draining) => Reason::Draining,
        Some(JobStep::Removing) => Reason::Removing,
        Some(JobStep::Rebooting) => Reason::Rebooting,
        Some(JobStep::Uncordoning) => Reason::Uncordoning,
        Some(JobStep::Installing) | None => Reason::Installing,
    }
}

/// The reason that a host carries, as one of ours.
fn reason_of(host: &SoftwareHost) -> Option<Reason> {
    let word = host.reason.as_deref()?;
    Reason::ALL.iter().copied().find(|reason| reason.as_str() == word)
}

fn counted(hosts: &[SoftwareHost], message: &str) -> String {
    format!("{} hosts done; {message}", done(hosts))
}

/// Hosts that are done, of how many.
#[must_use]
pub fn done(hosts: &[SoftwareHost]) -> String {
    format!("{}/{}", hosts.iter().filter(|host| host.state == State::Done).count(), hosts.len())
}

fn lines(hosts: &[&SoftwareHost]) -> String {
    let line = |host: &&SoftwareHost| {
        let message = host.message.as_deref().unwrap_or("waits");
        format!("{}: {message}", host.node)
    };
    names(&hosts.iter().map(line).collect::<Vec<_>>())
}

fn spec_valid(closed: Option<&Closed>) -> ConditionDraft {
    match closed.filter(|closed| closed.is_invalid()) {
        Some(closed) => condition(Type::SpecValid, Status::False, closed.reason, closed.message.clone()),
        None => condition(Type::SpecValid, Status::True, Reason::Valid, ""),
    }
}

fn up_to_date(hosts: &[SoftwareHost], whole: &Whole) -> ConditionDraft {
    if whole.phase != Phase::Ready {
        return condition(Type::UpToDate, Status::False, whole.reason, whole.message.clone());
    }
    let drifted: Vec<String> = hosts.iter().filter_map(drift).collect();
    if !drifted.is_empty() {
        return condition(Type::UpToDate, Status::False, Reason::Drifted, names(&drifted));
    }
    let silent: Vec<&SoftwareHost> = hosts.iter().filter(|host| host.message.is_some()).collect();
    if !silent.is_empty() {
        return condition(Type::UpToDate, Status::Unknown, Reason::NotChecked, lines(&silent));
    }
    condition(Type::UpToDate, Status::True, Reason::UpToDate, "")
}

/// How a host differs from what it was given.
fn drift(host: &SoftwareHost) -> Option<String> {
    let told: Vec<String> = host
        .packages
        .iter()
        .filter_map(|package| {
            let there = package.installed.as_deref().unwrap_or_default();
            match package.state {
                PackageState::Missing => Some(format!("{} is missing", package.name)),
                PackageState::OtherVersion => {
                    Some(format!("{} is {there}, not {}", package.name, package.wanted.as_deref().unwrap_or_default()))
                }
                PackageState::Leaving => Some(format!("{} is there again", package.name)),
                PackageState::Unknown | PackageState::Installed => None,
            }
        })
        .collect();
    (!told.is_empty()).then(|| format!("{}: {}", host.node, names(&told)))
}

fn deletion(
    facts: &Facts,
    views: Vec<View>,
    mut actions: Vec<Action>,
    turn_since: Option<Timestamp>,
    waits: Option<Closed>,
) -> Outcome {
    let open = |view: &&View| view.host.job.is_some() || (leaving(facts, &view.host) && !given_up(facts, view));
    let goes_on = views.iter().any(|view| open(&view));
    let taking = turn_since.is_some() && facts.status.turn_since.is_none();
    let (mut reason, mut message) = (Reason::RemovingPackages, String::new());
    let mut left = None;
    if goes_on {
        let hosts: Vec<&SoftwareHost> = views.iter().filter(|view| open(view)).map(|view| &view.host).collect();
        message = lines(&hosts);
        if let Some(waits) = waits {
            (reason, message) = (waits.reason, waits.message);
        }
    } else {
        actions.push(Action::RemoveFinalizer);
        reason = Reason::Released;
        let staying: Vec<String> = views.iter().filter(|view| leaving(facts, &view.host)).map(stays).collect();
        if !staying.is_empty() {
            let told = format!("packages stay on {}", names(&staying));
            (reason, message, left) = (Reason::PackagesLeft, told.clone(), Some(told));
        }
    }
    let next = if !goes_on {
        Next::AwaitChange
    } else if taking && views.iter().all(|view| view.host.job.is_none()) {
        AT_ONCE
    } else {
        Next::After(WORK, Wait::Work)
    };
    let conditions = vec![condition(Type::Ready, Status::False, reason, message)];
    let hosts = views.into_iter().map(|view| view.host).collect();
    let decision = Decision { actions, conditions, phase: Some(Phase::Deleting), next };
    Outcome { decision, hosts, turn_since, left }
}

fn stays(view: &View) -> String {
    let ours: Vec<&str> =
        view.host.packages.iter().filter(|package| package.ours).map(|package| package.name.as_str()).collect();
    let unaskable = view.node.as_ref().and_then(|node| node.unaskable.as_deref());
    let why = view.host.message.as_deref().or(unaskable).unwrap_or("nothing is known of its host now");
    format!("{}: {} ({why})", view.host.node, names(&ours))
}

fn condition(r#type: Type, status: Status, reason: Reason, message: impl Into<String>) -> ConditionDraft {
    draft(r#type.as_str(), status, reason.as_str(), message)
}
