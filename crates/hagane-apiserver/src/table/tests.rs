use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::{Columns, Definition, Include, Style, table};

fn now() -> Timestamp {
    "2026-11-30T10:00:00Z".parse().expect("is a time")
}

fn definition(name: &str, r#type: &str) -> Definition {
    Definition {
        name: name.to_owned(),
        r#type: r#type.to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
    }
}

fn cells(group: &str, kind: &str, object: &Value) -> Value {
    Columns::builtin(group, kind).expect("has columns").cells(object, now())
}

#[test]
fn shows_defined_columns_in_their_types() {
    let columns = Columns::defined([
        (definition("Count", "integer"), ".spec.count"),
        (definition("Cut", "integer"), ".spec.real"),
        (definition("Real", "number"), ".spec.real"),
        (definition("Flag", "boolean"), ".spec.flag"),
        (definition("Text", "string"), ".spec.count"),
        (definition("List", "string"), ".spec.list"),
        (definition("Since", "date"), ".metadata.creationTimestamp"),
        (definition("Wrong", "integer"), ".spec.flag"),
        (definition("Odd", "date"), ".spec.flag"),
        (definition("Missing", "string"), ".spec.missing"),
    ]);
    let object = json!({
        "metadata": {"name": "n", "creationTimestamp": "2026-11-30T09:54:30Z"},
        "spec": {"count": 3, "real": 2.5, "flag": true, "list": ["a"]},
    });
    assert_eq!(
        columns.cells(&object, now()),
        json!(["n", 3, 2, 2.5, true, "3", r#"["a"]"#, "5m30s", null, "<invalid>", null])
    );
}

#[test]
fn shows_name_and_age_where_nothing_is_defined() {
    let columns = Columns::defined(Vec::<(Definition, String)>::new());
    let object = json!({"metadata": {"name": "n"}});
    assert_eq!(columns.cells(&object, now()), json!(["n", "<unknown>"]));
    assert_eq!(columns.definitions()[0]["format"], "name");
    assert_eq!(columns.definitions()[1]["name"], "Age");
}

#[test]
fn shows_built_in_kinds() {
    let meta = json!({"name": "n", "creationTimestamp": "2026-11-30T09:00:00Z"});
    let namespace = json!({"metadata": meta, "status": {"phase": "Active"}});
    assert_eq!(cells("", "Namespace", &namespace), json!(["n", "Active", "60m"]));
    let map = json!({"metadata": meta, "data": {"a": "", "b": ""}, "binaryData": {"c": ""}});
    assert_eq!(cells("", "ConfigMap", &map), json!(["n", 3, "60m"]));
    let secret = json!({"metadata": meta, "type": "Opaque", "data": {"a": ""}});
    assert_eq!(cells("", "Secret", &secret), json!(["n", "Opaque", 1, "60m"]));
    let lease = json!({"metadata": meta, "spec": {"holderIdentity": "me"}});
    assert_eq!(cells("coordination.k8s.io", "Lease", &lease), json!(["n", "me", "60m"]));
    let definition = json!({"metadata": meta});
    let kind = "CustomResourceDefinition";
    assert_eq!(cells("apiextensions.k8s.io", kind, &definition), json!(["n", "2026-11-30T09:00:00Z"]));
    assert!(Columns::builtin("bpa.akraino.org", "Provisioning").is_none());
}

#[test]
fn shows_events_of_both_groups_alike() {
    let core = json!({
        "metadata": {"name": "e"}, "type": "Normal", "reason": "Started", "message": "it runs\n", "count": 4,
        "involvedObject": {"kind": "Machine", "name": "m", "fieldPath": "spec"},
        "source": {"component": "hagane", "host": "h"},
        "firstTimestamp": "2026-11-30T09:00:00Z", "lastTimestamp": "2026-11-30T09:59:00Z",
    });
    let new = json!({
        "metadata": {"name": "e"}, "type": "Normal", "reason": "Started", "note": "it runs", "deprecatedCount": 4,
        "regarding": {"kind": "Machine", "name": "m", "fieldPath": "spec"},
        "deprecatedSource": {"component": "hagane", "host": "h"},
        "deprecatedFirstTimestamp": "2026-11-30T09:00:00Z", "deprecatedLastTimestamp": "2026-11-30T09:59:00Z",
    });
    let wanted = json!(["60s", "Normal", "Started", "machine/m", "spec", "hagane, h", "it runs", "60m", "4", "e"]);
    assert_eq!(cells("", "Event", &core), wanted);
    assert_eq!(cells("events.k8s.io", "Event", &new), wanted);
    let series = json!({
        "metadata": {"name": "e"}, "eventTime": "2026-11-30T09:50:00.000000Z", "reportingController": "c",
        "series": {"count": 9, "lastObservedTime": "2026-11-30T09:59:50.000000Z"}, "lastTimestamp": null,
    });
    assert_eq!(cells("", "Event", &series), json!(["10s", "", "", "", "", "c", "", "10m", "9", "e"]));
}

#[test]
fn writes_rows_with_as_much_of_the_object_as_asked() {
    let columns = Columns::defined(Vec::<(Definition, String)>::new());
    let object = json!({"kind": "K", "metadata": {"name": "n"}, "spec": {}});
    let mut metadata = Map::new();
    metadata.insert("resourceVersion".to_owned(), "7".into());
    let style = Style { include: Include::Metadata, beta: false, definitions: true, now: now() };
    let shown = table(&columns, std::slice::from_ref(&object), metadata.clone(), style);
    assert_eq!(shown["kind"], "Table");
    assert_eq!(shown["metadata"]["resourceVersion"], "7");
    assert_eq!(shown["columnDefinitions"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        shown["rows"][0]["object"],
        json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "n"}})
    );
    let style = Style { include: Include::Object, beta: true, definitions: false, now: now() };
    let shown = table(&columns, std::slice::from_ref(&object), metadata, style);
    assert_eq!(shown["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(shown["columnDefinitions"], json!([]));
    assert_eq!(shown["rows"][0]["object"], object);
    assert_eq!(Include::parse("None"), Some(Include::None));
    assert_eq!(Include::parse("Everything"), None);
}
