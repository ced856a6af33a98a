//! Decisions carried out in a model of image source and actuator.

use hagane_api::machine::reasons::MachinePhase;
use proptest::prelude::*;

use super::super::{
    Action, Attempt, Decision, Defaults, Facts, Image, Instance, Power, Presence, Removal, ResolvedSpec, SpecFact,
    decide, resolve,
};
use crate::decision::Next;

pub(super) fn resolved() -> ResolvedSpec {
    let defaults = Defaults { image_uri: Some("http://a/b".to_owned()), image_checksum: None };
    resolve(&hagane_api::machine::ProviderSpec::default(), None, &defaults).expect("defaults are good")
}

pub(super) fn facts() -> Facts {
    Facts {
        deleting: false,
        finalizer: false,
        paused: false,
        spec: SpecFact::Valid(resolved()),
        provider_id: None,
        made_from: None,
        begun: true,
        image: Image::NotAsked,
        seed: Image::Ready,
        presence: Presence::Absent,
        attempt: Attempt::NotTried,
        removal: Removal::NotTried,
    }
}

/// What is outside: an image on its way, a domain, side resources.
struct World {
    facts: Facts,
    /// Whether the hypervisor does not answer.
    away: bool,
    image_left: u32,
    /// Steps of making that are left; `None`: nothing was begun.
    making: Option<u32>,
    leftovers: bool,
    made: u32,
    log: Vec<String>,
}

impl World {
    fn new() -> Self {
        let facts = Facts { begun: false, ..facts() };
        Self { facts, away: false, image_left: 2, making: None, leftovers: false, made: 0, log: Vec::new() }
    }

    fn observe(&mut self) {
        let facts = &mut self.facts;
        (facts.image, facts.attempt, facts.removal) = (Image::NotAsked, Attempt::NotTried, Removal::NotTried);
        facts.presence = match (self.making, self.leftovers) {
            _ if self.away => Presence::Unknown("the daemon is away".to_owned()),
            (Some(0), _) => Presence::Present(instance()),
            (_, true) => Presence::Leftovers(vec!["volume m1".to_owned()]),
            _ => Presence::Absent,
        };
        if !self.away && self.making == Some(0) && facts.made_from.is_none() {
            facts.made_from = Some(resolved());
        }
    }

    fn pass(&mut self, crash_after: Option<usize>) -> Decision {
        self.observe();
        let mut left = crash_after.unwrap_or(usize::MAX);
        loop {
            let decision = decide(&self.facts);
            let reason = decision.conditions.first().map_or("-", |condition| condition.reason);
            let actions: Vec<String> = decision.actions.iter().map(|action| format!("{action:?}")).collect();
            let line = format!("{reason}: {}", actions.join(", "));
            if self.log.last() != Some(&line) {
                self.log.push(line);
            }
            let again = decision.actions.iter().any(Action::asks_again);
            for action in &decision.actions {
                if left == 0 {
                    return decision;
                }
                left -= 1;
                self.apply(action);
            }
            if !again {
                if left > 0 {
                    let begun = |phase| phase != MachinePhase::Pending;
                    self.facts.begun = decision.phase.map_or(self.facts.begun, begun);
                }
                return decision;
            }
        }
    }

    fn apply(&mut self, action: &Action) {
        let facts = &mut self.facts;
        match action {
            Action::AddFinalizer => facts.finalizer = true,
            Action::RemoveFinalizer => facts.finalizer = false,
            Action::EnsureImage if self.image_left == 0 => facts.image = Image::Ready,
            Action::EnsureImage => {
                self.image_left -= 1;
                facts.image = Image::Fetching { what: "downloading".to_owned(), done: 1, total: Some(2) };
            }
            Action::EnsureSeed => facts.seed = Image::Ready,
            Action::Create => {
                assert!(facts.begun, "something is made before it is written that it may be");
                self.leftovers = true;
                let left = self.making.map_or(2, |left| left.saturating_sub(1));
                self.made += u32::from(left == 0);
                self.making = Some(left);
                if left == 0 {
                    facts.presence = Presence::Present(instance());
                } else {
                    facts.attempt = Attempt::Preparing("uploading".to_owned());
                }
            }
            Action::SetProviderId(id) => facts.provider_id = Some(id.clone()),
            Action::Delete if self.making.take().is_some() => {
                facts.removal = Removal::Pending("the domain stops".to_owned());
            }
            Action::Delete => {
                self.leftovers = false;
                facts.removal = Removal::Done;
            }
        }
    }

    fn settle(&mut self) -> Decision {
        for _ in 0..40 {
            let decision = self.pass(None);
            if decision.actions.is_empty() && decision.next == Next::AwaitChange {
                return decision;
            }
        }
        unreachable!("the world does not settle: {:#?}", self.log)
    }
}

pub(super) fn instance() -> Instance {
    Instance { provider_id: "libvirt:///a".to_owned(), power: Power::Running, has_address: true }
}

#[test]
fn the_whole_life() {
    let mut world = World::new();
    world.settle();
    world.facts.deleting = true;
    world.settle();
    insta::assert_snapshot!(world.log.join("\n"), @r#"
    -: AddFinalizer
    ImageFetching: EnsureImage
    ImageFetching: 
    ImageFetching: EnsureImage
    ImageFetching: 
    ImageFetching: EnsureImage
    Creating: Create
    Creating: 
    ImageFetching: EnsureImage
    Creating: Create
    Creating: 
    ImageFetching: EnsureImage
    Creating: Create
    Running: SetProviderId("libvirt:///a")
    Running: 
    Deleting: Delete
    Deleting: 
    Deleting: Delete
    Deleted: RemoveFinalizer
    -: 
    "#);
}

#[test]
fn only_what_was_never_begun_is_deleted_without_the_hypervisor() {
    let mut world = World::new();
    world.away = true;
    for _ in 0..3 {
        world.pass(None);
    }
    world.facts.deleting = true;
    world.settle();
    assert!(!world.facts.finalizer, "nothing was made: {:#?}", world.log);

    let mut world = World::new();
    while world.making.is_none() {
        world.pass(None);
    }
    world.away = true;
    for _ in 0..3 {
        world.pass(None);
    }
    world.facts.deleting = true;
    let decision = world.pass(None);
    assert_eq!((decision.conditions[0].reason, world.facts.finalizer), ("HypervisorUnreachable", true));
    world.away = false;
    world.settle();
    assert!(!world.facts.finalizer && !world.leftovers, "{:#?}", world.log);
}

#[test]
fn a_machine_that_is_gone_is_not_made_again() {
    let mut world = World::new();
    world.settle();
    world.making = None;
    let decision = world.settle();
    assert_eq!((decision.conditions[0].reason, world.made), ("DomainGone", 1));
    world.facts.deleting = true;
    world.settle();
    assert!(!world.facts.finalizer && !world.leftovers, "what is left of it goes: {:#?}", world.log);
}

proptest! {
    #[test]
    fn one_machine_is_made_wherever_it_crashes(crashes in prop::collection::vec(prop::option::of(0..3_usize), 0..30)) {
        let mut world = World::new();
        for crash in crashes {
            world.pass(crash);
        }
        prop_assert_eq!(world.settle().conditions[0].reason, "Running");
        prop_assert_eq!((world.made, world.facts.provider_id.as_deref()), (1, Some("libvirt:///a")));
    }

    #[test]
    fn deletion_ends_wherever_it_crashes(
        before in prop::collection::vec(prop::option::of(0..3_usize), 0..20),
        after in prop::collection::vec(prop::option::of(0..3_usize), 0..20),
    ) {
        let mut world = World::new();
        for crash in before {
            world.pass(crash);
        }
        world.facts.deleting = true;
        for crash in after {
            world.pass(crash);
        }
        world.settle();
        prop_assert!(!world.facts.finalizer && !world.leftovers && world.making.is_none(), "{:#?}", world.log);
    }
}
