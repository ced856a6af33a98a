//! The decision: whom to ask, whose turn it is, which hosts to go on with.

use std::time::Duration;

use hagane_api::bpa::software::RebootPolicy;
use hagane_api::bpa::software_reasons::{JobStep, SoftwareHostState as State, SoftwareReason as Reason};
use hagane_api::bpa::software_status::SoftwareHost;
use jiff::Timestamp;

use super::advance::{Advance, View, has_work, minutes};
use super::facts::{Answer, Answered, Facts, Question, UnitSeen};
use super::gate::{self, Closed};
use super::{Action, Decision, desired, say};
use crate::decision::Next;
use crate::provisioning::Login;

/// Most hosts that are asked in one pass.
const QUESTIONS_MAX: usize = 64;
/// Most hosts that packages are changed on at the same time.
const JOBS_MAX: usize = 16;
/// So long a deletion tries hosts that do not answer.
const DELETION_PATIENCE: Duration = Duration::from_secs(180);
/// So long a deletion waits for its turn.
const TURN_PATIENCE: Duration = Duration::from_secs(300);
/// So often a deletion tries to remove packages from a host.
const REMOVALS_MAX: i64 = 3;

/// A decision, and what is recorded with it before anything is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What to do and to say.
    pub decision: Decision,
    /// `status.hosts`.
    pub hosts: Vec<SoftwareHost>,
    /// `status.turnSince`.
    pub turn_since: Option<Timestamp>,
    /// Packages that stay on hosts which could not be cleaned before the object goes; one line.
    pub left: Option<String>,
}

/// How the turn stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing is to be done.
    NotNeeded,
    /// Work may begin, and goes on.
    Ours(Timestamp),
    /// It is taken in this pass: work begins in the next one, unless somebody else took it too.
    Taking(Timestamp),
    /// Another Software has it.
    Waits { holder: String, kept: Option<Timestamp> },
}

/// Decides what a Software needs next.
///
/// # Guarantees
/// - Nothing begins on a host that is not recorded, and nothing while another Software of the cluster works.
/// - Work that was begun is followed to its end whatever the spec says now.
/// - With draining or reboots one host is worked on at a time, and none after one that did not come back.
/// - A host that fails or does not answer holds up no other one.
/// - Only packages that came for this object are removed.
/// - Deletion ends.
#[must_use]
pub fn decide(facts: &Facts) -> Outcome {
    let closed = gate::closed(facts);
    let mut views = views(facts);
    if facts.answers.is_none() {
        let questions = questions(facts, &views, closed.as_ref());
        if !questions.is_empty() {
            return Outcome {
                decision: Decision::only(vec![Action::Ask(questions)]),
                hosts: facts.status.hosts.clone(),
                turn_since: facts.status.turn_since,
                left: None,
            };
        }
    }
    let mut advance = Advance::new(facts);
    for view in &mut views {
        let answer = answer_of(facts, &view.host);
        if view.host.job.is_some() {
            advance.follow(view, answer);
            if view.host.job.is_none() {
                due_again(facts, &mut view.host);
            }
        } else {
            settle(facts, &advance, view, answer, closed.as_ref());
        }
    }
    let turn = turn(facts, &views);
    if matches!(turn, Turn::Ours(_)) {
        begin(facts, &mut advance, &mut views, closed.as_ref());
    }
    say::outcome(facts, views, advance.into_actions(), closed, turn)
}

/// The hosts of the cluster with their records. Records of hosts that are in the cluster no more go; where the cluster is not
/// known they stay.
fn views(facts: &Facts) -> Vec<View> {
    let recorded = &facts.status.hosts;
    let Some(nodes) = gate::nodes(facts) else {
        let view = |host: &SoftwareHost| View { host: host.clone(), node: None, desired: Vec::new() };
        return recorded.iter().map(view).collect();
    };
    let nothing = facts.deleting.is_some();
    let view = |node: &super::ClusterNode| {
        let known = recorded.iter().find(|host| host.host_uid == node.host_uid).cloned();
        let mut host = known.unwrap_or_default();
        host.host.clone_from(&node.host);
        host.host_uid.clone_from(&node.host_uid);
        host.node.clone_from(&node.node);
        let desired = if nothing { Vec::new() } else { desired::desired(&facts.spec, node) };
        View { host, node: Some(node.clone()), desired }
    };
    let mut views: Vec<View> = nodes.iter().map(view).collect();
    if nothing {
        // A host that left the cluster is not asked any more; a deletion that knows of it says so.
        views.retain(|view| !view.host.packages.is_empty() || view.host.job.is_some());
    }
    views
}

pub(super) fn answer_of<'a>(facts: &'a Facts, host: &SoftwareHost) -> Option<&'a Answer> {
    facts.answers.as_ref()?.get(&host.host_uid)
}

/// Whether an idle host is to be brought to the spec: it is new, or the spec or the retry annotation changed.
pub(super) fn is_due(facts: &Facts, host: &SoftwareHost) -> bool {
    if facts.deleting.is_some() {
        return leaving(facts, host) && host.losses < REMOVALS_MAX;
    }
    host.state == State::Waiting || host.generation != facts.generation || host.retry != facts.retry
}

/// Whether a deletion still has packages to remove from a host.
pub(super) fn leaving(facts: &Facts, host: &SoftwareHost) -> bool {
    facts.spec.keep_on_delete != Some(true) && host.packages.iter().any(|package| package.ours)
}

fn check_due(facts: &Facts, host: &SoftwareHost) -> bool {
    let period = minutes(facts.spec.check_minutes, 10);
    facts.deleting.is_none()
        && host
            .checked_at
            .is_none_or(|then| Duration::try_from(facts.now.duration_since(then)).is_ok_and(|age| age >= period))
}

fn questions(facts: &Facts, views: &[View], closed: Option<&Closed>) -> Vec<Question> {
    let askable =
        |view: &&View| facts.login == Login::Present && view.node.as_ref().is_some_and(|node| node.unaskable.is_none());
    let mut questions = Vec::new();
    for view in views.iter().filter(askable) {
        let mut question = Question {
            host: view.host.host_uid.clone(),
            node: view.host.node.clone(),
            manager: view.host.manager,
            packages: desired::names(&view.host, &view.desired),
            unit: None,
            boot: false,
            state: false,
            drain: false,
        };
        match view.host.job.as_ref().map(|job| (job.step, job)) {
            Some((JobStep::Draining, _)) => question.drain = true,
            Some((JobStep::Removing | JobStep::Installing, job)) => question.unit = Some(job.unit.clone()),
            Some((JobStep::Rebooting, _)) => question.boot = true,
            Some((JobStep::Uncordoning, _)) => question.state = true,
            None if is_due(facts, &view.host) && (closed.is_none() || facts.deleting.is_some()) => {
                // A node that nothing is asked for on is not drained.
                let drains = facts.spec.drain == Some(true) && facts.deleting.is_none();
                question.state = drains && !question.packages.is_empty();
            }
            None if check_due(facts, &view.host)
                && closed.is_none_or(|closed| closed.reason == Reason::ClusterBusy) => {}
            None => continue,
        }
        if !matches!(view.host.job.as_ref().map(|job| job.step), None | Some(JobStep::Removing | JobStep::Installing)) {
            question.packages.clear();
        }
        questions.push(question);
    }
    // Those whose work goes on first, then those that were not asked for longest.
    let at = |question: &Question| {
        let host = views.iter().find(|view| view.host.host_uid == question.host).map(|view| &view.host);
        (host.is_none_or(|host| host.job.is_none()), host.and_then(|host| host.checked_at))
    };
    questions.sort_by_key(at);
    questions.truncate(QUESTIONS_MAX);
    questions
}

/// Takes what an idle host said; where it has all that is asked for, the spec is carried out on it.
fn settle(facts: &Facts, advance: &Advance<'_>, view: &mut View, answer: Option<&Answer>, closed: Option<&Closed>) {
    let due = is_due(facts, &view.host);
    due_again(facts, &mut view.host);
    if let Some(answer) = answer {
        advance.hear(view, answer);
    } else if due && let Some(why) = view.node.as_ref().and_then(|node| node.unaskable.clone()) {
        view.host.reason = Some(Reason::HostKeyUnknown.as_str().to_owned());
        view.host.message = Some(why);
    }
    let answered = matches!(answer, Some(Answer::Answered(answered)) if answered.packages.is_some());
    if due && answered && !has_work(&view.host) {
        view.host.state = State::Done;
        if closed.is_none() {
            carried_out(facts, &mut view.host);
        }
    }
}

/// A host that is done with an earlier spec waits for the one that there is now.
fn due_again(facts: &Facts, host: &mut SoftwareHost) {
    if facts.deleting.is_none() && host.state != State::Waiting && is_due(facts, host) {
        host.state = State::Waiting;
        (host.reason, host.message) = (None, None);
        host.losses = 0;
    }
}

fn carried_out(facts: &Facts, host: &mut SoftwareHost) {
    host.generation = facts.generation;
    host.retry.clone_from(&facts.retry);
}

/// Whether a host waits for work that could begin now.
fn wants(facts: &Facts, view: &View) -> bool {
    // Work that ended in this pass has told less than is asked before new work.
    let idle = |answered: &Answered| answered.packages.is_some() && answered.unit == UnitSeen::NotAsked;
    let answered = matches!(answer_of(facts, &view.host), Some(Answer::Answered(answered)) if idle(answered));
    view.host.job.is_none() && answered && has_work(&view.host) && is_due(facts, &view.host)
}

/// Two that take the turn at once both see the other one in their next pass, which reads all Softwares anew: the younger one
/// gives it back, and the older one waits until it has.
fn turn(facts: &Facts, views: &[View]) -> Turn {
    let working = views.iter().any(|view| view.host.job.is_some());
    if working {
        return Turn::Ours(facts.status.turn_since.unwrap_or(facts.now));
    }
    if !views.iter().any(|view| wants(facts, view)) {
        return Turn::NotNeeded;
    }
    let impatient = facts.deleting.is_some_and(|age| age >= TURN_PATIENCE);
    let rival =
        facts.others.iter().filter(|other| other.turn && !impatient).max_by_key(|other| (other.works, other.older));
    match (rival, facts.status.turn_since) {
        (Some(rival), Some(since)) if !rival.older && !rival.works => {
            Turn::Waits { holder: rival.name.clone(), kept: Some(since) }
        }
        (Some(rival), _) => Turn::Waits { holder: rival.name.clone(), kept: None },
        (None, Some(since)) => Turn::Ours(since),
        (None, None) => Turn::Taking(facts.now),
    }
}

fn begin(facts: &Facts, advance: &mut Advance<'_>, views: &mut [View], closed: Option<&Closed>) {
    if closed.is_some() && facts.deleting.is_none() {
        return;
    }
    let careful = facts.deleting.is_none()
        && (facts.spec.drain == Some(true) || facts.spec.reboot.is_some_and(|policy| policy != RebootPolicy::Never));
    let most = if careful { 1 } else { JOBS_MAX };
    if careful && views.iter().any(|view| did_not_come_back(&view.host)) {
        return;
    }
    let mut jobs = views.iter().filter(|view| view.host.job.is_some()).count();
    for view in views.iter_mut() {
        if jobs >= most {
            break;
        }
        if !wants(facts, view) {
            continue;
        }
        let Some(Answer::Answered(answered)) = answer_of(facts, &view.host) else { continue };
        if advance.begin(view, answered) {
            carried_out(facts, &mut view.host);
            jobs += 1;
        }
    }
}

pub(super) fn did_not_come_back(host: &SoftwareHost) -> bool {
    host.state == State::Failed && host.reason.as_deref() == Some(Reason::RebootFailed.as_str())
}

/// Whether a deletion has given a host up: what it would need is not there, or it was tried often enough.
pub(super) fn given_up(facts: &Facts, view: &View) -> bool {
    let Some(age) = facts.deleting else { return false };
    if view.host.job.is_some() {
        return false;
    }
    let cannot = facts.login != Login::Present || view.node.as_ref().is_none_or(|node| node.unaskable.is_some());
    let silent = matches!(answer_of(facts, &view.host), Some(Answer::Refused(..))) && age >= DELETION_PATIENCE;
    cannot || silent || view.host.losses >= REMOVALS_MAX
}

/// When to look again, and what for.
pub(super) fn next_check(facts: &Facts, hosts: &[SoftwareHost]) -> Duration {
    let period = minutes(facts.spec.check_minutes, 10);
    let due = |then: Timestamp| {
        let age = Duration::try_from(facts.now.duration_since(then)).unwrap_or_default();
        period.saturating_sub(age)
    };
    let waits = hosts.iter().map(|host| host.checked_at.map_or(Duration::ZERO, due));
    waits.min().unwrap_or(period).max(Duration::from_secs(5))
}

/// Nothing is in the pass after this one but to see whether the turn is ours alone.
pub(super) const AT_ONCE: Next<super::SoftwareWait> = Next::Now;
