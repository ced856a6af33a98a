//! Which disk is meant, and RAID volumes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tells a disk from others: all hints that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RootDeviceHints {
    /// Device name such as `/dev/vda`, or a `/dev/disk/by-path/` link; the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device_name: Option<String>,
    /// SCSI address such as `0:0:0:0`; the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hctl: Option<String>,
    /// Part of the model's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Part of the maker's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    /// Serial number; the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial_number: Option<String>,
    /// Least size in GB (10^9 bytes).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub min_size_gigabytes: Option<i64>,
    /// World-wide name; the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn: Option<String>,
    /// World-wide name with its extension; the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn_with_extension: Option<String>,
    /// Vendor part of the world-wide name; the whole of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wwn_vendor_extension: Option<String>,
    /// Whether it turns: a hard disk, and no flash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
}

/// RAID volumes: of a hardware controller or of the kernel, not both. An empty list removes the volumes that are there; one
/// that is not given leaves them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Raid {
    /// Volumes of a hardware controller; the first is the root disk where no hint says otherwise.
    #[serde(rename = "hardwareRAIDVolumes", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-hagane-nullable" = true))]
    pub hardware_raid_volumes: Option<Vec<HardwareRaidVolume>>,
    /// Volumes of the kernel: one or two, the first of level 1, so that the host still starts when a disk dies.
    #[serde(rename = "softwareRAIDVolumes", default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-hagane-nullable" = true, "maxItems" = 2))]
    pub software_raid_volumes: Option<Vec<SoftwareRaidVolume>>,
}

/// A volume of a hardware controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["level"]))]
pub struct HardwareRaidVolume {
    /// RAID level.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["0", "1", "2", "5", "6", "1+0", "5+0", "6+0"]))]
    pub level: String,
    /// Size in GiB; 0 or absent takes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub size_gibibytes: Option<i64>,
    /// Name of the volume.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub name: Option<String>,
    /// Whether only disks that turn are taken, or only others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// How many disks it is made of; the level's least where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub number_of_physical_disks: Option<i64>,
    /// Name of the controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Disks, as the controller names them; needs `controller`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub physical_disks: Option<Vec<String>>,
}

/// A volume of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("required" = ["level"]))]
pub struct SoftwareRaidVolume {
    /// RAID level.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(extend("enum" = ["0", "1", "1+0"]))]
    pub level: String,
    /// Size in GiB; 0 or absent takes all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub size_gibibytes: Option<i64>,
    /// Disks: at least two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2))]
    pub physical_disks: Option<Vec<RootDeviceHints>>,
}
