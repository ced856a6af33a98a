//! `Software`: packages for a finished cluster. Served and stored; nothing acts on it yet.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::condition::Condition;
use crate::field::FieldError;

/// Spec of a `Software`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SoftwareSpec {
    /// Packages for the masters: a name, or a name with `version`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "package_list")]
    pub master_software: Vec<Package>,
    /// Packages for the workers: a name, or a name with `version`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "package_list")]
    pub worker_software: Vec<Package>,
}

/// One package, in either of its two forms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Package {
    /// Any version.
    Name(String),
    /// One name with its options.
    Versioned(BTreeMap<String, PackageOptions>),
}

/// Options of a package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackageOptions {
    /// The exact version wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Status of a `Software`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SoftwareStatus {
    /// Conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

fn package_list(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "array",
        "items": {"x-kubernetes-preserve-unknown-fields": true, "description": "A package name, or {name: {version: V}}."},
        "description": "Packages: a name, or a name with `version`.",
    })
}

/// Checks what the schema leaves open: each item is a name or one name with options, and stands once in its list.
#[must_use]
pub fn validate(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for list in ["masterSoftware", "workerSoftware"] {
        let items = new.pointer(&format!("/spec/{list}")).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut seen = BTreeSet::new();
        for (index, item) in items.iter().enumerate() {
            let field = format!("spec.{list}[{index}]");
            match serde_json::from_value::<Package>(item.clone()) {
                Ok(Package::Name(name)) => check_name(&mut errors, &mut seen, &field, &name),
                Ok(Package::Versioned(entries)) if entries.len() == 1 => {
                    for (name, options) in &entries {
                        check_name(&mut errors, &mut seen, &field, name);
                        check_version(&mut errors, &format!("{field}.{name}.version"), options.version.as_deref());
                    }
                }
                Ok(Package::Versioned(_)) | Err(_) => errors.push(FieldError::invalid(
                    field,
                    item,
                    "must be a package name, or one name with {version: \"…\"}",
                )),
            }
        }
    }
    errors
}

/// Debian policy 5.6.1 and RPM agree on these characters.
fn check_name(errors: &mut Vec<FieldError>, seen: &mut BTreeSet<String>, field: &str, name: &str) {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
    let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !starts_well || !name.bytes().all(allowed) {
        errors.push(FieldError::invalid(
            field,
            name,
            "a package name has letters, digits, '+', '-', '.', '_' and starts with a letter or digit",
        ));
    } else if !seen.insert(name.to_owned()) {
        errors.push(FieldError::duplicate(field, name, "each package once in a list"));
    }
}

/// Debian policy 5.6.12 (with an epoch), and what RPM allows beyond it.
fn check_version(errors: &mut Vec<FieldError>, field: &str, version: Option<&str>) {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.:~^_".contains(&byte);
    let Some(version) = version else { return };
    let starts_well = version.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !starts_well || !version.bytes().all(allowed) {
        errors.push(FieldError::invalid(
            field,
            version,
            "a version has letters, digits, '+', '-', '.', ':', '~', '^', '_' and starts with a letter or digit",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn takes_names_with_and_without_a_version() {
        let object =
            json!({"spec": {"masterSoftware": ["curl", {"jq": {"version": "1.6-2.1"}}], "workerSoftware": ["htop"]}});
        assert_eq!(validate(&object, None), []);
    }

    #[test]
    fn names_the_item_that_is_no_package() {
        let object = json!({"spec": {"masterSoftware": ["; rm", 3, {"a": {}, "b": {}}]}});
        let fields: Vec<_> = validate(&object, None).into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["spec.masterSoftware[0]", "spec.masterSoftware[1]", "spec.masterSoftware[2]"]);
    }

    #[test]
    fn names_versions_options_and_repeats_that_make_no_sense() {
        for (list, start) in [
            (json!([{"jq": {"version": "1 || rm"}}]), "spec.workerSoftware[0].jq.version: Invalid value: \"1 || rm\""),
            (json!([{"jq": {"version": ""}}]), "spec.workerSoftware[0].jq.version: Invalid value: \"\""),
            (json!([{"jq": {"versoin": "1"}}]), "spec.workerSoftware[0]: Invalid value"),
            (json!([{"jq": {"version": 1.6}}]), "spec.workerSoftware[0]: Invalid value"),
            (json!(["--allow-unauthenticated"]), "spec.workerSoftware[0]: Invalid value"),
            (json!(["jq", {"jq": {"version": "1:2~a"}}]), "spec.workerSoftware[1]: Duplicate value: \"jq\""),
        ] {
            let found: Vec<String> =
                validate(&json!({"spec": {"workerSoftware": list}}), None).iter().map(ToString::to_string).collect();
            assert!(found.len() == 1 && found[0].starts_with(start), "{list}: {found:?}");
        }
    }
}
