//! Reading the progress file that the callback plugin writes, a bounded piece at a time.
//!
//! The file belongs to the user that Ansible runs as: lines are checked, cut and counted, never trusted.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use hagane_ports::installer::{HostStats, RunProgress, TaskFailure};
use serde::Deserialize;

use crate::run::files::open_untrusted;
use crate::run::layout::PROGRESS;

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

/// One line.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Event {
    Playbook,
    Total { tasks: u32 },
    Play { play: String },
    Task { task: String },
    Handler { task: String },
    Result { task: String, host: String, state: String },
    Stats { hosts: BTreeMap<String, HostStats> },
}

/// Folds a progress file as it grows.
#[derive(Debug)]
pub struct ProgressReader {
    work: PathBuf,
    offset: u64,
    progress: RunProgress,
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
        Self { work, offset: 0, progress: RunProgress::default(), earlier: Earlier::default() }
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
            *self = Self::new(std::mem::take(&mut self.work));
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
            Event::Play { play } => progress.play = Some(cut(play)),
            Event::Task { task } => {
                progress.task = Some(cut(task));
                progress.tasks_started = progress.tasks_started.saturating_add(1);
                // Tasks included at run time are not in the total.
                progress.tasks_total = progress.tasks_total.map(|total| total.max(progress.tasks_started));
            }
            Event::Handler { task } => progress.task = Some(cut(task)),
            Event::Result { task, host, state } => fold_result(progress, cut(task), cut(host), &state),
            Event::Stats { hosts } => {
                progress.hosts = self.earlier.hosts.clone();
                for (host, stats) in hosts.into_iter().take(HOSTS_MAX) {
                    add(progress.hosts.entry(cut(host)).or_default(), &stats);
                }
            }
        }
    }
}

fn fold_result(progress: &mut RunProgress, task: String, host: String, state: &str) {
    if progress.hosts.len() >= HOSTS_MAX && !progress.hosts.contains_key(&host) {
        return;
    }
    let stats = progress.hosts.entry(host.clone()).or_default();
    let count = match state {
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
    if matches!(state, "failed" | "unreachable") && progress.failures.len() < FAILURES_MAX {
        progress.failures.push(TaskFailure { task, host, state: state.to_owned(), ..TaskFailure::default() });
    }
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

/// Cuts a name and blanks control characters, which could act on a terminal.
fn cut(name: String) -> String {
    let plain = |character: char| if character.is_control() { ' ' } else { character };
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

    #[test]
    fn tells_the_first_failures_and_where_they_happened() {
        let mut bed = Bed::new();
        for number in 0..20 {
            bed.append(&format!(
                "{{\"event\":\"result\",\"task\":\"T{number}\",\"host\":\"h\",\"state\":\"failed\",\"seconds\":1}}\n"
            ));
        }
        let progress = bed.read();
        assert_eq!(progress.failures.len(), FAILURES_MAX);
        assert_eq!(progress.failures[0].task, "T0");
        assert_eq!(progress.hosts["h"].failed, 20);
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
