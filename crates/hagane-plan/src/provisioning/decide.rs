//! The decision: the furthest recorded stage, and what comes after it.

mod change;
mod delete;
mod launch;
mod place;
mod run;
mod say;
mod stands;

pub use run::{retry_pause, told};
pub use stands::installed;

use hagane_api::bpa::provisioning::PlannedRun;
use hagane_api::bpa::reasons::{ProvisioningPhase as Phase, ProvisioningReason as Reason, ProvisioningWait as Wait};
use hagane_api::field::FieldError;

use super::demands::{Wanted, wanted};
use super::facts::{Facts, NameOwner};
use super::{Action, Decision};
use crate::decision::{Next, one_line};
use change::{Change, change};
use say::Say;
use stands::standing;

/// Decides what a Provisioning needs next.
///
/// # Guarantees
/// - No run is started that is not recorded, and none while another recorded one may live.
/// - Recorded assignments stay, until their host is lost before anything was installed on it.
/// - A run that was recorded is followed whatever the spec says now.
/// - Deletion ends from every stage.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    if facts.deleting {
        return delete::decide(facts);
    }
    if facts.paused {
        return Say::paused();
    }
    if !facts.finalizer {
        return Decision::only(vec![Action::AddFinalizer]);
    }
    let wanted = wanted_now(facts);
    let ignored = facts.spec.as_ref().map_or_else(|_| Vec::new(), super::addons::ignored);
    let standing = standing(facts);
    let say = Say::spec(&wanted, &ignored, standing.is_some());
    let (wanted, say) = match run::follow(facts, &wanted, say) {
        run::Followed::Decided(decision) => return decision,
        run::Followed::NothingToFollow(say) => (wanted, say),
    };
    let wanted = match wanted {
        Ok(wanted) => wanted,
        Err(errors) => return say.failed(Reason::InvalidSpec, one_line(&errors)),
    };
    if let NameOwner::Taken(owner) = &facts.name_owner {
        let message = format!("the cluster name {:?} belongs to {owner}", facts.cluster);
        return say.ends(
            Phase::Failed,
            Reason::ClusterNameTaken,
            message,
            Next::After(place::RETRY, Wait::ClusterName),
        );
    }
    let Some(standing) = standing else { return place::decide(facts, &wanted, None, say) };
    match change(facts, &standing, &wanted) {
        Change::Join(planned) => place::decide(facts, &wanted, Some(&planned), say),
        Change::Run(planned) => launch::run(facts, &standing, planned, say),
        Change::None => unplanned(facts, place::keep(facts, &wanted, say)),
        Change::Unsupported(reason, message) => unplanned(facts, say.stays(reason, message)),
    }
}

/// A run that was planned is not needed any more, or not possible.
fn unplanned(facts: &Facts, mut decision: Decision) -> Decision {
    if facts.planned.is_some() {
        decision.actions.push(Action::RecordPlannedRun(None));
    }
    decision
}

/// The run that a cluster that stands needs next, and has not begun; `None` where it needs none, or nothing stands.
///
/// # Errors
/// What is asked for and not carried out, one line.
pub fn planned_run(facts: &Facts) -> Result<Option<PlannedRun>, String> {
    let (Some(standing), Ok(wanted)) = (standing(facts), wanted_now(facts)) else { return Ok(None) };
    match change(facts, &standing, &wanted) {
        Change::Run(planned) | Change::Join(planned) => Ok(Some(planned)),
        Change::None => Ok(None),
        Change::Unsupported(_, message) => Err(message),
    }
}

fn wanted_now(facts: &Facts) -> Result<Wanted, Vec<FieldError>> {
    match &facts.spec {
        Ok(spec) => wanted(spec, &facts.cluster, facts.plan.as_ref()),
        Err(problem) => Err(vec![FieldError::invalid("spec", "", problem)]),
    }
}
