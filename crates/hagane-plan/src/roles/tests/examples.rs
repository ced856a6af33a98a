//! One behaviour each.

use std::collections::BTreeMap;

use hagane_api::quantity::{ByteSize, GIB, MemoryMib, MilliCpus};

use super::super::{Availability, Demand, HostFacts, Needs, Nic, NodeRole, Plan, Recorded, plan_roles};

fn host(name: &str, cpus: u64, gib: u64) -> HostFacts {
    HostFacts {
        name: name.to_owned(),
        cpus: Some(MilliCpus(cpus * 1000)),
        memory: Some(MemoryMib(gib * 1024)),
        ..HostFacts::default()
    }
}

fn in_rack(rack: &str, host: HostFacts) -> HostFacts {
    HostFacts { failure_domain: Some(rack.to_owned()), ..host }
}

fn needs(cpus: u64, gib: u64) -> Needs {
    Needs { cpu: MilliCpus(cpus * 1000), memory: ByteSize(gib * GIB), ..Needs::default() }
}

fn master(node: &str, needs: Needs) -> Demand {
    Demand { node: node.to_owned(), roles: vec![NodeRole::Master], needs }
}

fn worker(node: &str, needs: Needs) -> Demand {
    Demand { node: node.to_owned(), roles: vec![NodeRole::Worker], needs }
}

fn pairs(plan: &Plan) -> Vec<(&str, &str)> {
    plan.assignments.iter().map(|entry| (entry.node.as_str(), entry.host.as_str())).collect()
}

fn reasons_against<'a>(plan: &'a Plan, host: &str) -> Vec<&'a str> {
    let entry = plan.rejected.iter().find(|entry| entry.host == host);
    entry.map(|entry| entry.reasons.iter().map(String::as_str).collect()).unwrap_or_default()
}

#[test]
fn prints_the_documented_json() {
    let hosts = [host("small", 4, 8), host("tiny", 1, 1), host("big", 16, 64)];
    let demands = [worker("w", needs(2, 4)), master("m", needs(4, 8)), worker("huge", needs(64, 4))];
    let plan = plan_roles(&hosts, &demands, &[]);
    let json = serde_json::to_string_pretty(&plan).expect("a plan can be printed");
    insta::assert_snapshot!(json, @r#"
    {
      "assignments": [
        {
          "node": "m",
          "roles": [
            "master"
          ],
          "host": "small",
          "reasons": [
            "has 4 CPUs for 4, 8 GiB of memory for 8 GiB",
            "lowest-ranked host that fits"
          ]
        },
        {
          "node": "w",
          "roles": [
            "worker"
          ],
          "host": "big",
          "reasons": [
            "has 16 CPUs for 2, 64 GiB of memory for 4 GiB",
            "lowest-ranked host that fits, after 1 that serve other nodes",
            "to spare: 14 CPUs, 60 GiB of memory"
          ]
        }
      ],
      "rejected": [
        {
          "host": "tiny",
          "reasons": [
            "for m: 1 GiB of memory, 7 GiB short of 8 GiB",
            "for m: 1 CPUs, 3 short of 4"
          ]
        }
      ],
      "unsatisfied": [
        {
          "demand": "huge",
          "short": "1 host short: no free host fits huge; nearest is tiny: 1 GiB of memory, 3 GiB short of 4 GiB, 1 CPUs, 63 short of 64",
          "change": "ask huge for memory 1Gi, cpu 1, and host tiny will do for huge; or add a host with 64 CPUs, 4 GiB of memory"
        }
      ],
      "spare": {
        "hosts": 1,
        "cpu": "1",
        "memory": "1Gi",
        "disk": "0",
        "unknown": 1
      }
    }
    "#);
}

#[test]
fn leaves_big_hosts_free() {
    let hosts = [host("big", 64, 512), host("small", 4, 8), host("middle", 8, 16)];
    let plan = plan_roles(&hosts, &[worker("w", needs(4, 8)), master("m", needs(4, 8))], &[]);
    assert_eq!(pairs(&plan), [("m", "small"), ("w", "middle")]);
    assert_eq!(reasons_against(&plan, "big"), ["not needed: hosts of a lower rank serve the nodes it fits"]);
}

#[test]
fn leaves_the_rest_solvable() {
    let hosts = [host("a", 2, 8), host("b", 8, 8)];
    let plan = plan_roles(&hosts, &[master("m", needs(1, 1)), worker("w", needs(2, 8))], &[]);
    assert_eq!(pairs(&plan), [("m", "a"), ("w", "b")]);
    let plan = plan_roles(
        &hosts,
        &[master("m", needs(1, 1)), worker("w", Needs { host_name: Some("a".to_owned()), ..needs(2, 8) })],
        &[],
    );
    assert_eq!(pairs(&plan), [("m", "b"), ("w", "a")]);
}

#[test]
fn an_unknown_fact_is_not_zero_and_meets_no_demand() {
    let unknown = HostFacts { name: "unknown".to_owned(), ..HostFacts::default() };
    let plan = plan_roles(std::slice::from_ref(&unknown), &[worker("w", needs(1, 1))], &[]);
    let against = reasons_against(&plan, "unknown");
    assert_eq!(
        against,
        ["for w: amount of memory is unknown, 1 GiB needed", "for w: number of CPUs is unknown, 1 needed"]
    );
    let plan = plan_roles(&[unknown, host("known", 1, 1)], &[worker("w", Needs::default())], &[]);
    assert_eq!(pairs(&plan), [("w", "known")], "unknown hosts come last");
}

#[test]
fn recorded_assignments_stay_whatever_became_of_their_hosts() {
    let gone = Recorded { node: "m".to_owned(), roles: vec![NodeRole::Master], host: "gone".to_owned() };
    let sick = Recorded { node: "w".to_owned(), roles: vec![NodeRole::Worker], host: "sick".to_owned() };
    let unhealthy = HostFacts { available: Availability::Unhealthy("annotation x".to_owned()), ..host("sick", 1, 1) };
    let hosts = [unhealthy, host("better", 8, 8)];
    let demands = [master("m", needs(4, 4)), worker("w", needs(4, 4)), worker("new", needs(4, 4))];
    let plan = plan_roles(&hosts, &demands, &[gone, sick]);
    assert_eq!(pairs(&plan), [("m", "gone"), ("w", "sick"), ("new", "better")]);
    assert_eq!(plan.assignments[0].reasons, ["recorded before, and stays", "the host is gone"]);
    assert_eq!(plan.assignments[1].reasons[1], "the host is marked unhealthy: annotation x");
}

#[test]
fn masters_stand_in_as_many_racks_as_possible() {
    let hosts = [
        in_rack("a", host("a1", 4, 8)),
        in_rack("a", host("a2", 4, 8)),
        in_rack("a", host("a3", 4, 8)),
        in_rack("b", host("b1", 4, 9)),
        in_rack("c", host("c1", 4, 10)),
    ];
    let masters: Vec<Demand> = (1..=3).map(|number| master(&format!("m{number}"), needs(4, 8))).collect();
    let plan = plan_roles(&hosts, &masters, &[]);
    assert_eq!(pairs(&plan), [("m1", "a1"), ("m2", "b1"), ("m3", "c1")]);
    assert_eq!(plan.assignments[0].reasons[2], "failure domain \"a\": masters stand in 3");
    assert!(plan.assignments[1].reasons[1].contains("would put masters closer together"));
}

#[test]
fn no_rack_gets_more_masters_than_its_part() {
    let mut hosts: Vec<HostFacts> = (0..5).map(|number| in_rack("a", host(&format!("a{number}"), 1, 1))).collect();
    hosts.extend((0..2).map(|number| in_rack("b", host(&format!("b{number}"), 9, 9))));
    let masters: Vec<Demand> = (0..5).map(|number| master(&format!("m{number}"), needs(1, 1))).collect();
    let plan = plan_roles(&hosts, &masters, &[]);
    let in_b = plan.assignments.iter().filter(|entry| entry.host.starts_with('b')).count();
    assert_eq!(in_b, 2, "{:?}", pairs(&plan));
}

#[test]
fn masters_of_several_sizes_are_spread_too() {
    let hosts = [
        in_rack("a", host("a1", 2, 2)),
        in_rack("a", host("a2", 4, 4)),
        in_rack("b", host("b1", 2, 2)),
        in_rack("b", host("b2", 8, 8)),
        in_rack("c", host("c1", 16, 16)),
    ];
    let masters = [master("m1", needs(2, 2)), master("m2", needs(4, 4)), master("m3", needs(2, 1))];
    let plan = plan_roles(&hosts, &masters, &[]);
    // Three racks, and of all ways to use them the smallest hosts.
    assert_eq!(pairs(&plan), [("m1", "a1"), ("m2", "c1"), ("m3", "b1")]);
}

#[test]
fn says_which_nodes_compete_for_which_hosts() {
    let hosts = [host("a", 4, 8), host("b", 4, 8), host("c", 2, 4)];
    let demands =
        [master("m", needs(4, 8)), worker("w1", needs(4, 8)), worker("w2", needs(4, 8)), worker("w3", needs(1, 1))];
    let plan = plan_roles(&hosts, &demands, &[]);
    assert_eq!(pairs(&plan), [("m", "a"), ("w1", "b"), ("w3", "c")]);
    let [unmet] = &plan.unsatisfied[..] else { unreachable!("one demand is unmet: {:?}", plan.unsatisfied) };
    assert_eq!(
        unmet.short.to_string(),
        "1 host short: 2 of 3 nodes can be placed: m, w1, w2 fit only a, b; there is no other host"
    );
    assert_eq!((unmet.demand.as_str(), unmet.short.missing), ("w2", 1));
}

#[test]
fn masters_are_met_before_workers() {
    let plan = plan_roles(&[host("a", 4, 8)], &[worker("w", needs(1, 1)), master("m", needs(1, 1))], &[]);
    assert_eq!(pairs(&plan), [("m", "a")]);
    assert_eq!(plan.unsatisfied[0].demand, "w");
}

#[test]
fn a_claimed_host_is_named_with_its_user() {
    let claimed = HostFacts { available: Availability::ClaimedBy("Provisioning lab/p1".to_owned()), ..host("a", 4, 8) };
    let plan = plan_roles(&[claimed], &[master("m", needs(1, 1))], &[]);
    assert_eq!(reasons_against(&plan, "a"), ["is claimed by Provisioning lab/p1"]);
    let short = plan.unsatisfied[0].short.to_string();
    assert_eq!(short, "1 host short: no free host fits m; nearest is a: is claimed by Provisioning lab/p1");
}

#[test]
fn a_mac_address_names_its_host() {
    let mac = "52:54:00:aa:bb:01".parse().expect("a MAC address");
    let other = "52:54:00:aa:bb:02".parse().expect("a MAC address");
    let by_nic = HostFacts { nics: Some(vec![Nic { mac, address: None }]), ..host("by-nic", 8, 8) };
    let by_boot = HostFacts { boot_mac: Some(other), ..host("by-boot", 9, 9) };
    let wants = |mac| Needs { mac: Some(mac), ..Needs::default() };
    let demands = [
        master("m", wants(mac)),
        worker("w", wants(other)),
        worker("none", wants("52:54:00:aa:bb:03".parse().expect("a MAC address"))),
    ];
    let plan = plan_roles(&[host("small", 1, 1), by_boot, by_nic], &demands, &[]);
    assert_eq!(pairs(&plan), [("m", "by-nic"), ("w", "by-boot")]);
    assert!(plan.unsatisfied[0].short.to_string().contains("no NIC has the MAC address 52:54:00:aa:bb:03"));
}

#[test]
fn names_every_kind_of_lack() {
    let demand = Needs {
        cpu: MilliCpus(2500),
        memory: ByteSize(GIB),
        disk: ByteSize(10 * GIB),
        nic_count: 2,
        sriov: true,
        qat: true,
        gpu: true,
        architecture: Some("arm64".to_owned()),
        labels: BTreeMap::from([("zone".to_owned(), "x".to_owned())]),
        failure_domain: Some("rack-1".to_owned()),
        mac: Some("52:54:00:aa:bb:01".parse().expect("a MAC address")),
        host_name: Some("other".to_owned()),
    };
    let known = HostFacts {
        cpus: Some(MilliCpus(2000)),
        memory: Some(MemoryMib(512)),
        disk: Some(ByteSize(GIB)),
        nics: Some(Vec::new()),
        sriov: Some(false),
        qat: Some(false),
        gpu: Some(false),
        architecture: Some("amd64".to_owned()),
        labels: BTreeMap::from([("zone".to_owned(), "y".to_owned())]),
        failure_domain: Some("rack-2".to_owned()),
        ..host("known", 0, 0)
    };
    let unknown = HostFacts { name: "unknown".to_owned(), ..HostFacts::default() };
    let plan = plan_roles(&[known, unknown], &[worker("w", demand)], &[]);
    let text = |host: &str| reasons_against(&plan, host).join("\n");
    insta::assert_snapshot!(text("known"), @r#"
    for w: only host "other" is asked for
    for w: no NIC has the MAC address 52:54:00:aa:bb:01
    for w: 512 MiB of memory, 512 MiB short of 1 GiB
    for w: 2 CPUs, 500m short of 2500m
    for w: 1 GiB of disk, 9 GiB short of 10 GiB
    for w: 0 NICs of 2 needed
    for w: no sriov
    for w: no qat
    for w: no gpu
    for w: architecture is "amd64", not "arm64"
    for w: label zone is "y", not "x"
    for w: failure domain is "rack-2", not "rack-1"
    "#);
    insta::assert_snapshot!(text("unknown"), @r#"
    for w: only host "other" is asked for
    for w: no NIC has the MAC address 52:54:00:aa:bb:01
    for w: amount of memory is unknown, 1 GiB needed
    for w: number of CPUs is unknown, 2500m needed
    for w: size of the disks is unknown, 10 GiB needed
    for w: NICs are unknown, 2 needed
    for w: sriov is unknown
    for w: qat is unknown
    for w: gpu is unknown
    for w: architecture is unknown, "arm64" needed
    for w: label zone is not set, "x" needed
    for w: failure domain is unknown, "rack-1" needed
    "#);
}

#[test]
fn nothing_asked_is_nothing_planned() {
    let plan = plan_roles(&[host("a", 1, 1)], &[], &[]);
    assert_eq!((plan.assignments.len(), plan.is_complete()), (0, true));
    assert_eq!(reasons_against(&plan, "a"), ["not needed: no node is without a host"]);
    assert_eq!(plan_roles(&[], &[], &[]), Plan::default());
}
