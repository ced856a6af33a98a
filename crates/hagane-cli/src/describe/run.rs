//! The installer run of a Provisioning, as `hagane describe` tells it.

use jiff::Timestamp;
use serde_json::Value;

use super::{field, section, with_header};

/// The run that comes next, and what it waits for.
pub(super) fn planned(status: &Value, name: &str) -> String {
    let Some(run) = status.get("plannedRun").filter(|run| run.is_object()) else { return String::new() };
    let mut rows = Vec::new();
    for (label, pointer) in [("For:", "/verb"), ("From:", "/fromVersion"), ("To:", "/toVersion"), ("Why:", "/reason")] {
        rows.extend(field(run, pointer).map(|value| vec![label.to_owned(), value.to_owned()]));
    }
    for (label, list) in [("Nodes:", "nodes"), ("Lost:", "lost")] {
        let names = super::strings(run.get(list));
        rows.extend((!names.is_empty()).then(|| vec![label.to_owned(), names.replace("; ", ", ")]));
    }
    if run.get("needsApproval").and_then(Value::as_bool) == Some(true) {
        let waits = format!("data may be lost: `hagane approve provisioning {name}` lets it begin");
        rows.push(vec!["Approval:".to_owned(), waits]);
    }
    rows.extend(field(run, "/id").map(|id| vec!["Id:".to_owned(), id.to_owned()]));
    section("Planned run", &rows)
}

/// What is told of the run, and the last lines of what failed.
pub(super) fn section_of(status: &Value, now: Timestamp) -> String {
    let Some(run) = status.get("run").filter(|run| run.is_object()) else { return String::new() };
    let mut rows = Vec::new();
    let named = [
        ("Installer:", "/installer"),
        ("For:", "/verb"),
        ("State:", "/state"),
        ("Why:", "/message"),
        ("Tried again:", "/retryAt"),
        ("Started:", "/startedAt"),
        ("Finished:", "/finishedAt"),
        ("Began with:", "/resumed"),
        ("Play:", "/play"),
        ("Task:", "/task"),
        ("Log:", "/log"),
        ("Id:", "/id"),
    ];
    for (label, pointer) in named {
        if let Some(value) = field(run, pointer) {
            rows.push(vec![label.to_owned(), value.to_owned()]);
        }
    }
    if let Some(attempt) = run.get("attempt").and_then(Value::as_i64).filter(|attempt| *attempt > 1) {
        rows.push(vec!["Try:".to_owned(), attempt.to_string()]);
    }
    rows.extend(times(run, now));
    if let Some(started) = run.get("tasksStarted").and_then(Value::as_i64) {
        let total =
            run.get("tasksTotal").and_then(Value::as_i64).map(|total| format!(" of {total}")).unwrap_or_default();
        rows.push(vec!["Tasks:".to_owned(), format!("{started}{total}")]);
    }
    section("Run", &rows) + &hosts(run) + &slowest(run) + &failures(run)
}

/// How long it took or takes, and what earlier runs lead to expect.
fn times(run: &Value, now: Timestamp) -> Vec<Vec<String>> {
    let number = |name: &str| run.get(name).and_then(Value::as_i64);
    let expected = number("estimatedSeconds");
    let mut rows = Vec::new();
    if let Some(seconds) = number("seconds") {
        rows.push(vec!["Took:".to_owned(), clock(seconds)]);
    }
    if let Some(expected) = expected {
        rows.push(vec!["Expected:".to_owned(), format!("{} in all, by earlier runs", clock(expected))]);
    }
    let began = field(run, "/startedAt").and_then(|text| text.parse::<Timestamp>().ok());
    if let (Some(expected), Some(began), Some("Running")) = (expected, began, field(run, "/state")) {
        let left = expected - (now.as_second() - began.as_second());
        let told = if left > 0 { format!("about {}", clock(left)) } else { "longer than expected".to_owned() };
        rows.push(vec!["Left:".to_owned(), told]);
    }
    rows
}

/// Seconds as minutes and seconds.
fn clock(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{}s", seconds / 60, seconds % 60),
        _ => format!("{}h{}m", seconds / 3600, seconds % 3600 / 60),
    }
}

fn list<'a>(run: &'a Value, name: &str) -> &'a [Value] {
    run.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn hosts(run: &Value) -> String {
    let hosts = run.get("hosts").and_then(Value::as_object).into_iter().flatten();
    let counts = hosts
        .map(|(name, counts)| {
            let number = |field: &str| counts.get(field).and_then(Value::as_i64).unwrap_or(0).to_string();
            vec![
                name.clone(),
                number("ok"),
                number("changed"),
                number("failed"),
                number("unreachable"),
                number("skipped"),
            ]
        })
        .collect();
    with_header("Tasks by host", &["HOST", "OK", "CHANGED", "FAILED", "UNREACHABLE", "SKIPPED"], counts)
}

fn slowest(run: &Value) -> String {
    let rows = list(run, "slowest").iter().take(5).filter_map(|time| {
        let seconds = time.get("seconds").and_then(Value::as_i64).filter(|seconds| *seconds > 0)?;
        let text = |name: &str| field(time, name).unwrap_or("").to_owned();
        Some(vec![text("/task"), text("/host"), clock(seconds)])
    });
    with_header("Slowest tasks (all: hagane logs --timings)", &["TASK", "HOST", "TIME"], rows.collect())
}

fn failures(run: &Value) -> String {
    let failures = list(run, "failures");
    let row = |failure: &Value| {
        let cell = |name: &&str| field(failure, name).unwrap_or("").to_owned();
        ["/host", "/state", "/task", "/message"].iter().map(cell).collect()
    };
    let mut text = with_header("Failures", &["HOST", "STATE", "TASK", "MESSAGE"], failures.iter().map(row).collect());
    for failure in failures {
        let Some(output) = field(failure, "/output") else { continue };
        let host = field(failure, "/host").unwrap_or("");
        let lines: String = output.lines().map(|line| format!("  {line}\n")).collect();
        text.push_str(&format!("\nLast output of {:?} on {host}:\n{lines}", field(failure, "/task").unwrap_or("")));
    }
    text
}
