//! What is asked of a `BareMetalHost`. Field names and meanings are those that the Metal3 project publishes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::disks::{Raid, RootDeviceHints};

/// Spec of a `BareMetalHost`. Only what the documentation of a field does not say otherwise about is acted on: fields
/// around writing disks, power and boot are kept for Metal3 and for later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["online"]))]
pub struct BareMetalHostSpec {
    /// Wanted power: on or off. Nothing switches it yet.
    #[serde(default)]
    pub online: bool,
    /// The management controller. A host without one is only described, never switched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc: Option<Bmc>,
    /// MAC address of the NIC that the host boots from: it tells hosts apart, and that NIC's address is the host's.
    /// In any usual spelling; it stays once it is set. Never the management controller's own.
    #[serde(rename = "bootMACAddress", default, skip_serializing_if = "Option::is_none")]
    pub boot_mac_address: Option<String>,
    /// How the host boots: `UEFI` (meant where not given), `UEFISecureBoot` (Redfish controllers only) or `legacy`. Not
    /// acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["UEFI", "UEFISecureBoot", "legacy"]))]
    pub boot_mode: Option<String>,
    /// Who uses the host. A host with a consumer is not chosen, and is kept until that lets go of it. Written by whoever
    /// claims the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ConsumerReference>,
    /// Whether the host already runs an operating system that is to be kept. Can be set when the host is made, or while it
    /// is available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_provisioned: Option<bool>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// CPU architecture such as `x86_64` or `aarch64`, where the facts do not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Whether partition tables are wiped before the host is used again: `metadata` does, `disabled` does not. Not acted on
    /// yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["metadata", "disabled"], "default" = "metadata"))]
    pub automated_cleaning_mode: Option<String>,
    /// How facts are found: `agent` by a program in a RAM disk, `fast` by the management controller alone, `disabled` not
    /// at all. Facts come by annotation or `HardwareData` yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["disabled", "agent", "fast"]))]
    pub inspection_mode: Option<String>,
    /// Image to write to the root disk. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Named way to deploy, in place of writing an image. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    /// Which disk is the root disk: all hints that are given must match. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    /// RAID volumes to make before the host is used. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
    /// BIOS settings. Refused: no driver has them any more, `HostFirmwareSettings` took their place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareConfig>,
    /// Secret with the user data for cloud-init. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_data: Option<SecretReference>,
    /// Secret with the network configuration for cloud-init. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_data: Option<SecretReference>,
    /// Secret with further metadata for cloud-init. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meta_data: Option<SecretReference>,
    /// Name of the Secret with the network configuration of the RAM disk. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preprovisioning_network_data_name: Option<String>,
    /// Whether the host must never be switched off, only restarted; `online` must be true then. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_power_off: Option<bool>,
    /// Name of a hardware profile. Out of date: `rootDeviceHints` took its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_profile: Option<String>,
    /// Taints for the node. Not acted on, as in Metal3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taints: Option<Vec<Taint>>,
    /// What the switch side of NICs is to be. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_interfaces: Option<Vec<NetworkInterface>>,
}

/// A management controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["address", "credentialsName"]))]
pub struct Bmc {
    /// URL of the controller, such as `redfish-virtualmedia://192.0.2.7/redfish/v1/Systems/1`; the scheme names the driver:
    /// `redfish`, `redfish-virtualmedia`, `redfish-uefihttp`, `idrac-redfish`, `idrac-virtualmedia`, `ilo5-redfish`,
    /// `ilo5-virtualmedia` (each also with `+http` or `+https`), `ipmi`, `libvirt`; `HOST[:PORT]` is IPMI. An IPv6 address
    /// stands in brackets. No user or password: they stand in the Secret. Cannot be changed once the host is registered.
    #[serde(default)]
    pub address: String,
    /// Name of the Secret with keys `username` and `password`, in the host's namespace.
    #[serde(default)]
    pub credentials_name: String,
    /// Whether the controller's TLS certificate is not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_certificate_verification: Option<bool>,
}

/// Names the object that uses a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ConsumerReference {
    /// Group and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Uid: tells an object from a later one of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Resource version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Part of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
}

/// An image for a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["url"]))]
pub struct Image {
    /// Where it is: an `http://`, `https://` or `oci://` URL.
    #[serde(default)]
    pub url: String,
    /// Its digest, or the URL of a file with it. Needed unless the format is `live-iso` or the URL is `oci://`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<String>,
    /// Kind of the digest; `auto` tells by its length, md5 is meant where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["md5", "sha256", "sha512", "auto"]))]
    pub checksum_type: Option<String>,
    /// Format of the image; `live-iso` is started and not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["raw", "qcow2", "vdi", "vmdk", "live-iso"]))]
    pub format: Option<String>,
    /// Name of the Secret with the login of the registry; for `oci://` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oci_auth_secret_name: Option<String>,
}

/// A named way to deploy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["method"]))]
pub struct CustomDeploy {
    /// Its name.
    #[serde(default)]
    pub method: String,
}

/// BIOS settings of old; refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FirmwareConfig {
    /// Whether virtual machines can run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub virtualization_enabled: Option<bool>,
    /// Whether a core is more than one logical CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simultaneous_multithreading_enabled: Option<bool>,
    /// Whether devices can be shared by SR-IOV.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sriov_enabled: Option<bool>,
}

/// Names a Secret.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct SecretReference {
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Namespace: none but the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["effect", "key"]))]
pub struct Taint {
    /// Key.
    #[serde(default)]
    pub key: String,
    /// Value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    #[serde(default)]
    pub effect: String,
    /// When it was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub time_added: Option<String>,
}

/// What the switch side of a NIC is to be. The NIC is named by `name` or by `macAddress`, not by both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkInterface {
    /// Name of the NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// MAC address of the NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// The network that it is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_network_attachment: Option<HostNetworkAttachmentReference>,
    /// The switch port that it is plugged into, where LLDP does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_port: Option<SwitchPort>,
}

/// Names a `HostNetworkAttachment`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["name"]))]
pub struct HostNetworkAttachmentReference {
    /// Name.
    #[serde(default)]
    pub name: String,
    /// Namespace; the host's own where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A port of a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SwitchPort {
    /// Id of the switch.
    #[serde(rename = "switchID", default, skip_serializing_if = "Option::is_none")]
    pub switch_id: Option<String>,
    /// Id of the port.
    #[serde(rename = "portID", default, skip_serializing_if = "Option::is_none")]
    pub port_id: Option<String>,
}
