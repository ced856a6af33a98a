//! `Software`: packages for a finished cluster.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::field::FieldError;
use crate::words;

/// Spec of a `Software`. The label `cluster` names the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SoftwareSpec {
    /// Packages for the masters: a name, or a name with `version`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "package_list")]
    pub master_software: Vec<Package>,
    /// Packages for the workers: a name, or a name with `version`. A node in both roles gets both lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "package_list")]
    pub worker_software: Vec<Package>,
    /// Whether a node is cordoned and its pods are evicted before its packages change, and uncordoned afterwards: one node at a
    /// time, and disruption budgets are respected. Not given: no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<bool>,
    /// Most minutes that a node may take to let its pods go; 10 where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub drain_minutes: Option<i64>,
    /// Whether a host is rebooted after its packages changed: `Never` (the default), `IfRequired` (where its package manager asks for
    /// it) or `Always`. One node at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reboot: Option<RebootPolicy>,
    /// Whether packages that were installed for this object stay on the hosts when it is deleted. Not given: they are removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_on_delete: Option<bool>,
    /// Most minutes that the package manager of a host may take; 30 where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub time_limit_minutes: Option<i64>,
    /// Every so many minutes the hosts are asked what they have; 10 where not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1440))]
    pub check_minutes: Option<i64>,
}

words! {
    /// When a host is rebooted after its packages changed.
    pub enum RebootPolicy {
        /// Not at all.
        Never,
        /// Where its package manager says that a reboot is needed.
        IfRequired,
        /// After every change.
        Always,
    }
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

impl Package {
    /// Its name; empty for an entry without one.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Name(name) => name,
            Self::Versioned(entry) => entry.keys().next().map_or("", String::as_str),
        }
    }

    /// The exact version wanted, where one is.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        match self {
            Self::Name(_) => None,
            Self::Versioned(entry) => entry.values().next().and_then(|options| options.version.as_deref()),
        }
    }
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

/// Checks a parsed spec. Controllers use it too: a real API server does not run [`validate`].
#[must_use]
pub fn validate_spec(spec: &SoftwareSpec) -> Vec<FieldError> {
    let value = serde_json::to_value(spec).map(|spec| serde_json::json!({"spec": spec}));
    value
        .map_or_else(|error| vec![FieldError::invalid("spec", "", error.to_string())], |object| validate(&object, None))
}

/// Longer names would not fit where package managers and people read them.
const NAME_LENGTH_MAX: usize = 128;

/// Debian policy 5.6.1 and RPM agree on these characters.
fn check_name(errors: &mut Vec<FieldError>, seen: &mut BTreeSet<String>, field: &str, name: &str) {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte);
    let starts_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if !starts_well || !name.bytes().all(allowed) || name.ends_with('-') || name.len() > NAME_LENGTH_MAX {
        errors.push(FieldError::invalid(
            field,
            name,
            "a package name has at most 128 letters, digits, '+', '-', '.', '_', starts with a letter or digit and does not end with \
             '-', which asks apt for a removal",
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
            (json!(["-o APT::x=y"]), "spec.workerSoftware[0]: Invalid value: \"-o APT::x=y\": a package name has"),
            (json!(["$(touch x)"]), "spec.workerSoftware[0]: Invalid value: \"$(touch x)\": a package name has"),
            (json!(["curl-"]), "spec.workerSoftware[0]: Invalid value: \"curl-\": a package name has"),
            (json!(["curl=1.0"]), "spec.workerSoftware[0]: Invalid value: \"curl=1.0\""),
            (json!(["curl/sid"]), "spec.workerSoftware[0]: Invalid value: \"curl/sid\""),
            (json!(["lib.*"]), "spec.workerSoftware[0]: Invalid value: \"lib.*\""),
            (json!([""]), "spec.workerSoftware[0]: Invalid value: \"\""),
            (json!([{"jq": {"version": "-o"}}]), "spec.workerSoftware[0].jq.version: Invalid value: \"-o\""),
            (json!(["jq", {"jq": {"version": "1:2~a"}}]), "spec.workerSoftware[1]: Duplicate value: \"jq\""),
        ] {
            let found: Vec<String> =
                validate(&json!({"spec": {"workerSoftware": list}}), None).iter().map(ToString::to_string).collect();
            assert!(found.len() == 1 && found[0].starts_with(start), "{list}: {found:?}");
        }
    }
}
