//! The decision: from what the actuator says to what comes next.

use std::time::Duration;

use hagane_api::condition::ConditionDraft;
use hagane_api::condition::ConditionStatus::{False, True, Unknown};
use hagane_api::machine::reasons::{
    MachineCondition as Type, MachinePhase as Phase, MachineReason as Reason, MachineWait as Wait,
};

use super::facts::{Attempt, Facts, Image, Instance, Power, Presence, Removal, SpecFact, Trouble, TroubleKind};
use super::{Action, Decision, ResolvedSpec};
use crate::decision::{Next, draft, names, one_line};

/// How often slow work is looked at.
const WORK_POLL: Duration = Duration::from_secs(1);
/// How often a machine without an address is looked at.
const ADDRESS_POLL: Duration = Duration::from_secs(3);
/// Pause before something outside is tried again.
const RETRY: Duration = Duration::from_secs(15);

/// Decides what a Machine needs next.
///
/// # Guarantees
/// - Nothing is made before the spec is valid and image and seed are here.
/// - A machine that was there and is gone is not made again by itself: its disk is lost, and its node may be elsewhere.
///   A changed spec makes it anew.
/// - A machine that is there but off, and was never seen running, is half made: it is made to the end.
/// - Deletion asks the actuator whatever the spec says, and the finalizer goes only when nothing of the uid is left. Only a
///   Machine whose making never began needs no answer.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    if facts.deleting {
        return delete(facts);
    }
    if facts.paused {
        let paused = condition(Type::Paused, True, Reason::Paused, "");
        return Decision { conditions: vec![paused], ..Decision::nothing() };
    }
    if !facts.finalizer {
        return Decision::only(vec![Action::AddFinalizer]);
    }
    let say =
        Say { conditions: vec![spec_condition(&facts.spec), condition(Type::Paused, False, Reason::NotPaused, "")] };
    match &facts.presence {
        Presence::Unknown(why) => say.with(Type::InstanceExists, Unknown, Reason::HypervisorUnreachable, why).waits(
            if facts.made_from.is_some() { Phase::Running } else { early(facts) },
            Reason::HypervisorUnreachable,
            why,
            RETRY,
            Wait::Hypervisor,
        ),
        Presence::Present(instance) if facts.made_from.is_none() && half_made(instance) => make(facts, say),
        Presence::Present(instance) => present(facts, instance, say),
        Presence::Absent | Presence::Leftovers(_) if facts.made_from.is_some() && !spec_is_new(facts) => {
            let message = "the machine was made and is gone; change its spec to make it anew, or delete this Machine to \
                           give back what is left of it";
            say.with(Type::InstanceExists, False, Reason::DomainGone, message).failed(Reason::DomainGone, message)
        }
        Presence::Absent | Presence::Leftovers(_) => make(facts, say),
    }
}

/// The phase of a machine that is not there: what was begun stays so, for the sake of its deletion.
fn early(facts: &Facts) -> Phase {
    if facts.begun { Phase::Provisioning } else { Phase::Pending }
}

fn half_made(instance: &Instance) -> bool {
    matches!(instance.power, Power::Off | Power::Crashed)
}

fn spec_is_new(facts: &Facts) -> bool {
    matches!((&facts.spec, &facts.made_from), (SpecFact::Valid(now), Some(then)) if now != then)
}

struct Say {
    conditions: Vec<ConditionDraft>,
}

impl Say {
    fn with(
        mut self,
        r#type: Type,
        status: hagane_api::condition::ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        self.conditions.push(condition(r#type, status, reason, message));
        self
    }

    fn ends(mut self, phase: Phase, reason: Reason, message: impl Into<String>, next: Next<Wait>) -> Decision {
        self.conditions.insert(0, condition(Type::Ready, False, reason, message));
        Decision { actions: Vec::new(), conditions: self.conditions, phase: Some(phase), next }
    }

    fn waits(self, phase: Phase, reason: Reason, message: impl Into<String>, after: Duration, wait: Wait) -> Decision {
        self.ends(phase, reason, message, Next::After(after, wait))
    }

    fn failed(self, reason: Reason, message: impl Into<String>) -> Decision {
        self.ends(Phase::Failed, reason, message, Next::AwaitChange)
    }

    fn does(self, phase: Phase, reason: Reason, message: impl Into<String>, action: Action) -> Decision {
        Decision { actions: vec![action], ..self.ends(phase, reason, message, Next::Now) }
    }
}

fn condition(
    r#type: Type,
    status: hagane_api::condition::ConditionStatus,
    reason: Reason,
    message: impl Into<String>,
) -> ConditionDraft {
    draft(r#type.as_str(), status, reason.as_str(), message)
}

const PROVIDER_SPEC_NEEDED: &str = "spec.providerSpec is needed to make a machine";

fn spec_condition(spec: &SpecFact) -> ConditionDraft {
    match spec {
        SpecFact::Valid(_) => condition(Type::SpecValid, True, Reason::Valid, ""),
        SpecFact::Missing => condition(Type::SpecValid, False, Reason::ProviderSpecMissing, PROVIDER_SPEC_NEEDED),
        SpecFact::ClassMissing(class) => condition(
            Type::SpecValid,
            False,
            Reason::MachineClassMissing,
            format!("MachineClass {class:?} is not there"),
        ),
        SpecFact::Invalid(errors) => condition(Type::SpecValid, False, Reason::InvalidSpec, one_line(errors)),
    }
}

/// Nothing is there yet: spec, image, seed, machine.
fn make(facts: &Facts, say: Say) -> Decision {
    let say = say.with(Type::InstanceExists, False, Reason::NotCreated, "");
    let spec = match &facts.spec {
        SpecFact::Valid(spec) => spec,
        SpecFact::Missing => {
            return say.failed(Reason::ProviderSpecMissing, PROVIDER_SPEC_NEEDED);
        }
        SpecFact::ClassMissing(class) => {
            let message = format!("MachineClass {class:?} is not there");
            return say.waits(early(facts), Reason::MachineClassMissing, message, RETRY, Wait::MachineClass);
        }
        SpecFact::Invalid(errors) => return say.failed(Reason::InvalidSpec, one_line(errors)),
    };
    if spec.image_uri.is_none() {
        let message = "spec.providerSpec.imageURI is not given, and hagane has no --default-image";
        let say = say.with(Type::ImageReady, False, Reason::ImageMissing, message);
        return say.ends(early(facts), Reason::ImageMissing, message, Next::AwaitChange);
    }
    let images = [
        (&facts.image, Action::EnsureImage, Reason::ImageFetching, Reason::ImageFailed),
        (&facts.seed, Action::EnsureSeed, Reason::SeedFetching, Reason::SeedFailed),
    ];
    for (image, ask, fetching, failed) in images {
        match image {
            Image::Ready => {}
            Image::NotAsked => return say.does(Phase::Provisioning, fetching, "", ask),
            Image::Fetching { what, done, total } => {
                let message = progress(what, *done, *total);
                let say = say.with(Type::ImageReady, False, fetching, message.clone());
                return say.waits(Phase::Provisioning, fetching, message, WORK_POLL, Wait::Image);
            }
            Image::Failed { message, retry_after } => {
                let say = say.with(Type::ImageReady, False, failed, message);
                return match retry_after {
                    Some(after) => say.waits(Phase::Provisioning, failed, message, *after, Wait::Image),
                    None => say.failed(failed, message),
                };
            }
        }
    }
    let say = say.with(Type::ImageReady, True, Reason::ImageReady, "");
    match &facts.attempt {
        // Written first: a Machine without it never asked anything of the hypervisor.
        Attempt::NotTried if !facts.begun => say.ends(Phase::Provisioning, Reason::Creating, "", Next::Now),
        Attempt::NotTried => say.does(Phase::Provisioning, Reason::Creating, "", Action::Create),
        Attempt::Preparing(what) => say.waits(Phase::Provisioning, Reason::Creating, what, WORK_POLL, Wait::Creation),
        Attempt::Failed(trouble) => troubled(trouble, say),
    }
}

fn progress(what: &str, done: u64, total: Option<u64>) -> String {
    match total.filter(|total| *total > 0) {
        Some(total) => {
            let percent = u128::from(done.min(total)) * 100 / u128::from(total);
            format!("{what}: {done} of {total} bytes ({percent} %)")
        }
        None if done == 0 => what.to_owned(),
        None => format!("{what}: {done} bytes"),
    }
}

fn troubled(trouble: &Trouble, say: Say) -> Decision {
    let (reason, wait) = match trouble.kind {
        TroubleKind::Unreachable => (Reason::HypervisorUnreachable, Wait::Hypervisor),
        TroubleKind::NameTaken => (Reason::NameTaken, Wait::Resource),
        TroubleKind::PoolNotAvailable => (Reason::PoolNotAvailable, Wait::Resource),
        TroubleKind::NetworkNotAvailable => (Reason::NetworkNotAvailable, Wait::Resource),
        TroubleKind::AddressInUse => (Reason::AddressInUse, Wait::Resource),
        TroubleKind::Failed => (Reason::CreateFailed, Wait::Creation),
        TroubleKind::Invalid => return say.failed(Reason::InvalidSpec, &trouble.message),
    };
    say.waits(Phase::Provisioning, reason, &trouble.message, RETRY, wait)
}

fn present(facts: &Facts, instance: &Instance, say: Say) -> Decision {
    let say = say.with(Type::InstanceExists, True, Reason::Created, "");
    let say = say.with(Type::ImageReady, True, Reason::ImageReady, "");
    let say = match (&facts.spec, &facts.made_from) {
        (SpecFact::Valid(now), Some(then)) if now != then => {
            let message = format!(
                "{} changed after the machine was made; changing a machine is not supported yet",
                names(&changed(now, then))
            );
            say.with(Type::UpToDate, False, Reason::SpecChanged, message)
        }
        (SpecFact::Valid(_), _) => say.with(Type::UpToDate, True, Reason::UpToDate, ""),
        (spec, _) => {
            let problem = spec_condition(spec).message;
            let message = format!("the machine stays as it was made; what is asked for now is not known: {problem}");
            say.with(Type::UpToDate, Unknown, Reason::SpecChanged, message)
        }
    };
    let id = &instance.provider_id;
    let mut decision = match instance.power {
        Power::Running if instance.has_address => {
            let mut decision = say.ends(Phase::Running, Reason::Running, "", Next::AwaitChange);
            decision.conditions[0].status = True;
            decision
        }
        Power::Running => {
            let message = "the machine runs and shows no address yet";
            say.waits(Phase::Running, Reason::WaitingForAddress, message, ADDRESS_POLL, Wait::Address)
        }
        Power::Off => say.waits(Phase::Running, Reason::PoweredOff, "the machine is off", RETRY, Wait::Power),
        Power::Paused => say.waits(Phase::Running, Reason::InstancePaused, "the machine is paused", RETRY, Wait::Power),
        Power::Crashed => say.waits(Phase::Running, Reason::Crashed, "the machine crashed", RETRY, Wait::Power),
    };
    if facts.provider_id.as_ref() != Some(id) {
        decision.actions.push(Action::SetProviderId(id.clone()));
    }
    decision
}

fn changed(now: &ResolvedSpec, then: &ResolvedSpec) -> Vec<&'static str> {
    [
        ("vcpu", now.vcpus != then.vcpus),
        ("memoryInGB", now.memory != then.memory),
        ("diskInGB", now.disk != then.disk),
        ("imageURI", now.image_uri != then.image_uri),
        ("imageChecksum", now.image_checksum != then.image_checksum),
        ("userDataURI", now.user_data_uri != then.user_data_uri),
        ("poolName", now.pool != then.pool),
        ("networkName", now.network != then.network),
        ("networkAddress", now.address != then.address),
        ("sshAuthorizedKeys", now.ssh_authorized_keys != then.ssh_authorized_keys),
    ]
    .into_iter()
    .filter_map(|(field, changed)| changed.then_some(field))
    .collect()
}

fn delete(facts: &Facts) -> Decision {
    if !facts.finalizer {
        return Decision::nothing();
    }
    let say = Say { conditions: Vec::new() };
    let phase = Phase::Deleting;
    match (&facts.removal, &facts.presence) {
        (Removal::Done, _) | (Removal::NotTried, Presence::Absent) => {
            let decision = say.with(Type::InstanceExists, False, Reason::Deleted, "");
            let decision = decision.ends(phase, Reason::Deleted, "", Next::AwaitChange);
            Decision { actions: vec![Action::RemoveFinalizer], ..decision }
        }
        (Removal::Pending(what), _) => say.waits(phase, Reason::Deleting, what, WORK_POLL, Wait::Removal),
        (Removal::Failed(trouble), _) if trouble.kind == TroubleKind::Unreachable => {
            say.waits(phase, Reason::HypervisorUnreachable, &trouble.message, RETRY, Wait::Hypervisor)
        }
        (Removal::Failed(trouble), _) => say.waits(phase, Reason::DeleteFailed, &trouble.message, RETRY, Wait::Removal),
        (Removal::NotTried, Presence::Unknown(_)) if !facts.begun && facts.made_from.is_none() => {
            let message = "nothing was made, so nothing is asked of the hypervisor";
            let decision = say.with(Type::InstanceExists, False, Reason::NotCreated, message);
            let decision = decision.ends(phase, Reason::Deleted, message, Next::AwaitChange);
            Decision { actions: vec![Action::RemoveFinalizer], ..decision }
        }
        (Removal::NotTried, Presence::Unknown(why)) => {
            say.waits(phase, Reason::HypervisorUnreachable, why, RETRY, Wait::Hypervisor)
        }
        (Removal::NotTried, Presence::Leftovers(left)) => {
            say.does(phase, Reason::Deleting, format!("removing {}", names(left)), Action::Delete)
        }
        (Removal::NotTried, Presence::Present(_)) => {
            say.does(phase, Reason::Deleting, "removing the machine", Action::Delete)
        }
    }
}
