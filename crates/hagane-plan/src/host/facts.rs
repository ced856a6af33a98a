//! From a `BareMetalHost` object to what the role planner knows of a host.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hagane_api::keys::{
    FEATURE_LABEL_PREFIX, HARDWARE_DETAILS_ANNOTATION, HOST_PAUSED_ANNOTATION, HOST_UNHEALTHY_ANNOTATIONS,
};
use hagane_api::mac::MacAddress;
use hagane_api::metal3::{BareMetalHostSpec, BareMetalHostStatus, ConsumerReference, HardwareDetails};
use hagane_api::quantity::{ByteSize, MemoryMib, MilliCpus};

use crate::roles::{Availability, HostFacts, Nic};

/// Labels that name a host's failure domain, the first one wins.
const FAILURE_DOMAIN_LABELS: [&str; 3] =
    ["hagane.dev/failure-domain", "infrastructure.cluster.x-k8s.io/failure-domain", "topology.kubernetes.io/zone"];
/// States in which a host can be chosen. Empty: nobody looked at it yet, as with objects from files.
const USABLE_STATES: [&str; 6] = ["", "unmanaged", "available", "ready", "externally provisioned", "provisioned"];
/// PCI ids (vendor and device) of NICs that can be shared by SR-IOV.
const SRIOV_IDS: [&str; 12] = [
    "8086 10fb",
    "8086 1528",
    "8086 1563",
    "8086 1572",
    "8086 1583",
    "8086 1584",
    "8086 158b",
    "8086 1592",
    "8086 1593",
    "8086 159b",
    "15b3 1017",
    "15b3 101d",
];
/// PCI ids of Intel `QuickAssist` devices.
const QAT_IDS: [&str; 6] = ["8086 0435", "8086 37c8", "8086 19e2", "8086 6f54", "8086 4940", "8086 4942"];

/// The parts of a `BareMetalHost` object that say what it is.
#[derive(Clone, Copy, Debug)]
pub struct HostInput<'a> {
    /// `metadata.name`.
    pub name: &'a str,
    /// `metadata.labels`.
    pub labels: &'a BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: &'a BTreeMap<String, String>,
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// `spec`.
    pub spec: &'a BareMetalHostSpec,
    /// `status`, where there is one.
    pub status: Option<&'a BareMetalHostStatus>,
}

/// Facts of a host: from the annotation where it can be read, else from status. Zero and empty are "not known".
#[must_use]
pub fn host_facts(host: &HostInput<'_>) -> HostFacts {
    let annotation = host.annotations.get(HARDWARE_DETAILS_ANNOTATION);
    let by_hand = annotation.and_then(|text| serde_json::from_str::<HardwareDetails>(text).ok());
    let hardware = by_hand.as_ref().or_else(|| host.status.and_then(|status| status.hardware.as_ref()));
    let empty = HardwareDetails::default();
    let mut facts = hardware_facts(hardware.unwrap_or(&empty));
    host.name.clone_into(&mut facts.name);
    facts.labels.clone_from(host.labels);
    facts.boot_mac = host.spec.boot_mac_address.as_deref().and_then(|text| text.parse().ok());
    facts.architecture = facts.architecture.or_else(|| host.spec.architecture.as_deref().map(architecture));
    facts.failure_domain = FAILURE_DOMAIN_LABELS.iter().find_map(|label| host.labels.get(*label)).cloned();
    let label = |feature: &str| match host.labels.get(&format!("{FEATURE_LABEL_PREFIX}{feature}")).map(String::as_str) {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    facts.sriov = label("sriov").or(facts.sriov);
    facts.qat = label("qat").or(facts.qat);
    facts.gpu = label("gpu");
    facts.available = availability(host);
    facts
}

/// Facts of the hardware alone.
#[must_use]
pub fn hardware_facts(hardware: &HardwareDetails) -> HostFacts {
    let known = |amount: Option<i64>| amount.and_then(|amount| u64::try_from(amount).ok()).filter(|amount| *amount > 0);
    let cpu = hardware.cpu.as_ref();
    let models: Vec<String> =
        hardware.nics.iter().flatten().filter_map(|nic| nic.model.as_deref()).map(pci_id).collect();
    let has = |ids: &[&str]| models.iter().any(|model| ids.contains(&model.as_str())).then_some(true);
    HostFacts {
        cpus: known(cpu.and_then(|cpu| cpu.count)).map(|count| MilliCpus(count.saturating_mul(1000))),
        memory: known(hardware.ram_mebibytes).map(MemoryMib),
        disk: hardware.storage.iter().flatten().filter_map(|disk| known(disk.size_bytes)).max().map(ByteSize),
        nics: hardware.nics.as_ref().map(|nics| nics_of(nics)),
        architecture: cpu.and_then(|cpu| cpu.arch.as_deref()).filter(|arch| !arch.is_empty()).map(architecture),
        sriov: has(&SRIOV_IDS),
        qat: has(&QAT_IDS),
        ..HostFacts::default()
    }
}

/// NICs with a usable MAC address, each once; of several addresses the first IPv4 one, else the first.
fn nics_of(nics: &[hagane_api::metal3::Nic]) -> Vec<Nic> {
    let mut found: Vec<Nic> = Vec::new();
    for nic in nics {
        let Some(mac) = nic.mac.as_deref().and_then(|text| text.parse::<MacAddress>().ok()) else { continue };
        let address = nic.ip.as_deref().and_then(|text| text.split('/').next()?.parse().ok()).filter(leads_there);
        match found.iter_mut().find(|known| known.mac == mac) {
            Some(known) => {
                let better = match (known.address, address) {
                    (None, Some(_)) => true,
                    (Some(old), Some(new)) => old.is_ipv6() && new.is_ipv4(),
                    _ => false,
                };
                if better {
                    known.address = address;
                }
            }
            None => found.push(Nic { mac, address }),
        }
    }
    found
}

/// Whether an address leads to the host from another machine: not to that machine itself, to many, or only on the link.
fn leads_there(address: &IpAddr) -> bool {
    let on_link = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(on_link || address.is_loopback() || address.is_unspecified() || address.is_multicast())
}

/// `0x8086 0x1572` as `8086 1572`.
fn pci_id(model: &str) -> String {
    let parts = model.split([' ', ':']).map(|part| part.trim_start_matches("0x").to_ascii_lowercase());
    parts.collect::<Vec<_>>().join(" ")
}

fn architecture(name: &str) -> String {
    match name {
        "x86_64" => "amd64".to_owned(),
        "aarch64" => "arm64".to_owned(),
        other => other.to_owned(),
    }
}

fn availability(host: &HostInput<'_>) -> Availability {
    if host.deleting {
        return Availability::NotReady("it is being deleted".to_owned());
    }
    if let Some(consumer) = &host.spec.consumer_ref {
        return Availability::ClaimedBy(consumer_name(consumer));
    }
    if let Some(annotation) = HOST_UNHEALTHY_ANNOTATIONS.iter().find(|key| host.annotations.contains_key(**key)) {
        return Availability::Unhealthy(format!("annotation {annotation}"));
    }
    if host.annotations.contains_key(HOST_PAUSED_ANNOTATION) {
        return Availability::NotReady("it is paused".to_owned());
    }
    let Some(status) = host.status else { return Availability::Free };
    if !status.error_message.is_empty() {
        return Availability::NotReady(status.error_message.clone());
    }
    let state = status.provisioning.state.as_str();
    if !USABLE_STATES.contains(&state) {
        return Availability::NotReady(format!("its state is {state:?}"));
    }
    Availability::Free
}

/// Kind, namespace and name of a host's user.
#[must_use]
pub fn consumer_name(consumer: &ConsumerReference) -> String {
    let kind = consumer.kind.as_deref().unwrap_or("object");
    let name = consumer.name.as_deref().unwrap_or("without a name");
    match consumer.namespace.as_deref() {
        Some(namespace) => format!("{kind} {namespace}/{name}"),
        None => format!("{kind} {name}"),
    }
}

/// Makes hosts that repeat an earlier host's boot MAC address unusable. `hosts` are in order of creation.
pub fn mark_duplicate_macs(hosts: &mut [HostFacts]) {
    let mut first: BTreeMap<MacAddress, String> = BTreeMap::new();
    for host in hosts {
        let Some(mac) = host.boot_mac else { continue };
        if let Some(other) = first.get(&mac) {
            host.available = Availability::NotReady(format!("its boot MAC address {mac} is that of host {other}"));
        } else {
            first.insert(mac, host.name.clone());
        }
    }
}
