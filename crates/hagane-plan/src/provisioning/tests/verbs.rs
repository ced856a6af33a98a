//! Each kind of change of a cluster that stands: the runs that it becomes, and what it waits for.

use hagane_api::bpa::provisioning::{InstalledCluster, PlannedRun};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::super::{Claim, Decision, InstallOrder, RunEnd};
use super::world::{World, facts, host, spec};

fn told<'a>(decision: &'a Decision, r#type: &str) -> (&'static str, &'a str) {
    let found = decision.conditions.iter().find(|condition| condition.r#type == r#type);
    found.map_or(("", ""), |condition| (condition.reason, condition.message.as_str()))
}

fn sizes(masters: i64, workers: i64) -> Value {
    json!({
        "master": {"cpu": 2, "memory": "4Gi", "replicas": masters},
        "worker": {"cpu": 4, "memory": "8Gi"}, "replicas": workers,
    })
}

/// A cluster of this size stands.
fn standing(masters: i64, workers: i64) -> World {
    let mut world = World::new(facts());
    world.facts.hosts = (1..=9).map(|number| host(number, 8, 16)).collect();
    world.facts.spec = Ok(spec(sizes(masters, workers)));
    world.cluster_version = Some("1.36.1".to_owned());
    let decision = world.settle();
    assert_eq!(told(&decision, "Ready").0, "Ready");
    world.log.clear();
    world
}

fn ask(world: &mut World, asked: Value) {
    world.facts.generation += 1;
    world.facts.spec = Ok(spec(asked));
}

fn cluster(world: &World) -> &InstalledCluster {
    world.facts.installed.as_ref().expect("a cluster stands")
}

fn nodes(world: &World) -> Vec<&str> {
    cluster(world).nodes.iter().map(|node| node.node.as_str()).collect()
}

fn planned(world: &World) -> &PlannedRun {
    world.facts.planned.as_ref().expect("a run is planned")
}

fn up_to_date(world: &mut World) {
    let decision = world.settle();
    assert_eq!((told(&decision, "Ready").0, told(&decision, "UpToDate").0), ("Ready", "UpToDate"), "{:#?}", world.log);
    assert!(world.facts.planned.is_none() && world.pass(None).actions.is_empty(), "a settled world stays silent");
}

fn last_order(world: &World) -> &InstallOrder {
    world.orders.last().expect("a run was started")
}

#[test]
fn a_worker_that_is_not_asked_for_is_removed_and_its_host_given_back() {
    let mut world = standing(1, 2);
    let leaving = world.host_of("edge-worker-2");
    ask(&mut world, sizes(1, 1));
    up_to_date(&mut world);
    assert_eq!(nodes(&world), ["edge-master-1", "edge-worker-1"]);
    assert_eq!(world.host(&leaving).claim, Claim::None);
    insta::assert_snapshot!(world.log.join("\n"), @r"
    Updating/Ready: CheckFacts[host-3]
    Updating/Ready: RecordPlannedRun[RemoveNodes edge-worker-2]
    Updating/Ready: CheckFacts[host-3]
    Updating/Ready: RecordRunIntent[RemoveNodes edge-worker-2]
    Updating/Ready: StartInstall[RemoveNodes edge-worker-2]
    Updating/Ready: 
    Updating/Ready: RecordPlan[edge-master-1=host-1 edge-worker-1=host-2]
    Updating/Ready: ReleaseHosts[host-3]
    Ready/Ready: 
    ");
    let order = last_order(&world);
    let inventory: Vec<&str> = order.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(inventory, ["edge-master-1", "edge-worker-1", "edge-worker-2"], "who leaves is still in the inventory");
    // Its number is never used again.
    ask(&mut world, sizes(1, 2));
    up_to_date(&mut world);
    assert_eq!(nodes(&world), ["edge-master-1", "edge-worker-1", "edge-worker-3"]);
}

#[test]
fn a_leaving_host_that_does_not_answer_waits_for_a_person() {
    let mut world = standing(1, 2);
    world.silent.insert(world.host_of("edge-worker-2"));
    ask(&mut world, sizes(1, 1));
    let decision = world.settle();
    let (reason, message) = told(&decision, "UpToDate");
    assert!(reason == "WaitingForApproval" && message.contains("without an answer: edge-worker-2"), "{message}");
    assert!(message.contains(&format!("hagane.dev/approve-run={}", planned(&world).id)), "{message}");
    assert_eq!((world.started, planned(&world).lost.as_slice()), (1, &["edge-worker-2".to_owned()][..]));
    world.facts.approved = Some("another one".to_owned());
    world.settle();
    assert_eq!(world.started, 1, "another run was approved");
    world.facts.approved = Some(planned(&world).id.clone());
    up_to_date(&mut world);
    assert_eq!((nodes(&world).len(), last_order(&world).lost.as_slice()), (2, &["edge-worker-2".to_owned()][..]));
}

#[test]
fn a_node_whose_host_is_gone_is_replaced_once_a_person_approves() {
    let mut world = standing(1, 2);
    let gone = world.host_of("edge-worker-1");
    world.facts.hosts.retain(|host| host.facts.name != gone);
    let decision = world.settle();
    let (reason, message) = told(&decision, "UpToDate");
    assert!(
        reason == "WaitingForApproval" && message.contains(&format!("the host {gone} of edge-worker-1 is gone")),
        "{message}"
    );
    world.facts.approved = Some(planned(&world).id.clone());
    up_to_date(&mut world);
    assert_eq!(nodes(&world), ["edge-master-1", "edge-worker-2", "edge-worker-1"]);
    assert_ne!(world.host_of("edge-worker-1"), gone);
    assert_eq!(world.started, 3, "removed, then joined on another host");
}

#[test]
fn masters_join_before_workers_and_leave_only_with_approval() {
    let mut world = standing(1, 1);
    ask(&mut world, sizes(3, 2));
    up_to_date(&mut world);
    assert_eq!(nodes(&world), ["edge-master-1", "edge-master-2", "edge-master-3", "edge-worker-1", "edge-worker-2"]);
    let verbs: Vec<_> = world.orders.iter().map(|order| (order.verb.as_str(), order.concerned.join(" "))).collect();
    assert_eq!(
        verbs[1..],
        [("AddMasters", "edge-master-2 edge-master-3".to_owned()), ("AddWorkers", "edge-worker-2".to_owned()),]
    );
    let inventory: Vec<&str> = world.orders[1].nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(
        inventory,
        ["edge-master-1", "edge-master-2", "edge-master-3", "edge-worker-1"],
        "who joins later is not in it"
    );
    ask(&mut world, sizes(1, 2));
    assert_eq!(told(&world.settle(), "UpToDate").0, "WaitingForApproval");
    world.facts.approved = Some(planned(&world).id.clone());
    up_to_date(&mut world);
    assert_eq!(nodes(&world), ["edge-master-1", "edge-worker-1", "edge-worker-2"]);
}

#[test]
fn a_control_plane_that_lost_its_first_master_or_its_quorum_is_recovered() {
    for (gone, verb) in [(1, "RecoverControlPlane"), (3, "RemoveNodes")] {
        let mut world = standing(3, 1);
        let host = world.host_of(&format!("edge-master-{gone}"));
        world.facts.hosts.retain(|known| known.facts.name != host);
        assert_eq!(told(&world.settle(), "UpToDate").0, "WaitingForApproval");
        assert_eq!((planned(&world).verb.as_str(), planned(&world).needs_approval), (verb, true));
        world.facts.approved = Some(planned(&world).id.clone());
        up_to_date(&mut world);
        assert_eq!(nodes(&world).len(), 4);
    }
    let mut world = standing(1, 1);
    let host = world.host_of("edge-master-1");
    world.facts.hosts.retain(|known| known.facts.name != host);
    let decision = world.settle();
    let (reason, message) = told(&decision, "UpToDate");
    assert!(reason == "HostLost" && message.contains("no master is left"), "{message}");
}

#[test]
fn a_newer_version_is_an_upgrade_and_what_joins_meanwhile_has_the_old_one() {
    let mut world = standing(1, 1);
    let mut asked = sizes(1, 2);
    asked["kubernetesVersion"] = json!("v1.36.3");
    ask(&mut world, asked);
    up_to_date(&mut world);
    let seen: Vec<_> = world.orders[1..]
        .iter()
        .map(|order| {
            (
                order.verb.as_str(),
                order.variables["kube_version"].as_str().unwrap_or_default(),
                order.version.as_deref(),
            )
        })
        .collect();
    assert_eq!(seen, [("AddWorkers", "1.36.1", None), ("Upgrade", "1.36.3", Some("1.36.3"))]);
    assert_eq!(cluster(&world).kubernetes_version.as_deref(), Some("1.36.3"));
}

#[test]
fn changed_variables_and_asked_certificates_are_runs_of_their_own() {
    let mut world = standing(1, 1);
    let mut asked = sizes(1, 1);
    asked["variables"] = json!({"kube_proxy_mode": "iptables"});
    ask(&mut world, asked);
    up_to_date(&mut world);
    world.facts.renew = Some("2026-12".to_owned());
    up_to_date(&mut world);
    let verbs: Vec<_> = world.orders[1..].iter().map(|order| order.verb.as_str()).collect();
    assert_eq!(verbs, ["Reconfigure", "RenewCertificates"]);
}

#[test]
fn a_removal_that_failed_is_finished_even_where_the_node_is_wanted_again() {
    let mut world = standing(1, 2);
    world.end = RunEnd::Failed { status: 2, task: None, message: String::new(), unreachable: false };
    ask(&mut world, sizes(1, 1));
    assert_eq!(told(&world.settle(), "UpToDate").0, "InstallFailed");
    assert_eq!(cluster(&world).unfinished, ["edge-worker-2"]);
    world.end = RunEnd::Succeeded;
    ask(&mut world, sizes(1, 2));
    up_to_date(&mut world);
    let verbs: Vec<_> = world.orders[2..].iter().map(|order| order.verb.as_str()).collect();
    assert_eq!((verbs, nodes(&world).len()), (vec!["RemoveNodes", "AddWorkers"], 3));
    assert!(cluster(&world).unfinished.is_empty());
}

#[test]
fn deletion_resets_the_hosts_where_the_policy_asks_for_it() {
    let asked = |policy: &str| {
        let mut asked = sizes(1, 1);
        asked["deletionPolicy"] = json!(policy);
        asked
    };
    for (policy, resets) in [("Reset", 1), ("Keep", 0)] {
        let mut world = standing(1, 1);
        world.facts.spec = Ok(spec(asked(policy)));
        world.facts.deleting = true;
        world.settle();
        assert!(!world.facts.finalizer && world.is_clean(), "{:#?}", world.log);
        let seen = world.orders.iter().filter(|order| order.verb.as_str() == "Reset").count();
        assert_eq!(seen, resets, "{policy}");
    }
    // One that fails is told, and a person chooses.
    let mut world = standing(1, 1);
    world.facts.spec = Ok(spec(asked("Reset")));
    world.facts.deleting = true;
    world.end = RunEnd::TimedOut;
    let decision = world.settle();
    assert_eq!((told(&decision, "Ready").0, world.facts.finalizer), ("ResetFailed", true));
    world.facts.spec = Ok(spec(asked("Keep")));
    world.settle();
    assert!(!world.facts.finalizer && world.is_clean(), "{:#?}", world.log);
}

/// One situation for each reason that only a change of a standing cluster gives.
pub(super) fn situations() -> Vec<super::super::Facts> {
    let mut found = Vec::new();
    let mut asked_for = |mut world: World, asked: Value, passes: usize| {
        ask(&mut world, asked);
        for _ in 0..passes {
            world.pass(None);
        }
        // An answer of the last pass: what is asked again is not stored.
        world.facts.checks = None;
        found.push(world.facts.clone());
    };
    let mut version = sizes(1, 2);
    version["kubernetesVersion"] = json!("1.40.0");
    asked_for(standing(1, 2), version, 0);
    let mut other = sizes(1, 2);
    other["PodSubnet"] = json!("10.9.0.0/16");
    asked_for(standing(1, 2), other, 0);
    let mut renewing = standing(1, 2);
    renewing.facts.renew = Some("now".to_owned());
    let checks = |world: &World| {
        let answer = |host: &super::super::Host| super::super::HostCheck {
            host: host.facts.name.clone(),
            result: super::super::HostCheckResult::Answered { cpus: None, memory: None },
        };
        Some(world.facts.hosts.iter().map(answer).collect())
    };
    renewing.facts.checks = checks(&renewing);
    found.push(renewing.facts.clone());
    let mut gone = standing(1, 2);
    let host = gone.host_of("edge-worker-1");
    gone.facts.hosts.retain(|known| known.facts.name != host);
    gone.settle();
    gone.facts.checks = checks(&gone);
    found.push(gone.facts.clone());
    let mut lost = standing(1, 1);
    let host = lost.host_of("edge-master-1");
    lost.facts.hosts.retain(|known| known.facts.name != host);
    found.push(lost.facts);
    for end in [RunEnd::Succeeded, RunEnd::TimedOut] {
        let mut deleting = standing(1, 1);
        let mut asked = sizes(1, 1);
        asked["deletionPolicy"] = json!("Reset");
        deleting.facts.spec = Ok(spec(asked));
        deleting.facts.deleting = true;
        if end == RunEnd::TimedOut {
            deleting.end = end;
            deleting.settle();
        }
        found.push(deleting.facts);
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is asked for one after the other, and wherever it crashes or fails: runs follow one another, the first
    /// master stays, and in the end what stands is what is asked for.
    #[test]
    fn any_way_ends_at_what_is_asked_for(
        edits in prop::collection::vec((0..3_usize, 0..4_i64, 0..12_usize, prop::option::of(0..3_usize), 0..4_u8), 1..8),
    ) {
        let mut world = standing(1, 1);
        for (masters, workers, passes, crash, end) in edits {
            let workers = workers.max(1);
            let masters = [1, 3, 5][masters.min(1)];
            world.end = match end {
                0 => RunEnd::TimedOut,
                1 => RunEnd::Lost,
                _ => RunEnd::Succeeded,
            };
            ask(&mut world, sizes(masters, workers));
            for _ in 0..passes {
                world.pass(crash);
                prop_assert_eq!(nodes(&world)[0], "edge-master-1");
                if let Some(planned) = &world.facts.planned {
                    world.facts.approved = Some(planned.id.clone());
                }
            }
        }
        world.end = RunEnd::Succeeded;
        ask(&mut world, sizes(3, 2));
        for _ in 0..6 {
            world.settle();
            world.facts.approved = world.facts.planned.as_ref().map(|planned| planned.id.clone());
        }
        up_to_date(&mut world);
        prop_assert_eq!(nodes(&world).len(), 5, "{:#?}", world.log);
        prop_assert_eq!(world.facts.hosts.iter().filter(|host| host.claim == Claim::Ours).count(), 5);
        prop_assert!(cluster(&world).unfinished.is_empty());
    }
}
