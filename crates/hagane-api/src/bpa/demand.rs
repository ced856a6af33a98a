//! What a Provisioning asks of the hosts of its nodes.

mod checks;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::Quantity;

pub(super) use checks::check;

/// Most nodes of one list of a Provisioning.
pub const NODES_MAX: i64 = 5000;
/// Most NICs that can be asked for.
pub(crate) const NICS_MAX: i64 = 64;
/// CPU architectures, as Kubernetes and as Linux spell them.
const ARCHITECTURES: [(&str, &str); 4] =
    [("amd64", "amd64"), ("arm64", "arm64"), ("x86_64", "amd64"), ("aarch64", "arm64")];

/// What a host must have. Whatever is absent asks nothing; a fact of the host that is not known meets nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostNeeds {
    /// Logical CPUs a host must have at least; 0 or absent asks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Quantity>,
    /// Memory a host must have at least; 0 or absent asks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Quantity>,
    /// Size that the host's largest disk must have at least; 0 or absent asks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Quantity>,
    /// Number of NICs a host must have at least; 0 or absent asks nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 64))]
    pub nics: Option<i64>,
    /// Whether the host must be able to share NICs by SR-IOV: known by its NICs, or by its label
    /// `hagane.dev/feature.sriov: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sriov: Option<bool>,
    /// Whether the host must have Intel `QuickAssist`: known by its devices, or by its label
    /// `hagane.dev/feature.qat: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qat: Option<bool>,
    /// Whether the host must have a GPU: known by its label `hagane.dev/feature.gpu: "true"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<bool>,
    /// CPU architecture the host must have: `amd64` or `arm64` (`x86_64` and `aarch64` mean the same).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Labels that the `BareMetalHost` must carry with these values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Failure domain the host must stand in: the value of its label `hagane.dev/failure-domain`, else of
    /// `infrastructure.cluster.x-k8s.io/failure-domain`, else of `topology.kubernetes.io/zone`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_domain: Option<String>,
    /// Name of the one `BareMetalHost` that will do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
}

impl HostNeeds {
    /// The architecture as Kubernetes spells it.
    #[must_use]
    pub fn architecture(&self) -> Option<&'static str> {
        architecture(self.arch.as_deref()?)
    }
}

/// Kubernetes' spelling of an architecture that can be asked for.
fn architecture(text: &str) -> Option<&'static str> {
    ARCHITECTURES.iter().find(|(spelling, _)| *spelling == text).map(|(_, name)| *name)
}

/// Nodes asked for by size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SizedNodes {
    /// What each host must have.
    #[serde(flatten)]
    pub needs: HostNeeds,
    /// How many (masters only: 1, 3 or 5). The number of workers is `spec.replicas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i64>,
}

/// What a named node needs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeDemand {
    /// MAC address of one of the host's NICs, in any usual spelling.
    #[serde(rename = "mac-address", default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// What its host must have.
    #[serde(flatten)]
    pub needs: HostNeeds,
    /// How many nodes of this kind: `<name>-1` to `<name>-N`. Where absent, one node of exactly the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 5000))]
    pub replicas: Option<i64>,
}

impl NodeDemand {
    /// How many nodes are asked for.
    #[must_use]
    pub fn count(&self) -> i64 {
        self.replicas.unwrap_or(1).max(0)
    }

    /// Names of the nodes, where the entry is called `name`.
    #[must_use]
    pub fn nodes(&self, name: &str) -> Vec<String> {
        match self.replicas {
            None => vec![name.to_owned()],
            Some(count) => (1..=count).map(|number| format!("{name}-{number}")).collect(),
        }
    }
}
