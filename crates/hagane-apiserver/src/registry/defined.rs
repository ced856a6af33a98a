//! Kinds that users define: from a `CustomResourceDefinition` to a row.

use std::sync::Arc;

use hagane_api::field::FieldError;
use hagane_api::names::{dns_label_problem, dns_subdomain_problem};
use serde_json::{Map, Value, json};

use super::{Conversion, Origin, Resource, Strategy, Version};
use crate::object::{map_at, meta, text};
use crate::schema::{Schema, structural_problems};
use crate::table::{Columns, Definition};

/// Makes the row of a valid definition in its v1 form. `revision` is that of the definition's last change.
pub(crate) fn from_definition(definition: &Value, revision: u64) -> Resource {
    let group = text(definition, &["spec", "group"]);
    let name = |field: &str| text(definition, &["spec", "names", field]).to_owned();
    let words = |field: &str| {
        let list = definition.pointer(&format!("/spec/names/{field}")).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let specs = versions(definition);
    let stored = specs.iter().find(|version| version.get("storage") == Some(&Value::Bool(true)));
    let stored = stored.map_or("", |version| text(version, &["name"]));
    let mut served: Vec<Version> = specs.iter().map(|version| served_version(definition, version)).collect();
    served.sort_by_key(|version| super::version_rank(&version.name));
    Resource {
        plural: name("plural"),
        singular: name("singular"),
        kind: name("kind"),
        list_kind: name("listKind"),
        short_names: words("shortNames"),
        categories: words("categories"),
        namespaced: text(definition, &["spec", "scope"]) == "Namespaced",
        storage: meta(definition, "name").into(),
        stored_api_version: format!("{group}/{stored}"),
        versions: served,
        group: group.to_owned(),
        conversion: Conversion::default(),
        strategy: Strategy::default(),
        origin: Origin::Defined,
        definition_uid: meta(definition, "uid").to_owned(),
        definition_generation: definition.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0),
        terminating: crate::object::is_terminating(definition),
        schema_since: revision,
    }
}

fn versions(definition: &Value) -> &[Value] {
    definition.pointer("/spec/versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn served_version(definition: &Value, version: &Value) -> Version {
    let name = text(version, &["name"]);
    let raw_schema = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(open_schema);
    let flag = |field: &str| version.get(field) == Some(&Value::Bool(true));
    let list = |field: &str| version.get(field).and_then(Value::as_array).into_iter().flatten();
    Version {
        name: name.to_owned(),
        served: flag("served"),
        deprecation: flag("deprecated").then(|| deprecation(definition, version)),
        schema: Schema::new(Arc::new(raw_schema)),
        columns: Columns::defined(list("additionalPrinterColumns").map(column)),
        status: version.pointer("/subresources/status").is_some(),
        selectable: list("selectableFields")
            .map(|field| text(field, &["jsonPath"]).trim_start_matches('.'))
            .map(|path| (path.to_owned(), format!("/{}", path.replace('.', "/"))))
            .collect(),
    }
}

fn deprecation(definition: &Value, version: &Value) -> String {
    let given = text(version, &["deprecationWarning"]);
    if !given.is_empty() {
        return given.to_owned();
    }
    let (group, kind) = (text(definition, &["spec", "group"]), text(definition, &["spec", "names", "kind"]));
    let name = text(version, &["name"]);
    let newer = versions(definition)
        .iter()
        .filter(|other| {
            other.get("served") == Some(&Value::Bool(true)) && other.get("deprecated") != Some(&Value::Bool(true))
        })
        .map(|other| text(other, &["name"]))
        .filter(|other| super::version_rank(other) < super::version_rank(name))
        .min_by_key(|other| super::version_rank(other));
    let instead = newer.map(|newer| format!("; use {group}/{newer} {kind}")).unwrap_or_default();
    format!("{group}/{name} {kind} is deprecated{instead}")
}

fn column(column: &Value) -> (Definition, &str) {
    let field = |name: &str| text(column, &[name]).to_owned();
    let priority = column.get("priority").and_then(Value::as_i64).and_then(|value| value.try_into().ok());
    let definition = Definition {
        name: field("name"),
        r#type: field("type"),
        format: field("format"),
        description: field("description"),
        priority: priority.unwrap_or(0),
    };
    (definition, text(column, &["jsonPath"]))
}

fn open_schema() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

/// Fills in the names that follow from others.
pub(crate) fn default_definition(definition: &mut Value) {
    let kind = text(definition, &["spec", "names", "kind"]).to_owned();
    let spec = map_at(definition, "spec");
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut)
        && !kind.is_empty()
    {
        names.entry("singular").or_insert_with(|| kind.to_lowercase().into());
        names.entry("listKind").or_insert_with(|| format!("{kind}List").into());
    }
    spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
}

/// Checks a definition in its v1 form.
pub(crate) fn validate_definition(definition: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check_names(definition, &mut errors);
    check_versions(definition, &mut errors);
    check_approval(definition, &mut errors);
    if let Some(old) = old {
        for path in
            [&["spec", "group"][..], &["spec", "scope"], &["spec", "names", "plural"], &["spec", "names", "kind"]]
        {
            let (before, after) = (text(old, path), text(definition, path));
            if before != after {
                errors.push(FieldError::invalid(path.join("."), after, "field is immutable"));
            }
        }
    }
    errors
}

fn check_names(definition: &Value, errors: &mut Vec<FieldError>) {
    let (group, plural) = (text(definition, &["spec", "group"]), text(definition, &["spec", "names", "plural"]));
    for (field, value) in [("spec.group", group), ("spec.names.plural", plural)] {
        if value.is_empty() {
            errors.push(FieldError::required(field, ""));
        }
    }
    let expected = format!("{plural}.{group}");
    let name = meta(definition, "name");
    if name != expected {
        errors.push(FieldError::invalid(
            "metadata.name",
            name,
            format!("must be spec.names.plural+\".\"+spec.group: {expected:?}"),
        ));
    }
    if !group.is_empty()
        && let Some(problem) = dns_subdomain_problem(group)
    {
        errors.push(FieldError::invalid("spec.group", group, problem));
    }
    if !group.is_empty() && !group.contains('.') {
        errors.push(FieldError::invalid("spec.group", group, "should be a domain with at least one dot"));
    }
    for field in ["plural", "singular", "kind", "listKind"] {
        let value = text(definition, &["spec", "names", field]);
        if value.is_empty() && field == "kind" {
            errors.push(FieldError::required("spec.names.kind", ""));
        }
        if let (false, Some(problem)) = (value.is_empty(), dns_label_problem(&value.to_lowercase())) {
            errors.push(FieldError::invalid(format!("spec.names.{field}"), value, problem));
        }
    }
    let scope = text(definition, &["spec", "scope"]);
    if !matches!(scope, "Namespaced" | "Cluster") {
        errors.push(FieldError::invalid("spec.scope", scope, "supported values: \"Cluster\", \"Namespaced\""));
    }
}

fn check_versions(definition: &Value, errors: &mut Vec<FieldError>) {
    let versions = versions(definition);
    if versions.is_empty() {
        errors.push(FieldError::required("spec.versions", "must have at least one version"));
        return;
    }
    let stored = versions.iter().filter(|version| version.get("storage") == Some(&Value::Bool(true))).count();
    if stored != 1 {
        errors.push(FieldError::invalid(
            "spec.versions",
            stored,
            "must have exactly one version marked as storage version",
        ));
    }
    for (index, version) in versions.iter().enumerate() {
        let field = format!("spec.versions[{index}]");
        let name = text(version, &["name"]);
        if let Some(problem) = dns_label_problem(name) {
            errors.push(FieldError::invalid(format!("{field}.name"), name, problem));
        }
        if versions[..index].iter().any(|other| text(other, &["name"]) == name) {
            errors.push(FieldError::duplicate(format!("{field}.name"), name, ""));
        }
        check_schema(version, &field, errors);
    }
}

fn check_schema(version: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let field = format!("{field}.schema.openAPIV3Schema");
    let Some(schema) = version.pointer("/schema/openAPIV3Schema") else {
        errors.push(FieldError::required(field, "schemas are required"));
        return;
    };
    errors.extend(structural_problems(schema, &field));
}

fn check_approval(definition: &Value, errors: &mut Vec<FieldError>) {
    let group = text(definition, &["spec", "group"]);
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    let approval = text(definition, &["metadata", "annotations", "api-approved.kubernetes.io"]);
    // Our own groups with that ending are served already, so a definition of one changes nothing.
    let ours = hagane_api::kinds().iter().any(|kind| kind.group == group);
    if protected && !ours && approval.is_empty() {
        let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", \
                      see https://github.com/kubernetes/enhancements/pull/1111";
        errors.push(FieldError::required("metadata.annotations[api-approved.kubernetes.io]", detail));
    }
}

/// How definitions are brought from and to v1beta1.
pub(super) const CONVERSION: Conversion = Conversion { to_stored: from_beta, from_stored: to_beta };

fn from_beta(definition: &mut Value, version: &str) {
    if version != "v1beta1" {
        return;
    }
    let spec = map_at(definition, "spec");
    let take = |spec: &mut Map<String, Value>, field: &str| spec.remove(field).filter(|value| !value.is_null());
    let single = take(spec, "version");
    let schema = take(spec, "validation");
    let subresources = take(spec, "subresources");
    let columns = take(spec, "additionalPrinterColumns");
    let selectable = take(spec, "selectableFields");
    let preserve = take(spec, "preserveUnknownFields") != Some(Value::Bool(false));
    spec.entry("scope").or_insert_with(|| "Namespaced".into());
    let mut versions = match take(spec, "versions") {
        Some(Value::Array(versions)) if !versions.is_empty() => versions,
        _ => single.into_iter().map(|name| json!({"name": name, "served": true, "storage": true})).collect(),
    };
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        let shared = [
            ("schema", &schema),
            ("subresources", &subresources),
            ("additionalPrinterColumns", &columns),
            ("selectableFields", &selectable),
        ];
        for (field, value) in shared {
            if let Some(value) = value {
                version.entry(field).or_insert_with(|| value.clone());
            }
        }
        if let Some(columns) = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut) {
            columns.iter_mut().for_each(|column| rename(column, "JSONPath", "jsonPath"));
        }
        let schema = version.entry("schema").or_insert_with(|| json!({}));
        let schema = map_at(schema, "openAPIV3Schema");
        schema.entry("type").or_insert_with(|| "object".into());
        if preserve {
            schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
        make_structural(schema);
    }
    spec.insert("versions".to_owned(), Value::Array(versions));
}

/// Old schemas may leave types out and say null; what is inferred here is what they meant.
fn make_structural(schema: &mut Map<String, Value>) {
    schema.retain(|_, value| !value.is_null());
    let known = ["type", "x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
    if !known.iter().any(|field| schema.contains_key(*field)) {
        let inferred = if schema.contains_key("properties") || schema.contains_key("additionalProperties") {
            Some("object")
        } else if schema.contains_key("items") {
            Some("array")
        } else {
            None
        };
        match inferred {
            Some(inferred) => schema.insert("type".to_owned(), inferred.into()),
            None => schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into()),
        };
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.values_mut().filter_map(Value::as_object_mut).for_each(make_structural);
    }
    for field in ["items", "additionalProperties"] {
        if let Some(Value::Object(child)) = schema.get_mut(field) {
            make_structural(child);
        }
    }
}

fn rename(object: &mut Value, from: &str, to: &str) {
    if let Some(fields) = object.as_object_mut()
        && let Some(value) = fields.remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

fn to_beta(definition: &mut Value, version: &str) {
    if version != "v1beta1" {
        return;
    }
    let spec = map_at(definition, "spec");
    let Some(Value::Array(versions)) = spec.get_mut("versions") else { return };
    for version in versions.iter_mut() {
        if let Some(columns) = version.get_mut("additionalPrinterColumns").and_then(Value::as_array_mut) {
            columns.iter_mut().for_each(|column| rename(column, "jsonPath", "JSONPath"));
        }
    }
    let first = versions.first().map(|version| text(version, &["name"]).to_owned());
    let fields = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
    let shared: Vec<_> = fields.iter().filter_map(|field| Some((*field, take_shared(versions, field)?))).collect();
    if let Some(first) = first {
        spec.insert("version".to_owned(), first.into());
    }
    for (field, value) in shared {
        spec.insert(if field == "schema" { "validation" } else { field }.to_owned(), value);
    }
}

/// Takes a field out of all versions if it is the same in all of them: the older form says it once.
fn take_shared(versions: &mut [Value], field: &str) -> Option<Value> {
    let first = versions.first()?.get(field)?.clone();
    if versions.iter().any(|version| version.get(field) != Some(&first)) {
        return None;
    }
    for version in versions.iter_mut().filter_map(Value::as_object_mut) {
        version.remove(field);
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beta() -> Value {
        json!({
            "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "version": "v1alpha1", "names": {"kind": "Widget", "plural": "widgets"},
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "A", "type": "string", "JSONPath": ".spec.a"}],
                "validation": {"openAPIV3Schema": {"properties": {"spec": {"description": null}}}},
            },
        })
    }

    #[test]
    fn an_old_definition_becomes_a_valid_new_one() {
        let mut definition = beta();
        from_beta(&mut definition, "v1beta1");
        default_definition(&mut definition);
        assert_eq!(validate_definition(&definition, None), []);
        let row = from_definition(&definition, 1);
        assert_eq!((row.singular.as_str(), row.list_kind.as_str(), row.namespaced), ("widget", "WidgetList", true));
        let version = &row.versions[0];
        assert!(version.status && version.schema.raw()["x-kubernetes-preserve-unknown-fields"] == true);
        assert_eq!(version.columns.definitions()[1]["name"], "A");
    }

    #[test]
    fn the_older_form_says_what_versions_share_once() {
        let mut definition = beta();
        from_beta(&mut definition, "v1beta1");
        to_beta(&mut definition, "v1beta1");
        let spec = &definition["spec"];
        assert_eq!((spec["version"].as_str(), &spec["subresources"]), (Some("v1alpha1"), &json!({"status": {}})));
        assert_eq!(spec["additionalPrinterColumns"], beta()["spec"]["additionalPrinterColumns"]);
        assert_eq!(spec["versions"], json!([{"name": "v1alpha1", "served": true, "storage": true}]));
    }

    #[test]
    fn mistakes_are_named() {
        let definition = json!({
            "metadata": {"name": "widgets"},
            "spec": {"group": "example.com", "names": {"kind": "Widget", "plural": "widgets"}, "scope": "namespaced",
                "versions": [{"name": "v1", "served": true, "storage": false}]},
        });
        let fields: Vec<_> = validate_definition(&definition, None).into_iter().map(|error| error.field).collect();
        assert_eq!(fields, ["metadata.name", "spec.scope", "spec.versions", "spec.versions[0].schema.openAPIV3Schema"]);
    }

    #[test]
    fn protected_groups_need_approval() {
        let mut definition = beta();
        definition["metadata"]["name"] = "widgets.x.k8s.io".into();
        definition["spec"]["group"] = "x.k8s.io".into();
        from_beta(&mut definition, "v1beta1");
        assert_eq!(validate_definition(&definition, None)[0].field, "metadata.annotations[api-approved.kubernetes.io]");
    }
}
