//! The old machine API, in its two spellings: `cluster.k8s.io/v1alpha1` (released) and `cluster-api.k8s.io/v1alpha1`
//! (the founding slides). Separate resources, one set of types.

mod cluster;
mod machine_kind;
pub mod reasons;

pub use cluster::{ApiEndpoint, CidrBlocks, ClusterNetwork, ClusterSpec, ClusterStatus, validate_cluster_spec};
pub use machine_kind::{
    LibvirtMachineProviderSpec, LibvirtMachineProviderStatus, MachineAddress, MachineClassReference, MachineSpec,
    MachineStatus, MachineVersions, ObjectReference, ProviderSpec, ProviderSpecSource, validate_machine_spec,
    validate_provider_spec,
};

use crate::kind::{Column, KindDescriptor, no_defaults};
use crate::schema::{object_schema, structural};

/// The released group.
pub const GROUP: &str = "cluster.k8s.io";
/// The slides' spelling of it.
pub const SLIDES_GROUP: &str = "cluster-api.k8s.io";
/// Version of both.
pub const VERSION: &str = "v1alpha1";
/// `apiVersion` and kind of the provider spec when it is given under `value`.
pub const PROVIDER_SPEC_API_VERSION: &str = "libvirt.cluster.k8s.io/v1alpha1";

const fn column(name: &'static str, json_path: &'static str, description: &'static str) -> Column {
    Column { name, r#type: "string", json_path, priority: 0, description }
}

const AGE: Column = Column {
    name: "Age",
    r#type: "date",
    json_path: ".metadata.creationTimestamp",
    priority: 0,
    description: "Time since creation.",
};

const CLUSTER: &str = "A cluster: its network, and the machines that carry its name.";
const MACHINE: &str = "One machine, made by the provider that its provider spec names.";
const MACHINE_CLASS: &str = "A provider spec that Machines may refer to.";

fn cluster_kind(group: &'static str) -> KindDescriptor {
    KindDescriptor {
        group,
        version: VERSION,
        kind: "Cluster",
        plural: "clusters",
        singular: "cluster",
        short_names: &["cl"],
        categories: &["hagane"],
        description: CLUSTER,
        namespaced: true,
        status_subresource: true,
        columns: const {
            &[
                column("Phase", ".status.phase", "Where the cluster is."),
                Column {
                    name: "Machines",
                    r#type: "integer",
                    json_path: ".status.machines",
                    priority: 0,
                    description: "Machines that carry the cluster's name.",
                },
                AGE,
            ]
        },
        schema: || object_schema(CLUSTER, structural::<ClusterSpec>(), structural::<ClusterStatus>()),
        default: no_defaults,
        validate: cluster::validate,
    }
}

fn machine_kind(group: &'static str) -> KindDescriptor {
    KindDescriptor {
        group,
        version: VERSION,
        kind: "Machine",
        plural: "machines",
        singular: "machine",
        short_names: &["ma"],
        categories: &["hagane"],
        description: MACHINE,
        namespaced: true,
        status_subresource: true,
        columns: const {
            &[
                column("ProviderID", ".spec.providerID", "Id of the machine at its provider."),
                column("Phase", ".status.phase", "Where the machine is."),
                column("Address", ".status.addresses[0].address", "First address."),
                column("NodeName", ".status.nodeRef.name", "Name of its node."),
                AGE,
            ]
        },
        schema: || object_schema(MACHINE, structural::<MachineSpec>(), structural::<MachineStatus>()),
        default: no_defaults,
        validate: machine_kind::validate,
    }
}

fn machine_class_kind(group: &'static str) -> KindDescriptor {
    KindDescriptor {
        group,
        version: VERSION,
        kind: "MachineClass",
        plural: "machineclasses",
        singular: "machineclass",
        short_names: &["mc"],
        categories: &["hagane"],
        description: MACHINE_CLASS,
        namespaced: true,
        status_subresource: false,
        columns: const { &[AGE] },
        schema: machine_kind::class_schema,
        default: no_defaults,
        validate: machine_kind::validate_class,
    }
}

pub(crate) fn kinds() -> Vec<KindDescriptor> {
    [GROUP, SLIDES_GROUP]
        .into_iter()
        .flat_map(|group| [cluster_kind(group), machine_kind(group), machine_class_kind(group)])
        .collect()
}
