//! What is special about single built-in kinds.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hagane_api::field::FieldError;
use hagane_api::names::{dns_label_problem, dns_subdomain_problem};
use serde_json::{Map, Value, json};

use super::{NameRule, Strategy};
use crate::object::{map_at, meta, text};

/// Most bytes of a Secret's or `ConfigMap`'s data.
const DATA_SIZE_MAX: usize = 1024 * 1024;

/// Says why `name` cannot name an object, or nothing.
pub(crate) fn name_problem(rule: NameRule, name: &str) -> Option<String> {
    match rule {
        NameRule::Subdomain => dns_subdomain_problem(name),
        NameRule::Label => dns_label_problem(name),
    }
}

pub(super) fn namespace() -> Strategy {
    Strategy {
        prepare: prepare_namespace,
        unconditional_update: true,
        return_deleted: true,
        has_generation: false,
        status_keeps_metadata: true,
        names: NameRule::Label,
        ..Strategy::default()
    }
}

fn prepare_namespace(new: &mut Value, old: Option<&Value>) {
    let name = meta(new, "name").to_owned();
    let metadata = map_at(new, "metadata");
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
    match old {
        None => {
            let finalizers = map_at(new, "spec").entry("finalizers").or_insert_with(|| json!([]));
            if let Some(list) = finalizers.as_array_mut()
                && !list.iter().any(|finalizer| finalizer == "kubernetes")
            {
                list.push("kubernetes".into());
            }
            map_at(new, "status").insert("phase".to_owned(), "Active".into());
        }
        // Only /finalize changes them.
        Some(old) => copy_field(new, old, "spec"),
    }
}

/// Makes a top-level field what it is in another object.
pub(crate) fn copy_field(new: &mut Value, old: &Value, field: &str) {
    let Some(fields) = new.as_object_mut() else { return };
    match old.get(field) {
        Some(value) => {
            fields.insert(field.to_owned(), value.clone());
        }
        None => {
            fields.remove(field);
        }
    }
}

pub(super) fn config_map() -> Strategy {
    Strategy { validate: validate_config_map, unconditional_update: true, has_generation: false, ..Strategy::default() }
}

fn validate_config_map(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = check_keys(new, "data", &mut errors);
    size += check_keys(new, "binaryData", &mut errors);
    check_base64(new, "binaryData", &mut errors);
    let data = new.get("data").and_then(Value::as_object);
    for key in new.get("binaryData").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
        if data.is_some_and(|data| data.contains_key(key)) {
            errors.push(FieldError::invalid(format!("data[{key}]"), key, "duplicate of key present in binaryData"));
        }
    }
    check_size(size, &mut errors);
    check_immutable(new, old, &["data", "binaryData"], &mut errors);
    errors
}

pub(super) fn secret() -> Strategy {
    Strategy {
        default: default_secret,
        prepare: prepare_secret,
        validate: validate_secret,
        unconditional_update: true,
        has_generation: false,
        ..Strategy::default()
    }
}

fn default_secret(object: &mut Value) {
    if text(object, &["type"]).is_empty()
        && let Some(fields) = object.as_object_mut()
    {
        fields.insert("type".to_owned(), "Opaque".into());
    }
}

fn prepare_secret(new: &mut Value, _old: Option<&Value>) {
    let Some(Value::Object(texts)) = new.as_object_mut().and_then(|fields| fields.remove("stringData")) else { return };
    let data = map_at(new, "data");
    for (key, value) in texts {
        data.insert(key, STANDARD.encode(value.as_str().unwrap_or_default()).into());
    }
}

fn validate_secret(new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let size = check_keys(new, "data", &mut errors);
    check_base64(new, "data", &mut errors);
    check_size(size, &mut errors);
    if let Some(old) = old
        && text(old, &["type"]) != text(new, &["type"])
    {
        errors.push(FieldError::invalid("type", text(new, &["type"]), "field is immutable"));
    }
    let required: &[&str] = match text(new, &["type"]) {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        _ => &[],
    };
    for key in required {
        if new.get("data").and_then(|data| data.get(*key)).is_none() {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
    check_immutable(new, old, &["data"], &mut errors);
    errors
}

fn check_keys(object: &Value, field: &str, errors: &mut Vec<FieldError>) -> usize {
    let mut size = 0;
    for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
        size += value.as_str().map_or(0, str::len);
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if key.is_empty() || key.len() > 253 || key == "." || key == ".." || !key.bytes().all(allowed) {
            let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
                          (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name'), at most 253 of them";
            errors.push(FieldError::invalid(format!("{field}[{key}]"), key, detail));
        }
    }
    size
}

fn check_base64(object: &Value, field: &str, errors: &mut Vec<FieldError>) {
    for (key, value) in object.get(field).and_then(Value::as_object).into_iter().flatten() {
        let text = value.as_str().unwrap_or_default();
        if STANDARD.decode(text.replace(['\n', '\r'], "")).is_err() {
            // The value may be a secret typed in by mistake: it is not repeated.
            errors.push(FieldError::invalid(format!("{field}[{key}]"), "<redacted>", "must be base64"));
        }
    }
}

fn check_size(size: usize, errors: &mut Vec<FieldError>) {
    // Base64 is a third longer than what it holds.
    if size > DATA_SIZE_MAX / 3 * 4 {
        errors.push(FieldError::invalid("data", size, format!("Too long: may not be more than {DATA_SIZE_MAX} bytes")));
    }
}

fn check_immutable(new: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
    let Some(old) = old.filter(|old| old.get("immutable") == Some(&Value::Bool(true))) else { return };
    if new.get("immutable") != Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden("immutable", "field is immutable when `immutable` is set"));
    }
    for field in fields {
        if new.get(*field) != old.get(*field) {
            errors.push(FieldError::forbidden(*field, "field is immutable when `immutable` is set"));
        }
    }
}

pub(super) fn service_account() -> Strategy {
    Strategy { unconditional_update: true, return_deleted: true, has_generation: false, ..Strategy::default() }
}

pub(super) fn lease() -> Strategy {
    Strategy { validate: validate_lease, create_on_update: true, has_generation: false, ..Strategy::default() }
}

fn validate_lease(new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (field, least) in [("leaseDurationSeconds", 1), ("leaseTransitions", 0)] {
        if let Some(value) = new.pointer(&format!("/spec/{field}")).and_then(Value::as_i64)
            && value < least
        {
            let detail = if least == 1 { "must be greater than 0" } else { "must be greater than or equal to 0" };
            errors.push(FieldError::invalid(format!("spec.{field}"), value, detail));
        }
    }
    errors
}

pub(super) fn definition() -> Strategy {
    Strategy {
        default: super::defined::default_definition,
        validate: super::defined::validate_definition,
        status_keeps_metadata: true,
        ..Strategy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn string_data_moves_into_data() {
        let mut secret = json!({"metadata": {}, "stringData": {"a": "hello"}, "data": {"b": "eA=="}});
        default_secret(&mut secret);
        prepare_secret(&mut secret, None);
        assert_eq!(secret["data"], json!({"b": "eA==", "a": "aGVsbG8="}));
        assert_eq!((secret["type"].as_str(), secret.get("stringData")), (Some("Opaque"), None));
        assert_eq!(validate_secret(&secret, None), []);
    }

    #[test]
    fn a_bad_secret_is_refused_without_repeating_its_value() {
        let secret = json!({"type": "Opaque", "data": {"pass": "plain-password!"}});
        let errors = validate_secret(&secret, None);
        assert_eq!(errors[0].field, "data[pass]");
        assert!(!errors[0].to_string().contains("plain-password"));
    }

    #[test]
    fn immutable_data_stays() {
        let old = json!({"data": {"a": "1"}, "immutable": true});
        let changed = json!({"data": {"a": "2"}, "immutable": true});
        let opened = json!({"data": {"a": "1"}});
        assert_eq!(validate_config_map(&old, Some(&old)), []);
        assert_eq!(validate_config_map(&changed, Some(&old))[0].field, "data");
        assert_eq!(validate_config_map(&opened, Some(&old))[0].field, "immutable");
        assert_eq!(validate_config_map(&json!({"data": {"": "1"}}), None)[0].field, "data[]");
    }
}
