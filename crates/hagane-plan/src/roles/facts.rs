//! What is known of a host.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::net::IpAddr;

use hagane_api::mac::MacAddress;
use hagane_api::quantity::{ByteSize, MemoryMib, MilliCpus};
use ipnet::IpNet;

/// A network interface of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its hardware address.
    pub mac: MacAddress,
    /// Its address in the network, where it has one.
    pub address: Option<IpAddr>,
}

/// Whether a host can be chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Availability {
    /// It can.
    #[default]
    Free,
    /// Somebody else uses it: kind, namespace and name.
    ClaimedBy(String),
    /// It is marked as never to be chosen; says by what.
    Unhealthy(String),
    /// It cannot be chosen yet, or as it is; says why.
    NotReady(String),
}

/// What is known of a host. `None` is "not known", never "none".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    /// Name of the host object; one namespace is planned at a time.
    pub name: String,
    /// Logical CPUs.
    pub cpus: Option<MilliCpus>,
    /// Physical memory.
    pub memory: Option<MemoryMib>,
    /// Size of the largest disk.
    pub disk: Option<ByteSize>,
    /// Hardware address of the NIC it boots from.
    pub boot_mac: Option<MacAddress>,
    /// Network interfaces; `None` where they were never looked at.
    pub nics: Option<Vec<Nic>>,
    /// Labels of the host object.
    pub labels: BTreeMap<String, String>,
    /// CPU architecture in Kubernetes' spelling (`amd64`, `arm64`).
    pub architecture: Option<String>,
    /// Rack, zone or whatever fails together.
    pub failure_domain: Option<String>,
    /// Whether a NIC can be shared by SR-IOV.
    pub sriov: Option<bool>,
    /// Whether there is an Intel `QuickAssist` device.
    pub qat: Option<bool>,
    /// Whether there is a GPU.
    pub gpu: Option<bool>,
    /// Whether it can be chosen.
    pub available: Availability,
}

/// Where a host is reached, and why there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    /// The address.
    pub address: IpAddr,
    /// Which NIC it is of, one line.
    pub reason: String,
}

impl HostFacts {
    /// The address to reach the host at: of the NIC with `mac`, else of the NIC it boots from, else the first one in
    /// `subnet`; where no subnet is asked for, the first known.
    #[must_use]
    pub fn address(&self, mac: Option<MacAddress>, subnet: Option<IpNet>) -> Option<HostAddress> {
        let nics = || self.nics.iter().flatten();
        let of = |mac: Option<MacAddress>, what: &str| {
            let nic = nics().find(|nic| Some(nic.mac) == mac)?;
            Some(HostAddress { address: nic.address?, reason: format!("of {what}, {}", nic.mac) })
        };
        let by_rule = || {
            let fits = |address: &IpAddr| subnet.is_none_or(|subnet| subnet.contains(address));
            let (nic, address) = nics().find_map(|nic| Some((nic, nic.address.filter(fits)?)))?;
            let reason = match subnet {
                Some(subnet) => format!("of NIC {}, in spec.nodeSubnet {subnet}", nic.mac),
                None => format!("of NIC {}, the first with an address", nic.mac),
            };
            Some(HostAddress { address, reason })
        };
        of(mac, "the NIC that is asked for")
            .or_else(|| of(self.boot_mac, "the NIC that it boots from"))
            .or_else(by_rule)
    }

    /// Whether a NIC has the hardware address.
    #[must_use]
    pub fn has_mac(&self, mac: MacAddress) -> bool {
        self.boot_mac == Some(mac) || self.nics.iter().flatten().any(|nic| nic.mac == mac)
    }
}

/// Order of rank: smaller hosts first, so that big ones stay free; what is not known comes last.
pub(super) fn rank_order(left: &HostFacts, right: &HostFacts) -> Ordering {
    unknown_last(left.memory, right.memory)
        .then_with(|| unknown_last(left.cpus, right.cpus))
        .then_with(|| unknown_last(left.disk, right.disk))
        .then_with(|| unknown_last(left.nics.as_ref().map(Vec::len), right.nics.as_ref().map(Vec::len)))
        .then_with(|| left.name.cmp(&right.name))
}

fn unknown_last<T: Ord>(left: Option<T>, right: Option<T>) -> Ordering {
    match (left, right) {
        (Some(left), Some(right)) => left.cmp(&right),
        (left, right) => left.is_none().cmp(&right.is_none()),
    }
}
