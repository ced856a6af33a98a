//! What a host is made of. Absent, zero and empty are "not known".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Spec of a `HardwareData`: the facts of the host with the same name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HardwareDataSpec {
    /// What the host is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
}

/// What a host is made of. Absent or zero is unknown, never none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HardwareDetails {
    /// Maker and model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_vendor: Option<SystemVendor>,
    /// Firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<Firmware>,
    /// Physical memory in MiB; 0 is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ram_mebibytes: Option<i64>,
    /// NICs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nics: Option<Vec<Nic>>,
    /// Disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Vec<Storage>>,
    /// CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Host name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
}

/// Maker and model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SystemVendor {
    /// Maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manufacturer: Option<String>,
    /// Model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product_name: Option<String>,
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
}

/// Firmware.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Firmware {
    /// BIOS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bios: Option<FirmwareBios>,
}

/// BIOS.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirmwareBios {
    /// Release date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// Maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// A NIC. One with an IPv4 and an IPv6 address stands twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nic {
    /// Interface name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// PCI ids of maker and device, such as `0x8086 0x1572`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// MAC address; empty is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// IP address; empty is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<String>,
    /// Speed in Gbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_gbps: Option<i64>,
    /// Tagged VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlans: Option<Vec<Vlan>>,
    /// Untagged VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub vlan_id: Option<i64>,
    /// Whether it can boot from the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pxe: Option<bool>,
    /// What LLDP told of the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lldp: Option<Lldp>,
    /// PCI address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
}

/// A VLAN.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Vlan {
    /// Number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4094))]
    pub id: Option<i64>,
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What LLDP told of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lldp {
    /// Id of the switch.
    #[serde(rename = "switchID", default, skip_serializing_if = "Option::is_none")]
    pub switch_id: Option<String>,
    /// Id of the port.
    #[serde(rename = "portID", default, skip_serializing_if = "Option::is_none")]
    pub port_id: Option<String>,
    /// Name of the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch_system_name: Option<String>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Device name, a `/dev/disk/by-path/` link where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Other device names; they may change with a restart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternate_names: Option<Vec<String>>,
    /// Whether it turns. `type` says more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// Kind of disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["HDD", "SSD", "NVME"]))]
    pub r#type: Option<String>,
    /// Size in bytes; 0 is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<i64>,
    /// Maker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// World-wide name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// Vendor part of the world-wide name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn_vendor_extension: Option<String>,
    /// World-wide name with its extension.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn_with_extension: Option<String>,
    /// SCSI address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hctl: Option<String>,
}

/// CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cpu {
    /// Architecture such as `x86_64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// Model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Clock in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_megahertz: Option<f64>,
    /// Feature flags.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
    /// Logical CPUs: threads, not cores; 0 is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}
