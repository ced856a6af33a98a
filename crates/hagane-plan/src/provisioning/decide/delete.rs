//! Deletion: the run is ended, hosts and Secret are given back, then the finalizer goes.

use std::time::Duration;

use hagane_api::bpa::reasons::{ProvisioningPhase as Phase, ProvisioningReason as Reason, ProvisioningWait as Wait};

use super::super::facts::{Claim, Facts, RunSeen, SecretFact};
use super::super::{Action, Decision, HostRef};
use super::run::{Unseen, unseen};
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
