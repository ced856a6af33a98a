//! Years of a cluster in which hosts vanish and fall silent, runs fail, processes die and people change their minds.

use std::collections::BTreeSet;

use hagane_api::bpa::reasons::RunVerb;
use proptest::prelude::*;
use serde_json::json;

use super::super::{Claim, InstallOrder, RunEnd};
use super::world::{World, facts, host, spec};

const FIRST: &str = "edge-master-1";

#[derive(Clone, Debug)]
enum Event {
    /// Other numbers of masters and workers are asked for.
    Ask(i64, i64),
    /// The host object of a node is deleted; never the first master's.
    Delete(usize),
    /// A host does not answer any more.
    Silence(usize),
    /// All hosts answer again.
    Answer,
}

/// An event, the passes after it, how its runs end, where the process dies, whether a person approves.
type Day = (Event, usize, u8, Option<usize>, bool);

fn days() -> impl Strategy<Value = Vec<Day>> {
    let event = prop_oneof![
        3 => (0..3_i64, 1..4_i64).prop_map(|(masters, workers)| Event::Ask([1, 3, 3][usize::try_from(masters).unwrap_or(0)], workers)),
        2 => (0..8_usize).prop_map(Event::Delete),
        2 => (0..8_usize).prop_map(Event::Silence),
        1 => Just(Event::Answer),
    ];
    prop::collection::vec((event, 0..14_usize, 0..4_u8, prop::option::of(0..3_usize), any::<bool>()), 1..8)
}

fn ask(world: &mut World, masters: i64, workers: i64) {
    world.facts.generation += 1;
    world.facts.spec = Ok(spec(json!({
        "master": {"cpu": 2, "memory": "4Gi", "replicas": masters},
        "worker": {"cpu": 4, "memory": "8Gi"}, "replicas": workers,
    })));
}

fn happen(world: &mut World, event: &Event, new_host: &mut u8) {
    let first = world.host_of(FIRST);
    let used = |world: &World, index: usize| {
        let mut hosts = world.facts.installed.iter().flat_map(|cluster| &cluster.nodes).map(|node| node.host.clone());
        hosts.nth(index).filter(|host| *host != first)
    };
    match event {
        Event::Ask(masters, workers) => ask(world, *masters, *workers),
        Event::Delete(index) => {
            if let Some(gone) = used(world, *index) {
                world.facts.hosts.retain(|known| known.facts.name != gone);
                *new_host += 1;
                world.facts.hosts.push(host(*new_host, 8, 16));
            }
        }
        Event::Silence(index) => world.silent.extend(used(world, *index)),
        Event::Answer => world.silent.clear(),
    }
}

fn approve(world: &mut World, approved: &mut BTreeSet<String>) {
    if let Some(planned) = &world.facts.planned {
        approved.insert(planned.id.clone());
        world.facts.approved = Some(planned.id.clone());
    }
}

/// Whether a run takes members of etcd out, or nodes that are not emptied first.
fn may_lose_data(order: &InstallOrder) -> bool {
    let is_master = |name: &String| name.contains("-master-");
    let leaves = matches!(order.verb, RunVerb::RemoveNodes | RunVerb::RecoverControlPlane);
    leaves && (order.concerned.iter().any(is_master) || !order.lost.is_empty())
}

fn holds(world: &World, approved: &BTreeSet<String>) -> Result<(), TestCaseError> {
    let cluster = world.facts.installed.as_ref().expect("a cluster stands, whatever happens");
    prop_assert_eq!(&cluster.nodes[0].node, FIRST, "the first master stays");
    let installs = world.orders.iter().filter(|order| order.verb == RunVerb::Install).count();
    prop_assert_eq!(installs, 1, "a cluster that stands is not installed once more");
    for order in &world.orders {
        prop_assert!(
            !order.concerned.iter().any(|node| node == FIRST) || order.verb == RunVerb::Install,
            "{:?}",
            order
        );
        let is_approved = approved.iter().any(|id| order.run.starts_with(id));
        prop_assert!(!may_lose_data(order) || is_approved, "nobody approved {:?}: {:#?}", order.run, world.log);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn end_at_what_is_asked_for_and_lose_nothing_unasked(days in days()) {
        let mut world = World::new(facts());
        world.facts.hosts = (1..=9).map(|number| host(number, 8, 16)).collect();
        ask(&mut world, 3, 2);
        world.settle();
        let (mut approved, mut new_host) = (BTreeSet::new(), 20);
        for (event, passes, end, crash, approves) in &days {
            world.end = match end {
                0 => RunEnd::TimedOut,
                1 => RunEnd::Lost,
                _ => RunEnd::Succeeded,
            };
            happen(&mut world, event, &mut new_host);
            for _ in 0..*passes {
                world.pass(*crash);
                if *approves {
                    approve(&mut world, &mut approved);
                }
                holds(&world, &approved)?;
            }
        }
        world.silent.clear();
        world.end = RunEnd::Succeeded;
        ask(&mut world, 3, 2);
        for _ in 0..8 {
            world.settle();
            approve(&mut world, &mut approved);
            holds(&world, &approved)?;
        }
        let cluster = world.facts.installed.clone().expect("a cluster stands");
        prop_assert_eq!(cluster.nodes.len(), 5, "{:#?}", world.log);
        prop_assert!(cluster.unfinished.is_empty() && world.facts.planned.is_none(), "{:#?}", world.log);
        prop_assert_eq!(world.facts.hosts.iter().filter(|host| host.claim == Claim::Ours).count(), 5);
        prop_assert!(world.pass(None).actions.is_empty(), "a settled world stays silent");
    }
}
