//! The schema of `metadata`, the same for all objects.

use std::sync::LazyLock;

use serde_json::{Value, json};

/// The schema of an object's metadata.
pub(crate) fn object_meta() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(schema);
    &SCHEMA
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn time(description: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": description})
}

fn number(description: &str) -> Value {
    json!({"type": "integer", "format": "int64", "description": description})
}

fn texts(description: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": description})
}

fn owner_references() -> Value {
    json!({
        "type": "array",
        "description": "The objects this one belongs to; it is deleted when none of them is left.",
        "x-kubernetes-patch-merge-key": "uid",
        "x-kubernetes-patch-strategy": "merge",
        "items": {
            "type": "object",
            "required": ["apiVersion", "kind", "name", "uid"],
            "properties": {
                "apiVersion": text("Group and version of the owner."),
                "kind": text("Kind of the owner."),
                "name": text("Name of the owner."),
                "uid": text("Identity of the owner over its life."),
                "controller": {"type": "boolean", "description": "Whether the owner is the one that manages this object."},
                "blockOwnerDeletion": {
                    "type": "boolean",
                    "description": "Whether the owner, when deleted in the foreground, waits for this object to go.",
                },
            },
        },
    })
}

fn managed_fields() -> Value {
    json!({
        "type": "array",
        "description": "Who set which fields. Kept by the server.",
        "items": {
            "type": "object",
            "properties": {
                "manager": text("Who set the fields."),
                "operation": text("Apply or Update."),
                "apiVersion": text("Version in which the fields are named."),
                "time": time("When the set of fields last changed."),
                "fieldsType": text("Form of the set: FieldsV1."),
                "fieldsV1": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                    "description": "The set of fields.",
                },
                "subresource": text("Subresource through which the fields were set."),
            },
        },
    })
}

fn schema() -> Value {
    json!({
        "type": "object",
        "description": "Name, labels and other data that every object has.",
        "properties": {
            "name": text("Name, unique in its namespace among the objects of the kind. Cannot be changed."),
            "generateName": text("Prefix for a name that the server makes up when none is given."),
            "namespace": text("Namespace the object lives in. Cannot be changed."),
            "selfLink": text("No longer set."),
            "uid": text("Identity of the object over its life. Set by the server."),
            "resourceVersion": text("Revision of the object, for detecting changes by others. Only comparable for equality by clients that know no more."),
            "generation": number("Counts the changes of the wish. Set by the server."),
            "creationTimestamp": time("When the object was made. Set by the server."),
            "deletionTimestamp": time("When deletion was asked for. Set by the server."),
            "deletionGracePeriodSeconds": number("Seconds between the request to delete and the end. Set by the server."),
            "labels": texts("Words to select objects by."),
            "annotations": texts("Free data for tools."),
            "ownerReferences": owner_references(),
            "finalizers": {
                "type": "array",
                "description": "Those who have to clean up before the object goes; it stays until the list is empty.",
                "x-kubernetes-list-type": "set",
                "x-kubernetes-patch-strategy": "merge",
                "items": {"type": "string"},
            },
            "managedFields": managed_fields(),
        },
    })
}
