//! A recorded run: followed until it ended, then its kubeconfig.

use std::time::Duration;

use hagane_api::bpa::reasons::{
    ProvisioningCondition as Type, ProvisioningPhase as Phase, ProvisioningReason as Reason, ProvisioningWait as Wait,
    RunVerb, RunWord,
};
use hagane_api::condition::ConditionStatus::{False, True, Unknown};
use hagane_api::field::FieldError;

use super::super::demands::Wanted;
use super::super::facts::{
    Claim, Facts, KubeconfigFact, RunEnd, RunRecord, RunSeen, SecretFact, StartFact, StartFailure,
};
use super::super::order::{next_try, order};
use super::super::{Action, Decision};
use super::place::{no_installer, no_key};
use super::say::Say;
use crate::decision::Next;

/// How often a run is looked at.
const RUN_POLL: Duration = Duration::from_secs(2);
/// How often a cluster that does not answer is tried.
const CLUSTER_POLL: Duration = Duration::from_secs(10);
/// Pause before something outside is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// How often a run that is ended is looked at.
const CANCEL_POLL: Duration = Duration::from_secs(2);
/// Tries after the first one, where the spec says nothing.
const RETRIES: u32 = 2;
/// Pause before the second try; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(30);
/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// Time beyond its limit after which a run of another holder is dead for sure: the limit is kept by the run itself.
const GRACE: Duration = Duration::from_secs(600);

/// What a recorded run leads to.
pub(super) enum Followed {
    /// Everything is decided by it.
    Decided(Decision),
    /// There is none, or another one is asked for.
    NothingToFollow(Say),
}

enum Stage {
    Intended,
    Running(String),
    Ended(RunEnd),
    HeldElsewhere,
    Unreadable(String),
}

pub(super) fn follow(facts: &Facts, wanted: &Result<Wanted, Vec<FieldError>>, say: Say) -> Followed {
    let Some(run) = &facts.run else { return Followed::NothingToFollow(say) };
    let decision = match stage(facts, run) {
        Stage::Intended if is_named(facts.cancel.as_ref(), run) && asks_anew(facts, run) => {
            return Followed::NothingToFollow(say);
        }
        Stage::Intended if is_named(facts.cancel.as_ref(), run) => failed(facts, run, &RunEnd::Cancelled, say),
        Stage::Intended if run.generation != facts.generation || wanted.is_err() || !hosts_stand(facts, run) => {
            return Followed::NothingToFollow(say);
        }
        Stage::Ended(end) if end != RunEnd::Succeeded && asks_anew(facts, run) => {
            return Followed::NothingToFollow(say);
        }
        // Its kubeconfig was never kept, and a person asks for another run.
        Stage::Ended(RunEnd::Succeeded)
            if matches!((&facts.secret, &facts.kubeconfig), (SecretFact::Absent, KubeconfigFact::Invalid(_)))
                && asks_anew(facts, run) =>
        {
            return Followed::NothingToFollow(say);
        }
        Stage::Ended(RunEnd::Succeeded) => {
            let say = say.with(Type::Installed, True, Reason::Installed, "");
            match kubeconfig(facts, run, say) {
                Ok(say) => return Followed::NothingToFollow(say),
                Err(decision) => *decision,
            }
        }
        Stage::Intended => start(facts, run, say),
        Stage::Running(_) if is_named(facts.cancel.as_ref(), run) => cancelling(run, say),
        Stage::Running(progress) => installing(say, progress),
        Stage::HeldElsewhere => held_elsewhere(run, say),
        Stage::Unreadable(problem) => {
            let message = format!("the record of run {} cannot be read: {problem}", run.id);
            say.ends(Phase::Installing, Reason::Installing, message, Next::After(RETRY, Wait::Run))
        }
        Stage::Ended(end) if wanted.is_ok() && is_tried_again(facts, run, &end) => try_again(facts, run, &end, say),
        Stage::Ended(end) => failed(facts, run, &end, say),
    };
    Followed::Decided(decision)
}

/// Whether a person named this run by an annotation.
fn is_named(annotation: Option<&String>, run: &RunRecord) -> bool {
    annotation == Some(&run.id)
}

/// Whether the run is tried again unasked: for what it broke of passes by itself, and every playbook passes quickly over
/// what is done already. A task that failed fails again, so it stops there, and a person looks.
fn is_tried_again(facts: &Facts, run: &RunRecord, end: &RunEnd) -> bool {
    let passes = matches!(end, RunEnd::Failed { unreachable: true, .. } | RunEnd::Interrupted);
    passes
        && run.verb.may_be_tried_again()
        && run.holder == facts.holder
        && run.attempt <= retries(facts)
        && !is_named(facts.cancel.as_ref(), run)
        && hosts_stand(facts, run)
}

fn retries(facts: &Facts) -> u32 {
    let policy = facts.spec.as_ref().ok().and_then(|spec| spec.run_policy.as_ref());
    let asked = policy.and_then(|policy| policy.retries).and_then(|count| u32::try_from(count).ok());
    asked.unwrap_or(RETRIES)
}

/// Pause between the end of this try of a run and the next one.
#[must_use]
pub fn retry_pause(attempt: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(attempt.saturating_sub(1));
    PAUSE_FIRST.saturating_mul(doubled).min(PAUSE_MAX)
}

fn try_again(facts: &Facts, run: &RunRecord, end: &RunEnd, say: Say) -> Decision {
    let pause = retry_pause(run.attempt);
    let left = pause.saturating_sub(run.ended.unwrap_or(pause));
    let (attempt, of) = (run.attempt.saturating_add(1), retries(facts).saturating_add(1));
    let message = format!("run {} {}; try {attempt} of {of} follows by itself", run.id, told(end));
    let say = say.with(Type::Installed, False, Reason::RetryingRun, message.clone());
    if left.is_zero() {
        let retry = vec![Action::RetryRun { id: next_try(run), attempt }];
        return say.does(Phase::Installing, Reason::RetryingRun, message, retry);
    }
    say.ends(Phase::Waiting, Reason::RetryingRun, message, Next::After(left, Wait::Retry))
}

fn cancelling(run: &RunRecord, say: Say) -> Decision {
    let message =
        format!("run {} is ended: the annotation {} names it", run.id, hagane_api::keys::CANCEL_RUN_ANNOTATION);
    let decision = say.with(Type::Installed, False, Reason::CancellingRun, message.clone()).ends(
        Phase::Installing,
        Reason::CancellingRun,
        message,
        Next::After(CANCEL_POLL, Wait::Cancellation),
    );
    Decision { actions: vec![Action::CancelRun { id: run.id.clone() }], ..decision }
}

/// Whether another spec or another retry is asked for than the run answers.
fn asks_anew(facts: &Facts, run: &RunRecord) -> bool {
    run.generation != facts.generation || run.retry != facts.retry
}

/// Whether every host that the run works on is still there and ours.
fn hosts_stand(facts: &Facts, run: &RunRecord) -> bool {
    let ours = |uid: &str| facts.hosts.iter().any(|host| host.uid == uid && host.claim == Claim::Ours);
    let plan = facts.plan.iter().flat_map(|plan| &plan.assignments);
    let standing = facts.installed.as_ref().filter(|_| run.verb != RunVerb::Install);
    let Some(standing) = standing else {
        return facts.plan.is_some() && plan.clone().all(|entry| ours(&entry.host_uid));
    };
    let lives = |node: &String| !run.lost.contains(node);
    let mut used = standing.nodes.iter().filter(|node| lives(&node.node) && !facts.leaves_out(run, node));
    let stands = used.all(|node| ours(&node.host_uid));
    let is_known = |node: &String| standing.nodes.iter().any(|known| known.node == *node);
    let mut moves = plan.filter(|entry| run.nodes.contains(&entry.node) && !is_known(&entry.node));
    stands && moves.all(|entry| !lives(&entry.node) || ours(&entry.host_uid))
}

/// What is seen now comes first: it names task and status, and a run that was given up for lost may show up again. The
/// recorded word is enough where nothing is seen.
fn stage(facts: &Facts, run: &RunRecord) -> Stage {
    // The run itself keeps its limit, so later than that nothing of it lives, wherever it was started. Before that a person
    // may know that its machine is gone.
    let expired = run.age > run.limit.saturating_add(GRACE) || is_named(facts.abandon.as_ref(), run);
    match (&facts.seen, recorded_end(run.state)) {
        (RunSeen::Running { progress }, _) => Stage::Running(progress.clone()),
        (RunSeen::Finished(end), _) => Stage::Ended(end.clone()),
        (_, Some(end)) => Stage::Ended(end),
        (RunSeen::Unreadable(_), None) if expired => Stage::Ended(RunEnd::Lost),
        (RunSeen::Unreadable(problem), None) => Stage::Unreadable(problem.clone()),
        (RunSeen::Absent, None) if run.holder != facts.holder => {
            if expired {
                Stage::Ended(RunEnd::Lost)
            } else {
                Stage::HeldElsewhere
            }
        }
        (RunSeen::Absent, None) if run.state == RunWord::Starting => Stage::Intended,
        (RunSeen::Absent, None) => Stage::Ended(RunEnd::Lost),
    }
}

/// Whether the recorded run ended well.
pub(super) fn succeeded(facts: &Facts) -> bool {
    facts.run.as_ref().is_some_and(|run| matches!(stage(facts, run), Stage::Ended(RunEnd::Succeeded)))
}

/// Whether the recorded run did not end well and may have changed hosts.
pub(super) fn may_have_begun(facts: &Facts) -> bool {
    let unharmed =
        |stage| matches!(stage, Stage::Intended | Stage::Ended(RunEnd::Succeeded | RunEnd::NotStarted { .. }));
    facts.run.as_ref().is_some_and(|run| !unharmed(stage(facts, run)))
}

/// Where a run is that takes Kubernetes off the hosts.
pub(super) enum Reset {
    Intended,
    Running(String),
    Done,
    Failed(String),
}

/// Where the recorded reset is.
pub(super) fn reset_of(facts: &Facts, run: &RunRecord) -> Reset {
    match stage(facts, run) {
        Stage::Intended => Reset::Intended,
        Stage::Running(progress) => Reset::Running(progress),
        Stage::HeldElsewhere => Reset::Running("it is held by another process".to_owned()),
        Stage::Unreadable(problem) => Reset::Running(problem),
        Stage::Ended(RunEnd::Succeeded) => Reset::Done,
        Stage::Ended(end) => Reset::Failed(run.message.clone().unwrap_or_else(|| told(&end))),
    }
}

/// Starts a reset that is recorded.
pub(super) fn start_reset(facts: &Facts, run: &RunRecord, say: Say) -> Decision {
    let problem = match &facts.start {
        StartFact::NotTried => None,
        StartFact::Failed(StartFailure::HeldElsewhere) => return held_elsewhere(run, say),
        StartFact::Failed(
            StartFailure::Prerequisite(told) | StartFailure::Invalid(told) | StartFailure::Other(told),
        ) => Some(told.clone()),
    };
    let say = match no_installer(facts, say).and_then(|say| no_key(facts, say)) {
        Ok(say) => say,
        Err(decision) => return Decision { phase: Some(Phase::Deleting), ..*decision },
    };
    let order = facts.spec.as_ref().ok().and_then(|spec| order(facts, spec, run));
    match (problem, order) {
        (None, Some(order)) => {
            let message = format!("run {} starts on {} hosts", run.id, order.nodes.len());
            say.does(Phase::Deleting, Reason::ResettingHosts, message, vec![Action::StartInstall(Box::new(order))])
        }
        (problem, _) => {
            let message = problem.unwrap_or_else(|| "a host has no address".to_owned());
            say.ends(Phase::Deleting, Reason::ResetFailed, message, Next::After(RETRY, Wait::Installer))
        }
    }
}

/// Why nobody knows whether the recorded run lives.
pub(super) enum Unseen {
    /// Another process started it.
    Elsewhere,
    /// Its record cannot be read.
    Unreadable(String),
}

/// Whether the recorded run may live unseen.
pub(super) fn unseen(facts: &Facts) -> Option<Unseen> {
    match stage(facts, facts.run.as_ref()?) {
        Stage::HeldElsewhere => Some(Unseen::Elsewhere),
        Stage::Unreadable(problem) => Some(Unseen::Unreadable(problem)),
        Stage::Intended | Stage::Running(_) | Stage::Ended(_) => None,
    }
}

fn recorded_end(state: RunWord) -> Option<RunEnd> {
    match state {
        RunWord::Starting | RunWord::Running => None,
        RunWord::Succeeded => Some(RunEnd::Succeeded),
        RunWord::Failed => Some(RunEnd::Failed { status: -1, task: None, message: String::new(), unreachable: false }),
        RunWord::Killed => Some(RunEnd::Killed { signal: 0 }),
        RunWord::TimedOut => Some(RunEnd::TimedOut),
        RunWord::Cancelled => Some(RunEnd::Cancelled),
        RunWord::Lost => Some(RunEnd::Lost),
        RunWord::NotStarted => Some(RunEnd::NotStarted { message: String::new() }),
    }
}

fn held_elsewhere(run: &RunRecord, say: Say) -> Decision {
    let message = format!(
        "run {id} was started by {holder} and may still live there; where that machine is gone for good, the annotation \
         {key}={id} says so",
        id = run.id,
        holder = run.holder,
        key = hagane_api::keys::ABANDON_RUN_ANNOTATION
    );
    say.with(Type::Installed, Unknown, Reason::RunHeldElsewhere, message.clone()).ends(
        Phase::Installing,
        Reason::RunHeldElsewhere,
        message,
        Next::After(RETRY, Wait::OtherHolder),
    )
}

fn start(facts: &Facts, run: &RunRecord, say: Say) -> Decision {
    let say = say.with(Type::Installed, False, Reason::Starting, "");
    match &facts.start {
        StartFact::Failed(StartFailure::Prerequisite(message)) => {
            return say.ends(
                Phase::Waiting,
                Reason::InstallerNotReady,
                message.clone(),
                Next::After(RETRY, Wait::Installer),
            );
        }
        StartFact::Failed(StartFailure::Invalid(message)) => {
            return say.failed(Reason::InvalidSpec, message.clone());
        }
        StartFact::Failed(StartFailure::HeldElsewhere) => return held_elsewhere(run, say),
        StartFact::Failed(StartFailure::Other(message)) => {
            return say.ends(
                Phase::Waiting,
                Reason::InstallNotStarted,
                message.clone(),
                Next::After(RETRY, Wait::Installer),
            );
        }
        StartFact::NotTried => {}
    }
    let say = match no_installer(facts, say).and_then(|say| no_key(facts, say)) {
        Ok(say) => say,
        Err(decision) => return *decision,
    };
    let order = facts.spec.as_ref().ok().and_then(|spec| order(facts, spec, run));
    match order {
        Some(order) => {
            let message = format!("run {} starts on {} hosts", run.id, order.nodes.len());
            say.does(Phase::Installing, Reason::Starting, message, vec![Action::StartInstall(Box::new(order))])
        }
        None => say.failed(Reason::HostLost, "the stored plan has a host without an address"),
    }
}

fn installing(say: Say, progress: String) -> Decision {
    say.with(Type::Installed, False, Reason::Installing, progress.clone()).ends(
        Phase::Installing,
        Reason::Installing,
        progress,
        Next::After(RUN_POLL, Wait::Run),
    )
}

fn failed(facts: &Facts, run: &RunRecord, end: &RunEnd, say: Say) -> Decision {
    let reason = match end {
        RunEnd::Succeeded => Reason::Installed,
        RunEnd::Failed { .. } => Reason::InstallFailed,
        RunEnd::Killed { .. } | RunEnd::Cancelled => Reason::InstallInterrupted,
        RunEnd::TimedOut | RunEnd::Stalled { .. } | RunEnd::PlayTimedOut { .. } => Reason::InstallTimedOut,
        RunEnd::Lost | RunEnd::Interrupted => Reason::RunLost,
        RunEnd::NotStarted { .. } => Reason::InstallNotStarted,
    };
    // Where nothing is seen any more, what was told when there was more to see than the recorded word.
    let recorded = run.message.clone().filter(|_| !matches!(facts.seen, RunSeen::Finished(_)));
    let what = recorded.unwrap_or_else(|| told(end));
    let tries = if run.attempt > 1 { format!(" at try {}", run.attempt) } else { String::new() };
    let message = format!(
        "run {} {what}{tries}; a change of the spec or of the annotation {} starts another one",
        run.id,
        hagane_api::keys::RETRY_ANNOTATION
    );
    say.with(Type::Installed, False, reason, message.clone()).failed(reason, message)
}

/// Why a run ended, for `status.run.message` and to go after its name in a sentence.
#[must_use]
pub fn told(end: &RunEnd) -> String {
    match end {
        RunEnd::Succeeded => "ended well".to_owned(),
        RunEnd::Failed { task: Some((task, host)), message, .. } if message.is_empty() => {
            format!("failed in task {task:?} on {host}")
        }
        RunEnd::Failed { task: Some((task, host)), message, .. } => {
            format!("failed in task {task:?} on {host}: {message}")
        }
        RunEnd::Failed { status: -1, task: None, .. } => "failed".to_owned(),
        RunEnd::Failed { status, task: None, .. } => format!("failed with status {status}"),
        RunEnd::Killed { signal: 0 } => "was killed".to_owned(),
        RunEnd::Killed { signal } => format!("was killed by signal {signal}"),
        RunEnd::TimedOut => "took longer than spec.timeLimitMinutes".to_owned(),
        RunEnd::Stalled { limit, task } => {
            let at = task.as_ref().map(|task| format!(" in task {task:?}")).unwrap_or_default();
            format!("showed no sign of life for {}{at} (spec.runPolicy.stallMinutes)", minutes(*limit))
        }
        RunEnd::PlayTimedOut { play, limit } => {
            format!("was in the play {play:?} for more than {} (spec.runPolicy.playMinutes)", minutes(*limit))
        }
        RunEnd::Cancelled => "was cancelled".to_owned(),
        RunEnd::Lost => "vanished without a record".to_owned(),
        RunEnd::Interrupted => "lost its supervisor: the machine went down or the process was killed".to_owned(),
        RunEnd::NotStarted { message } => format!("could not be started: {message}"),
    }
}

fn minutes(limit: Duration) -> String {
    match limit.as_secs() {
        seconds if seconds % 60 == 0 => format!("{} minutes", seconds / 60),
        seconds => format!("{seconds} seconds"),
    }
}

/// Goes on once the kubeconfig of a successful run is kept.
fn kubeconfig(facts: &Facts, run: &RunRecord, say: Say) -> Result<Say, Box<Decision>> {
    let kept = match &facts.secret {
        SecretFact::Foreign(owner) => {
            let secret = hagane_api::keys::kubeconfig_secret_name(&facts.cluster);
            let message = format!("the Secret {secret} belongs to {owner}");
            let next = Next::After(RETRY, Wait::KubeconfigSecret);
            return Err(Box::new(say.ends(Phase::Waiting, Reason::KubeconfigSecretTaken, message, next)));
        }
        // Whatever else is done about a cluster leaves its kubeconfig as it is.
        SecretFact::Ours { run: of } => !run.verb.makes_kubeconfig() || of.as_deref() == Some(run.id.as_str()),
        SecretFact::Absent => false,
    };
    if kept {
        return Ok(say);
    }
    let id = run.id.clone();
    Err(Box::new(match &facts.kubeconfig {
        KubeconfigFact::NotFetched => {
            let fetch = vec![Action::FetchKubeconfig { run: id }];
            say.does(Phase::Installing, Reason::FetchingKubeconfig, "", fetch)
        }
        KubeconfigFact::Answers => {
            let store = vec![Action::StoreKubeconfig { run: id }];
            say.does(Phase::Installing, Reason::FetchingKubeconfig, "the cluster answers", store)
        }
        KubeconfigFact::NotAnswering(why) => {
            let next = Next::After(CLUSTER_POLL, Wait::Cluster);
            say.ends(Phase::Waiting, Reason::KubeconfigNotAnswering, why.clone(), next)
        }
        KubeconfigFact::Invalid(why) => say.failed(Reason::KubeconfigInvalid, why.clone()),
    }))
}
