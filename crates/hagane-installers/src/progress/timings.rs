//! `timings.json` of a run: how long every play, task and host took.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Serialize;

use super::{Event, HOSTS_MAX, LINE_BYTES_MAX, cut};
use crate::run::files::{open_untrusted, write_record};
use crate::run::layout::PROGRESS;

/// Most tasks told.
const TASKS_MAX: usize = 10_000;
/// Most hosts told of one task: the slowest.
const TASK_HOSTS_MAX: usize = 100;

/// All times, in seconds.
#[derive(Debug, Default, Serialize)]
struct Timings {
    plays: Vec<Play>,
    /// Time spent in tasks, by host.
    hosts: BTreeMap<String, f64>,
}

#[derive(Debug, Default, Serialize)]
struct Play {
    play: String,
    seconds: f64,
    tasks: Vec<Task>,
    #[serde(skip)]
    begun: f64,
}

#[derive(Debug, Default, Serialize)]
struct Task {
    task: String,
    /// From its begin to the next task's begin.
    seconds: f64,
    /// The slowest hosts.
    hosts: BTreeMap<String, f64>,
    #[serde(skip)]
    begun: f64,
}

/// Folds a run's progress file into `path`.
///
/// # Errors
/// Whatever the file system says; a missing progress file is none.
pub(crate) fn write_timings(work: &Path, path: &Path) -> io::Result<()> {
    let Some(file) = open_untrusted(work, PROGRESS)? else { return Ok(()) };
    let mut fold = Fold::default();
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    while read_line(&mut reader, &mut line)? {
        if let Ok(event) = serde_json::from_slice::<Event>(&line) {
            fold.take(event);
        }
    }
    fold.close_play();
    write_record(path, &fold.timings, 0o640)
}

/// Reads a line without its end; says whether there was one. Of one that is too long nothing is kept.
fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let piece = reader.fill_buf()?;
        if piece.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = piece.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(piece.len(), |end| end + 1);
        if line.len() <= LINE_BYTES_MAX {
            line.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        }
        reader.consume(taken);
        if end.is_some() {
            if line.len() > LINE_BYTES_MAX {
                line.clear();
            }
            return Ok(true);
        }
    }
}

#[derive(Debug, Default)]
struct Fold {
    timings: Timings,
    tasks: usize,
    last: f64,
}

impl Fold {
    fn take(&mut self, event: Event) {
        match event {
            Event::Play { play, at } => {
                self.last = self.last.max(at);
                self.close_play();
                self.timings.plays.push(Play { play: cut(play), begun: at, ..Play::default() });
            }
            Event::Task { task, at } | Event::Handler { task, at } => {
                self.last = self.last.max(at);
                self.close_task();
                self.tasks += 1;
                if let Some(play) = self.timings.plays.last_mut().filter(|_| self.tasks <= TASKS_MAX) {
                    play.tasks.push(Task { task: cut(task), begun: at, ..Task::default() });
                }
            }
            Event::Result(result) => {
                let (host, seconds) = (cut(result.host), result.seconds.unwrap_or_default().max(0.0));
                let full = self.timings.hosts.len() >= HOSTS_MAX && !self.timings.hosts.contains_key(&host);
                if full || !seconds.is_finite() {
                    return;
                }
                *self.timings.hosts.entry(host.clone()).or_default() += seconds;
                if let Some(task) = self.timings.plays.last_mut().and_then(|play| play.tasks.last_mut()) {
                    *task.hosts.entry(host).or_default() += seconds;
                }
            }
            Event::Stats { at, .. } => {
                self.last = self.last.max(at);
                self.close_play();
            }
            Event::Playbook | Event::Alive | Event::Total { .. } => {}
        }
    }

    fn close_task(&mut self) {
        let Some(task) = self.timings.plays.last_mut().and_then(|play| play.tasks.last_mut()) else { return };
        if task.seconds == 0.0 {
            task.seconds = round(self.last - task.begun);
        }
        if task.hosts.len() > TASK_HOSTS_MAX {
            let mut slowest: Vec<_> = std::mem::take(&mut task.hosts).into_iter().collect();
            slowest.sort_by(|one, other| other.1.total_cmp(&one.1));
            task.hosts = slowest.into_iter().take(TASK_HOSTS_MAX).collect();
        }
    }

    fn close_play(&mut self) {
        self.close_task();
        if let Some(play) = self.timings.plays.last_mut().filter(|play| play.seconds == 0.0) {
            play.seconds = round(self.last - play.begun);
        }
        for seconds in self.timings.hosts.values_mut() {
            *seconds = round(*seconds);
        }
    }
}

/// To milliseconds.
fn round(seconds: f64) -> f64 {
    (seconds.max(0.0) * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn tells_every_play_task_and_host() {
        let place = tempfile::tempdir().expect("a directory");
        let lines = [
            json!({"event": "play", "play": "One", "at": 1.0}),
            json!({"event": "task", "task": "A", "at": 1.5}),
            json!({"event": "result", "task": "A", "host": "x", "state": "ok", "seconds": 0.5}),
            json!({"event": "result", "task": "A", "host": "y", "state": "ok", "seconds": 1.25}),
            json!({"event": "task", "task": "B", "at": 3.0}),
            json!({"event": "result", "task": "B", "host": "x", "state": "ok", "seconds": 0.25}),
            json!({"event": "play", "play": "Two", "at": 4.0}),
            json!({"event": "stats", "hosts": {}, "at": 6.0}),
        ];
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let rubbish = "x".repeat(LINE_BYTES_MAX + 10);
        std::fs::write(place.path().join(PROGRESS), format!("{rubbish}\n{{}}\n{text}{{\"event\":\"ta"))
            .expect("a file");
        let path = place.path().join("timings.json");
        write_timings(place.path(), &path).expect("written");
        let told: Value = serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
        assert_eq!(
            told,
            json!({
                "plays": [
                    {"play": "One", "seconds": 3.0, "tasks": [
                        {"task": "A", "seconds": 1.5, "hosts": {"x": 0.5, "y": 1.25}},
                        {"task": "B", "seconds": 1.0, "hosts": {"x": 0.25}},
                    ]},
                    {"play": "Two", "seconds": 2.0, "tasks": []},
                ],
                "hosts": {"x": 0.75, "y": 1.25},
            })
        );
    }
}
