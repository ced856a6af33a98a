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
use super::super::order::order;
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
        Stage::Intended if run.generation != facts.generation || wanted.is_err() || !hosts_stand(facts) => {
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
        Stage::Running(progress) => installing(say, progress),
        Stage::HeldElsewhere => held_elsewhere(run, say),
        Stage::Unreadable(problem) => {
            let message = format!("the record of run {} cannot be read: {problem}", run.id);
            say.ends(Phase::Installing, Reason::Installing, message, Next::After(RETRY, Wait::Run))
        }
        Stage::Ended(end) => failed(run, &end, say),
    };
    Followed::Decided(decision)
}

/// Whether another spec or another retry is asked for than the run answers.
fn asks_anew(facts: &Facts, run: &RunRecord) -> bool {
    run.generation != facts.generation || run.retry != facts.retry
}

/// Whether every host of the stored plan is still there and ours.
fn hosts_stand(facts: &Facts) -> bool {
    let ours = |uid: &str| facts.hosts.iter().any(|host| host.uid == uid && host.claim == Claim::Ours);
    facts.plan.as_ref().is_some_and(|plan| plan.assignments.iter().all(|entry| ours(&entry.host_uid)))
}

/// What is seen now comes first: it names task and status, and a run that was given up for lost may show up again. The
/// recorded word is enough where nothing is seen.
fn stage(facts: &Facts, run: &RunRecord) -> Stage {
    // The run itself keeps its limit, so later than that nothing of it lives, wherever it was started.
    let expired = run.age > run.limit.saturating_add(GRACE);
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
        RunWord::Failed => Some(RunEnd::Failed { status: -1, task: None }),
        RunWord::Killed => Some(RunEnd::Killed { signal: 0 }),
        RunWord::TimedOut => Some(RunEnd::TimedOut),
        RunWord::Cancelled => Some(RunEnd::Cancelled),
        RunWord::Lost => Some(RunEnd::Lost),
        RunWord::NotStarted => Some(RunEnd::NotStarted { message: String::new() }),
    }
}

fn held_elsewhere(run: &RunRecord, say: Say) -> Decision {
    let message = format!("run {} was started by {} and may still live there", run.id, run.holder);
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

fn failed(run: &RunRecord, end: &RunEnd, say: Say) -> Decision {
    let (reason, what) = match end {
        RunEnd::Succeeded => (Reason::Installed, "ended well".to_owned()),
        RunEnd::Failed { task: Some((task, host)), .. } => {
            (Reason::InstallFailed, format!("failed in task {task:?} on {host}"))
        }
        RunEnd::Failed { status: -1, task: None } => (Reason::InstallFailed, "failed".to_owned()),
        RunEnd::Failed { status, task: None } => (Reason::InstallFailed, format!("failed with status {status}")),
        RunEnd::Killed { signal: 0 } => (Reason::InstallInterrupted, "was killed".to_owned()),
        RunEnd::Killed { signal } => (Reason::InstallInterrupted, format!("was killed by signal {signal}")),
        RunEnd::TimedOut => (Reason::InstallTimedOut, "took longer than spec.timeLimitMinutes".to_owned()),
        RunEnd::Cancelled => (Reason::InstallInterrupted, "was cancelled".to_owned()),
        RunEnd::Lost => (Reason::RunLost, "vanished without a record".to_owned()),
        RunEnd::NotStarted { message } => (Reason::InstallNotStarted, format!("could not be started: {message}")),
    };
    let message = format!(
        "run {} {what}; a change of the spec or of the annotation {} starts another one",
        run.id,
        hagane_api::keys::RETRY_ANNOTATION
    );
    say.with(Type::Installed, False, reason, message.clone()).failed(reason, message)
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
        // Further workers leave a cluster's kubeconfig as it is.
        SecretFact::Ours { run: of } => run.verb == RunVerb::AddWorkers || of.as_deref() == Some(run.id.as_str()),
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
