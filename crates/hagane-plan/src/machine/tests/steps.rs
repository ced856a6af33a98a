//! One decision at a time.

use std::collections::BTreeSet;
use std::time::Duration;

use hagane_api::condition::ConditionStatus;
use hagane_api::field::FieldError;
use hagane_api::machine::reasons::{MachineReason, MachineWait};
use hagane_api::quantity::MemoryMib;

use super::super::{
    Action, Attempt, Decision, Facts, Image, Instance, Power, Presence, Removal, ResolvedSpec, SpecFact, Trouble,
    TroubleKind, decide,
};
use super::model::{facts as new_facts, instance, resolved};
use crate::decision::Next;

fn facts() -> Facts {
    Facts { finalizer: true, image: Image::Ready, ..new_facts() }
}

fn ready(decision: &Decision) -> (&'static str, &str) {
    let found = decision.conditions.iter().find(|condition| condition.r#type == "Ready");
    found.map_or(("", ""), |condition| (condition.reason, condition.message.as_str()))
}

fn trouble(kind: TroubleKind) -> Trouble {
    Trouble { kind, message: "why".to_owned() }
}

fn present(instance: Instance) -> Facts {
    Facts { presence: Presence::Present(instance), made_from: Some(resolved()), ..facts() }
}

fn deleting(removal: Removal, presence: Presence) -> Facts {
    Facts { deleting: true, removal, presence, ..facts() }
}

#[test]
fn waits_without_an_image_and_makes_nothing() {
    let spec = SpecFact::Valid(ResolvedSpec { image_uri: None, ..resolved() });
    let decision = decide(&Facts { spec, ..facts() });
    let (reason, message) = ready(&decision);
    assert_eq!((reason, decision.actions.len()), ("ImageMissing", 0));
    assert!(message.contains("imageURI") && message.contains("--default-image"), "{message}");
}

#[test]
fn shows_how_far_the_image_is() {
    let image = Image::Fetching { what: "downloading http://a/b".to_owned(), done: 250, total: Some(1000) };
    let decision = decide(&Facts { image, ..facts() });
    assert_eq!(ready(&decision), ("ImageFetching", "downloading http://a/b: 250 of 1000 bytes (25 %)"));
    let image = Image::Fetching { what: "downloading".to_owned(), done: 250, total: None };
    assert_eq!(ready(&decide(&Facts { image, ..facts() })).1, "downloading: 250 bytes");
    let image = Image::Fetching { what: "about to fetch http://a/b".to_owned(), done: 0, total: None };
    assert_eq!(ready(&decide(&Facts { image, ..facts() })).1, "about to fetch http://a/b");
}

#[test]
fn tries_an_image_again_when_its_source_says_so() {
    let failed = |retry_after| Image::Failed { message: "http://a/b: 404".to_owned(), retry_after };
    let decision = decide(&Facts { image: failed(Some(Duration::from_secs(7))), ..facts() });
    assert_eq!(decision.next, Next::After(Duration::from_secs(7), MachineWait::Image));
    let decision = decide(&Facts { image: failed(None), ..facts() });
    assert_eq!((ready(&decision), decision.next), (("ImageFailed", "http://a/b: 404"), Next::AwaitChange));
}

#[test]
fn names_the_fields_that_changed() {
    let spec = SpecFact::Valid(ResolvedSpec { vcpus: 8, memory: MemoryMib(1), ..resolved() });
    let decision = decide(&Facts { spec, ..present(instance()) });
    let changed = decision.conditions.iter().find(|condition| condition.reason == "SpecChanged");
    let changed = changed.expect("the change is said");
    assert!(changed.message.starts_with("vcpu, memoryInGB changed"), "{}", changed.message);
    assert_eq!(ready(&decision).0, "Running", "the machine goes on running");
    // A seed is read at the first boot only: another one is told of too, and changes nothing.
    let spec = SpecFact::Valid(ResolvedSpec { user_data_uri: Some("http://a/other.iso".to_owned()), ..resolved() });
    let decision = decide(&Facts { spec, ..present(instance()) });
    let told = decision.conditions.iter().any(|condition| condition.message.starts_with("userDataURI changed"));
    let works = decision.actions.iter().any(Action::asks_again);
    assert!(told && !works, "{decision:?}");
}

#[test]
fn a_running_machine_is_ready_once_it_shows_an_address() {
    let decision = decide(&present(Instance { has_address: false, ..instance() }));
    assert_eq!((ready(&decision).0, decision.conditions[0].status), ("WaitingForAddress", ConditionStatus::False));
    assert_eq!(decision.actions, [Action::SetProviderId("libvirt:///a".to_owned())], "its id is known at once");
    let decision = decide(&present(instance()));
    assert_eq!((ready(&decision).0, decision.conditions[0].status), ("Running", ConditionStatus::True));
}

#[test]
fn a_hypervisor_that_is_away_is_said_and_waited_for() {
    let away = Presence::Unknown("qemu:///system does not answer".to_owned());
    let decision = decide(&Facts { presence: away.clone(), ..facts() });
    assert_eq!(ready(&decision), ("HypervisorUnreachable", "qemu:///system does not answer"));
    let decision = decide(&deleting(Removal::NotTried, away));
    assert_eq!((ready(&decision).0, decision.actions.len()), ("HypervisorUnreachable", 0));
}

#[test]
fn deletion_asks_the_actuator_whatever_the_spec_says() {
    for spec in [SpecFact::Missing, SpecFact::Invalid(vec![FieldError::required("spec", "")])] {
        let gone = decide(&Facts { spec: spec.clone(), paused: true, ..deleting(Removal::NotTried, Presence::Absent) });
        assert_eq!(gone.actions, [Action::RemoveFinalizer]);
        let there = deleting(Removal::NotTried, Presence::Present(instance()));
        assert_eq!(decide(&Facts { spec, ..there }).actions, [Action::Delete]);
    }
}

fn situations() -> Vec<Facts> {
    let attempt = |kind| Facts { attempt: Attempt::Failed(trouble(kind)), ..facts() };
    let fetching = || Image::Fetching { what: "x".to_owned(), done: 0, total: None };
    let failed = || Image::Failed { message: "x".to_owned(), retry_after: None };
    let power = |power| present(Instance { power, ..instance() });
    let changed = SpecFact::Valid(ResolvedSpec { vcpus: 8, ..resolved() });
    let there = || Presence::Present(instance());
    vec![
        facts(),
        Facts { paused: true, ..facts() },
        Facts { spec: SpecFact::Missing, ..facts() },
        Facts { spec: SpecFact::ClassMissing("c".to_owned()), ..facts() },
        Facts { spec: SpecFact::Invalid(vec![FieldError::required("spec", "")]), ..facts() },
        Facts { spec: SpecFact::Valid(ResolvedSpec { image_uri: None, ..resolved() }), ..facts() },
        Facts { image: fetching(), ..facts() },
        Facts { image: failed(), ..facts() },
        Facts { seed: fetching(), ..facts() },
        Facts { seed: failed(), ..facts() },
        Facts { attempt: Attempt::Preparing("x".to_owned()), ..facts() },
        attempt(TroubleKind::Unreachable),
        attempt(TroubleKind::NameTaken),
        attempt(TroubleKind::PoolNotAvailable),
        attempt(TroubleKind::NetworkNotAvailable),
        attempt(TroubleKind::AddressInUse),
        attempt(TroubleKind::Invalid),
        attempt(TroubleKind::Failed),
        power(Power::Running),
        power(Power::Off),
        power(Power::Paused),
        power(Power::Crashed),
        present(Instance { has_address: false, ..instance() }),
        Facts { spec: changed, ..power(Power::Running) },
        Facts { made_from: Some(resolved()), ..facts() },
        deleting(Removal::NotTried, Presence::Absent),
        deleting(Removal::NotTried, there()),
        deleting(Removal::NotTried, Presence::Leftovers(vec!["x".to_owned()])),
        deleting(Removal::Pending("x".to_owned()), there()),
        deleting(Removal::Failed(trouble(TroubleKind::Unreachable)), there()),
        deleting(Removal::Failed(trouble(TroubleKind::Failed)), there()),
        deleting(Removal::Done, there()),
    ]
}

#[test]
fn every_reason_and_every_wait_is_given_by_some_situation() {
    let decisions: Vec<Decision> = situations().iter().map(decide).collect();
    let given: BTreeSet<&str> =
        decisions.iter().flat_map(|decision| &decision.conditions).map(|condition| condition.reason).collect();
    let all: BTreeSet<&str> = MachineReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(given, all);
    let waits = decisions.iter().filter_map(|decision| match decision.next {
        Next::After(_, wait) => Some(wait),
        _ => None,
    });
    assert_eq!(waits.collect::<BTreeSet<_>>(), MachineWait::ALL.iter().copied().collect());
}
