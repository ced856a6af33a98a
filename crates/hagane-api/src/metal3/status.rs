//! What is seen of a `BareMetalHost`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::disks::{Raid, RootDeviceHints};
use super::hardware::HardwareDetails;
use super::spec::{CustomDeploy, FirmwareConfig, Image, SecretReference};
use crate::condition::Condition;

/// Status of a `BareMetalHost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostStatus {
    /// Whether the host can be operated; `discovered` where no management controller is known.
    #[serde(default)]
    #[schemars(extend("enum" = ["", "OK", "discovered", "error", "delayed", "detached", "servicing"]))]
    pub operational_status: String,
    /// Kind of the last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["provisioned registration error", "registration error", "inspection error", "preparation error", "provisioning error", "power management error", "servicing error"]))]
    pub error_type: Option<String>,
    /// The last error, one line. A host with one is not chosen.
    #[serde(default)]
    pub error_message: String,
    /// How often it failed in a row.
    #[serde(default)]
    #[schemars(extend("default" = 0))]
    pub error_count: i64,
    /// Where provisioning is, and the values that were used.
    #[serde(default)]
    pub provisioning: ProvisioningState,
    /// The credentials that the management controller last took.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good_credentials: Option<Credentials>,
    /// The credentials that were last tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried_credentials: Option<Credentials>,
    /// What the host is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
    /// Name of the hardware profile. Out of date.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware_profile: Option<String>,
    /// Last seen power.
    #[serde(default)]
    pub powered_on: bool,
    /// When the last of each operation began and ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_history: Option<OperationHistory>,
    /// How often provisioning failed in a row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub provisioning_fail_count: Option<i64>,
    /// The image that was last tried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_attempted_image: Option<Image>,
    /// What holds now, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 32, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub last_updated: Option<String>,
}

/// Where provisioning is, and the values that were used: where they differ from the spec there is work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProvisioningState {
    /// `unmanaged`, `registering`, `inspecting`, `preparing`, `available`, `provisioning`, `provisioned`,
    /// `externally provisioned`, `deprovisioning`, `powering off before delete`, `deleting` or empty.
    #[serde(default)]
    pub state: String,
    /// Id of the host at the back end.
    #[serde(rename = "ID", default)]
    pub id: String,
    /// The image on the root disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// The hints that told the root disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_device_hints: Option<RootDeviceHints>,
    /// The boot mode in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["UEFI", "UEFISecureBoot", "legacy"]))]
    pub boot_mode: Option<String>,
    /// The RAID volumes that were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<Raid>,
    /// The BIOS settings that were made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<FirmwareConfig>,
    /// The way of deployment that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub custom_deploy: Option<CustomDeploy>,
    /// What is done at the moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_activity: Option<String>,
    /// How far that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress: Option<String>,
}

/// A version of credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Credentials {
    /// The Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretReference>,
    /// Its resource version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_version: Option<String>,
}

/// When the last of each operation began and ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OperationHistory {
    /// Registration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub register: Option<Operation>,
    /// Inspection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inspect: Option<Operation>,
    /// Provisioning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provision: Option<Operation>,
    /// Deprovisioning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deprovision: Option<Operation>,
}

/// When an operation began and ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Operation {
    /// Begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time", "x-hagane-nullable" = true))]
    pub start: Option<String>,
    /// End.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time", "x-hagane-nullable" = true))]
    pub end: Option<String>,
}
