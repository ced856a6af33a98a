//! Decisions carried out in the model world: they converge, then are silent, and deletion ends from everywhere.

use proptest::prelude::*;

use super::super::{Claim, RunEnd};
use super::world::{World, facts};

#[test]
fn the_whole_road() {
    let mut world = World::new(facts());
    world.settle();
    insta::assert_snapshot!(world.log.join("\n"), @r"
    -/-: AddFinalizer
    Pending/Planning: RecordPlan[edge-master-1=host-1 edge-worker-1=host-2 edge-worker-2=host-3]
    Pending/ClaimingHosts: ClaimHosts[host-1 host-2 host-3]
    Waiting/PinningHostKeys: PinHostKeys[host-1 host-2 host-3]
    Waiting/CheckingFacts: CheckFacts[host-1 host-2 host-3]
    Installing/Starting: RecordRunIntent[u-1]
    Installing/Starting: StartInstall[u-1]
    Installing/Installing: 
    Installing/FetchingKubeconfig: FetchKubeconfig
    Installing/FetchingKubeconfig: StoreKubeconfig
    Ready/Ready: 
    ");
}

#[test]
fn a_failed_run_is_followed_by_another_only_when_asked() {
    let mut world = World::new(facts());
    world.end = super::steps::broken_in(Some(("install containerd".to_owned(), "edge-worker-1".to_owned())));
    let decision = world.settle();
    assert_eq!((world.started, decision.conditions[0].reason), (1, "InstallFailed"));
    let message = &decision.conditions[0].message;
    assert!(message.contains("\"install containerd\" on edge-worker-1"), "{message}");
    let plan = world.facts.plan.clone();
    world.facts.retry = Some("once more".to_owned());
    world.settle();
    assert_eq!((world.started, world.facts.plan.as_ref() == plan.as_ref()), (2, true), "masters are never reshuffled");
    world.end = RunEnd::Succeeded;
    world.facts.generation = 2;
    let decision = world.settle();
    assert_eq!((world.started, decision.conditions[0].reason), (3, "Ready"));
}

#[test]
fn of_two_that_want_one_host_the_loser_plans_anew() {
    let mut world = World::new(facts());
    while world.facts.plan.is_none() {
        world.pass(None);
    }
    // The other one was faster.
    world.facts.hosts[1].claim = Claim::Other("Provisioning lab/other".to_owned());
    world.settle();
    let plan = world.facts.plan.as_ref().expect("a plan");
    let hosts: Vec<&str> = plan.assignments.iter().map(|entry| entry.host.as_str()).collect();
    assert_eq!(hosts, ["host-1", "host-3", "host-4"]);
    assert_eq!(world.facts.hosts[1].claim, Claim::Other("Provisioning lab/other".to_owned()));
}

#[test]
fn a_plan_waits_for_hosts_and_goes_on_by_itself() {
    let mut world = World::new(facts());
    let late = world.facts.hosts.split_off(2);
    for _ in 0..5 {
        world.pass(None);
    }
    let plan = world.facts.plan.clone().expect("a plan that says what is short");
    assert!(plan.assignments.is_empty() && plan.unsatisfied.len() == 1, "{plan:?}");
    assert!(world.pass(None).actions.is_empty(), "an unmet plan is stored once");
    world.facts.hosts.extend(late);
    assert_eq!(world.settle().conditions[0].reason, "Ready");
    let nodes: Vec<String> =
        world.facts.plan.into_iter().flat_map(|plan| plan.assignments).map(|entry| entry.node).collect();
    assert_eq!(nodes, ["edge-master-1", "edge-worker-1", "edge-worker-2"], "waiting uses no numbers up");
}

#[test]
fn deletion_ends_from_every_pass_and_leaves_nothing() {
    for passes in 0..20 {
        for end in [RunEnd::Succeeded, RunEnd::Lost] {
            let mut world = World::new(facts());
            world.end = end;
            for _ in 0..passes {
                world.pass(None);
            }
            world.facts.deleting = true;
            world.settle();
            assert!(!world.facts.finalizer && world.is_clean(), "after {passes} passes: {:#?}", world.log);
        }
    }
}

#[test]
fn deletion_ends_whatever_the_spec_says() {
    let mut world = World::new(facts());
    for _ in 0..7 {
        world.pass(None);
    }
    world.facts.spec = Err("unknown field".to_owned());
    world.facts.paused = true;
    world.facts.deleting = true;
    world.settle();
    assert!(!world.facts.finalizer && world.is_clean(), "{:#?}", world.log);
}

proptest! {
    #[test]
    fn converges_with_one_run_wherever_it_crashes(crashes in prop::collection::vec(prop::option::of(0..3_usize), 0..40)) {
        let mut world = World::new(facts());
        for crash in crashes {
            world.pass(crash);
        }
        let decision = world.settle();
        prop_assert_eq!(decision.conditions[0].reason, "Ready");
        prop_assert_eq!(world.started, 1);
        prop_assert_eq!(world.facts.hosts.iter().filter(|host| host.claim == Claim::Ours).count(), 3);
        prop_assert!(world.pass(None).actions.is_empty(), "a settled world stays silent");
    }

    #[test]
    fn deletion_ends_wherever_it_crashes(
        before in prop::collection::vec(prop::option::of(0..3_usize), 0..20),
        after in prop::collection::vec(prop::option::of(0..3_usize), 0..20),
    ) {
        let mut world = World::new(facts());
        for crash in before {
            world.pass(crash);
        }
        world.facts.deleting = true;
        for crash in after {
            world.pass(crash);
        }
        world.settle();
        prop_assert!(!world.facts.finalizer && world.is_clean(), "{:#?}", world.log);
    }
}
