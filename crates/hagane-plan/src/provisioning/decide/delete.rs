//! Deletion: the run is ended, Kubernetes is taken off the hosts where that is asked for, hosts and Secret are given back,
//! then the finalizer goes.

use std::time::Duration;

use hagane_api::bpa::provisioning::{DeletionPolicy, PlannedRun};
use hagane_api::bpa::reasons::{
    ProvisioningPhase as Phase, ProvisioningReason as Reason, ProvisioningWait as Wait, RunVerb,
};

use super::super::facts::{Claim, Facts, RunRecord, RunSeen, SecretFact};
use super::super::order::change_id;
use super::super::{Action, Decision, HostRef};
use super::launch::intent;
use super::run::{Reset, Unseen, may_have_begun, reset_of, start_reset, succeeded, unseen};
use super::say::Say;
use crate::decision::Next;

const CANCEL_POLL: Duration = Duration::from_secs(2);
const HOLDER_POLL: Duration = Duration::from_secs(30);

pub(super) fn decide(facts: &Facts) -> Decision {
    if !facts.finalizer {
        return Decision::nothing();
    }
    let say = Say::deleting();
    let cancelled = match (&facts.run, &facts.seen, unseen(facts)) {
        (_, _, Some(Unseen::Elsewhere)) => {
            let message = "another process started the run; it ends there or by its time limit";
            let next = Next::After(HOLDER_POLL, Wait::OtherHolder);
            return say.ends(Phase::Deleting, Reason::RunHeldElsewhere, message, next);
        }
        (Some(run), RunSeen::Running { .. }, _) if run.verb == RunVerb::Reset && resets(facts) => None,
        (Some(run), RunSeen::Running { .. }, _) => Some((run, format!("run {} is ended", run.id))),
        (Some(run), _, Some(Unseen::Unreadable(problem))) => {
            Some((run, format!("run {} may go on until its time limit: {problem}", run.id)))
        }
        _ => None,
    };
    if let Some((run, message)) = cancelled {
        let cancel = Action::CancelRun { id: run.id.clone() };
        let next = Next::After(CANCEL_POLL, Wait::Cancellation);
        let decision = say.ends(Phase::Deleting, Reason::CancellingRun, message, next);
        return Decision { actions: vec![cancel], ..decision };
    }
    let say = match reset(facts, say) {
        Ok(say) => say,
        Err(decision) => return *decision,
    };
    let mut actions = Vec::new();
    let ours = facts.hosts.iter().filter(|host| host.claim == Claim::Ours);
    let ours: Vec<HostRef> =
        ours.map(|host| HostRef { name: host.facts.name.clone(), uid: host.uid.clone() }).collect();
    let count = ours.len();
    if !ours.is_empty() {
        actions.push(Action::ReleaseHosts(ours));
    }
    if matches!(facts.secret, SecretFact::Ours { .. }) {
        actions.push(Action::DeleteKubeconfigSecret);
    }
    if actions.is_empty() {
        let decision = say.ends(Phase::Deleting, Reason::Released, "", Next::AwaitChange);
        return Decision { actions: vec![Action::ForgetRuns, Action::RemoveFinalizer], ..decision };
    }
    let next = Next::After(CANCEL_POLL, Wait::Release);
    let decision = say.ends(Phase::Deleting, Reason::ReleasingHosts, format!("{count} hosts are given back"), next);
    Decision { actions, ..decision }
}

/// Whether Kubernetes is to be taken off the hosts.
fn resets(facts: &Facts) -> bool {
    facts.spec.as_ref().is_ok_and(|spec| spec.deletion_policy == Some(DeletionPolicy::Reset))
}

/// Takes Kubernetes off the hosts; goes on where that is done, or nothing was installed, or nobody asks for it.
fn reset(facts: &Facts, say: Say) -> Result<Say, Box<Decision>> {
    let gone = !facts.hosts.iter().any(|host| host.claim == Claim::Ours);
    if gone || !resets(facts) {
        return Ok(say);
    }
    match facts.run.as_ref().filter(|run| run.verb == RunVerb::Reset).map(|run| (run, reset_of(facts, run))) {
        Some((_, Reset::Done)) => Ok(say),
        Some((run, Reset::Intended)) => Err(Box::new(start_reset(facts, run, say))),
        Some((_, Reset::Running(progress))) => {
            let next = Next::After(CANCEL_POLL, Wait::Run);
            Err(Box::new(say.ends(Phase::Deleting, Reason::ResettingHosts, progress, next)))
        }
        Some((run, Reset::Failed(told))) if run.retry == facts.retry => Err(Box::new(failed(run, &told, say))),
        _ if facts.installed.is_none() && !succeeded(facts) && !may_have_begun(facts) => Ok(say),
        _ => Err(Box::new(intend(facts, say))),
    }
}

fn intend(facts: &Facts, say: Say) -> Decision {
    let before = facts.run.as_ref().map_or("", |run| run.id.as_str());
    let id = change_id(facts, before, &serde_json::json!(["Reset"]));
    let message = format!("run {id} takes Kubernetes off the hosts");
    let planned = PlannedRun { id, verb: RunVerb::Reset, ..PlannedRun::default() };
    say.does(Phase::Deleting, Reason::ResettingHosts, message, vec![intent(facts, &planned)])
}

fn failed(run: &RunRecord, told: &str, say: Say) -> Decision {
    let message = format!(
        "run {} {told}; a change of the annotation {} tries once more, spec.deletionPolicy Keep leaves the hosts as they are",
        run.id,
        hagane_api::keys::RETRY_ANNOTATION
    );
    say.ends(Phase::Deleting, Reason::ResetFailed, message, Next::AwaitChange)
}
