//! How long plays, tasks and hosts of a run took.

use std::io;
use std::path::Path;

use serde_json::Value;

use crate::{CliError, output};

/// Most tasks shown: the ones that took longest.
const TASKS_SHOWN: usize = 30;
/// Hosts shown of a task: the slowest.
const HOSTS_SHOWN: usize = 3;

/// The page: of the run's own record once it has ended and is on this machine, else of its status.
pub(super) fn page(directory: &Path, object: &Value) -> Result<String, CliError> {
    let path = directory.join("timings.json");
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map(|record: Value| of_record(&record))
            .map_err(|source| CliError::Content { path, problem: source.to_string() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(of_status(object)),
        Err(source) => Err(CliError::File { operation: "read", path, source }),
    }
}

fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn seconds(value: Option<&Value>) -> f64 {
    value.and_then(Value::as_f64).unwrap_or_default()
}

fn shown(seconds: f64) -> String {
    format!("{seconds:.1}")
}

/// Hosts with their seconds, the slowest first.
fn slowest_hosts(hosts: Option<&Value>) -> Vec<(String, f64)> {
    let hosts = hosts.and_then(Value::as_object).into_iter().flatten();
    let mut hosts: Vec<_> = hosts.map(|(host, value)| (host.clone(), seconds(Some(value)))).collect();
    hosts.sort_by(|one, other| other.1.total_cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    hosts
}

fn section(names: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let head = names.iter().map(ToString::to_string).collect();
    output::table(&[vec![head], rows].concat()) + "\n"
}

fn of_record(record: &Value) -> String {
    let plays = list(record, "plays");
    let play_rows = plays.iter().map(|play| vec![text(play, "play"), shown(seconds(play.get("seconds")))]).collect();
    let mut tasks: Vec<(&Value, f64)> =
        plays.iter().flat_map(|play| list(play, "tasks")).map(|task| (task, seconds(task.get("seconds")))).collect();
    let left_out = tasks.len().saturating_sub(TASKS_SHOWN);
    tasks.sort_by(|one, other| other.1.total_cmp(&one.1));
    let task_rows = tasks
        .into_iter()
        .take(TASKS_SHOWN)
        .map(|(task, length)| {
            let hosts = slowest_hosts(task.get("hosts"));
            let named = hosts.iter().take(HOSTS_SHOWN).map(|(host, length)| format!("{host} {}", shown(*length)));
            vec![text(task, "task"), shown(length), named.collect::<Vec<_>>().join(", ")]
        })
        .collect();
    let hosts = slowest_hosts(record.get("hosts"));
    let host_rows = hosts.into_iter().map(|(host, length)| vec![host, shown(length)]).collect();
    let rest = if left_out > 0 { format!("and {left_out} tasks that took less\n\n") } else { String::new() };
    section(&["PLAY", "SECONDS"], play_rows)
        + &section(&["TASK", "SECONDS", "SLOWEST HOSTS"], task_rows)
        + &rest
        + section(&["HOST", "SECONDS IN TASKS"], host_rows).trim_end_matches('\n')
        + "\n"
}

fn of_status(object: &Value) -> String {
    let run = object.pointer("/status/run").unwrap_or(&Value::Null);
    let length = |value: &Value| match value.get("seconds") {
        Some(_) => shown(seconds(value.get("seconds"))),
        None => "goes on".to_owned(),
    };
    let plays = list(run, "plays").iter().map(|play| vec![text(play, "play"), length(play)]).collect();
    let tasks = list(run, "slowest").iter().map(|task| vec![text(task, "task"), length(task), text(task, "host")]);
    section(&["PLAY", "SECONDS"], plays)
        + section(&["TASK", "SECONDS", "SLOWEST HOST"], tasks.collect()).trim_end_matches('\n')
        + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_record_of_an_ended_run_tells_plays_tasks_and_hosts_slowest_first() {
        let place = tempfile::tempdir().expect("a directory");
        let record = json!({
            "plays": [{"play": "Nodes", "seconds": 12.5, "tasks": [
                {"task": "Copy", "seconds": 2.0, "hosts": {"m0": 1.0, "w0": 2.0}},
                {"task": "Join", "seconds": 10.5, "hosts": {"m0": 1.0, "w0": 10.5, "w1": 9.0, "w2": 3.0}},
            ]}],
            "hosts": {"m0": 2.0, "w0": 12.5},
        });
        std::fs::write(place.path().join("timings.json"), record.to_string()).expect("a file");
        let page = page(place.path(), &Value::Null).expect("a page");
        insta::assert_snapshot!(page, @r"
        PLAY   SECONDS
        Nodes  12.5

        TASK  SECONDS  SLOWEST HOSTS
        Join  10.5     w0 10.5, w1 9.0, w2 3.0
        Copy  2.0      w0 2.0, m0 1.0

        HOST  SECONDS IN TASKS
        w0    12.5
        m0    2.0
        ");
    }

    #[test]
    fn of_a_run_that_goes_on_the_status_tells() {
        let object = json!({"status": {"run": {
            "plays": [{"play": "One", "seconds": 3}, {"play": "Two"}],
            "slowest": [{"task": "Join", "host": "w0", "seconds": 2}],
        }}});
        let page = page(Path::new("/nonexistent"), &object).expect("a page");
        assert!(page.contains("Two   goes on") && page.contains("Join  2.0      w0"), "{page}");
    }
}
