use serde_json::{Value, json};

use super::{Document, ResourceDoc, document, index};

fn resource(schema: &Value) -> ResourceDoc<'_> {
    ResourceDoc {
        group: "things.example.com",
        version: "v1",
        kind: "Widget",
        list_kind: "WidgetList",
        plural: "widgets",
        namespaced: true,
        schema,
        status: true,
        builtin: false,
        strategic_merge: false,
        apply: false,
    }
}

fn parsed(document: &Document) -> Value {
    serde_json::from_slice(&document.bytes).expect("is JSON")
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| references(value, found));
        }
        Value::Array(elements) => elements.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn tells_kubectl_how_to_validate_and_patch() {
    let schema = json!({"type": "object", "description": "A thing.", "properties": {
        "metadata": {"type": "object"}, "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
    }});
    let document = document("things.example.com", "v1", &[resource(&schema)]);
    assert_eq!(document.path, "apis/things.example.com/v1");
    let shown = parsed(&document);
    let one = "/apis/things.example.com/v1/namespaces/{namespace}/widgets/{name}";
    let patch = &shown["paths"][one]["patch"];
    let kind = json!({"group": "things.example.com", "version": "v1", "kind": "Widget"});
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let names: Vec<_> = patch["parameters"].as_array().expect("has some").iter().map(|row| &row["name"]).collect();
    assert!(names.contains(&&json!("fieldValidation")) && names.contains(&&json!("dryRun")));
    assert!(patch["requestBody"]["content"].get("application/strategic-merge-patch+json").is_none());
    assert!(shown["paths"].get(format!("{one}/status")).is_some());
    assert_eq!(shown["paths"]["/apis/things.example.com/v1/widgets"]["get"]["x-kubernetes-action"], "list");
    let component = &shown["components"]["schemas"]["com.example.things.v1.Widget"];
    assert_eq!(component["x-kubernetes-group-version-kind"], json!([kind]));
    let meta = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(component["properties"]["metadata"]["allOf"][0]["$ref"], meta);
    assert_eq!(component["properties"]["spec"]["properties"]["size"]["type"], "integer");
}

#[test]
fn every_reference_leads_somewhere() {
    let schema = json!({"type": "object"});
    let cluster = ResourceDoc { namespaced: false, ..resource(&schema) };
    let shown = parsed(&document("things.example.com", "v1", &[cluster]));
    let mut found = Vec::new();
    references(&shown, &mut found);
    assert!(!found.is_empty());
    for reference in found {
        assert!(shown.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
}

#[test]
fn built_in_kinds_take_strategic_merge_patches_and_have_their_known_names() {
    let schema = json!({"type": "object"});
    let namespace = ResourceDoc {
        group: "",
        kind: "Namespace",
        list_kind: "NamespaceList",
        plural: "namespaces",
        namespaced: false,
        builtin: true,
        strategic_merge: true,
        ..resource(&schema)
    };
    let document = document("", "v1", &[namespace]);
    assert_eq!(document.path, "api/v1");
    let shown = parsed(&document);
    let types = &shown["paths"]["/api/v1/namespaces/{name}"]["patch"]["requestBody"]["content"];
    assert!(types.get("application/strategic-merge-patch+json").is_some());
    assert!(shown["components"]["schemas"].get("io.k8s.api.core.v1.Namespace").is_some());
}

#[test]
fn leaves_a_free_object_bare_and_hashes_what_it_says() {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let closed = json!({"type": "object"});
    let (first, second) = (
        document("things.example.com", "v1", &[resource(&free)]),
        document("things.example.com", "v1", &[resource(&closed)]),
    );
    assert!(parsed(&first)["components"]["schemas"]["com.example.things.v1.Widget"].get("properties").is_none());
    assert_ne!(first.hash, second.hash);
    assert_eq!(first.hash.len(), 128);
    let url = format!("/openapi/v3/apis/things.example.com/v1?hash={}", first.hash);
    assert_eq!(index([&first]), json!({"paths": {"apis/things.example.com/v1": {"serverRelativeURL": url}}}));
}
