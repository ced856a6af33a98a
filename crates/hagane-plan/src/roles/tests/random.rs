//! Random small cases: the planner agrees with brute force in every host.

use std::collections::{BTreeMap, BTreeSet};

use hagane_api::mac::MacAddress;
use hagane_api::quantity::{ByteSize, GIB, MemoryMib, MilliCpus};
use proptest::prelude::*;

use super::super::{
    Assignment, Availability, Demand, Edit, HostFacts, Needs, Nic, NodeRole, Plan, Recorded, Unsatisfied, plan_roles,
};
use super::brute;

/// What few hosts and few demands have, by number: MAC addresses, labels, disks.
fn rare_host(kind: u8, number: u8) -> HostFacts {
    let mut host = HostFacts::default();
    let yes = number.is_multiple_of(2);
    match kind {
        0 => host.disk = Some(ByteSize(u64::from(number) * GIB)),
        1 => host.nics = Some((0..number % 3).map(|nic| Nic { mac: mac(nic), address: None }).collect()),
        2 => host.gpu = Some(yes),
        3 => host.qat = Some(yes),
        4 => host.architecture = Some(if yes { "amd64" } else { "arm64" }.to_owned()),
        5 => drop(host.labels.insert("row".to_owned(), if yes { "1" } else { "2" }.to_owned())),
        6 => host.boot_mac = Some(mac(number % 3)),
        _ => {}
    }
    host
}

fn rare_need(kind: u8, number: u8) -> Needs {
    let mut needs = Needs::default();
    let yes = number.is_multiple_of(2);
    match kind {
        0 => needs.disk = ByteSize(u64::from(number % 3) * GIB),
        1 => needs.nic_count = u32::from(number % 3),
        2 => needs.gpu = yes,
        3 => needs.qat = yes,
        4 => needs.architecture = Some(if yes { "amd64" } else { "arm64" }.to_owned()),
        5 => drop(needs.labels.insert("row".to_owned(), if yes { "1" } else { "2" }.to_owned())),
        6 => needs.mac = Some(mac(number % 3)),
        7 => needs.failure_domain = Some(format!("rack-{}", number % 4)),
        8 => needs.host_name = Some(format!("host-{}", number % 3)),
        _ => {}
    }
    needs
}

fn mac(number: u8) -> MacAddress {
    format!("52:54:00:00:00:0{number}").parse().expect("a MAC address")
}

fn host() -> impl Strategy<Value = HostFacts> {
    let domain = prop_oneof![1 => Just(None), 6 => (0..4_u8).prop_map(|rack| Some(format!("rack-{rack}")))];
    let unknown = |amount: u64| (amount > 0).then_some(amount);
    let rare = (0..9_u8, 0..4_u8).prop_map(|(kind, number)| rare_host(kind, number));
    (0..5_u64, 0..5_u64, domain, prop::option::weighted(0.8, any::<bool>()), 0..12_u8, rare).prop_map(
        move |(memory, cpus, failure_domain, sriov, state, rare)| HostFacts {
            memory: unknown(memory).map(|gib| MemoryMib(gib * 1024)),
            cpus: unknown(cpus).map(|cpus| MilliCpus(cpus * 1000)),
            failure_domain,
            sriov,
            available: match state {
                0 => Availability::ClaimedBy("lab/other".to_owned()),
                1 => Availability::NotReady("no address is known".to_owned()),
                _ => Availability::Free,
            },
            ..rare
        },
    )
}

fn demand(spread: u8) -> impl Strategy<Value = Demand> {
    // Most ask for amounts alone, so that hosts fit several.
    let rare = (0..30_u8, 0..4_u8).prop_map(|(kind, number)| rare_need(kind, number));
    (0..4_u64, 0..4_u64, 0..8_u8, 0..10_u8, rare).prop_map(move |(memory, cpus, sriov, role, rare)| Demand {
        node: String::new(),
        roles: match role {
            role if role >= spread => vec![NodeRole::Worker],
            role if role.is_multiple_of(2) => vec![NodeRole::Master, NodeRole::Worker],
            _ => vec![NodeRole::Master],
        },
        needs: Needs { memory: ByteSize(memory * GIB), cpu: MilliCpus(cpus * 1000), sriov: sriov == 0, ..rare },
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
    let recorded = prop::option::weighted(0.25, (0..4_usize, 0..4_usize));
    (hosts, shapes, picks, recorded).prop_map(|(mut hosts, shapes, picks, recorded)| {
        for (index, host) in hosts.iter_mut().enumerate() {
            host.name = format!("host-{index}");
        }
        let mut demands: Vec<Demand> = picks.iter().map(|pick| pick.get(&shapes).clone()).collect();
        for (index, demand) in demands.iter_mut().enumerate() {
            demand.node = format!("node-{index}");
        }
        // Up to two nodes stand already, some on hosts that are taken, unfit or gone.
        let hosts_of = recorded.into_iter().flat_map(|(first, second)| [(0, first), (1, first + 1 + second)]);
        let stands = |(node, host): (usize, usize)| {
            let Demand { node, roles, .. } = demands.get(node)?;
            Some(Recorded { node: node.clone(), roles: roles.clone(), host: format!("host-{host}") })
        };
        let recorded = hosts_of.filter_map(stands).collect();
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
    let usable = |host: &&HostFacts| host.available == Availability::Free;
    let free = hosts.iter().filter(usable).filter(|host| plan.rejected.iter().any(|entry| entry.host == host.name));
    prop_assert_eq!(plan.spare.hosts, free.count());
    Ok(())
}

fn lost(hosts: &[HostFacts], recorded: &[Recorded]) -> usize {
    recorded.iter().filter(|entry| !hosts.iter().any(|host| host.name == entry.host)).count()
}

/// The same input in another order is the same plan.
fn order_does_not_matter(
    hosts: &[HostFacts],
    demands: &[Demand],
    recorded: &[Recorded],
    turn: usize,
) -> Result<(), TestCaseError> {
    let plan = plan_roles(hosts, demands, recorded);
    let mut turned = hosts.to_vec();
    turned.reverse();
    turned.rotate_left(turn % hosts.len().max(1));
    prop_assert_eq!(&plan_roles(&turned, demands, recorded), &plan);
    // The listed order of demands decides who is met first and who gets the smaller host; not how many, nor which sizes.
    let mut others = demands.to_vec();
    others.reverse();
    let other = plan_roles(hosts, &others, recorded);
    prop_assert_eq!(other.unsatisfied.len(), plan.unsatisfied.len());
    if plan.is_complete() {
        let used = |plan: &Plan| plan.assignments.iter().map(|entry| entry.host.clone()).collect::<BTreeSet<_>>();
        let spread = |plan: &Plan| domains(hosts, plan);
        prop_assert_eq!(spread(&other), spread(&plan));
        if !demands.iter().any(Demand::is_master) {
            prop_assert_eq!(used(&other), used(&plan));
        }
    }
    Ok(())
}

/// How many failure domains masters stand in.
fn domains(hosts: &[HostFacts], plan: &Plan) -> usize {
    let masters = plan.assignments.iter().filter(|entry| entry.roles.contains(&NodeRole::Master));
    let known = masters.filter_map(|entry| hosts.iter().find(|host| host.name == entry.host));
    known.map(|host| &host.failure_domain).collect::<BTreeSet<_>>().len()
}

/// Who has a host keeps it, whatever is asked for beside.
fn stays(hosts: &[HostFacts], demands: &[Demand], first: usize) -> Result<(), TestCaseError> {
    let (early, _) = demands.split_at(first.min(demands.len()));
    let before = plan_roles(hosts, early, &[]);
    let as_recorded = |entry: &Assignment| Recorded {
        node: entry.node.clone(),
        roles: entry.roles.clone(),
        host: entry.host.clone(),
    };
    let recorded: Vec<Recorded> = before.assignments.iter().map(as_recorded).collect();
    let mut listed = demands.to_vec();
    listed.reverse();
    for demands in [demands, &listed] {
        let after = plan_roles(hosts, demands, &recorded);
        let pairs = |plan: &Plan| -> Vec<(String, String)> {
            let entries = plan.assignments.iter().take(recorded.len());
            entries.map(|entry| (entry.node.clone(), entry.host.clone())).collect()
        };
        prop_assert_eq!(pairs(&after), pairs(&before));
    }
    Ok(())
}

/// The change that is told first meets the first unmet demand, and all of them together meet all.
fn changes_work(hosts: &[HostFacts], demands: &[Demand], recorded: &[Recorded]) -> Result<(), TestCaseError> {
    let plan = plan_roles(hosts, demands, recorded);
    let (mut hosts, mut demands) = (hosts.to_vec(), demands.to_vec());
    for (number, unmet) in plan.unsatisfied.iter().enumerate() {
        match (&unmet.change.edit, &unmet.change.further) {
            (Some(edit), _) => apply(edit, &mut hosts, &mut demands),
            (None, Some(needs)) => hosts.push(further(unmet, needs, number, &demands)),
            (None, None) => {
                prop_assert!(unmet.change.taken.is_some(), "{:#?}", plan);
                return Ok(());
            }
        }
        if number == 0 {
            let next = plan_roles(&hosts, &demands, recorded);
            prop_assert!(
                next.unsatisfied.iter().all(|entry| entry.demand != unmet.demand),
                "{} {:#?}",
                unmet.change,
                next
            );
            prop_assert_eq!(next.unsatisfied.len(), plan.unsatisfied.len() - 1, "{} {:#?}", unmet.change, plan);
        }
    }
    let last = plan_roles(&hosts, &demands, recorded);
    prop_assert!(last.is_complete(), "{:#?}\n{:#?}", plan.unsatisfied, last.unsatisfied);
    Ok(())
}

/// Does what the steps say: what the host is known to lack is asked for no more, what it may have is told.
fn apply(edit: &Edit, hosts: &mut [HostFacts], demands: &mut [Demand]) {
    let host = hosts.iter_mut().find(|host| host.name == edit.host).expect("the host is there");
    let needs = &mut demands.iter_mut().find(|demand| demand.node == edit.node).expect("the node is there").needs;
    assert!(!edit.steps.is_empty(), "{edit:?}");
    host.available = Availability::Free;
    match host.cpus {
        Some(has) => needs.cpu = needs.cpu.min(has),
        None => host.cpus = Some(needs.cpu).filter(|cpu| cpu.0 > 0),
    }
    match host.memory {
        Some(has) => needs.memory = needs.memory.min(has.bytes()),
        None => host.memory = Some(MemoryMib(needs.memory.0 / (1 << 20))).filter(|memory| memory.0 > 0),
    }
    match host.disk {
        Some(has) => needs.disk = needs.disk.min(has),
        None => host.disk = Some(needs.disk).filter(|disk| disk.0 > 0),
    }
    needs.mac = needs.mac.filter(|mac| host.has_mac(*mac));
    match &host.nics {
        Some(has) => needs.nic_count = needs.nic_count.min(u32::try_from(has.len()).expect("few")),
        None if needs.nic_count > 0 => {
            let nics =
                (0..needs.nic_count).map(|number| Nic { mac: mac(u8::try_from(number).expect("few")), address: None });
            host.nics = Some(nics.collect());
        }
        None => {}
    }
    for (asked, has) in
        [(&mut needs.sriov, &mut host.sriov), (&mut needs.qat, &mut host.qat), (&mut needs.gpu, &mut host.gpu)]
    {
        match has {
            Some(has) => *asked &= *has,
            None => *has = asked.then_some(true),
        }
    }
    for (asked, has) in
        [(&mut needs.architecture, &mut host.architecture), (&mut needs.failure_domain, &mut host.failure_domain)]
    {
        match (&asked, &has) {
            (Some(_), Some(known)) => *asked = Some(known.clone()),
            (Some(name), None) => *has = Some(name.clone()),
            _ => {}
        }
    }
    host.labels.extend(needs.labels.clone());
    needs.host_name = needs.host_name.take().filter(|name| *name == host.name);
}

/// A host as it is told to be added.
fn further(unmet: &Unsatisfied, told: &str, number: usize, demands: &[Demand]) -> HostFacts {
    let needs = &demands.iter().find(|demand| demand.node == unmet.demand).expect("the node is there").needs;
    assert_eq!(told, needs.to_string());
    let nics = (0..needs.nic_count).map(|nic| Nic { mac: mac(u8::try_from(nic).expect("few")), address: None });
    HostFacts {
        name: needs.host_name.clone().unwrap_or_else(|| format!("further-{number}")),
        cpus: Some(needs.cpu),
        memory: Some(MemoryMib(needs.memory.0 / (1 << 20))),
        disk: Some(needs.disk),
        boot_mac: needs.mac,
        nics: Some(nics.collect()),
        labels: needs.labels.clone(),
        architecture: needs.architecture.clone(),
        failure_domain: needs.failure_domain.clone(),
        sriov: Some(true),
        qat: Some(true),
        gpu: Some(true),
        ..HostFacts::default()
    }
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

    #[test]
    fn is_stable_under_reordering((hosts, demands, recorded) in case(4, 8, 6), turn in 0..8_usize) {
        order_does_not_matter(&hosts, &demands, &recorded, turn)?;
    }

    #[test]
    fn adding_demands_moves_nobody((hosts, demands, _) in case(4, 8, 6), first in 0..6_usize) {
        stays(&hosts, &demands, first)?;
    }

    #[test]
    fn the_nearest_changes_meet_what_was_unmet((hosts, demands, recorded) in case(3, 6, 6)) {
        changes_work(&hosts, &demands, &recorded)?;
    }
}
