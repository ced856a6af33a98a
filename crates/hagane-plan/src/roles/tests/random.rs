//! Random small cases: the planner agrees with brute force in every host.

use std::collections::BTreeMap;

use hagane_api::quantity::{ByteSize, GIB, MemoryMib, MilliCpus};
use proptest::prelude::*;

use super::super::{Availability, Demand, HostFacts, Needs, NodeRole, Recorded, plan_roles};
use super::brute;

fn host() -> impl Strategy<Value = HostFacts> {
    let domain = prop_oneof![1 => Just(None), 6 => (0..4_u8).prop_map(|rack| Some(format!("rack-{rack}")))];
    let unknown = |amount: u64| (amount > 0).then_some(amount);
    (0..5_u64, 0..5_u64, domain, prop::option::weighted(0.8, any::<bool>()), 0..12_u8).prop_map(
        move |(memory, cpus, failure_domain, sriov, state)| HostFacts {
            memory: unknown(memory).map(|gib| MemoryMib(gib * 1024)),
            cpus: unknown(cpus).map(|cpus| MilliCpus(cpus * 1000)),
            failure_domain,
            sriov,
            available: if state == 0 { Availability::ClaimedBy("lab/other".to_owned()) } else { Availability::Free },
            ..HostFacts::default()
        },
    )
}

fn demand(spread: u8) -> impl Strategy<Value = Demand> {
    (0..4_u64, 0..4_u64, 0..8_u8, 0..10_u8, 0..6_u8).prop_map(move |(memory, cpus, sriov, role, pinned)| Demand {
        node: String::new(),
        roles: vec![if role < spread { NodeRole::Master } else { NodeRole::Worker }],
        needs: Needs {
            memory: ByteSize(memory * GIB),
            cpu: MilliCpus(cpus * 1000),
            sriov: sriov == 0,
            host_name: (pinned == 0).then(|| "host-1".to_owned()),
            ..Needs::default()
        },
    })
}

fn case(
    spread: u8,
    hosts: usize,
    demands: usize,
) -> impl Strategy<Value = (Vec<HostFacts>, Vec<Demand>, Vec<Recorded>)> {
    let hosts = prop::collection::vec(host(), 0..=hosts);
    // Few shapes, so that equal demands are common.
    let shapes = prop::collection::vec(demand(spread), 1..=3);
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 0..=demands);
    (hosts, shapes, picks, 0..6_u8).prop_map(|(mut hosts, shapes, picks, recorded)| {
        for (index, host) in hosts.iter_mut().enumerate() {
            host.name = format!("host-{index}");
        }
        let mut demands: Vec<Demand> = picks.iter().map(|pick| pick.get(&shapes).clone()).collect();
        for (index, demand) in demands.iter_mut().enumerate() {
            demand.node = format!("node-{index}");
        }
        let recorded = match demands.first() {
            Some(demand) if recorded == 0 => {
                vec![Recorded { node: demand.node.clone(), roles: demand.roles.clone(), host: "host-2".to_owned() }]
            }
            _ => Vec::new(),
        };
        (hosts, demands, recorded)
    })
}

/// Easy masters in few, unequal failure domains: the spread decides nearly everything.
fn crowded() -> impl Strategy<Value = (Vec<HostFacts>, Vec<Demand>, Vec<Recorded>)> {
    let hosts = prop::collection::vec((1..5_u64, 0..8_usize), 5..=7);
    let needs = prop::collection::vec(1..3_u64, 2);
    (hosts, needs, prop::collection::vec(any::<bool>(), 3..=5), 0..=1_usize).prop_map(
        |(hosts, needs, masters, workers)| {
            let racks = ["a", "a", "a", "a", "b", "b", "c", "d"];
            let host = |(number, (gib, rack)): (usize, &(u64, usize))| HostFacts {
                name: format!("host-{number}"),
                memory: Some(MemoryMib(gib * 1024)),
                failure_domain: racks.get(*rack).map(|rack| (*rack).to_owned()),
                ..HostFacts::default()
            };
            let demand = |number: usize, role: NodeRole, gib: u64| Demand {
                node: format!("node-{number}"),
                roles: vec![role],
                needs: Needs { memory: ByteSize(gib * GIB), ..Needs::default() },
            };
            let mut demands: Vec<Demand> = masters
                .iter()
                .enumerate()
                .map(|(number, other)| demand(number, NodeRole::Master, needs[usize::from(*other && workers == 0)]))
                .collect();
            demands.extend((0..workers).map(|_| demand(9, NodeRole::Worker, needs[1])));
            (hosts.iter().enumerate().map(host).collect(), demands, Vec::new())
        },
    )
}

fn agree(hosts: &[HostFacts], demands: &[Demand], recorded: &[Recorded]) -> Result<(), TestCaseError> {
    let plan = plan_roles(hosts, demands, recorded);
    let new = plan.assignments.iter().skip(recorded.len());
    let found: BTreeMap<String, String> = new.map(|entry| (entry.node.clone(), entry.host.clone())).collect();
    let right = brute::best(hosts, demands, recorded);
    prop_assert_eq!(&found, &right, "\nhosts {:#?}\ndemands {:#?}", hosts, demands);
    prop_assert_eq!(plan.unsatisfied.len() + right.len() + recorded.len(), demands.len());
    for entry in &plan.unsatisfied {
        let short = &entry.short;
        prop_assert_eq!(short.missing, short.demands.len() - short.hosts.len());
        prop_assert!(short.missing > 0 && short.demands.contains(&entry.demand));
    }
    prop_assert_eq!(plan.assignments.len() + plan.rejected.len(), hosts.len() + lost(hosts, recorded));
    prop_assert!(plan.rejected.iter().all(|entry| !entry.reasons.is_empty()));
    prop_assert!(plan.assignments.iter().all(|entry| !entry.reasons.is_empty()));
    Ok(())
}

fn lost(hosts: &[HostFacts], recorded: &[Recorded]) -> usize {
    recorded.iter().filter(|entry| !hosts.iter().any(|host| host.name == entry.host)).count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn agrees_with_brute_force_on_crowded_racks((hosts, demands, recorded) in crowded()) {
        agree(&hosts, &demands, &recorded)?;
    }

    #[test]
    fn agrees_with_brute_force_on_masters_and_workers((hosts, demands, recorded) in case(4, 6, 5)) {
        agree(&hosts, &demands, &recorded)?;
    }

    #[test]
    fn agrees_with_brute_force_on_masters_alone((hosts, demands, recorded) in case(10, 6, 5)) {
        agree(&hosts, &demands, &recorded)?;
    }

    #[test]
    fn agrees_with_brute_force_on_workers_alone((hosts, demands, recorded) in case(0, 6, 5)) {
        agree(&hosts, &demands, &recorded)?;
    }
}
