//! A Cluster of the old generation: valid networks, and deleted after its Machines.

use std::time::Duration;

use hagane_api::condition::ConditionStatus::{False, True};
use hagane_api::field::FieldError;
use hagane_api::machine::reasons::{ClusterCondition, ClusterPhase, ClusterReason, ClusterWait};

use crate::decision::{Next, draft, names, one_line};

/// What to do about a Cluster.
pub type Decision = crate::decision::Decision<Action, ClusterPhase, ClusterWait>;

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put our finalizer on the object.
    AddFinalizer,
    /// Delete those of its Machines that are not being deleted yet.
    DeleteMachines,
    /// Take our finalizer off the object.
    RemoveFinalizer,
}

/// Everything a decision looks at.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether our finalizer is on the object.
    pub finalizer: bool,
    /// Whether the object is to be left alone.
    pub paused: bool,
    /// What is wrong with the spec ([`hagane_api::machine::validate_cluster_spec`]).
    pub errors: Vec<FieldError>,
    /// Names of the Machines that carry its name and are looked up in it.
    pub machines: Vec<String>,
}

/// How often the machines are counted while the Cluster waits for them.
const MACHINES_POLL: Duration = Duration::from_secs(30);

/// Decides what a Cluster needs next.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    if facts.deleting {
        return delete(facts);
    }
    if facts.paused {
        let conditions = vec![paused(true)];
        return Decision { conditions, ..Decision::nothing() };
    }
    if !facts.finalizer {
        return Decision::only(vec![Action::AddFinalizer]);
    }
    let (valid, ready) = (ClusterCondition::SpecValid.as_str(), ClusterCondition::Ready.as_str());
    let (phase, conditions) = if facts.errors.is_empty() {
        let provisioned = ClusterReason::Provisioned.as_str();
        let conditions =
            vec![draft(ready, True, provisioned, ""), draft(valid, True, ClusterReason::Valid.as_str(), "")];
        (ClusterPhase::Provisioned, conditions)
    } else {
        let (reason, message) = (ClusterReason::InvalidSpec.as_str(), one_line(&facts.errors));
        (ClusterPhase::Failed, vec![draft(ready, False, reason, message.clone()), draft(valid, False, reason, message)])
    };
    let conditions = conditions.into_iter().chain([paused(false)]).collect();
    Decision { actions: Vec::new(), conditions, phase: Some(phase), next: Next::AwaitChange }
}

fn paused(yes: bool) -> hagane_api::condition::ConditionDraft {
    let (status, reason) = if yes { (True, ClusterReason::Paused) } else { (False, ClusterReason::NotPaused) };
    draft(ClusterCondition::Paused.as_str(), status, reason.as_str(), "")
}

fn delete(facts: &Facts) -> Decision {
    if !facts.finalizer {
        return Decision::nothing();
    }
    let ready = ClusterCondition::Ready.as_str();
    let phase = Some(ClusterPhase::Deleting);
    if facts.machines.is_empty() {
        let conditions = vec![draft(ready, False, ClusterReason::Deleted.as_str(), "")];
        return Decision { actions: vec![Action::RemoveFinalizer], conditions, phase, next: Next::AwaitChange };
    }
    let message = format!("{} machines are still there: {}", facts.machines.len(), names(&facts.machines));
    let conditions = vec![draft(ready, False, ClusterReason::WaitingForMachines.as_str(), message)];
    let next = Next::After(MACHINES_POLL, ClusterWait::Machines);
    Decision { actions: vec![Action::DeleteMachines], conditions, phase, next }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn facts() -> Facts {
        Facts { deleting: false, finalizer: true, paused: false, errors: Vec::new(), machines: Vec::new() }
    }

    fn reason(decision: &Decision) -> &str {
        decision.conditions.first().map_or("", |condition| condition.reason)
    }

    #[test]
    fn takes_the_finalizer_before_anything_else() {
        let decision = decide(&Facts { finalizer: false, ..facts() });
        assert_eq!((decision.actions, decision.next), (vec![Action::AddFinalizer], Next::Now));
    }

    #[test]
    fn names_what_is_wrong_with_the_networks() {
        let errors = vec![FieldError::invalid("spec.clusterNetwork.pods.cidrBlocks[0]", "x", "must be a CIDR")];
        let decision = decide(&Facts { errors, ..facts() });
        assert_eq!((decision.phase, reason(&decision)), (Some(ClusterPhase::Failed), "InvalidSpec"));
        assert!(decision.conditions[0].message.contains("pods.cidrBlocks[0]: Invalid value: \"x\""));
    }

    #[test]
    fn waits_for_its_machines_and_then_goes() {
        let machines = (0..9).map(|number| format!("m{number}")).collect();
        let waiting = decide(&Facts { deleting: true, machines, ..facts() });
        assert_eq!((&waiting.actions[..], reason(&waiting)), (&[Action::DeleteMachines][..], "WaitingForMachines"));
        assert!(waiting.conditions[0].message.ends_with("m7 and 1 more"), "{}", waiting.conditions[0].message);
        assert_eq!(waiting.next, Next::After(MACHINES_POLL, ClusterWait::Machines));
        let gone = decide(&Facts { deleting: true, ..facts() });
        assert_eq!((gone.actions, gone.conditions[0].reason), (vec![Action::RemoveFinalizer], "Deleted"));
        assert_eq!(decide(&Facts { deleting: true, finalizer: false, ..facts() }), Decision::nothing());
    }

    #[test]
    fn deletion_ends_whatever_the_spec_says() {
        let errors = vec![FieldError::required("spec", "")];
        let decision = decide(&Facts { deleting: true, paused: true, errors, ..facts() });
        assert_eq!(decision.actions, [Action::RemoveFinalizer]);
    }

    #[test]
    fn every_reason_is_given_by_something() {
        let errors = vec![FieldError::required("spec", "")];
        let machines = vec!["m".to_owned()];
        let cases = [
            facts(),
            Facts { errors, ..facts() },
            Facts { paused: true, ..facts() },
            Facts { deleting: true, machines, ..facts() },
            Facts { deleting: true, ..facts() },
        ];
        let given: BTreeSet<&str> =
            cases.iter().flat_map(|facts| decide(facts).conditions).map(|condition| condition.reason).collect();
        let all: BTreeSet<&str> = ClusterReason::ALL.iter().map(|reason| reason.as_str()).collect();
        assert_eq!(given, all);
    }
}
