//! A whole `BareMetalHost` object: what is filled in, and what is checked beyond single fields.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::checks::{check_references, validate_host_spec};
use super::hardware::HardwareDetails;
use super::spec::BareMetalHostSpec;
use super::status::BareMetalHostStatus;
use super::{address::shown_bmc_address, validate_hardware};
use crate::field::FieldError;
use crate::keys::HARDWARE_DETAILS_ANNOTATION;
use crate::mac::MacAddress;

/// Annotations that ask for a restart: the key alone, or with a part of the asker's own behind a slash.
const REBOOT: &str = "reboot.metal3.io";
/// Annotation that lets go of the management controller.
const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// Annotation that asks for another inspection.
const INSPECT: &str = "inspect.metal3.io";
/// Annotation with a status that was moved from elsewhere.
const STATUS: &str = "baremetalhost.metal3.io/status";
/// States in which nobody has spoken to the management controller, so that its address may still change.
const UNREGISTERED: [&str; 3] = ["", "unmanaged", "registering"];
/// States in which nothing else works on the host's disks, so that it may be taken as it is.
const AT_REST: [&str; 6] = ["", "unmanaged", "registering", "available", "ready", "externally provisioned"];

/// Writes the boot MAC address as Metal3 spells one, with colons. One with colons stays as it is written.
pub(super) fn default(object: &mut Value) {
    let Some(mac) = object.pointer_mut("/spec/bootMACAddress") else { return };
    let Some(text) = mac.as_str().filter(|text| !text.contains(':')) else { return };
    if let Ok(address) = text.parse::<MacAddress>() {
        *mac = address.to_string().into();
    }
}

/// What is wrong with a new form of a host. What was wrong before and did not change is not told again: it must not stand
/// against another change, and least of all against the host's end.
pub(super) fn validate(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = whole(new);
    if let Some(old) = old {
        let before = whole(old);
        errors.retain(|error| !before.contains(error));
        check_change(&mut errors, new, old);
    } else {
        check_name(&mut errors, new);
    }
    errors
}

fn whole(object: &Value) -> Vec<FieldError> {
    let mut errors = validate_host(object);
    check_hardware_annotation(&mut errors, object);
    errors
}

/// Checks a host as it stands, but for its facts annotation. Controllers use it too: a real API server does not run
/// the checks of the embedded one.
#[must_use]
pub fn validate_host(object: &Value) -> Vec<FieldError> {
    let mut errors = match spec_of(object) {
        Ok(spec) => {
            let mut errors = validate_host_spec(&spec);
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str).unwrap_or("default");
            check_references(&mut errors, &spec, namespace);
            errors
        }
        Err(error) => vec![FieldError::invalid("spec", "", error.to_string())],
    };
    check_annotations(&mut errors, object);
    errors
}

fn spec_of(object: &Value) -> Result<BareMetalHostSpec, serde_json::Error> {
    serde_json::from_value(object.get("spec").filter(|spec| !spec.is_null()).cloned().unwrap_or_else(|| json!({})))
}

/// The name reaches systems where an id can stand in its place.
fn check_name(errors: &mut Vec<FieldError>, object: &Value) {
    let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    if uuid::Uuid::try_parse(name).is_ok() {
        errors.push(FieldError::invalid("metadata.name", name, "must not be a UUID"));
    }
}

fn check_change(errors: &mut Vec<FieldError>, new: &Value, old: &Value) {
    let (Ok(spec), Ok(before)) = (spec_of(new), spec_of(old)) else { return };
    let word = |path: &str| old.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let state = word("/status/provisioning/state");
    let mac =
        |spec: &BareMetalHostSpec| spec.boot_mac_address.as_ref().and_then(|text| text.parse::<MacAddress>().ok());
    if let Some(set) = mac(&before)
        && mac(&spec) != Some(set)
    {
        let detail = format!("must not be changed once it is set (it is {set})");
        errors.push(FieldError::invalid("spec.bootMACAddress", &spec.boot_mac_address, detail));
    }
    let address = |spec: &BareMetalHostSpec| spec.bmc.as_ref().map(|bmc| bmc.address.clone()).unwrap_or_default();
    let set = address(&before);
    let free = word("/status/operationalStatus") == "detached" || UNREGISTERED.contains(&state);
    if !free && !set.is_empty() && address(&spec) != set {
        let detail = format!(
            "must not be changed while the host is {state:?}: detach it first by the annotation {DETACHED}, or delete it \
             and make it again"
        );
        errors.push(FieldError::invalid("spec.bmc.address", shown_bmc_address(&address(&spec)), detail));
    }
    let external = |spec: &BareMetalHostSpec| spec.externally_provisioned == Some(true);
    if external(&spec) && !external(&before) && !AT_REST.contains(&state) {
        let detail = format!("can be set when the host is made or while it is available; it is {state:?}");
        errors.push(FieldError::invalid("spec.externallyProvisioned", true, detail));
    }
}

fn annotations(object: &Value) -> Option<&Map<String, Value>> {
    object.pointer("/metadata/annotations")?.as_object()
}

fn annotation_field(key: &str) -> String {
    format!("metadata.annotations[{key}]")
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RebootOrder {
    #[serde(default)]
    mode: Option<String>,
    #[serde(default, rename = "force")]
    _force: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct DetachOrder {
    #[serde(default)]
    delete_action: Option<String>,
    #[serde(default, rename = "force")]
    _force: Option<bool>,
}

fn check_annotations(errors: &mut Vec<FieldError>, object: &Value) {
    for (key, text) in annotations(object).into_iter().flatten() {
        let Some(text) = text.as_str() else { continue };
        let problem = match key.as_str() {
            key if key == REBOOT || key.strip_prefix(REBOOT).is_some_and(|rest| rest.starts_with('/')) => {
                one_of(text, |order: RebootOrder| order.mode, "mode", &["soft", "hard"])
            }
            DETACHED if text == "true" => None,
            DETACHED => one_of(text, |order: DetachOrder| order.delete_action, "deleteAction", &["delay", "delete"]),
            INSPECT if !["", "disabled"].contains(&text) => Some("must be empty or \"disabled\"".to_owned()),
            STATUS => {
                let status = from_object::<BareMetalHostStatus>(text);
                status.err().map(|error| format!("must be the JSON of a BareMetalHost's status: {error}"))
            }
            _ => None,
        };
        errors.extend(problem.map(|detail| FieldError::invalid(annotation_field(key), text, detail)));
    }
}

/// What is wrong with an order in JSON, of which one field is one of some words. An empty text orders the usual.
fn one_of<T: serde::de::DeserializeOwned>(
    text: &str,
    word: impl Fn(T) -> Option<String>,
    field: &str,
    words: &[&str],
) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let choice = words.join("\" or \"");
    match from_object::<T>(text).map(word) {
        Ok(Some(given)) if !given.is_empty() && !words.contains(&given.as_str()) => {
            Some(format!("{field} is {given:?}: must be \"{choice}\""))
        }
        Ok(_) => None,
        Err(error) => Some(format!("must be empty or JSON such as {{\"{field}\": \"{}\"}}: {error}", words.first()?)),
    }
}

/// Reads a JSON object. A list of the fields' values would pass for one otherwise.
fn from_object<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    serde_json::from_value(Value::Object(serde_json::from_str(text)?))
}

/// Reads the facts annotation.
///
/// # Errors
/// Text that is no JSON object of hardware details.
pub fn read_hardware(text: &str) -> Result<HardwareDetails, serde_json::Error> {
    from_object(text)
}

fn check_hardware_annotation(errors: &mut Vec<FieldError>, object: &Value) {
    let facts = annotations(object).and_then(|all| all.get(HARDWARE_DETAILS_ANNOTATION)?.as_str());
    let Some(text) = facts else { return };
    let field = annotation_field(HARDWARE_DETAILS_ANNOTATION);
    match read_hardware(text) {
        Ok(hardware) => errors.extend(
            validate_hardware(&hardware)
                .into_iter()
                .map(|error| FieldError { field: format!("{field}.{}", error.field), ..error }),
        ),
        Err(error) => {
            errors.push(FieldError::invalid(field, text, format!("must be the JSON of hardware details: {error}")));
        }
    }
}

/// Checks a `HardwareData`.
pub(super) fn validate_data(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let facts = |object: &Value| {
        let hardware = object.pointer("/spec/hardware").filter(|hardware| !hardware.is_null()).cloned()?;
        Some(match serde_json::from_value::<HardwareDetails>(hardware) {
            Ok(hardware) => validate_hardware(&hardware)
                .into_iter()
                .map(|error| FieldError { field: format!("spec.hardware.{}", error.field), ..error })
                .collect(),
            Err(error) => vec![FieldError::invalid("spec.hardware", "", error.to_string())],
        })
    };
    let mut errors: Vec<FieldError> = facts(new).unwrap_or_default();
    let before = old.and_then(facts).unwrap_or_default();
    errors.retain(|error| !before.contains(error));
    errors
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
