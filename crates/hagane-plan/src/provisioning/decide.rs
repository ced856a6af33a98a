//! The decision: the furthest recorded stage, and what comes after it.

mod change;
mod delete;
mod place;
mod run;
mod say;

pub use change::installed;
pub use run::{retry_pause, told};

use hagane_api::bpa::reasons::{ProvisioningPhase as Phase, ProvisioningReason as Reason, ProvisioningWait as Wait};
use hagane_api::field::FieldError;

use super::demands::{Wanted, wanted};
use super::facts::{Facts, NameOwner};
use super::{Action, Decision};
use crate::decision::{Next, one_line};
use change::{Change, change, standing};
use say::Say;

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
    let plugins = facts.spec.as_ref().map_or(&[][..], |spec| &spec.kud_plugins);
    let standing = standing(facts);
    let say = Say::spec(&wanted, plugins, standing.is_some());
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
    match standing.map(|standing| change(facts, &standing, &wanted)) {
        None | Some(Change::Workers) => place::decide(facts, &wanted, say),
        Some(Change::None) => place::keep(facts, &wanted, say),
        Some(Change::Unsupported(reason, message)) => say.stays(reason, message),
    }
}

fn wanted_now(facts: &Facts) -> Result<Wanted, Vec<FieldError>> {
    match &facts.spec {
        Ok(spec) => wanted(spec, &facts.cluster, facts.plan.as_ref()),
        Err(problem) => Err(vec![FieldError::invalid("spec", "", problem)]),
    }
}
