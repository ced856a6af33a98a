//! `metal3.io/v1alpha1`: bare-metal hosts.

mod facts;
mod host;
pub mod reasons;

pub use facts::validate_hardware;
pub use host::{
    BareMetalHostSpec, BareMetalHostStatus, Bmc, ConsumerReference, Cpu, Firmware, FirmwareBios, HardwareDetails, Nic,
    ProvisioningState, Storage, SystemVendor, validate_host_spec,
};

use crate::kind::{Column, KindDescriptor, no_defaults};
use crate::schema::{object_schema, structural};

/// API group of the host kinds.
pub const GROUP: &str = "metal3.io";
/// API version of the host kinds.
pub const VERSION: &str = "v1alpha1";

const HOST: &str = "A physical machine: how it is reached, what it is made of, who uses it.";

const fn column(
    name: &'static str,
    r#type: &'static str,
    json_path: &'static str,
    priority: i32,
    description: &'static str,
) -> Column {
    Column { name, r#type, json_path, priority, description }
}

pub(crate) fn kinds() -> Vec<KindDescriptor> {
    vec![KindDescriptor {
        group: GROUP,
        version: VERSION,
        kind: "BareMetalHost",
        plural: "baremetalhosts",
        singular: "baremetalhost",
        short_names: &["bmh", "bmhost"],
        categories: &["hagane"],
        description: HOST,
        namespaced: true,
        status_subresource: true,
        columns: const {
            &[
                column("Status", "string", ".status.operationalStatus", 1, "Whether the host can be operated."),
                column("State", "string", ".status.provisioning.state", 0, "Where provisioning is."),
                column("Consumer", "string", ".spec.consumerRef.name", 0, "Who uses the host."),
                column("BMC", "string", ".spec.bmc.address", 1, "Address of the management controller."),
                column("Online", "string", ".spec.online", 0, "Wanted power."),
                column("Error", "string", ".status.errorType", 0, "Kind of the last error."),
                column("Age", "date", ".metadata.creationTimestamp", 0, "Time since creation."),
            ]
        },
        schema: || object_schema(HOST, structural::<BareMetalHostSpec>(), structural::<BareMetalHostStatus>()),
        default: no_defaults,
        validate: host::validate,
    }]
}
