//! Reading the progress file that the callback plugin writes, a bounded piece at a time.
//!
//! The file belongs to the user that Ansible runs as: lines are checked, cut and counted, never trusted.

mod clock;
mod scrub;
mod timings;

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use hagane_ports::installer::{HostStats, RunProgress, TaskFailure, TaskTime};
use serde::Deserialize;

use crate::run::files::open_untrusted;
use crate::run::layout::PROGRESS;

pub(crate) use scrub::Secrets;
pub(crate) use timings::write_timings;

use clock::PlayClock;

/// The callback plugin, for the run's plugin directory.
pub const CALLBACK_PLUGIN: &str = include_str!("../plugins/hagane_progress.py");
/// Name under which it is enabled.
pub const CALLBACK_NAME: &str = "hagane_progress";

/// Longest line that can be one of the plugin's, but for the closing statistics of very many hosts.
const LINE_BYTES_MAX: usize = 1024 * 1024;
/// Most hosts told apart.
const HOSTS_MAX: usize = 10_000;
/// Most failures kept.
const FAILURES_MAX: usize = 16;
/// Most characters of a name.
const NAME_CHARACTERS_MAX: usize = 256;

/// Most plays kept.
const PLAYS_MAX: usize = 40;
/// Most of the longest tasks kept.
const SLOWEST_MAX: usize = 10;

/// One line. Times are seconds of a clock that nobody can set.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Playbook,
    Alive,
    Total {
        tasks: u32,
    },
    Play {
        play: String,
        #[serde(default)]
        at: f64,
    },
    Task {
        task: String,
        #[serde(default)]
        at: f64,
    },
    Handler {
        task: String,
        #[serde(default)]
        at: f64,
    },
    Result(TaskResult),
    Stats {
        hosts: BTreeMap<String, HostStats>,
        #[serde(default)]
        at: f64,
    },
}

/// A task's end on a host.
#[derive(Debug, Deserialize)]
struct TaskResult {
    task: String,
    host: String,
    state: String,
    #[serde(default)]
    seconds: Option<f64>,
    #[serde(default)]
    message: String,
    #[serde(default)]
    output: String,
}

/// Whole milliseconds of seconds that somebody else wrote.
fn milliseconds(seconds: f64) -> u64 {
    const YEAR: f64 = 366.0 * 24.0 * 3600.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped; not a number gives 0")]
    let whole = (seconds.clamp(0.0, YEAR) * 1000.0) as u64;
    whole
}

/// Folds a progress file as it grows.
#[derive(Debug)]
pub struct ProgressReader {
    work: PathBuf,
    secrets: Secrets,
    offset: u64,
    progress: RunProgress,
    clock: PlayClock,
    /// What earlier playbooks of the run did.
    earlier: Earlier,
}

#[derive(Debug, Default)]
struct Earlier {
    tasks: u32,
    hosts: BTreeMap<String, HostStats>,
}

impl ProgressReader {
    /// A reader of the progress file in the `work` directory of a run.
    #[must_use]
    pub fn new(work: PathBuf) -> Self {
        Self::hiding(work, Secrets::default())
    }

    /// The same, but that these secrets are not told.
    pub(crate) fn hiding(work: PathBuf, secrets: Secrets) -> Self {
        let (progress, clock, earlier) = (RunProgress::default(), PlayClock::default(), Earlier::default());
        Self { work, secrets, offset: 0, progress, clock, earlier }
    }

    /// Number of plays that have begun, to tell one from the next of the same name.
    pub(crate) fn plays_begun(&self) -> u64 {
        self.clock.begun()
    }

    /// How far it has read: what moves is alive.
    pub(crate) fn position(&self) -> u64 {
        self.offset
    }

    /// Takes in what was written since the last call, at most about `limit` bytes; says whether that was all.
    /// A torn last line is left for the next call.
    ///
    /// # Errors
    /// Whatever the file system says; a missing file is no error.
    pub fn advance(&mut self, limit: usize) -> io::Result<bool> {
        let Some(mut file) = open_untrusted(&self.work, PROGRESS)? else { return Ok(true) };
        let size = file.metadata()?.len();
        if size < self.offset {
            // Somebody wrote it anew.
            *self = Self::hiding(std::mem::take(&mut self.work), std::mem::take(&mut self.secrets));
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut content = Vec::new();
        file.take(limit as u64).read_to_end(&mut content)?;
        let read = content.len();
        match content.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => {
                content.truncate(last);
                content.split(|byte| *byte == b'\n').for_each(|line| self.fold(line));
                self.offset += last as u64 + 1;
            }
            None if read >= limit => self.offset += read as u64,
            None => {}
        }
        Ok(read < limit)
    }

    /// What is known so far.
    #[must_use]
    pub fn progress(&self) -> &RunProgress {
        &self.progress
    }

    fn fold(&mut self, line: &[u8]) {
        if line.is_empty() || line.len() > LINE_BYTES_MAX {
            return;
        }
        // A line that is none of the plugin's says nothing; the run goes on all the same.
        let Ok(event) = serde_json::from_slice::<Event>(line) else { return };
        let progress = &mut self.progress;
        match event {
            Event::Playbook => {
                self.earlier = Earlier { tasks: progress.tasks_started, hosts: progress.hosts.clone() };
            }
            Event::Total { tasks } => {
                let total = self.earlier.tasks.saturating_add(tasks);
                progress.tasks_total = Some(total.max(progress.tasks_started));
            }
            Event::Alive => {}
            Event::Play { play, at } => {
                let play = cut(play);
                self.clock.play(&mut progress.plays, play.clone(), at);
                progress.play = Some(play);
            }
            Event::Task { task, at } => {
                self.clock.tick(at);
                progress.task = Some(cut(task));
                progress.tasks_started = progress.tasks_started.saturating_add(1);
                // Tasks included at run time are not in the total.
                progress.tasks_total = progress.tasks_total.map(|total| total.max(progress.tasks_started));
            }
            Event::Handler { task, at } => {
                self.clock.tick(at);
                progress.task = Some(cut(task));
            }
            Event::Result(result) => fold_result(progress, result, &self.secrets),
            Event::Stats { hosts, at } => {
                self.clock.end(&mut progress.plays, at);
                // What a host came through all the same (rescued, or ignored) is no failure of the run.
                let came_through =
                    |host: &str| hosts.get(host).is_some_and(|own| own.failed == 0 && own.unreachable == 0);
                progress.failures.retain(|failure| !came_through(&failure.host));
                progress.hosts = self.earlier.hosts.clone();
                for (host, stats) in hosts.into_iter().take(HOSTS_MAX) {
                    add(progress.hosts.entry(cut(host)).or_default(), &stats);
                }
            }
        }
    }
}

fn fold_result(progress: &mut RunProgress, result: TaskResult, secrets: &Secrets) {
    let TaskResult { task, host, state, seconds, message, output } = result;
    let (task, host) = (cut(task), cut(host));
    if progress.hosts.len() >= HOSTS_MAX && !progress.hosts.contains_key(&host) {
        return;
    }
    let stats = progress.hosts.entry(host.clone()).or_default();
    let count = match state.as_str() {
        "ok" | "ignored" => &mut stats.ok,
        "changed" => {
            stats.ok = stats.ok.saturating_add(1);
            &mut stats.changed
        }
        "failed" => &mut stats.failed,
        "unreachable" => &mut stats.unreachable,
        "skipped" => &mut stats.skipped,
        _ => return,
    };
    *count = count.saturating_add(1);
    if let Some(seconds) = seconds {
        rank(&mut progress.slowest, &task, &host, milliseconds(seconds));
    }
    if matches!(state.as_str(), "failed" | "unreachable") {
        // A host that failed and went on came through that: what counts is where it stopped.
        progress.failures.retain(|failure| failure.host != host);
        if progress.failures.len() < FAILURES_MAX {
            let (message, output) = (secrets.message(&message), secrets.output(&output));
            progress.failures.push(TaskFailure { task, host, state, message, output });
        }
    }
}

/// Keeps the tasks that took longest, each with its slowest host.
fn rank(slowest: &mut Vec<TaskTime>, task: &str, host: &str, milliseconds: u64) {
    let full = slowest.len() >= SLOWEST_MAX;
    if full && slowest.last().is_some_and(|last| last.milliseconds >= milliseconds) {
        return;
    }
    match slowest.iter_mut().find(|known| known.task == task) {
        Some(known) if known.milliseconds >= milliseconds => return,
        Some(known) => (known.host, known.milliseconds) = (host.to_owned(), milliseconds),
        None => slowest.push(TaskTime { task: task.to_owned(), host: host.to_owned(), milliseconds }),
    }
    slowest.sort_by_key(|time| std::cmp::Reverse(time.milliseconds));
    slowest.truncate(SLOWEST_MAX);
}

fn add(sum: &mut HostStats, stats: &HostStats) {
    for (sum, count) in [
        (&mut sum.ok, stats.ok),
        (&mut sum.changed, stats.changed),
        (&mut sum.failed, stats.failed),
        (&mut sum.unreachable, stats.unreachable),
        (&mut sum.skipped, stats.skipped),
    ] {
        *sum = sum.saturating_add(count);
    }
}

/// Cuts a name and blanks what could act on a terminal.
fn cut(name: String) -> String {
    let plain = |character: char| if character == '\n' { ' ' } else { scrub::plain(character) };
    name.chars().take(NAME_CHARACTERS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    struct Bed {
        directory: tempfile::TempDir,
        reader: ProgressReader,
    }

    impl Bed {
        fn new() -> Self {
            let directory = tempfile::tempdir().expect("a directory");
            let reader = ProgressReader::new(directory.path().to_path_buf());
            Self { directory, reader }
        }

        fn append(&mut self, text: &str) -> &mut Self {
            let path = self.directory.path().join(PROGRESS);
            let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a file");
            file.write_all(text.as_bytes()).expect("written");
            self
        }

        fn read(&mut self) -> &RunProgress {
            while !self.reader.advance(4096).expect("readable") {}
            self.reader.progress()
        }
    }

    #[test]
    fn folds_lines_as_they_come_and_waits_for_the_end_of_a_torn_one() {
        let mut bed = Bed::new();
        assert_eq!(bed.read(), &RunProgress::default());
        bed.append(
            "{\"event\":\"total\",\"tasks\":3}\n{\"event\":\"play\",\"play\":\"Nodes\"}\n{\"event\":\"task\",\"ta",
        );
        assert_eq!((bed.read().tasks_started, bed.read().tasks_total), (0, Some(3)));
        bed.append("sk\":\"Copy\"}\n{\"event\":\"result\",\"task\":\"Copy\",\"host\":\"a\",\"state\":\"changed\",\"seconds\":0.1}\n");
        let progress = bed.read();
        assert_eq!(progress.task.as_deref(), Some("Copy"));
        assert_eq!(progress.hosts["a"], HostStats { ok: 1, changed: 1, ..HostStats::default() });
    }

    fn failed(task: &str, host: &str) -> String {
        format!("{{\"event\":\"result\",\"task\":\"{task}\",\"host\":\"{host}\",\"state\":\"failed\",\"seconds\":1}}\n")
    }

    #[test]
    fn tells_the_first_failures_and_where_they_happened() {
        let mut bed = Bed::new();
        for number in 0..20 {
            bed.append(&failed(&format!("T{number}"), &format!("h{number}")));
        }
        let progress = bed.read();
        assert_eq!(progress.failures.len(), FAILURES_MAX);
        assert_eq!((progress.failures[0].task.as_str(), progress.failures[0].host.as_str()), ("T0", "h0"));
        assert_eq!(progress.hosts["h0"].failed, 1);
    }

    #[test]
    fn what_a_host_came_through_is_no_failure() {
        let mut bed = Bed::new();
        bed.append(&failed("Try", "a")).append(&failed("Try", "b")).append(&failed("Stop", "b"));
        let progress = bed.read();
        let told: Vec<_> = progress.failures.iter().map(|told| (told.host.as_str(), told.task.as_str())).collect();
        assert_eq!(told, [("a", "Try"), ("b", "Stop")], "the last one of each host is where it stopped");
        let counts =
            |failed: u32| format!("{{\"ok\":1,\"changed\":0,\"failed\":{failed},\"unreachable\":0,\"skipped\":0}}");
        bed.append(&format!("{{\"event\":\"stats\",\"hosts\":{{\"a\":{},\"b\":{}}}}}\n", counts(0), counts(1)));
        let progress = bed.read();
        assert_eq!((progress.failures.len(), progress.failures[0].host.as_str()), (1, "b"));
        assert!(!progress.only_unreachable());
    }

    #[test]
    fn tells_what_a_task_said_without_secrets() {
        let mut bed = Bed::new();
        bed.reader = ProgressReader::hiding(bed.directory.path().to_path_buf(), Secrets::new(["hunter-2".to_owned()]));
        bed.append(
            "{\"event\":\"result\",\"task\":\"T\",\"host\":\"h\",\"state\":\"unreachable\",\"message\":\"hunter-2\\nx\",\"output\":\"a\\u001b[1mb\"}\n",
        );
        let progress = bed.read();
        let failure = &progress.failures[0];
        assert_eq!((failure.message.as_str(), failure.output.as_str()), ("[hidden]", "ab"));
        assert!(progress.only_unreachable());
    }

    #[test]
    fn tells_how_long_plays_took_and_which_tasks_took_longest() {
        let mut bed = Bed::new();
        for (play, at) in [("One", 10.0), ("Two", 12.5)] {
            bed.append(&format!("{{\"event\":\"play\",\"play\":\"{play}\",\"at\":{at}}}\n"));
        }
        for number in 0..12_u32 {
            for (host, more) in [("a", 0.0), ("b", 0.5)] {
                let seconds = f64::from(number) + more;
                bed.append(&format!(
                    "{{\"event\":\"result\",\"task\":\"T{number}\",\"host\":\"{host}\",\"state\":\"ok\",\"seconds\":{seconds}}}\n"
                ));
            }
        }
        let progress = bed.read().clone();
        let plays: Vec<_> = progress.plays.iter().map(|play| (play.play.as_str(), play.milliseconds)).collect();
        assert_eq!(plays, [("One", Some(2500)), ("Two", None)]);
        let slowest: Vec<_> = progress.slowest.iter().map(|time| (time.task.as_str(), time.milliseconds)).collect();
        assert_eq!((slowest.len(), slowest[0], slowest[9]), (10, ("T11", 11_500), ("T2", 2500)));
        assert!(progress.slowest.iter().all(|time| time.host == "b"));
        bed.append("{\"event\":\"stats\",\"hosts\":{},\"at\":20}\n");
        assert_eq!(bed.read().plays[1].milliseconds, Some(7500));
    }

    #[test]
    fn lives_with_rubbish_overlong_lines_and_a_file_written_anew() {
        let mut bed = Bed::new();
        bed.append("not json\n{\"event\":\"unknown\"}\n\u{0}\n").append(&"x".repeat(10_000)).append("\n");
        bed.append("{\"event\":\"task\",\"task\":\"a\\u001b[2Jb\"}\n");
        assert_eq!(bed.read().task.as_deref(), Some("a [2Jb"));
        std::fs::write(bed.directory.path().join(PROGRESS), "{\"event\":\"play\",\"play\":\"again\"}\n")
            .expect("a file");
        let progress = bed.read();
        assert_eq!((progress.play.as_deref(), progress.tasks_started), (Some("again"), 0));
    }

    #[test]
    fn a_further_playbook_adds_to_what_the_earlier_ones_did() {
        let mut bed = Bed::new();
        let stats = r#"{"event":"stats","hosts":{"h":{"ok":1,"changed":1,"failed":0,"unreachable":0,"skipped":0}}}"#;
        let task = r#"{"event":"task","task":"T"}"#;
        for _ in 0..2 {
            bed.append(&format!(
                "{{\"event\":\"playbook\"}}\n{{\"event\":\"total\",\"tasks\":2}}\n{task}\n{task}\n{stats}\n"
            ));
        }
        let progress = bed.read();
        assert_eq!((progress.tasks_started, progress.tasks_total), (4, Some(4)));
        assert_eq!(progress.hosts["h"], HostStats { ok: 2, changed: 2, ..HostStats::default() });
    }

    #[test]
    fn the_closing_statistics_replace_the_counts() {
        let mut bed = Bed::new();
        bed.append("{\"event\":\"result\",\"task\":\"T\",\"host\":\"h\",\"state\":\"failed\",\"seconds\":1}\n");
        bed.append("{\"event\":\"stats\",\"hosts\":{\"h\":{\"ok\":4,\"changed\":1,\"failed\":0,\"unreachable\":0,\"skipped\":2}}}\n");
        assert_eq!(bed.read().hosts["h"], HostStats { ok: 4, changed: 1, skipped: 2, ..HostStats::default() });
    }
}
