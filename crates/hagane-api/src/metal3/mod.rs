//! `metal3.io/v1alpha1`: bare-metal hosts and the facts of them.

mod address;
mod checks;
mod disks;
mod facts;
mod hardware;
mod host;
pub mod reasons;
mod spec;
mod status;

pub use address::{BmcAddress, BmcAddressProblem, BmcDriver, shown_bmc_address};
pub use checks::validate_host_spec;
pub use disks::{HardwareRaidVolume, Raid, RootDeviceHints, SoftwareRaidVolume};
pub use facts::validate_hardware;
pub use hardware::{
    Cpu, Firmware, FirmwareBios, HardwareDataSpec, HardwareDetails, Lldp, Nic, Storage, SystemVendor, Vlan,
};
pub use host::{read_hardware, validate_host};
pub use spec::{
    BareMetalHostSpec, Bmc, ConsumerReference, CustomDeploy, FirmwareConfig, HostNetworkAttachmentReference, Image,
    NetworkInterface, SecretReference, SwitchPort, Taint,
};
pub use status::{BareMetalHostStatus, Credentials, Operation, OperationHistory, ProvisioningState};

use serde_json::{Value, json};

use crate::kind::{Column, KindDescriptor, no_defaults};
use crate::schema::{object_schema, structural};

/// API group of the host kinds.
pub const GROUP: &str = "metal3.io";
/// API version of the host kinds.
pub const VERSION: &str = "v1alpha1";
/// Resource name of `BareMetalHost`.
pub const HOSTS: &str = "baremetalhosts";
/// Resource name of `HardwareData`.
pub const HARDWARE_DATA: &str = "hardwaredata";

const HOST: &str = "A physical machine: how it is reached, what it is made of, who uses it.";
const DATA: &str = "What a host is made of: facts for the BareMetalHost of the same name and namespace.";

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
    vec![
        KindDescriptor {
            group: GROUP,
            version: VERSION,
            kind: "BareMetalHost",
            plural: HOSTS,
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
            default: host::default,
            validate: host::validate,
        },
        KindDescriptor {
            group: GROUP,
            version: VERSION,
            kind: "HardwareData",
            plural: HARDWARE_DATA,
            singular: "hardwaredata",
            short_names: &["hd"],
            categories: &["hagane"],
            description: DATA,
            namespaced: true,
            status_subresource: false,
            columns: const { &[column("Age", "date", ".metadata.creationTimestamp", 0, "Time since creation.")] },
            schema: || without_status(object_schema(DATA, structural::<HardwareDataSpec>(), json!({"type": "object"}))),
            default: no_defaults,
            validate: host::validate_data,
        },
    ]
}

fn without_status(mut schema: Value) -> Value {
    if let Some(properties) = schema.pointer_mut("/properties").and_then(Value::as_object_mut) {
        properties.remove("status");
    }
    schema
}
