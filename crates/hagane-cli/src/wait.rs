//! `hagane wait`: until an object is where it should be, telling what it waits for.

use std::process::ExitCode;
use std::time::Duration;

use futures::StreamExt;
use indicatif::{ProgressBar, ProgressStyle};
use kube::api::{DynamicObject, WatchEvent, WatchParams};
use serde_json::Value;

use crate::args::WaitArgs;
use crate::resource::{api, api_error, find, word};
use crate::{CliError, connect};

/// Word of `--for` that waits until the object is gone.
const DELETED: &str = "deleted";
/// Phase in which waiting for another one is over.
const FAILED: &str = "Failed";
/// Phase and condition of what is as it should be.
const READY: &str = "Ready";
/// Condition that tells whether what stands is what the spec asks for now.
const UP_TO_DATE: &str = "UpToDate";

pub(crate) async fn run(args: &WaitArgs) -> Result<ExitCode, CliError> {
    let client = connect::client(&args.api.kubeconfig).await?;
    let progress = Progress::new(word(args.subject), &args.name);
    let limit = Duration::from_secs(args.timeout);
    match tokio::time::timeout(limit, until(&client, args, &progress)).await {
        Ok(result) => result,
        Err(_) => Err(CliError::NotYet(format!(
            "{} {:?} is not {} after {} s: {}",
            word(args.subject),
            args.name,
            args.target,
            args.timeout,
            progress.last()
        ))),
    }
}

async fn until(client: &kube::Client, args: &WaitArgs, progress: &Progress) -> Result<ExitCode, CliError> {
    loop {
        let (kind, object) = match find(client, args.subject, &args.api.namespace, &args.name).await {
            Err(CliError::NotFound { .. }) if args.target == DELETED => return Ok(ExitCode::SUCCESS),
            other => other?,
        };
        if let Some(code) = judge(&object, args, progress)? {
            return Ok(code);
        }
        let version = object.metadata.resource_version.clone().unwrap_or_default();
        let parameters = WatchParams::default().fields(&format!("metadata.name={}", args.name)).timeout(290);
        let objects = api(client, kind, &args.api.namespace);
        let stream = objects.watch(&parameters, &version).await.map_err(|source| api_error("watch", source))?;
        let mut stream = stream.boxed();
        while let Some(event) = stream.next().await {
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    if let Some(code) = judge(&object, args, progress)? {
                        return Ok(code);
                    }
                }
                Ok(WatchEvent::Deleted(_)) if args.target == DELETED => return Ok(ExitCode::SUCCESS),
                Ok(WatchEvent::Bookmark(_)) => {}
                // Deleted, expired or cut: look again.
                Ok(WatchEvent::Deleted(_) | WatchEvent::Error(_)) | Err(_) => break,
            }
        }
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn judge(object: &DynamicObject, args: &WaitArgs, progress: &Progress) -> Result<Option<ExitCode>, CliError> {
    let summary = summary(&object.data);
    progress.show(&summary, &object.data);
    let verdict = verdict(object, &args.target);
    if verdict == Verdict::GoesOn {
        return Ok(None);
    }
    progress.finish();
    if verdict == Verdict::Reached {
        return Ok(Some(ExitCode::SUCCESS));
    }
    Err(CliError::NotYet(format!("{} {:?} failed: {summary}", word(args.subject), args.name)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    GoesOn,
    Reached,
    Failed,
}

fn verdict(object: &DynamicObject, target: &str) -> Verdict {
    let observed = object.data.pointer("/status/observedGeneration").and_then(Value::as_i64);
    if observed.zip(object.metadata.generation).is_some_and(|(observed, generation)| observed < generation) {
        // What the status says is about an earlier spec.
        return Verdict::GoesOn;
    }
    let phase = object.data.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if reached(&object.data, target) {
        return Verdict::Reached;
    }
    let stays_behind = phase == READY && target == READY;
    if (phase == FAILED || stays_behind) && target != DELETED { Verdict::Failed } else { Verdict::GoesOn }
}

/// Whether the phase is the target, or a condition of that type is true. What stands but is not up to date is not `Ready`.
fn reached(object: &Value, target: &str) -> bool {
    let phase = object.pointer("/status/phase").and_then(Value::as_str);
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let text = |condition: &Value, field: &str| condition.get(field).and_then(Value::as_str).unwrap_or("").to_owned();
    let behind = |condition: &Value| text(condition, "type") == UP_TO_DATE && text(condition, "status") == "False";
    if target == READY && conditions.iter().any(behind) {
        return false;
    }
    phase == Some(target)
        || conditions.iter().any(|condition| text(condition, "type") == target && text(condition, "status") == "True")
}

/// Phase, what condition `Ready` waits for, and the task where that does not name it.
pub(crate) fn summary(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    // A host has no phase, but a state.
    let phase = text("/status/phase").or_else(|| text("/status/provisioning/state")).unwrap_or("Pending");
    let mut line = phase.to_owned();
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let part = |condition: &Value, name: &str| condition.get(name).and_then(Value::as_str).unwrap_or("").to_owned();
    // What stands is ready, and may still be brought up to date.
    let of = |wanted: &str| {
        let found = conditions.iter().find(|condition| part(condition, "type") == wanted);
        found.filter(|condition| part(condition, "status") != "True")
    };
    if let Some(condition) = of(READY).or_else(|| of(UP_TO_DATE)) {
        let words = [part(condition, "reason"), part(condition, "message")];
        let words: Vec<_> = words.into_iter().filter(|word| !word.is_empty()).collect();
        line = format!("{line} | {}", words.join(": "));
    }
    let task = text("/status/run/task").filter(|_| text("/status/run/state") == Some("Running"));
    match task {
        Some(task) if !line.contains(task) => format!("{line} | {task}"),
        _ => line,
    }
}

/// Tasks that were started and all tasks of a run, where the installer tells both.
fn tasks(object: &Value) -> Option<(u64, u64)> {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
    Some((number("/status/run/tasksStarted")?, number("/status/run/tasksTotal")?))
}

/// A bar on a terminal, one line per change otherwise.
struct Progress {
    bar: ProgressBar,
    terminal: bool,
    last: std::sync::Mutex<String>,
}

impl Progress {
    fn new(word: &str, name: &str) -> Self {
        use std::io::IsTerminal;
        let terminal = std::io::stderr().is_terminal();
        let bar = if terminal { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] {wide_msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(format!("{word} {name}"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, terminal, last: std::sync::Mutex::new(String::new()) }
    }

    fn show(&self, summary: &str, object: &Value) {
        self.bar.set_message(summary.to_owned());
        if let Some((done, total)) = tasks(object) {
            self.bar.set_length(total);
            self.bar.set_position(done);
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix} [{elapsed}] [{bar:20}] {wide_msg}") {
                self.bar.set_style(style.progress_chars("=> "));
            }
        }
        let Ok(mut last) = self.last.lock() else { return };
        if *last != summary {
            if !self.terminal {
                eprintln!("{summary}");
            }
            summary.clone_into(&mut last);
        }
    }

    fn last(&self) -> String {
        self.last.lock().map(|last| last.clone()).unwrap_or_default()
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_phase_or_a_true_condition_reaches_the_target() {
        let object = json!({"status": {"phase": "Installing", "conditions": [
            {"type": "Planned", "status": "True"}, {"type": "Ready", "status": "False", "reason": "Installing", "message": "m"},
        ], "run": {"state": "Running", "task": "T"}}});
        assert!(reached(&object, "Installing") && reached(&object, "Planned") && !reached(&object, "Ready"));
        assert_eq!(summary(&object), "Installing | Installing: m | T");
        assert_eq!(summary(&json!({})), "Pending");
    }

    #[test]
    fn a_task_is_named_once() {
        let object = json!({"status": {"phase": "Installing", "conditions": [
            {"type": "Ready", "status": "False", "reason": "Installing", "message": "task 5 of 47: Copy the images"},
        ], "run": {"state": "Running", "task": "Copy the images", "tasksStarted": 5, "tasksTotal": 47}}});
        assert_eq!(summary(&object), "Installing | Installing: task 5 of 47: Copy the images");
        assert_eq!(tasks(&object), Some((5, 47)));
    }

    #[test]
    fn an_object_that_is_ready_waits_for_nothing() {
        let object = json!({"status": {"phase": "Running", "conditions": [
            {"type": "Ready", "status": "True", "reason": "Running"},
            {"type": "Paused", "status": "False", "reason": "NotPaused", "message": ""},
        ]}});
        assert_eq!(summary(&object), "Running");
    }

    #[test]
    fn a_host_shows_its_state_for_a_phase() {
        assert_eq!(summary(&json!({"status": {"provisioning": {"state": "available"}}})), "available");
    }

    #[test]
    fn what_stands_but_is_not_up_to_date_is_not_ready() {
        let object = |phase: &str, status: &str| {
            json!({"status": {"phase": phase, "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Paused", "status": "False", "reason": "NotPaused"},
                {"type": "UpToDate", "status": status, "reason": "Installing", "message": "task 3"},
            ]}})
        };
        let updating = object("Updating", "False");
        assert!(
            !reached(&updating, "Ready")
                && reached(&updating, "Updating")
                && reached(&object("Ready", "True"), "Ready")
        );
        assert_eq!(summary(&updating), "Updating | Installing: task 3");
    }

    #[test]
    fn a_status_of_an_earlier_spec_ends_no_wait() {
        let object = |generation: i64, phase: &str| -> DynamicObject {
            serde_json::from_value(json!({
                "apiVersion": "v1", "kind": "Any", "metadata": {"name": "a", "generation": generation},
                "status": {"phase": phase, "observedGeneration": 1},
            }))
            .expect("an object")
        };
        for phase in ["Ready", "Failed"] {
            assert_eq!(verdict(&object(2, phase), READY), Verdict::GoesOn);
        }
        assert_eq!(verdict(&object(1, "Ready"), READY), Verdict::Reached);
        assert_eq!(verdict(&object(1, "Failed"), READY), Verdict::Failed);
        assert_eq!(verdict(&object(1, "Failed"), DELETED), Verdict::GoesOn);
    }
}
