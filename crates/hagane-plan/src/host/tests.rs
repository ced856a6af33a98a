//! Facts of hosts as objects give them, and the thin controller's words.

use std::collections::{BTreeMap, BTreeSet};

use hagane_api::condition::ConditionStatus;
use hagane_api::field::FieldError;
use hagane_api::keys::{HARDWARE_DETAILS_ANNOTATION, HOST_PAUSED_ANNOTATION, HOST_UNHEALTHY_ANNOTATIONS};
use hagane_api::metal3::reasons::{HostReason, HostWait};
use hagane_api::metal3::{BareMetalHostSpec, BareMetalHostStatus, HardwareDetails};
use hagane_api::quantity::{ByteSize, MemoryMib, MilliCpus};
use serde_json::{Value, json};

use super::*;
use crate::decision::Next;
use crate::roles::{Availability, HostFacts};

struct Object {
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    deleting: bool,
    spec: BareMetalHostSpec,
    status: Option<BareMetalHostStatus>,
}

fn object(hardware: &Value) -> Object {
    Object {
        labels: BTreeMap::new(),
        annotations: BTreeMap::from([(HARDWARE_DETAILS_ANNOTATION.to_owned(), hardware.to_string())]),
        deleting: false,
        spec: BareMetalHostSpec::default(),
        status: None,
    }
}

fn read(object: &Object) -> HostFacts {
    host_facts(&HostInput {
        name: "h",
        labels: &object.labels,
        annotations: &object.annotations,
        deleting: object.deleting,
        spec: &object.spec,
        status: object.status.as_ref(),
    })
}

#[test]
fn zero_and_empty_are_unknown() {
    let facts =
        read(&object(&json!({"ramMebibytes": 0, "cpu": {"count": 0, "arch": ""}, "storage": [{"sizeBytes": 0}]})));
    assert_eq!((facts.cpus, facts.memory, facts.disk, facts.architecture), (None, None, None, None));
    assert_eq!((facts.nics, facts.sriov, facts.available), (None, None, Availability::Free));
    let facts = read(&object(&json!({"ramMebibytes": -1, "nics": []})));
    assert_eq!((facts.memory, facts.nics), (None, Some(Vec::new())));
}

#[test]
fn reads_amounts_and_the_largest_disk() {
    let hardware = json!({
        "ramMebibytes": 4096, "cpu": {"count": 4, "arch": "x86_64"}, "storage": [{"sizeBytes": 5}, {"sizeBytes": 9}, {}],
    });
    let facts = read(&object(&hardware));
    assert_eq!(
        (facts.cpus, facts.memory, facts.disk),
        (Some(MilliCpus(4000)), Some(MemoryMib(4096)), Some(ByteSize(9)))
    );
    assert_eq!(facts.architecture.as_deref(), Some("amd64"));
}

#[test]
fn a_nic_without_an_address_of_its_own_matches_nothing() {
    let hardware = json!({"nics": [
        {"mac": "", "ip": ""}, {"mac": "52:54:00:AA:BB:0B", "ip": "192.0.2.21"}, {"mac": "ff:ff:ff:ff:ff:ff"}, {"ip": "192.0.2.9"},
    ]});
    let facts = read(&object(&hardware));
    let mac = "52:54:00:aa:bb:0b".parse().expect("a MAC address");
    assert_eq!(facts.nics.as_ref().map(Vec::len), Some(1));
    assert!(facts.has_mac(mac));
    assert_eq!(facts.address(Some(mac), None).map(|found| found.address.to_string()).as_deref(), Some("192.0.2.21"));
}

#[test]
fn a_nic_that_is_listed_twice_is_one_with_its_ipv4_address() {
    let hardware = json!({"nics": [
        {"mac": "52:54:00:00:00:01", "ip": "fe80::1%eth0"}, {"mac": "52-54-00-00-00-01", "ip": "2001:db8::1"},
        {"mac": "52:54:00:00:00:01", "ip": "192.0.2.1/24"}, {"mac": "52:54:00:00:00:02", "ip": "192.0.2.2"},
    ]});
    let mut object = object(&hardware);
    object.spec.boot_mac_address = Some("52:54:00:00:00:02".to_owned());
    let facts = read(&object);
    assert_eq!(facts.nics.as_ref().map(Vec::len), Some(2));
    assert_eq!(
        facts.address(None, None).map(|found| found.address.to_string()).as_deref(),
        Some("192.0.2.2"),
        "the boot NIC's"
    );
    let first = "52:54:00:00:00:01".parse().expect("a MAC address");
    assert_eq!(facts.address(Some(first), None).map(|found| found.address.to_string()).as_deref(), Some("192.0.2.1"));
}

#[test]
fn the_address_is_that_of_the_boot_nic_else_the_one_in_the_subnet() {
    let hardware = json!({"nics": [
        {"mac": "52:54:00:00:00:01", "ip": "192.0.2.1"}, {"mac": "52:54:00:00:00:02", "ip": "198.51.100.2"},
    ]});
    let mut object = object(&hardware);
    object.spec.boot_mac_address = None;
    let told = |object: &_, subnet: Option<&str>| {
        let subnet = subnet.map(|subnet| subnet.parse().expect("a subnet"));
        read(object).address(None, subnet).map(|found| (found.address.to_string(), found.reason))
    };
    let of = |address: &str, reason: &str| Some((address.to_owned(), reason.to_owned()));
    assert_eq!(told(&object, None), of("192.0.2.1", "of NIC 52:54:00:00:00:01, the first with an address"));
    let in_subnet = "of NIC 52:54:00:00:00:02, in spec.nodeSubnet 198.51.100.0/24";
    assert_eq!(told(&object, Some("198.51.100.0/24")), of("198.51.100.2", in_subnet));
    assert_eq!(told(&object, Some("203.0.113.0/24")), None);
    object.spec.boot_mac_address = Some("52:54:00:00:00:01".to_owned());
    let boots = "of the NIC that it boots from, 52:54:00:00:00:01";
    assert_eq!(told(&object, Some("198.51.100.0/24")), of("192.0.2.1", boots));
}

#[test]
fn features_come_from_labels_or_known_devices() {
    let mut object = object(&json!({"nics": [{"model": "0x8086 0x1572"}, {"model": "8086:37c8"}]}));
    let facts = read(&object);
    assert_eq!((facts.sriov, facts.qat, facts.gpu), (Some(true), Some(true), None));
    for (key, value) in [("sriov", "false"), ("gpu", "true"), ("qat", "maybe")] {
        object.labels.insert(format!("hagane.dev/feature.{key}"), value.to_owned());
    }
    let facts = read(&object);
    assert_eq!((facts.sriov, facts.qat, facts.gpu), (Some(false), Some(true), Some(true)));
}

#[test]
fn facts_come_from_status_where_the_annotation_gives_none() {
    let hardware = HardwareDetails { ram_mebibytes: Some(1), ..HardwareDetails::default() };
    let status = BareMetalHostStatus { hardware: Some(hardware), ..BareMetalHostStatus::default() };
    let mut object = Object { status: Some(status), ..object(&json!({"ramMebibytes": 2})) };
    assert_eq!(read(&object).memory, Some(MemoryMib(2)));
    object.annotations.insert(HARDWARE_DETAILS_ANNOTATION.to_owned(), "{".to_owned());
    assert_eq!(read(&object).memory, Some(MemoryMib(1)));
    object.labels.insert("topology.kubernetes.io/zone".to_owned(), "z".to_owned());
    assert_eq!(read(&object).failure_domain.as_deref(), Some("z"));
}

#[test]
fn says_why_a_host_cannot_be_chosen() {
    let reason = |change: fn(&mut Object)| {
        let mut object = object(&json!({}));
        object.status = Some(BareMetalHostStatus::default());
        change(&mut object);
        match read(&object).available {
            Availability::Free => "free".to_owned(),
            Availability::ClaimedBy(who) => format!("claimed by {who}"),
            Availability::Unhealthy(why) => format!("unhealthy: {why}"),
            Availability::NotReady(why) => why,
        }
    };
    assert_eq!(reason(|_| {}), "free");
    assert_eq!(reason(|object| object.deleting = true), "it is being deleted");
    assert_eq!(
        reason(|object| {
            object.annotations.insert(HOST_PAUSED_ANNOTATION.to_owned(), String::new());
        }),
        "it is paused"
    );
    let unhealthy = |object: &mut Object| {
        object.annotations.insert(HOST_UNHEALTHY_ANNOTATIONS[0].to_owned(), String::new());
    };
    assert_eq!(reason(unhealthy), "unhealthy: annotation capm3.metal3.io/unhealthy");
    let claimed = |object: &mut Object| {
        let consumer = json!({"kind": "Provisioning", "namespace": "lab", "name": "p1"});
        object.spec.consumer_ref = serde_json::from_value(consumer).ok();
    };
    assert_eq!(reason(claimed), "claimed by Provisioning lab/p1");
    let state = |object: &mut Object| {
        if let Some(status) = &mut object.status {
            status.provisioning.state = "inspecting".to_owned();
        }
    };
    assert_eq!(reason(state), "its state is \"inspecting\"");
    let error = |object: &mut Object| {
        if let Some(status) = &mut object.status {
            status.error_message = "no power".to_owned();
        }
    };
    assert_eq!(reason(error), "no power");
}

#[test]
fn the_second_host_of_a_boot_mac_is_never_chosen() {
    let host =
        |name: &str, mac: &str| HostFacts { name: name.to_owned(), boot_mac: mac.parse().ok(), ..HostFacts::default() };
    let mut hosts =
        [host("h-a", "52:54:00:AA:BB:01"), host("h-b", "52-54-00-aa-bb-01"), host("h-j", ""), host("h-k", "")];
    mark_duplicate_macs(&mut hosts);
    let expected = "its boot MAC address 52:54:00:aa:bb:01 is that of host h-a";
    assert_eq!(hosts[1].available, Availability::NotReady(expected.to_owned()));
    assert!([0, 2, 3].iter().all(|index| hosts[*index].available == Availability::Free));
}

fn facts() -> Facts {
    let hardware = HardwareDetails { ram_mebibytes: Some(1), ..HardwareDetails::default() };
    Facts {
        deleting: false,
        paused: false,
        foreign: None,
        errors: Vec::new(),
        annotation: Annotation::Read(Box::new(hardware.clone())),
        recorded: Some(hardware),
        externally_provisioned: true,
        consumer: None,
        unhealthy: None,
        duplicate_of: None,
        same_bmc_as: None,
    }
}

fn status(facts: &Facts) -> Draft {
    decide(facts).status.expect("the host is ours")
}

#[test]
fn copies_the_facts_once() {
    assert_eq!(decide(&facts()).actions, []);
    let decision = decide(&Facts { recorded: None, ..facts() });
    assert!(matches!(&decision.actions[..], [Action::RecordHardware(hardware)] if hardware.ram_mebibytes == Some(1)));
    assert_eq!(decide(&Facts { recorded: None, paused: true, ..facts() }).actions, []);
}

#[test]
fn a_known_host_is_available() {
    let draft = status(&facts());
    assert_eq!((draft.state, draft.operational_status, draft.error_type), ("externally provisioned", "OK", None));
    assert!(draft.conditions.iter().all(|condition| condition.status == ConditionStatus::True));
    let draft = status(&Facts { consumer: Some("Provisioning lab/p1".to_owned()), ..facts() });
    let statuses: Vec<ConditionStatus> = draft.conditions.iter().map(|condition| condition.status).collect();
    assert_eq!(statuses, [ConditionStatus::True, ConditionStatus::False, ConditionStatus::True]);
    assert_eq!(draft.conditions[0].message, "Provisioning lab/p1 uses it");
}

#[test]
fn a_broken_annotation_keeps_the_old_facts_and_says_what_is_wrong() {
    let decision = decide(&Facts { annotation: Annotation::Broken("expected value".to_owned()), ..facts() });
    let draft = decision.status.expect("the host is ours");
    assert_eq!((draft.operational_status, draft.error_type), ("error", Some("inspection error")));
    assert!(draft.error_message.contains("hardwaredetails cannot be used: expected value"), "{}", draft.error_message);
    assert!(decision.actions.is_empty());
}

#[test]
fn another_operators_host_is_left_alone() {
    let decision = decide(&Facts { foreign: Some("finalizer".to_owned()), recorded: None, ..facts() });
    assert_eq!((decision.actions.len(), decision.status), (0, None));
}

#[test]
fn every_reason_and_every_wait_is_given_by_something() {
    let who = || Some("x".to_owned());
    let cases = [
        facts(),
        Facts { annotation: Annotation::Absent, recorded: None, ..facts() },
        Facts { annotation: Annotation::Broken("x".to_owned()), ..facts() },
        Facts { errors: vec![FieldError::required("spec", "")], ..facts() },
        Facts { duplicate_of: who(), ..facts() },
        Facts { same_bmc_as: who(), ..facts() },
        Facts { consumer: who(), ..facts() },
        Facts { unhealthy: who(), ..facts() },
        Facts { paused: true, ..facts() },
        Facts { externally_provisioned: false, ..facts() },
        Facts { deleting: true, consumer: who(), ..facts() },
    ];
    let given: BTreeSet<&str> =
        cases.iter().flat_map(|facts| status(facts).conditions).map(|condition| condition.reason).collect();
    assert_eq!(given, HostReason::ALL.iter().map(|reason| reason.as_str()).collect());
    let waits = cases.iter().filter_map(|facts| match decide(facts).next {
        Next::After(_, wait) => Some(wait),
        _ => None,
    });
    assert_eq!(waits.collect::<BTreeSet<_>>(), HostWait::ALL.iter().copied().collect());
}

#[test]
fn facts_that_cannot_be_are_told_and_not_recorded() {
    let hardware = HardwareDetails { ram_mebibytes: Some(-1), ..HardwareDetails::default() };
    let told = "ramMebibytes: Invalid value: -1: must not be negative".to_owned();
    assert_eq!(Annotation::checked(hardware), Annotation::Broken(told));
    let sound = HardwareDetails { ram_mebibytes: Some(0), ..HardwareDetails::default() };
    assert_eq!(Annotation::checked(sound.clone()), Annotation::Read(Box::new(sound)));
}
