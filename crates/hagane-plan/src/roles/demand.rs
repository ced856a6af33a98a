//! What a node needs of its host.

use std::collections::BTreeMap;
use std::fmt;

use hagane_api::mac::MacAddress;
use hagane_api::quantity::{ByteSize, MilliCpus};
use serde::Serialize;

/// Role of a node. A node may have both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeRole {
    /// Control plane and etcd member.
    Master,
    /// Runs workloads.
    Worker,
}

impl NodeRole {
    /// Its spelling in objects.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Worker => "worker",
        }
    }
}

/// A node to be placed on a host of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Name of the node; unique within a plan.
    pub node: String,
    /// Its roles, in order, without repeats.
    pub roles: Vec<NodeRole>,
    /// What its host must have.
    pub needs: Needs,
}

impl Demand {
    /// Whether the node is a master (perhaps a worker too).
    #[must_use]
    pub fn is_master(&self) -> bool {
        self.roles.contains(&NodeRole::Master)
    }
}

/// What a host must have. Zero, `None`, `false` and empty ask nothing; whatever asks something is not met by a fact
/// that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// Logical CPUs at least.
    pub cpu: MilliCpus,
    /// Memory at least.
    pub memory: ByteSize,
    /// Size of the largest disk at least.
    pub disk: ByteSize,
    /// Number of NICs at least.
    pub nic_count: u32,
    /// A NIC that can be shared by SR-IOV.
    pub sriov: bool,
    /// An Intel `QuickAssist` device.
    pub qat: bool,
    /// A GPU.
    pub gpu: bool,
    /// CPU architecture.
    pub architecture: Option<String>,
    /// Labels that the host object must carry.
    pub labels: BTreeMap<String, String>,
    /// Failure domain the host must be in.
    pub failure_domain: Option<String>,
    /// Hardware address that one of the host's NICs must have.
    pub mac: Option<MacAddress>,
    /// Name of the one host object allowed.
    pub host_name: Option<String>,
}

impl fmt::Display for Needs {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        parts.extend(self.host_name.as_ref().map(|name| format!("host {name}")));
        parts.extend(self.mac.map(|mac| format!("MAC address {mac}")));
        parts.extend((self.cpu.0 > 0).then(|| format!("{} CPUs", self.cpu)));
        parts.extend((self.memory.0 > 0).then(|| format!("{} of memory", self.memory)));
        parts.extend((self.disk.0 > 0).then(|| format!("{} of disk", self.disk)));
        parts.extend((self.nic_count > 0).then(|| format!("{} NICs", self.nic_count)));
        for (name, needed) in [("sriov", self.sriov), ("qat", self.qat), ("gpu", self.gpu)] {
            parts.extend(needed.then(|| name.to_owned()));
        }
        parts.extend(self.architecture.as_ref().map(|name| format!("architecture {name}")));
        parts.extend(self.failure_domain.as_ref().map(|name| format!("failure domain {name}")));
        parts.extend(self.labels.iter().map(|(key, value)| format!("label {key}={value}")));
        formatter.write_str(&parts.join(", "))
    }
}

/// An assignment that was decided and stored before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Name of the node.
    pub node: String,
    /// Its roles.
    pub roles: Vec<NodeRole>,
    /// Name of its host object, whether or not it still exists.
    pub host: String,
}
