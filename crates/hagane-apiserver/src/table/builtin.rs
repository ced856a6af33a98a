//! Columns of the kinds whose cells are more than one value of the object.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::since;
use super::{Cell, Columns, Definition};

fn column(name: &str, r#type: &str, priority: i32, description: &str, cell: fn(&Value, Timestamp) -> Value) -> Column {
    let format = if name == "Name" { "name" } else { "" };
    let definition = Definition {
        name: name.to_owned(),
        r#type: r#type.to_owned(),
        format: format.to_owned(),
        description: description.to_owned(),
        priority,
    };
    (definition, Cell::Computed(cell))
}

type Column = (Definition, Cell);

fn text(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().into()
}

pub(super) fn name() -> Column {
    column("Name", "string", 0, "Name, unique in its namespace among the objects of the kind.", |object, _| {
        text(object, "/metadata/name")
    })
}

pub(super) fn age() -> Column {
    column("Age", "string", 0, "How long ago the object was made.", |object, now| {
        since(object.pointer("/metadata/creationTimestamp"), now)
    })
}

/// The columns of a built-in kind; none for other kinds.
pub(super) fn columns(group: &str, kind: &str) -> Option<Columns> {
    let columns = match (group, kind) {
        ("", "Namespace") => vec![
            name(),
            column("Status", "string", 0, "Active or Terminating.", |object, _| text(object, "/status/phase")),
            age(),
        ],
        ("", "ConfigMap") => vec![name(), data("/data", "/binaryData"), age()],
        ("", "Secret") => vec![
            name(),
            column("Type", "string", 0, "What the secret is for.", |object, _| text(object, "/type")),
            data("/data", "/stringData"),
            age(),
        ],
        ("", "ServiceAccount") => vec![name(), age()],
        ("coordination.k8s.io", "Lease") => vec![
            name(),
            column("Holder", "string", 0, "Who holds it.", |object, _| text(object, "/spec/holderIdentity")),
            age(),
        ],
        ("apiextensions.k8s.io", "CustomResourceDefinition") => vec![
            name(),
            column("Created At", "date", 0, "When the object was made.", |object, _| {
                text(object, "/metadata/creationTimestamp")
            }),
        ],
        ("" | "events.k8s.io", "Event") => events(),
        _ => return None,
    };
    Some(Columns { columns })
}

/// How many keys stand in either of two maps.
fn data(first: &'static str, second: &'static str) -> Column {
    let definition = Definition {
        name: "Data".to_owned(),
        r#type: "integer".to_owned(),
        format: String::new(),
        description: "How many keys it holds.".to_owned(),
        priority: 0,
    };
    (definition, Cell::KeysOf([first, second]))
}

fn events() -> Vec<Column> {
    vec![
        column("Last Seen", "string", 0, "When it happened last.", |event, now| since(last_seen(event), now)),
        column("Type", "string", 0, "Normal or Warning.", |event, _| text(event, "/type")),
        column("Reason", "string", 0, "What happened, in one word.", |event, _| text(event, "/reason")),
        column("Object", "string", 0, "The object it is about.", |event, _| {
            let object = either(event, "involvedObject", "regarding");
            let part = |name: &str| object.and_then(|object| object.get(name)?.as_str()).unwrap_or_default();
            match part("kind") {
                "" => part("name").into(),
                kind => format!("{}/{}", kind.to_lowercase(), part("name")).into(),
            }
        }),
        column("Subobject", "string", 1, "Part of the object it is about.", |event, _| {
            let object = either(event, "involvedObject", "regarding");
            object.and_then(|object| object.get("fieldPath")).cloned().unwrap_or_else(|| json!(""))
        }),
        column("Source", "string", 1, "Who reported it.", |event, _| source(event)),
        column("Message", "string", 0, "What happened, for people.", |event, _| {
            let message = either(event, "message", "note").and_then(Value::as_str).unwrap_or_default();
            message.trim().into()
        }),
        column("First Seen", "string", 1, "When it happened first.", |event, now| {
            let first = either(event, "firstTimestamp", "deprecatedFirstTimestamp");
            since(first.filter(|time| !time.is_null()).or_else(|| event.get("eventTime")), now)
        }),
        column("Count", "string", 1, "How often it happened.", |event, _| count(event)),
        {
            let (definition, cell) = name();
            (Definition { priority: 1, ..definition }, cell)
        },
    ]
}

/// A field under the name of either group of events.
fn either<'a>(event: &'a Value, core: &str, new: &str) -> Option<&'a Value> {
    event.get(core).or_else(|| event.get(new))
}

fn last_seen(event: &Value) -> Option<&Value> {
    let series = event.pointer("/series/lastObservedTime");
    let last = either(event, "lastTimestamp", "deprecatedLastTimestamp");
    [series, last, event.get("eventTime")].into_iter().flatten().find(|time| !time.is_null())
}

fn source(event: &Value) -> Value {
    let source = either(event, "source", "deprecatedSource");
    let part = |name: &str| source.and_then(|source| source.get(name)?.as_str()).unwrap_or_default();
    let reporter = either(event, "reportingComponent", "reportingController").and_then(Value::as_str);
    match (part("component"), part("host")) {
        ("", _) => reporter.unwrap_or_default().into(),
        (component, "") => component.into(),
        (component, host) => format!("{component}, {host}").into(),
    }
}

fn count(event: &Value) -> Value {
    let series = event.pointer("/series/count");
    let count = series.or_else(|| either(event, "count", "deprecatedCount")).and_then(Value::as_i64);
    // An event without a count happened once.
    count.filter(|count| *count > 0).unwrap_or(1).to_string().into()
}
