//! Structural schemas of the built-in kinds: they validate, prune and explain like those of any other kind.

use serde_json::{Value, json};

fn object(description: &str, properties: Value) -> Value {
    let mut all = json!({
        "apiVersion": {"type": "string", "description": "Group and version of this object."},
        "kind": {"type": "string", "description": "Kind of this object."},
        "metadata": {"type": "object", "description": "Name, labels and other data that every object has."},
    });
    if let (Some(all), Value::Object(more)) = (all.as_object_mut(), properties) {
        all.extend(more);
    }
    json!({"type": "object", "description": description, "properties": all})
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description, "nullable": true})
}

fn texts(description: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description})
}

fn bytes(description: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string", "format": "byte"}, "description": description})
}

fn reference(description: &str) -> Value {
    json!({"type": "object", "description": description, "properties": {
        "apiVersion": text("Group and version of the object."),
        "kind": text("Kind of the object."),
        "namespace": text("Namespace of the object."),
        "name": text("Name of the object."),
        "uid": text("Identity of the object over its life."),
        "resourceVersion": text("Revision of the object that is meant."),
        "fieldPath": text("Part of the object that is meant."),
    }})
}

fn conditions(description: &str) -> Value {
    json!({"type": "array", "description": description, "items": {"type": "object", "properties": {
        "type": text("What the condition is about."),
        "status": text("True, False or Unknown."),
        "reason": text("Why, in one word."),
        "message": text("Why, for people."),
        "lastTransitionTime": time("When the status last changed."),
    }}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]})
}

pub(super) fn namespace() -> Value {
    object(
        "Namespace is a scope for names: objects of most kinds live in one.",
        json!({
            "spec": {"type": "object", "description": "The wish.", "properties": {
                "finalizers": {"type": "array", "items": {"type": "string"}, "description": "Must be empty before the namespace goes away."},
            }},
            "status": {"type": "object", "description": "What is.", "properties": {
                "phase": text("Active or Terminating."),
                "conditions": conditions("How the deletion goes."),
            }},
        }),
    )
}

pub(super) fn config_map() -> Value {
    object(
        "ConfigMap holds configuration that is no secret.",
        json!({
            "data": texts("Texts by key."),
            "binaryData": bytes("Bytes by key, in base64. No key may stand in data too."),
            "immutable": {"type": "boolean", "description": "If true, data can no longer be changed."},
        }),
    )
}

pub(super) fn secret() -> Value {
    object(
        "Secret holds data that is to be kept from others.",
        json!({
            "type": text("What the secret is for; cannot be changed."),
            "data": bytes("Bytes by key, in base64."),
            "stringData": texts("Texts by key, written into data and never read back."),
            "immutable": {"type": "boolean", "description": "If true, data can no longer be changed."},
        }),
    )
}

pub(super) fn service_account() -> Value {
    object(
        "ServiceAccount is an identity for programs.",
        json!({
            "secrets": {"type": "array", "items": reference("A secret."), "description": "Secrets that programs may use."},
            "imagePullSecrets": {"type": "array", "description": "Secrets for pulling images.",
                "items": {"type": "object", "properties": {"name": text("Name of the secret.")}}},
            "automountServiceAccountToken": {"type": "boolean", "description": "Whether a token is given to programs unasked."},
        }),
    )
}

pub(super) fn lease() -> Value {
    object(
        "Lease says who holds something, and until when.",
        json!({
            "spec": {"type": "object", "description": "The wish.", "properties": {
                "holderIdentity": text("Who holds it."),
                "leaseDurationSeconds": {"type": "integer", "format": "int32", "description": "How long it holds without being renewed, in seconds."},
                "acquireTime": time("When the holder took it."),
                "renewTime": time("When the holder last renewed it."),
                "leaseTransitions": {"type": "integer", "format": "int32", "description": "How often the holder changed."},
                "strategy": text("How holders are chosen."),
                "preferredHolder": text("Who should hold it next."),
            }},
        }),
    )
}

fn event_series(description: &str) -> Value {
    json!({"type": "object", "description": description, "properties": {
        "count": {"type": "integer", "format": "int32", "description": "How often it happened."},
        "lastObservedTime": time("When it happened last."),
    }})
}

fn event_source() -> Value {
    json!({"type": "object", "description": "Who reported it.", "properties": {
        "component": text("Name of the program."), "host": text("Machine the program runs on."),
    }})
}

fn event_count(description: &str) -> Value {
    json!({"type": "integer", "format": "int32", "description": description})
}

pub(super) fn core_event() -> Value {
    object(
        "Event reports that something happened to an object.",
        json!({
            "involvedObject": reference("The object that it is about."),
            "reason": text("What happened, in one word."),
            "message": text("What happened, for people."),
            "source": event_source(),
            "firstTimestamp": time("When it happened first."),
            "lastTimestamp": time("When it happened last."),
            "count": event_count("How often it happened."),
            "type": text("Normal or Warning."),
            "eventTime": time("When it happened first, to the microsecond."),
            "series": event_series("Repetitions."),
            "action": text("What was done."),
            "related": reference("A second object it is about."),
            "reportingComponent": text("Who reported it."),
            "reportingInstance": text("Which instance reported it."),
        }),
    )
}

pub(super) fn event() -> Value {
    object(
        "Event reports that something happened to an object.",
        json!({
            "eventTime": time("When it happened first, to the microsecond."),
            "series": event_series("Repetitions."),
            "reportingController": text("Who reported it."),
            "reportingInstance": text("Which instance reported it."),
            "action": text("What was done."),
            "reason": text("What happened, in one word."),
            "regarding": reference("The object that it is about."),
            "related": reference("A second object it is about."),
            "note": text("What happened, for people."),
            "type": text("Normal or Warning."),
            "deprecatedSource": event_source(),
            "deprecatedFirstTimestamp": time("When it happened first."),
            "deprecatedLastTimestamp": time("When it happened last."),
            "deprecatedCount": event_count("How often it happened."),
        }),
    )
}

fn definition_names(description: &str) -> Value {
    json!({"type": "object", "description": description, "properties": {
        "plural": text("Name in paths, plural and lower case."),
        "singular": text("Singular and lower case."),
        "kind": text("Kind, in camel case."),
        "listKind": text("Kind of lists."),
        "shortNames": {"type": "array", "items": {"type": "string"}, "description": "Short names for kubectl."},
        "categories": {"type": "array", "items": {"type": "string"}, "description": "Groups of resources, such as all."},
    }})
}

fn free(description: &str) -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "description": description})
}

fn columns(path: &str) -> Value {
    json!({"type": "array", "description": "Columns of kubectl get.", "items": {"type": "object", "properties": {
        "name": text("Header."), "type": text("Type of the cells."), "format": text("Format of the cells."),
        "description": text("What the column shows."),
        "priority": {"type": "integer", "format": "int32", "description": "0 is always shown."},
        path: text("Where the value stands."),
    }}})
}

fn selectable() -> Value {
    json!({"type": "array", "description": "Fields that selectors may name.",
        "items": {"type": "object", "properties": {"jsonPath": text("Where the field stands.")}}})
}

fn definition_version(column_path: &str) -> Value {
    json!({"type": "object", "properties": {
        "name": text("Name of the version, such as v1."),
        "served": {"type": "boolean", "description": "Whether it can be used."},
        "storage": {"type": "boolean", "description": "Whether objects are stored in it; exactly one is."},
        "deprecated": {"type": "boolean", "description": "Whether its use is warned about."},
        "deprecationWarning": text("Text of that warning."),
        "schema": {"type": "object", "description": "What objects look like.",
            "properties": {"openAPIV3Schema": free("The schema.")}},
        "subresources": free("status and scale."),
        "additionalPrinterColumns": columns(column_path),
        "selectableFields": selectable(),
    }})
}

fn definition_status() -> Value {
    json!({"type": "object", "description": "What is.", "properties": {
        "conditions": conditions("Whether the kind is served."),
        "acceptedNames": definition_names("Names that are served."),
        "storedVersions": {"type": "array", "items": {"type": "string"}, "description": "Versions that objects may be stored in."},
        "observedGeneration": {"type": "integer", "format": "int64", "description": "Generation this was seen for."},
    }})
}

pub(super) fn definition() -> Value {
    object(
        "CustomResourceDefinition defines a kind.",
        json!({
            "spec": {"type": "object", "description": "The wish.", "required": ["group", "names", "scope", "versions"], "properties": {
                "group": text("API group."),
                "names": definition_names("What the kind is called."),
                "scope": {"type": "string", "enum": ["Namespaced", "Cluster"], "description": "Whether objects live in namespaces."},
                "versions": {"type": "array", "items": definition_version("jsonPath"), "description": "Its versions."},
                "conversion": free("How objects are converted between versions."),
                "preserveUnknownFields": {"type": "boolean", "description": "Must be false."},
            }},
            "status": definition_status(),
        }),
    )
}

pub(super) fn definition_beta() -> Value {
    object(
        "CustomResourceDefinition defines a kind, in the form used before apiextensions.k8s.io/v1.",
        json!({
            "spec": {"type": "object", "description": "The wish.", "required": ["group", "names"], "properties": {
                "group": text("API group."),
                "version": text("Its only version; versions says more."),
                "names": definition_names("What the kind is called."),
                "scope": text("Namespaced or Cluster."),
                "validation": {"type": "object", "description": "What objects of all versions look like.",
                    "properties": {"openAPIV3Schema": free("The schema.")}},
                "subresources": free("status and scale, of all versions."),
                "versions": {"type": "array", "items": definition_version("JSONPath"), "description": "Its versions."},
                "additionalPrinterColumns": columns("JSONPath"),
                "selectableFields": selectable(),
                "conversion": free("How objects are converted between versions."),
                "preserveUnknownFields": {"type": "boolean", "description": "Whether unknown fields are kept."},
            }},
            "status": definition_status(),
        }),
    )
}
