//! `Machine` and `MachineClass` of the old machine API, with libvirt's provider spec inline.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::PROVIDER_SPEC_API_VERSION;
use super::reasons::MachinePhase;
use crate::condition::Condition;
use crate::field::FieldError;
use crate::schema::structural;

/// Spec of a `Machine`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineSpec {
    /// Metadata for the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub metadata: Option<Value>,
    /// Taints for the node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub taints: Vec<Value>,
    /// What the provider makes: flat, under `value`, or by `valueFrom.machineClass`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_spec: Option<ProviderSpec>,
    /// Versions to run. Recorded and handed to user-data templates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<MachineVersions>,
    /// Kept as written; nothing reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub config_source: Option<Value>,
    /// Id of the machine at its provider, `libvirt:///<uuid>`. Set by the controller.
    #[serde(rename = "providerID", default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// Versions of a machine's components.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineVersions {
    /// Version of the kubelet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<String>,
    /// Version of the control plane; set on control-plane machines only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<String>,
}

/// The provider spec in its three forms. Fields under `value` win over flat ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpec {
    /// The spec inline, with `apiVersion` and `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<LibvirtMachineProviderSpec>,
    /// The spec from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_from: Option<ProviderSpecSource>,
    /// The spec flat, as the founding slides write it.
    #[serde(flatten)]
    pub flat: LibvirtMachineProviderSpec,
}

/// Where a provider spec comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProviderSpecSource {
    /// A `MachineClass` of the Machine's own group and namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_class: Option<MachineClassReference>,
}

/// Names a `MachineClass`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineClassReference {
    /// Its name.
    pub name: String,
    /// Kept as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
}

/// What a libvirt machine is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LibvirtMachineProviderSpec {
    /// `libvirt.cluster.k8s.io/v1alpha1`, where given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// `LibvirtMachineProviderSpec`, where given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Virtual CPUs, 1 to 710; 2 where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpu: Option<i64>,
    /// Memory in GiB, 1 to 16384; 2 where not given.
    #[serde(rename = "memoryInGB", default, skip_serializing_if = "Option::is_none")]
    pub memory_in_gb: Option<i64>,
    /// Root disk in GiB, at least the image's size; the image's size where not given.
    #[serde(rename = "diskInGB", default, skip_serializing_if = "Option::is_none")]
    pub disk_in_gb: Option<i64>,
    /// Image of the root disk: `http:`, `https:` or `file:`; the operator's default image where not given.
    #[serde(rename = "imageURI", default, skip_serializing_if = "Option::is_none")]
    pub image_uri: Option<String>,
    /// Digest the image must have: `sha256:HEX` or `sha512:HEX`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_checksum: Option<String>,
    /// A ready `NoCloud` seed image (`cidata`); one is made where not given.
    #[serde(rename = "userDataURI", default, skip_serializing_if = "Option::is_none")]
    pub user_data_uri: Option<String>,
    /// Storage pool; `default` where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_name: Option<String>,
    /// Network; `default` where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_name: Option<String>,
    /// A fixed address to reserve in the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_address: Option<String>,
    /// SSH public keys for the image's default user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ssh_authorized_keys: Vec<String>,
}

/// Status of a `Machine`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MachineStatus {
    /// Where the machine is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Its addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<MachineAddress>,
    /// What holds now, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What the provider made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<LibvirtMachineProviderStatus>,
    /// Versions as recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub versions: Option<MachineVersions>,
    /// Its node, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_ref: Option<ObjectReference>,
    /// Set while a person must act: `InvalidConfiguration`, `CreateError`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    /// One line for that person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// When this status last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<String>,
}

/// Names another object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// Kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Group and version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
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

/// An address of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineAddress {
    /// `InternalIP` or `Hostname`.
    pub r#type: String,
    /// The address.
    pub address: String,
}

/// What the libvirt provider made, with the defaults it filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LibvirtMachineProviderStatus {
    /// UUID of the domain.
    #[serde(rename = "instanceID", default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// `Running`, `Off`, `Paused` or `Crashed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_state: Option<String>,
    /// Name of the domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    /// MAC address of its NIC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
    /// The provider spec as it was used: given fields, the class's fields, defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved: Option<LibvirtMachineProviderSpec>,
    /// SHA-256 of the image the root disk started as.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_sha256: Option<String>,
    /// The SSH host key that was put into the machine, as a public key line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssh_host_key: Option<String>,
}

fn any_objects(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let item = crate::schema::any_object(generator);
    schemars::json_schema!({"type": "array", "items": item})
}

pub(super) fn class_schema() -> Value {
    json!({
        "description": super::MACHINE_CLASS, "type": "object",
        "properties": {
            "apiVersion": {"type": "string", "description": "Group and version of this object."},
            "kind": {"type": "string", "description": "Kind of this object."},
            "metadata": {"type": "object"},
            "providerSpec": structural::<ProviderSpec>(),
        },
    })
}

pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let spec = new.get("spec").cloned().unwrap_or_else(|| json!({}));
    let mut errors = match serde_json::from_value::<MachineSpec>(spec) {
        Ok(spec) => validate_machine_spec(&spec),
        Err(error) => vec![FieldError::invalid("spec", "", error.to_string())],
    };
    let provider_id = |object: &Value| object.pointer("/spec/providerID").and_then(Value::as_str).map(str::to_owned);
    if let Some(before) = old.and_then(provider_id).filter(|id| !id.is_empty())
        && provider_id(new).as_deref() != Some(before.as_str())
    {
        errors.push(FieldError::invalid("spec.providerID", provider_id(new), "must not be changed once it is set"));
    }
    errors
}

pub(super) fn validate_class(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let Some(spec) = new.get("providerSpec") else {
        return vec![FieldError::required("providerSpec", "a class holds a provider spec")];
    };
    match serde_json::from_value::<ProviderSpec>(spec.clone()) {
        Ok(spec) => validate_provider_spec(&spec, "providerSpec"),
        Err(error) => vec![FieldError::invalid("providerSpec", "", error.to_string())],
    }
}

/// Checks a parsed spec. A Machine without a provider spec is legal: it waits, and can be deleted.
#[must_use]
pub fn validate_machine_spec(spec: &MachineSpec) -> Vec<FieldError> {
    spec.provider_spec.as_ref().map_or_else(Vec::new, |provider| validate_provider_spec(provider, "spec.providerSpec"))
}

/// Checks a provider spec that stands at `path`.
#[must_use]
pub fn validate_provider_spec(spec: &ProviderSpec, path: &str) -> Vec<FieldError> {
    let mut errors = check_libvirt(&spec.flat, path);
    if let Some(value) = &spec.value {
        errors.extend(check_libvirt(value, &format!("{path}.value")));
    }
    if spec.value.is_some() && spec.value_from.as_ref().is_some_and(|source| source.machine_class.is_some()) {
        errors.push(FieldError::forbidden(format!("{path}.valueFrom"), "must not be given together with value"));
    }
    errors
}

fn check_libvirt(spec: &LibvirtMachineProviderSpec, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let identity = [
        ("apiVersion", &spec.api_version, PROVIDER_SPEC_API_VERSION),
        ("kind", &spec.kind, "LibvirtMachineProviderSpec"),
    ];
    for (name, given, known) in identity {
        if let Some(given) = given.as_ref().filter(|given| *given != known) {
            errors.push(FieldError::invalid(format!("{path}.{name}"), given, format!("must be {known}")));
        }
    }
    for (name, given, most) in
        [("vcpu", spec.vcpu, 710), ("memoryInGB", spec.memory_in_gb, 16_384), ("diskInGB", spec.disk_in_gb, 65_536)]
    {
        if let Some(given) = given.filter(|given| !(1..=most).contains(given)) {
            errors.push(FieldError::invalid(format!("{path}.{name}"), given, format!("must be from 1 to {most}")));
        }
    }
    for (name, given) in [("imageURI", &spec.image_uri), ("userDataURI", &spec.user_data_uri)] {
        if let Some((given, Some(problem))) = given.as_ref().map(|given| (given, uri_problem(given))) {
            errors.push(FieldError::invalid(format!("{path}.{name}"), given, problem));
        }
    }
    if let Some((given, Some(problem))) = spec.image_checksum.as_ref().map(|given| (given, checksum_problem(given))) {
        errors.push(FieldError::invalid(format!("{path}.imageChecksum"), given, problem));
    }
    if let Some(given) = spec.network_address.as_ref().filter(|given| given.parse::<IpAddr>().is_err()) {
        errors.push(FieldError::invalid(
            format!("{path}.networkAddress"),
            given,
            "must be one IP address without a prefix, such as 192.0.2.12",
        ));
    }
    check_names(&mut errors, spec, path);
    errors
}

fn check_names(errors: &mut Vec<FieldError>, spec: &LibvirtMachineProviderSpec, path: &str) {
    for (name, given) in [("poolName", &spec.pool_name), ("networkName", &spec.network_name)] {
        let plain = |text: &String| {
            !text.is_empty()
                && text.len() <= 128
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        if let Some(given) = given.as_ref().filter(|given| !plain(given)) {
            errors.push(FieldError::invalid(
                format!("{path}.{name}"),
                given,
                "must have 1 to 128 letters, digits, '-', '_' or '.'",
            ));
        }
    }
    for (index, key) in spec.ssh_authorized_keys.iter().enumerate() {
        if key.contains(['\n', '\r']) || key.split_whitespace().count() < 2 {
            errors.push(FieldError::invalid(
                format!("{path}.sshAuthorizedKeys[{index}]"),
                key,
                "must be one public key line such as \"ssh-ed25519 AAAA… comment\"",
            ));
        }
    }
}

fn uri_problem(text: &str) -> Option<String> {
    const ALLOWED: &str = "must be an http:, https: or file: URI";
    let Some((scheme, rest)) = text.split_once(':') else { return Some(ALLOWED.to_owned()) };
    let strange = text.bytes().any(|byte| byte <= b' ' || byte == 0x7f);
    let long = text.len() > 2048;
    let shaped = match scheme.to_ascii_lowercase().as_str() {
        "http" | "https" => {
            rest.strip_prefix("//").is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', '#', ':']))
        }
        "file" => rest.strip_prefix("//").unwrap_or(rest).starts_with('/'),
        _ => false,
    };
    (strange || long || !shaped).then(|| ALLOWED.to_owned())
}

fn checksum_problem(text: &str) -> Option<String> {
    let digits = match text.split_once(':') {
        Some(("sha256", hex)) => (hex, 64),
        Some(("sha512", hex)) => (hex, 128),
        _ => ("", 64),
    };
    let (hex, length) = digits;
    let good = hex.len() == length && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    (!good).then(|| "must be sha256: and 64, or sha512: and 128 hexadecimal digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(provider: &Value) -> Vec<String> {
        validate(&json!({"spec": {"providerSpec": provider}}), None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn takes_the_three_forms() {
        let full = json!({"value": {
            "apiVersion": "libvirt.cluster.k8s.io/v1alpha1", "kind": "LibvirtMachineProviderSpec", "vcpu": 2, "memoryInGB": 1,
            "imageURI": "http://127.0.0.1:8080/images/debian.qcow2", "userDataURI": "http://127.0.0.1:8080/cloud-init/worker.iso",
        }});
        for provider in [json!({"vcpu": 2}), full, json!({"valueFrom": {"machineClass": {"name": "small"}}}), json!({})]
        {
            assert_eq!(errors(&provider), Vec::<String>::new(), "{provider}");
        }
    }

    #[test]
    fn names_field_value_and_what_is_allowed() {
        for (provider, start) in [
            (json!({"vcpu": 0}), "spec.providerSpec.vcpu: Invalid value: 0: must be from 1"),
            (json!({"vcpu": -1}), "spec.providerSpec.vcpu: Invalid value: -1"),
            (
                json!({"value": {"memoryInGB": 1_000_000_000_000_i64}}),
                "spec.providerSpec.value.memoryInGB: Invalid value: 1000000000000",
            ),
            (json!({"imageURI": "::"}), "spec.providerSpec.imageURI: Invalid value: \"::\": must be an http:"),
            (json!({"imageURI": "ftp://a/b"}), "spec.providerSpec.imageURI"),
            (json!({"imageURI": "http:///b"}), "spec.providerSpec.imageURI"),
            (json!({"imageURI": ""}), "spec.providerSpec.imageURI"),
            (
                json!({"networkAddress": "192.0.2.0/24"}),
                "spec.providerSpec.networkAddress: Invalid value: \"192.0.2.0/24\"",
            ),
            (json!({"networkAddress": "192.0.2.300"}), "spec.providerSpec.networkAddress"),
            (json!({"imageChecksum": "md5:00"}), "spec.providerSpec.imageChecksum"),
            (json!({"poolName": "../x"}), "spec.providerSpec.poolName"),
            (json!({"sshAuthorizedKeys": ["a\nb c"]}), "spec.providerSpec.sshAuthorizedKeys[0]"),
            (json!({"value": {"kind": "AwsMachine"}}), "spec.providerSpec.value.kind"),
        ] {
            let found = errors(&provider);
            assert!(found.len() == 1 && found[0].starts_with(start), "{provider}: {found:?}");
        }
    }

    #[test]
    fn keeps_a_provider_id_that_is_set() {
        let with = |id: &str| json!({"spec": {"providerID": id}});
        assert_eq!(validate(&with("libvirt:///a"), Some(&with(""))), []);
        assert_eq!(validate(&with("libvirt:///b"), Some(&with("libvirt:///a"))).len(), 1);
    }
}
