//! The paths of a document: every operation of every resource.

use serde_json::{Map, Value, json};

use super::ResourceDoc;
use super::schemas::{component, kind_of, meta_reference, reference};

/// Adds the paths of a resource below `prefix`, `/apis/group/version` or `/api/v1`.
pub(super) fn add(paths: &mut Map<String, Value>, prefix: &str, resource: &ResourceDoc<'_>) {
    let plural = resource.plural;
    let object = reference(&component(resource, resource.kind));
    let list = reference(&component(resource, resource.list_kind));
    let collection = if resource.namespaced {
        paths.insert(
            format!("{prefix}/{plural}"),
            json!({"get": operation(resource, "list", None, &list), "parameters": list_parameters()}),
        );
        format!("{prefix}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{prefix}/{plural}")
    };
    let path_parameters = |name: bool| {
        let mut parameters = Vec::new();
        if resource.namespaced {
            parameters.push(path_parameter("namespace", "Namespace of the object."));
        }
        if name {
            parameters.push(path_parameter("name", "Name of the object."));
        }
        parameters
    };
    let mut parameters = list_parameters();
    parameters.extend(path_parameters(false));
    paths.insert(
        collection.clone(),
        json!({
            "get": operation(resource, "list", None, &list),
            "post": operation(resource, "post", Some(body(&object)), &object),
            "delete": operation(resource, "deletecollection", None, &meta_reference("Status")),
            "parameters": parameters,
        }),
    );
    let one = format!("{collection}/{{name}}");
    let delete = body(&meta_reference("DeleteOptions"));
    let mut item = read_and_write(resource, &object);
    item.insert("delete".to_owned(), operation(resource, "delete", Some(delete), &meta_reference("Status")));
    item.insert("parameters".to_owned(), path_parameters(true).into());
    paths.insert(one.clone(), Value::Object(item));
    if resource.status {
        let mut item = read_and_write(resource, &object);
        item.insert("parameters".to_owned(), path_parameters(true).into());
        paths.insert(format!("{one}/status"), Value::Object(item));
    }
}

fn read_and_write(resource: &ResourceDoc<'_>, object: &Value) -> Map<String, Value> {
    let mut item = Map::new();
    item.insert("get".to_owned(), operation(resource, "get", None, object));
    item.insert("put".to_owned(), operation(resource, "put", Some(body(object)), object));
    item.insert("patch".to_owned(), operation(resource, "patch", Some(patch_body(resource)), object));
    item
}

/// One operation; clients find kinds by the extensions and learn from the parameters what the server can do.
fn operation(resource: &ResourceDoc<'_>, action: &str, body: Option<Value>, answer: &Value) -> Value {
    let content = json!({"application/json": {"schema": answer}, "application/yaml": {"schema": answer}});
    let code = if action == "post" { "201" } else { "200" };
    let mut operation = json!({
        "responses": {code: {"description": "Done.", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind_of(resource, resource.kind),
    });
    if let Some(fields) = operation.as_object_mut() {
        if let Some(body) = body {
            fields.insert("requestBody".to_owned(), body);
        }
        let parameters = write_parameters(action);
        if !parameters.is_empty() {
            fields.insert("parameters".to_owned(), parameters.into());
        }
    }
    operation
}

fn body(schema: &Value) -> Value {
    json!({"required": true, "content": {"application/json": {"schema": schema}, "application/yaml": {"schema": schema}}})
}

/// Clients choose the type of patch from this list.
fn patch_body(resource: &ResourceDoc<'_>) -> Value {
    let mut types = vec!["application/json-patch+json", "application/merge-patch+json"];
    if resource.strategic_merge {
        types.push("application/strategic-merge-patch+json");
    }
    if resource.apply {
        types.push("application/apply-patch+yaml");
    }
    let content: Map<String, Value> =
        types.into_iter().map(|name| (name.to_owned(), json!({"schema": meta_reference("Patch")}))).collect();
    json!({"required": true, "content": content})
}

fn query(name: &str, r#type: &str, description: &str) -> Value {
    json!({"name": name, "in": "query", "description": description, "schema": {"type": r#type, "uniqueItems": true}})
}

fn path_parameter(name: &str, description: &str) -> Value {
    json!({
        "name": name, "in": "path", "required": true, "description": description,
        "schema": {"type": "string", "uniqueItems": true},
    })
}

fn write_parameters(action: &str) -> Vec<Value> {
    let mut parameters = Vec::new();
    if matches!(action, "post" | "put" | "patch" | "delete" | "deletecollection") {
        parameters.push(query("dryRun", "string", "All: go through everything, but change nothing."));
    }
    if matches!(action, "post" | "put" | "patch") {
        parameters.push(query("fieldManager", "string", "Who makes the change."));
        parameters.push(query(
            "fieldValidation",
            "string",
            "What to do about unknown and repeated fields: Ignore, Warn or Strict.",
        ));
    }
    if action == "patch" {
        parameters.push(query("force", "boolean", "Take over fields that others own; for apply only."));
    }
    if action == "delete" {
        parameters.push(query("gracePeriodSeconds", "integer", "Seconds the object is given."));
        parameters.push(query("propagationPolicy", "string", "What becomes of owned objects."));
    }
    parameters
}

fn list_parameters() -> Vec<Value> {
    vec![
        query("allowWatchBookmarks", "boolean", "Whether a watch may tell how far it is."),
        query("continue", "string", "Token of the page before."),
        query("fieldSelector", "string", "Fields that objects must have."),
        query("labelSelector", "string", "Labels that objects must have."),
        query("limit", "integer", "Most objects of a page."),
        query("resourceVersion", "string", "Revision to read from."),
        query("resourceVersionMatch", "string", "How that revision is meant."),
        query("sendInitialEvents", "boolean", "Whether a watch begins with what is there."),
        query("timeoutSeconds", "integer", "When a watch ends."),
        query("watch", "boolean", "Follow changes instead of listing."),
    ]
}
