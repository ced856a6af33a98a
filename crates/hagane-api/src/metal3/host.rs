//! `BareMetalHost`. Field names and meanings are those that the Metal3 project publishes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::validate_hardware;
use crate::condition::Condition;
use crate::field::FieldError;
use crate::keys::HARDWARE_DETAILS_ANNOTATION;
use crate::mac::MacAddress;
use crate::names::dns_subdomain_problem;

/// Spec of a `BareMetalHost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostSpec {
    /// Wanted power.
    #[serde(default)]
    pub online: bool,
    /// The management controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bmc: Option<Bmc>,
    /// MAC address of the NIC the host boots from.
    #[serde(rename = "bootMACAddress", default, skip_serializing_if = "Option::is_none")]
    pub boot_mac_address: Option<String>,
    /// How the host boots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["UEFI", "UEFISecureBoot", "legacy"]))]
    pub boot_mode: Option<String>,
    /// Who uses the host. A host with a consumer is not chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_ref: Option<ConsumerReference>,
    /// Whether the host already runs an operating system that is to be kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub externally_provisioned: Option<bool>,
    /// Free text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// CPU architecture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// `metadata` (default) or `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["metadata", "disabled"]))]
    pub automated_cleaning_mode: Option<String>,
    /// `agent`, `fast` or `disabled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["disabled", "agent", "fast"]))]
    pub inspection_mode: Option<String>,
    /// Image to write. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub image: Option<Value>,
    /// Which disk is the root disk. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub root_device_hints: Option<Value>,
    /// Secret with user data. Not acted on yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub user_data: Option<Value>,
}

/// A management controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bmc {
    /// URL of the controller.
    pub address: String,
    /// Name of the Secret with `username` and `password`.
    #[serde(default)]
    pub credentials_name: String,
    /// Whether TLS is not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disable_certificate_verification: Option<bool>,
}

impl Bmc {
    /// What its address leads to, so that two spellings of one controller's address are equal; nothing for an empty one.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        let (scheme, rest) = self.address.split_once("://").unwrap_or(("", self.address.as_str()));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host).to_ascii_lowercase();
        let (host, port) = match host.rsplit_once(':') {
            // A colon in brackets is the address's own.
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (host.as_str(), default_port(scheme)),
        };
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        (!host.is_empty()).then(|| format!("{host}:{port}/{}", path.join("/")))
    }
}

impl Bmc {
    /// Whether its address has the shape of one: a host, a port that can be, nothing that ends a line or a word.
    fn is_well_addressed(&self) -> bool {
        let strange = self.address.bytes().any(|byte| byte <= b' ' || byte == 0x7f) || self.address.len() > 2048;
        let identity = self.identity().unwrap_or_default();
        let authority = identity.split('/').next().unwrap_or_default();
        let (host, port) = authority.rsplit_once(':').unwrap_or_default();
        !strange && !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
    }
}

/// The port that an address without one means: of IPMI, HTTP or HTTPS.
fn default_port(scheme: &str) -> &'static str {
    if scheme.starts_with("ipmi") || scheme.is_empty() {
        "623"
    } else if scheme.ends_with("+http") {
        "80"
    } else {
        "443"
    }
}

/// Names the object that uses a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
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
    /// Uid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// Status of a `BareMetalHost`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BareMetalHostStatus {
    /// `OK`, `discovered`, `error`, `delayed`, `detached` or empty.
    #[serde(default)]
    pub operational_status: String,
    /// Kind of the last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_type: Option<String>,
    /// The last error, one line.
    #[serde(default)]
    pub error_message: String,
    /// How often it failed.
    #[serde(default)]
    pub error_count: i64,
    /// Where provisioning is.
    #[serde(default)]
    pub provisioning: ProvisioningState,
    /// What the host is made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hardware: Option<HardwareDetails>,
    /// Last seen power.
    #[serde(default)]
    pub powered_on: bool,
    /// What holds now, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<String>,
}

/// Where provisioning is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProvisioningState {
    /// `unmanaged`, `externally provisioned`, `available`, …
    #[serde(default)]
    pub state: String,
    /// Id of the host at the back end.
    #[serde(rename = "ID", default)]
    pub id: String,
}

/// What a host is made of. Absent or zero is unknown.
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nic {
    /// Interface name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Model.
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
    /// Whether it can boot from the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pxe: Option<bool>,
    /// Untagged VLAN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan_id: Option<i64>,
    /// Tagged VLANs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "vlans")]
    pub vlans: Option<Vec<Value>>,
    /// PCI address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pci_address: Option<String>,
    /// What LLDP told of the switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub lldp: Option<Value>,
}

/// A disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Device name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Other names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternate_names: Option<Vec<String>>,
    /// Whether it turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotational: Option<bool>,
    /// `HDD`, `SSD` or `NVME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    /// Architecture.
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
    /// Logical CPUs; 0 is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

fn vlans(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let item = crate::schema::any_object(generator);
    schemars::json_schema!({"type": "array", "items": item})
}

pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = |object: &Value| {
        serde_json::from_value::<BareMetalHostSpec>(object.get("spec").cloned().unwrap_or_else(|| json!({})))
    };
    let mut errors = match spec(new) {
        Ok(parsed) => validate_host_spec(&parsed),
        Err(error) => vec![FieldError::invalid("spec", "", error.to_string())],
    };
    if let (Ok(parsed), Some(Ok(before))) = (spec(new), old.map(spec)) {
        check_boot_mac_kept(&mut errors, &parsed, &before);
    }
    check_hardware_annotation(&mut errors, new, old);
    errors
}

/// Checks a parsed spec.
#[must_use]
pub fn validate_host_spec(spec: &BareMetalHostSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if let Some(text) = spec.boot_mac_address.as_ref().filter(|text| !text.is_empty())
        && let Err(problem) = text.parse::<MacAddress>()
    {
        errors.push(FieldError::invalid("spec.bootMACAddress", text, problem.to_string()));
    }
    if let Some(bmc) = &spec.bmc {
        check_bmc(&mut errors, bmc);
    }
    errors
}

fn check_bmc(errors: &mut Vec<FieldError>, bmc: &Bmc) {
    // An empty address is a host without a controller.
    if !bmc.address.is_empty() && !bmc.is_well_addressed() {
        let detail = "must be a URL such as redfish://192.0.2.7/redfish/v1/Systems/1, or HOST[:PORT] for IPMI";
        errors.push(FieldError::invalid("spec.bmc.address", &bmc.address, detail));
    }
    let secret = Some(&bmc.credentials_name).filter(|name| !name.is_empty());
    if let Some((name, problem)) = secret.and_then(|name| Some((name, dns_subdomain_problem(name)?))) {
        let detail = format!("is no name of a Secret: {problem}");
        errors.push(FieldError::invalid("spec.bmc.credentialsName", name, detail));
    }
}

fn check_boot_mac_kept(errors: &mut Vec<FieldError>, new: &BareMetalHostSpec, old: &BareMetalHostSpec) {
    let mac =
        |spec: &BareMetalHostSpec| spec.boot_mac_address.as_ref().and_then(|text| text.parse::<MacAddress>().ok());
    if let Some(before) = mac(old)
        && mac(new) != Some(before)
    {
        errors.push(FieldError::invalid(
            "spec.bootMACAddress",
            &new.boot_mac_address,
            format!("must not be changed once it is set (it is {before})"),
        ));
    }
}

/// Facts that were there before are not held against a later change of something else.
fn check_hardware_annotation(errors: &mut Vec<FieldError>, new: &Value, old: Option<&Value>) {
    let facts = |object: &Value| {
        let annotations = object.pointer("/metadata/annotations")?;
        annotations.get(HARDWARE_DETAILS_ANNOTATION)?.as_str().map(str::to_owned)
    };
    let Some(text) = facts(new).filter(|text| old.and_then(facts).as_ref() != Some(text)) else { return };
    let field = format!("metadata.annotations[{HARDWARE_DETAILS_ANNOTATION}]");
    match serde_json::from_str::<HardwareDetails>(&text) {
        Ok(hardware) => errors.extend(
            validate_hardware(&hardware)
                .into_iter()
                .map(|error| FieldError { field: format!("{field}.{}", error.field), ..error }),
        ),
        Err(error) => {
            errors.push(FieldError::invalid(field, &text, format!("must be the JSON of hardware details: {error}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_the_boot_mac() {
        let host = |mac: &str| json!({"spec": {"online": true, "bootMACAddress": mac}});
        for good in ["52:54:00:AA:BB:01", "52-54-00-aa-bb-02", "5254.00aa.bb03", ""] {
            assert_eq!(validate(&host(good), None), [], "{good}");
        }
        for bad in
            ["52:54:00:aa:bb", "53:54:00:aa:bb:04", "52:54:00:ff:fe:aa:bb:05", "ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00"]
        {
            let errors = validate(&host(bad), None);
            assert!(errors.len() == 1 && errors[0].field == "spec.bootMACAddress", "{bad}: {errors:?}");
        }
    }

    #[test]
    fn keeps_a_boot_mac_that_is_set_but_not_its_spelling() {
        let host = |mac: &str| json!({"spec": {"online": true, "bootMACAddress": mac}});
        assert_eq!(validate(&host("52-54-00-AA-BB-01"), Some(&host("52:54:00:aa:bb:01"))), []);
        assert_eq!(validate(&host("52:54:00:aa:bb:02"), Some(&host("52:54:00:aa:bb:01"))).len(), 1);
    }

    #[test]
    fn knows_a_management_controller_in_other_spellings() {
        let identity = |address: &str| Bmc { address: address.to_owned(), ..Bmc::default() }.identity();
        let first = identity("redfish+http://BMC.test:8000/redfish/v1/Systems/a");
        assert_eq!(first, identity("redfish-virtualmedia+http://admin@bmc.test:8000/redfish//v1/Systems/a/"));
        for other in
            ["redfish+http://bmc.test:8000/redfish/v1/Systems/A", "redfish+http://bmc.test:8001/redfish/v1/Systems/a"]
        {
            assert_ne!(first, identity(other), "{other}");
        }
        assert_eq!(identity("redfish://bmc.test/x"), identity("redfish+https://bmc.test:443/x"));
        assert_eq!(identity("redfish+http://[fd00::7]/x"), identity("redfish+http://[FD00::7]:80/x"));
        assert_eq!(
            (identity("ipmi://10.0.0.7"), identity("10.0.0.7")),
            (identity("ipmi://10.0.0.7:623"), identity("10.0.0.7:623"))
        );
        assert_ne!(identity("redfish://bmc.test/x"), identity("redfish+http://bmc.test/x"));
        assert_eq!((identity(""), identity("redfish:///x")), (None, None));
    }

    #[test]
    fn checks_where_the_management_controller_is() {
        let host =
            |address: &str, secret: &str| json!({"spec": {"bmc": {"address": address, "credentialsName": secret}}});
        for good in [
            "",
            "192.0.2.7",
            "192.0.2.7:623",
            "ipmi://bmc.test",
            "redfish-virtualmedia+https://[2001:db8::7]:8443/redfish/v1/Systems/1",
        ] {
            assert_eq!(validate(&host(good, "bmc-1"), None), [], "{good}");
        }
        for bad in ["x y", "redfish://192.0.2.7:99999/x", "redfish://:443/x", "redfish:///x", "ipmi://bmc.test:x"] {
            let errors = validate(&host(bad, ""), None);
            assert!(errors.len() == 1 && errors[0].field == "spec.bmc.address", "{bad}: {errors:?}");
        }
        assert_eq!(validate(&host("192.0.2.7", "../x"), None)[0].field, "spec.bmc.credentialsName");
    }

    #[test]
    fn checks_facts_when_they_are_given_and_not_later() {
        let host = |facts: &str, online: bool| json!({"metadata": {"annotations": {HARDWARE_DETAILS_ANNOTATION: facts}}, "spec": {"online": online}});
        let wrong = host("{\"cpu\": {\"count\": -4}}", true);
        let errors = validate(&wrong, None);
        assert!(errors[0].to_string().contains("hardwaredetails].cpu.count: Invalid value: -4"), "{errors:?}");
        assert_eq!(validate(&host("{\"cpu\": {\"count\": -4}}", false), Some(&wrong)), []);
    }

    #[test]
    fn names_a_broken_facts_annotation() {
        let host = json!({"metadata": {"annotations": {HARDWARE_DETAILS_ANNOTATION: "{\"cpu\": 4}"}}, "spec": {"online": true}});
        let errors = validate(&host, None);
        assert!(errors[0].field.contains("hardwaredetails"), "{errors:?}");
    }
}
