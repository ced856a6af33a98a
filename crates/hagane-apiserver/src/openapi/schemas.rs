//! The component schemas: one per kind and per list, and those that all kinds share.

use serde_json::{Map, Value, json};

use super::ResourceDoc;
use crate::schema::object_meta;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A reference to a component schema.
pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// A reference to a schema that all kinds share.
pub(super) fn meta_reference(name: &str) -> Value {
    reference(&format!("{META}.{name}"))
}

/// The name of a kind's component schema.
pub(super) fn component(resource: &ResourceDoc<'_>, kind: &str) -> String {
    let version = resource.version;
    let package = match (resource.group, resource.builtin) {
        ("", _) => "io.k8s.api.core".to_owned(),
        ("apiextensions.k8s.io", true) => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions".to_owned(),
        (group, true) => format!("io.k8s.api.{}", group.split('.').next().unwrap_or_default()),
        (group, false) => group.rsplit('.').collect::<Vec<_>>().join("."),
    };
    format!("{package}.{version}.{kind}")
}

/// All component schemas of a document.
pub(super) fn schemas(resources: &[ResourceDoc<'_>]) -> Map<String, Value> {
    let mut all = shared();
    for resource in resources {
        let name = component(resource, resource.kind);
        all.insert(component(resource, resource.list_kind), list(resource, &name));
        all.insert(name, object(resource));
    }
    all
}

fn object(resource: &ResourceDoc<'_>) -> Value {
    let mut schema = match resource.schema {
        Value::Object(fields) => fields.clone(),
        _ => Map::new(),
    };
    schema.insert("type".to_owned(), "object".into());
    // Where everything goes, a list of fields would mislead.
    let free = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    if !free || schema.contains_key("properties") {
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            let given = std::mem::take(properties);
            properties.insert("apiVersion".to_owned(), text("Group and version of this object."));
            properties.insert("kind".to_owned(), text("Kind of this object."));
            let description = "Name, labels and other data that every object has.";
            properties.insert(
                "metadata".to_owned(),
                json!({"description": description, "allOf": [meta_reference("ObjectMeta")], "default": {}}),
            );
            let own =
                given.into_iter().filter(|(name, _)| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
            properties.extend(own);
        }
    }
    schema.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind_of(resource, resource.kind)]));
    Value::Object(schema)
}

fn list(resource: &ResourceDoc<'_>, item: &str) -> Value {
    json!({
        "type": "object",
        "description": format!("{} is a list of objects of kind {}.", resource.list_kind, resource.kind),
        "required": ["items"],
        "properties": {
            "apiVersion": text("Group and version of this list."),
            "kind": text("Kind of this list."),
            "metadata": {"description": "Data of the list.", "allOf": [meta_reference("ListMeta")], "default": {}},
            "items": {"type": "array", "description": "The objects.", "items": reference(item)},
        },
        "x-kubernetes-group-version-kind": [kind_of(resource, resource.list_kind)],
    })
}

/// Group, version and kind as extensions carry them.
pub(super) fn kind_of(resource: &ResourceDoc<'_>, kind: &str) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": kind})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn shared() -> Map<String, Value> {
    let mut all = Map::new();
    let mut add = |name: &str, schema: Value| all.insert(format!("{META}.{name}"), schema);
    add("ObjectMeta", object_meta().clone());
    add("ListMeta", list_meta());
    add("DeleteOptions", delete_options());
    add("Status", status());
    add("Patch", json!({"type": "object", "description": "A change of an object, in one of the patch types."}));
    all
}

fn list_meta() -> Value {
    json!({"type": "object", "description": "Data of a list.", "properties": {
        "continue": text("Token for the rest of the list."),
        "remainingItemCount": {"type": "integer", "format": "int64", "description": "Objects that are still to come."},
        "resourceVersion": text("Revision of the list; watches can begin from it."),
        "selfLink": text("No longer set."),
    }})
}

fn delete_options() -> Value {
    json!({"type": "object", "description": "How to delete.", "properties": {
        "apiVersion": text("Group and version of these options."),
        "kind": text("Kind of these options."),
        "dryRun": {"type": "array", "items": {"type": "string"}, "description": "All: change nothing."},
        "gracePeriodSeconds": {"type": "integer", "format": "int64", "description": "Seconds the object is given."},
        "orphanDependents": {"type": "boolean", "description": "Old form of propagationPolicy."},
        "preconditions": {"type": "object", "description": "Must hold, or nothing is deleted.", "properties": {
            "resourceVersion": text("Revision of the object."),
            "uid": text("Identity of the object."),
        }},
        "propagationPolicy": text("What becomes of owned objects: Orphan, Background or Foreground."),
    }})
}

fn status() -> Value {
    let cause = json!({"type": "object", "properties": {
        "field": text("Path of the field."), "message": text("For people."), "reason": text("In one word."),
    }});
    json!({"type": "object", "description": "Outcome of a request.", "properties": {
        "apiVersion": text("Group and version of this outcome."),
        "kind": text("Kind of this outcome."),
        "metadata": {"description": "Data of a list.", "allOf": [meta_reference("ListMeta")], "default": {}},
        "status": text("Success or Failure."),
        "message": text("For people."),
        "reason": text("In one word."),
        "code": {"type": "integer", "format": "int32", "description": "HTTP status."},
        "details": {"type": "object", "description": "What it is about.", "properties": {
            "name": text("Name of the object."),
            "group": text("Group of the object."),
            "kind": text("Kind or resource of the object."),
            "uid": text("Identity of the object."),
            "causes": {"type": "array", "items": cause, "description": "Each thing that was wrong."},
            "retryAfterSeconds": {"type": "integer", "format": "int32", "description": "When to try again."},
        }},
    }})
}
