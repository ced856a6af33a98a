//! `hagane describe`: an object as a page for people.

mod run;

use std::process::ExitCode;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DynamicObject, ListParams};
use serde_json::{Value, json};

use crate::args::{DescribeArgs, Format};
use crate::resource::{api_error, find_all};
use crate::{CliError, connect, output};

pub(crate) async fn run(args: &DescribeArgs) -> Result<ExitCode, CliError> {
    let client = connect::client(&args.api.kubeconfig).await?;
    // Both spellings of a group may hold an object of the name: each is told, by its full resource name.
    let found = find_all(&client, args.subject, &args.api.namespace, &args.name).await?;
    if let Some(format) = args.output {
        let objects: Vec<_> = found.into_iter().map(|(_, object)| object).collect();
        output::write(&render_all(&objects, format)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let events: Api<Event> = Api::namespaced(client, &args.api.namespace);
    for (index, (kind, object)) in found.iter().enumerate() {
        let uid = object.metadata.uid.clone().unwrap_or_default();
        let selector = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let events = events.list(&selector).await.map_err(|source| api_error("list events", source))?.items;
        let page = page(&kind.full_name(), object, &events, output::now());
        output::write(&if index == 0 { page } else { format!("\n\n{page}") })?;
    }
    Ok(ExitCode::SUCCESS)
}

/// One object as it is, several as a List.
fn render_all(objects: &[DynamicObject], format: Format) -> Result<String, CliError> {
    match objects {
        [object] => output::render(object, format),
        _ => output::render(&json!({"apiVersion": "v1", "kind": "List", "items": objects}), format),
    }
}

/// The whole page.
pub(crate) fn page(resource: &str, object: &DynamicObject, events: &[Event], now: Timestamp) -> String {
    let mut text = header(resource, object, now);
    let status = object.data.get("status").unwrap_or(&Value::Null);
    text.push_str(&conditions(status, now));
    text.push_str(&plan(status));
    let hosts = crate::software::rows(status);
    text.push_str(&with_header("Hosts", &["NODE", "HOST", "STATE", "PACKAGES", "MESSAGE"], hosts));
    text.push_str(&run::planned(status, object.metadata.name.as_deref().unwrap_or_default()));
    text.push_str(&run::section_of(status, now));
    text.push_str(&facts(status));
    text.push_str(&event_lines(events, now));
    text
}

pub(super) fn field<'a>(value: &'a Value, pointer: &str) -> Option<&'a str> {
    value.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn header(resource: &str, object: &DynamicObject, now: Timestamp) -> String {
    let metadata = &object.metadata;
    let mut rows = vec![
        vec!["Name:".to_owned(), metadata.name.clone().unwrap_or_default()],
        vec!["Namespace:".to_owned(), metadata.namespace.clone().unwrap_or_default()],
        vec!["Resource:".to_owned(), resource.to_owned()],
    ];
    if let Some(created) = &metadata.creation_timestamp {
        rows.push(vec!["Age:".to_owned(), output::age(created.0, now)]);
    }
    let named = [
        ("Cluster:", "/status/cluster"),
        ("Phase:", "/status/phase"),
        ("Provider ID:", "/spec/providerID"),
        ("State:", "/status/provisioning/state"),
        ("Kubeconfig:", "/status/kubeconfigSecret"),
        ("Error:", "/status/errorMessage"),
    ];
    for (label, pointer) in named {
        if let Some(value) = field(&object.data, pointer) {
            rows.push(vec![label.to_owned(), value.to_owned()]);
        }
    }
    if let Some(deleted) = &metadata.deletion_timestamp {
        let waiting = metadata.finalizers.clone().unwrap_or_default().join(", ");
        rows.push(vec!["Deleting:".to_owned(), format!("for {}, finalizers: {waiting}", output::age(deleted.0, now))]);
    }
    output::table(&rows)
}

pub(super) fn section(title: &str, rows: &[Vec<String>]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let body: String = output::table(rows).lines().map(|line| format!("  {line}\n")).collect();
    format!("\n{title}:\n{body}")
}

fn conditions(status: &Value, now: Timestamp) -> String {
    let list = status.get("conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let rows: Vec<_> = list
        .iter()
        .map(|condition| {
            let since = field(condition, "/lastTransitionTime").and_then(|text| text.parse::<Timestamp>().ok());
            let text = |pointer| field(condition, pointer).unwrap_or("").to_owned();
            vec![
                text("/type"),
                text("/status"),
                since.map(|since| output::age(since, now)).unwrap_or_default(),
                text("/reason"),
                text("/message"),
            ]
        })
        .collect();
    with_header("Conditions", &["TYPE", "STATUS", "SINCE", "REASON", "MESSAGE"], rows)
}

pub(super) fn with_header(title: &str, names: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut all = vec![names.iter().map(ToString::to_string).collect::<Vec<_>>()];
    all.extend(rows);
    section(title, &all)
}

fn strings(value: Option<&Value>) -> String {
    let list = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("; ")
}

fn plan(status: &Value) -> String {
    let entries = |name: &str| {
        status.pointer(&format!("/plan/{name}")).and_then(Value::as_array).map_or(&[][..], Vec::as_slice).to_vec()
    };
    let text = |value: &Value, pointer: &str| field(value, pointer).unwrap_or("").to_owned();
    let nodes = entries("assignments")
        .iter()
        .map(|entry| {
            vec![
                text(entry, "/node"),
                strings(entry.get("roles")).replace("; ", ","),
                text(entry, "/host"),
                text(entry, "/address"),
                strings(entry.get("reasons")),
            ]
        })
        .collect();
    let unmet = entries("unsatisfied");
    let unmet = unmet.iter().map(|entry| vec![text(entry, "/demand"), text(entry, "/short"), text(entry, "/change")]);
    let spare = status.pointer("/plan/spare").filter(|spare| spare.is_object()).map(|spare| {
        let amount = |field: &str| spare[field].as_str().map_or_else(|| spare[field].to_string(), str::to_owned);
        ["hosts", "cpu", "memory", "disk", "unknown"].map(amount).to_vec()
    });
    let rejected =
        entries("rejected").iter().map(|entry| vec![text(entry, "/host"), strings(entry.get("reasons"))]).collect();
    with_header("Plan", &["NODE", "ROLES", "HOST", "ADDRESS", "WHY"], nodes)
        + &with_header("Not met", &["DEMAND", "SHORT", "NEAREST CHANGE"], unmet.collect())
        + &with_header("Hosts not taken", &["HOST", "WHY"], rejected)
        + &with_header("Spare capacity", &["HOSTS", "CPU", "MEMORY", "DISK", "UNKNOWN"], spare.into_iter().collect())
}

fn facts(status: &Value) -> String {
    let mut rows = Vec::new();
    let addresses = status.get("addresses").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for address in addresses {
        let text = |pointer| field(address, pointer).unwrap_or("").to_owned();
        rows.push(vec![format!("{}:", text("/type")), text("/address")]);
    }
    let named = [
        ("Domain:", "/providerStatus/domain"),
        ("Domain state:", "/providerStatus/instanceState"),
        ("MAC:", "/providerStatus/mac"),
        ("SSH host key:", "/providerStatus/sshHostKey"),
        ("CPU:", "/hardware/cpu/model"),
    ];
    for (label, pointer) in named {
        if let Some(value) = field(status, pointer) {
            rows.push(vec![label.to_owned(), value.to_owned()]);
        }
    }
    let numbers = [
        ("CPUs:", "/hardware/cpu/count", ""),
        ("Memory:", "/hardware/ramMebibytes", " MiB"),
        ("vCPUs:", "/providerStatus/resolved/vcpu", ""),
        ("Memory:", "/providerStatus/resolved/memoryInGB", " GiB"),
        ("Disk:", "/providerStatus/resolved/diskInGB", " GiB"),
    ];
    for (label, pointer, unit) in numbers {
        if let Some(value) = status.pointer(pointer).and_then(Value::as_i64) {
            rows.push(vec![label.to_owned(), format!("{value}{unit}")]);
        }
    }
    section("Facts", &rows)
}

fn event_lines(events: &[Event], now: Timestamp) -> String {
    let when = |event: &Event| {
        let last = event.last_timestamp.as_ref().map(|time| time.0).or(event.event_time.as_ref().map(|time| time.0));
        last.or(event.metadata.creation_timestamp.as_ref().map(|time| time.0)).unwrap_or(now)
    };
    let mut sorted: Vec<_> = events.iter().collect();
    // Times are whole seconds; what was written later has the higher version.
    let version = |event: &Event| event.metadata.resource_version.as_ref().and_then(|text| text.parse::<u64>().ok());
    sorted.sort_by_key(|event| (when(event), version(event)));
    let rows = sorted
        .iter()
        .map(|event| {
            let count = event.count.filter(|count| *count > 1).map(|count| format!(" (x{count})")).unwrap_or_default();
            vec![
                output::age(when(event), now) + &count,
                event.type_.clone().unwrap_or_default(),
                event.reason.clone().unwrap_or_default(),
                event.message.clone().unwrap_or_default(),
            ]
        })
        .collect();
    with_header("Events", &["AGE", "TYPE", "REASON", "MESSAGE"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_object_is_rendered_as_it_is_and_two_of_one_name_as_a_list() {
        let object = |group: &str| -> DynamicObject {
            let object =
                json!({"apiVersion": format!("{group}/v1alpha1"), "kind": "Machine", "metadata": {"name": "a"}});
            serde_json::from_value(object).expect("an object")
        };
        let read = |text: String| -> Value { serde_json::from_str(&text).expect("JSON") };
        let (one, two) = (object("cluster.k8s.io"), object("cluster-api.k8s.io"));
        let alone = read(render_all(std::slice::from_ref(&one), Format::Json).expect("rendered"));
        assert_eq!(alone["apiVersion"], "cluster.k8s.io/v1alpha1");
        let both = read(render_all(&[one, two], Format::Json).expect("rendered"));
        assert_eq!(
            (&both["kind"], &both["items"][1]["apiVersion"]),
            (&json!("List"), &json!("cluster-api.k8s.io/v1alpha1"))
        );
    }

    #[test]
    fn a_page_tells_phase_conditions_plan_and_run() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "bpa.akraino.org/v1alpha1", "kind": "Provisioning",
            "metadata": {"name": "edge-1", "namespace": "lab", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {},
            "status": {
                "cluster": "edge-1", "phase": "Installing",
                "conditions": [{
                    "type": "Ready", "status": "False", "reason": "Installing", "message": "task 12 of 80",
                    "lastTransitionTime": "2026-01-01T00:00:05Z",
                }],
                "plan": {
                    "assignments": [{
                        "node": "edge-1-master-0", "roles": ["master", "worker"], "host": "h1", "address": "192.0.2.1",
                        "reasons": ["smallest that fits"],
                    }],
                    "unsatisfied": [{"demand": "w: 4 CPUs", "short": "1 host short", "change": "add a host with 4 CPUs"}],
                    "spare": {"hosts": 2, "cpu": "3", "memory": "6Gi", "disk": "0", "unknown": 1},
                    "rejected": [{"host": "h2", "reasons": ["claimed by edge-2"]}],
                },
                "run": {
                    "installer": "kubeadm", "verb": "Install", "state": "Running", "task": "Init", "tasksStarted": 12,
                    "tasksTotal": 80, "attempt": 2, "estimatedSeconds": 95, "startedAt": "2026-01-01T00:00:30Z",
                    "slowest": [{"task": "Copy", "host": "edge-1-master-0", "seconds": 61}],
                    "hosts": {"edge-1-master-0": {"ok": 11, "changed": 3, "failed": 0, "unreachable": 0, "skipped": 1}},
                    "failures": [{
                        "host": "h", "state": "failed", "task": "T", "message": "non-zero return code",
                        "output": "first\nlast",
                    }],
                },
            },
        }))
        .expect("a whole object");
        let now = "2026-01-01T00:01:00Z".parse().expect("a time");
        insta::assert_snapshot!(page("provisionings.bpa.akraino.org", &object, &[], now));
    }

    #[test]
    fn events_of_one_second_come_in_the_order_they_were_written() {
        let event = |reason: &str, version: &str| -> Event {
            serde_json::from_value(json!({
                "metadata": {"name": reason, "resourceVersion": version}, "involvedObject": {},
                "reason": reason, "lastTimestamp": "2026-01-01T00:00:00Z",
            }))
            .expect("a whole event")
        };
        let now = "2026-01-01T00:00:01Z".parse().expect("a time");
        let text = event_lines(&[event("Ready", "100"), event("Fetching", "99")], now);
        assert!(text.find("Fetching") < text.find("Ready"), "{text}");
    }
}
