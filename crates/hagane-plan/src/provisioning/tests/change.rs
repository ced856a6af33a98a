//! A cluster that stands, and a spec that asks for more or for something else.

use hagane_api::bpa::reasons::ProvisioningPhase;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Claim, Decision, RunEnd};
use super::world::{World, facts, spec};

fn told<'a>(decision: &'a Decision, r#type: &str) -> (&'static str, &'a str) {
    let found = decision.conditions.iter().find(|condition| condition.r#type == r#type);
    found.map_or(("", ""), |condition| (condition.reason, condition.message.as_str()))
}

fn sizes(workers: i64) -> Value {
    json!({"master": {"cpu": 2, "memory": "4Gi"}, "worker": {"cpu": 4, "memory": "8Gi"}, "replicas": workers})
}

/// One master and two workers stand.
fn standing() -> World {
    let mut world = World::new(facts());
    assert_eq!(told(&world.settle(), "Ready").0, "Ready");
    world.log.clear();
    world
}

fn ask(world: &mut World, asked: Value) {
    world.facts.generation += 1;
    world.facts.spec = Ok(spec(asked));
}

fn nodes(world: &World) -> Vec<&str> {
    let installed = world.facts.installed.iter().flat_map(|cluster| &cluster.nodes);
    installed.map(|node| node.node.as_str()).collect()
}

#[test]
fn further_workers_join_while_the_cluster_stays_ready() {
    let mut world = standing();
    ask(&mut world, sizes(3));
    let decision = world.settle();
    assert_eq!((told(&decision, "Ready").0, told(&decision, "UpToDate").0), ("Ready", "UpToDate"));
    assert_eq!(nodes(&world), ["edge-master-1", "edge-worker-1", "edge-worker-2", "edge-worker-3"]);
    insta::assert_snapshot!(world.log.join("\n"), @r"
    Updating/Ready: RecordPlan[edge-master-1=host-1 edge-worker-1=host-2 edge-worker-2=host-3 edge-worker-3=host-4]
    Updating/Ready: ClaimHosts[host-4]
    Updating/Ready: PinHostKeys[host-4]
    Updating/Ready: CheckFacts[host-1 host-2 host-3 host-4]
    Updating/Ready: RecordPlannedRun[AddWorkers edge-worker-3]
    Updating/Ready: CheckFacts[host-1 host-2 host-3 host-4]
    Updating/Ready: RecordRunIntent[AddWorkers edge-worker-3]
    Updating/Ready: StartInstall[AddWorkers edge-worker-3]
    Updating/Ready: 
    Ready/Ready: 
    ");
}

#[test]
fn workers_that_cannot_be_placed_are_waited_for_and_nothing_else_happens() {
    let mut world = standing();
    let plan = world.facts.plan.clone().expect("a plan");
    ask(&mut world, sizes(4));
    for _ in 0..5 {
        world.pass(None);
    }
    let decision = world.pass(None);
    assert_eq!((told(&decision, "Ready").0, told(&decision, "UpToDate").0), ("Ready", "NoSuitableHosts"));
    assert_eq!((decision.phase, world.started), (Some(ProvisioningPhase::Updating), 1));
    assert_eq!(world.facts.plan.as_ref().map(|plan| &plan.assignments), Some(&plan.assignments));
    ask(&mut world, sizes(2));
    let decision = world.settle();
    assert_eq!((told(&decision, "UpToDate").0, world.started), ("UpToDate", 1));
}

#[test]
fn a_wish_that_is_taken_back_before_its_run_gives_the_host_back() {
    let mut world = standing();
    ask(&mut world, sizes(3));
    let claimed = |world: &World| world.facts.hosts.iter().filter(|host| host.claim == Claim::Ours).count();
    while claimed(&world) < 4 {
        world.pass(None);
    }
    ask(&mut world, sizes(2));
    let decision = world.settle();
    assert_eq!((told(&decision, "UpToDate").0, claimed(&world), world.started), ("UpToDate", 3, 1));
}

#[test]
fn a_join_that_fails_leaves_the_cluster_ready_and_is_tried_again_when_asked() {
    let mut world = standing();
    world.end = super::steps::broken_in(Some(("Join the workers".to_owned(), "edge-worker-3".to_owned())));
    ask(&mut world, sizes(3));
    let decision = world.settle();
    assert_eq!((told(&decision, "Ready").0, told(&decision, "Installed").0), ("Ready", ""));
    let (reason, message) = told(&decision, "UpToDate");
    assert!(reason == "InstallFailed" && message.contains("\"Join the workers\" on edge-worker-3"), "{message}");
    assert_eq!(decision.phase, Some(ProvisioningPhase::Failed));
    assert_eq!(nodes(&world).len(), 3, "only what stands is told to stand");
    // Taken back, it may be half there: it is removed before its host is given to others.
    ask(&mut world, sizes(2));
    let decision = world.settle();
    assert_eq!((told(&decision, "UpToDate").0, world.facts.hosts[3].claim.clone()), ("InstallFailed", Claim::Ours));
    world.end = RunEnd::Succeeded;
    world.facts.retry = Some("1".to_owned());
    assert_eq!(told(&world.settle(), "UpToDate").0, "UpToDate");
    assert_eq!((nodes(&world).len(), world.started, world.facts.hosts[3].claim.clone()), (3, 4, Claim::None));
}

#[test]
fn what_is_not_carried_out_is_said_and_changes_nothing() {
    let with = |name: &str, value: Value| {
        let mut asked = sizes(2);
        asked[name] = value;
        asked
    };
    let old = |version: &str| json!({"version": version});
    for (asked, stands, reason, message) in [
        (
            with("PodSubnet", json!("10.9.0.0/16")),
            old(""),
            "SpecChanged",
            "installer, networks or control plane endpoint",
        ),
        (with("controlPlaneEndpoint", json!({"host": "192.0.2.9"})), old(""), "SpecChanged", "control plane endpoint"),
        (
            json!({"master": {"cpu": 2, "memory": "4Gi"}}),
            old(""),
            "SpecChanged",
            "edge-master-1 is master and would be master and worker",
        ),
        (
            json!({"masters": [{"m": {}}], "worker": {"cpu": 4, "memory": "8Gi"}, "replicas": 2}),
            old(""),
            "SpecChanged",
            "edge-master-1 would be removed: the first master stays",
        ),
        (with("kubernetesVersion", json!("1.35.9")), old("1.36.1"), "VersionNotReachable", "it never goes back"),
        (with("kubernetesVersion", json!("1.38.0")), old("1.36.1"), "VersionNotReachable", "a 1.37 version first"),
    ] {
        let mut world = standing();
        let plan = world.facts.plan.clone();
        if let (Some(installed), Some(version)) = (&mut world.facts.installed, stands["version"].as_str()) {
            installed.kubernetes_version = Some(version.to_owned()).filter(|version| !version.is_empty());
        }
        ask(&mut world, asked);
        let decision = world.settle();
        let (told_reason, told_message) = told(&decision, "UpToDate");
        assert!(told_reason == reason && told_message.contains(message), "{told_reason}: {told_message}");
        assert_eq!((told(&decision, "Ready").0, decision.phase), ("Ready", Some(ProvisioningPhase::Ready)));
        assert!(world.started == 1 && world.facts.plan == plan && decision.actions.is_empty(), "{message}");
    }
}

#[test]
fn a_change_that_no_cluster_can_tell_is_up_to_date() {
    let mut world = standing();
    let mut asked = sizes(2);
    asked["timeLimitMinutes"] = json!(7);
    asked["PodSubnet"] = json!("");
    ask(&mut world, asked);
    let decision = world.settle();
    assert_eq!((told(&decision, "UpToDate").0, world.started), ("UpToDate", 1));
}

proptest! {
    #[test]
    fn further_workers_join_once_wherever_it_crashes(
        crashes in prop::collection::vec(prop::option::of(0..3_usize), 0..40),
    ) {
        let mut world = standing();
        let before = world.facts.plan.clone().map(|plan| plan.assignments).unwrap_or_default();
        ask(&mut world, sizes(3));
        for crash in crashes {
            let decision = world.pass(crash);
            prop_assert_eq!(told(&decision, "Ready").0, "Ready");
        }
        let decision = world.settle();
        prop_assert_eq!(told(&decision, "UpToDate").0, "UpToDate");
        prop_assert_eq!((world.started, nodes(&world).len()), (2, 4));
        let after = world.facts.plan.clone().map(|plan| plan.assignments).unwrap_or_default();
        prop_assert!(before.iter().all(|entry| after.contains(entry)), "{:?}", after);
        prop_assert!(world.pass(None).actions.is_empty(), "a settled world stays silent");
    }
}
