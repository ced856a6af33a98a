//! The ledger of a lab: every resource is written down, and synced, before it is made.
//!
//! Taking a lab down needs nothing but this file, so a lab whose maker was killed at any moment leaves nothing behind.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::process::ProcessId;

/// One line of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// First line: who makes the lab, and whether the lab dies with its maker (tests) or stays (demo).
    Started {
        /// The process that makes the lab.
        maker: ProcessId,
        /// True when the lab is dead as soon as its maker is.
        bound_to_maker: bool,
    },
    /// A control group of this lab, below which all its processes live.
    Cgroup {
        /// Absolute path of the directory.
        path: PathBuf,
    },
    /// A control group controller that the lab switches on for the children of a group it does not own.
    CgroupController {
        /// Directory of the group.
        path: PathBuf,
        /// Name of the controller.
        controller: String,
    },
    /// A directory of this lab with all that is in it.
    Directory {
        /// Absolute path.
        path: PathBuf,
    },
    /// The process that holds the lab's namespaces; when it is gone, the lab is dead.
    Holder {
        /// The process.
        process: ProcessId,
    },
    /// A process outside the lab's namespaces, such as a relay.
    Process {
        /// The process.
        process: ProcessId,
    },
    /// The lab is complete.
    Ready,
}

/// An open ledger, appended to.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
}

impl Ledger {
    /// Makes the ledger of a new lab. It appears with its first entry in it, never empty.
    ///
    /// # Errors
    /// When a ledger of that name exists, or the file can not be written.
    pub fn create(path: &Path, first: &Entry) -> Result<Self> {
        let unfinished = path.with_extension(format!("new-{}", std::process::id()));
        let mut ledger = Self { file: File::create(&unfinished).context("make a ledger")?, path: unfinished.clone() };
        ledger.record(first)?;
        let linked = fs::hard_link(&unfinished, path);
        fs::remove_file(&unfinished).context("remove the unfinished ledger")?;
        linked.with_context(|| format!("make the ledger {} (is there a lab of this id?)", path.display()))?;
        if let Some(parent) = path.parent() {
            File::open(parent).and_then(|parent| parent.sync_all()).context("sync the directory of ledgers")?;
        }
        path.clone_into(&mut ledger.path);
        Ok(ledger)
    }

    /// Opens the ledger of a lab that exists, to add to it.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).open(path);
        let file = file.with_context(|| format!("open the ledger {}", path.display()))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Adds a line and syncs it; only then may the resource be made.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn record(&mut self, entry: &Entry) -> Result<()> {
        let mut line = serde_json::to_vec(entry).context("write a ledger entry as JSON")?;
        line.push(b'\n');
        let written = self.file.write_all(&line).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("append to the ledger {}", self.path.display()))
    }

    /// All entries of a ledger. A last line cut short by a crash is left out: its resource was never made.
    ///
    /// # Errors
    /// When the file can not be read.
    pub fn read(path: &Path) -> Result<Vec<Entry>> {
        let file = File::open(path).with_context(|| format!("read the ledger {}", path.display()))?;
        let mut entries = Vec::new();
        for line in BufReader::new(file).split(b'\n') {
            let line = line.with_context(|| format!("read the ledger {}", path.display()))?;
            if let Ok(entry) = serde_json::from_slice(&line) {
                entries.push(entry);
            }
        }
        Ok(entries)
    }
}

/// Whether the lab of these entries is dead: its maker was killed before it was complete, or what keeps it alive is gone.
pub fn is_dead(entries: &[Entry]) -> bool {
    let mut maker_gone = true;
    let mut bound = true;
    let mut ready = false;
    let mut holder_gone = false;
    for entry in entries {
        match entry {
            Entry::Started { maker, bound_to_maker } => {
                maker_gone = !maker.is_alive();
                bound = *bound_to_maker;
            }
            Entry::Holder { process } => holder_gone = !process.is_alive(),
            Entry::Ready => ready = true,
            _ => {}
        }
    }
    holder_gone || (maker_gone && (bound || !ready))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(maker: ProcessId, bound_to_maker: bool) -> Entry {
        Entry::Started { maker, bound_to_maker }
    }

    fn gone() -> ProcessId {
        ProcessId { start_time: 0, ..ProcessId::current() }
    }

    #[test]
    fn entries_come_back_in_order_and_a_torn_last_line_is_left_out() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("x.ledger");
        let entries = [started(gone(), false), Entry::Cgroup { path: "/a".into() }, Entry::Ready];
        let mut ledger = Ledger::create(&path, &entries[0]).expect("made");
        for entry in &entries[1..] {
            ledger.record(entry).expect("recorded");
        }
        ledger.file.write_all(br#"{"entry":"direc"#).expect("torn line");
        assert_eq!(Ledger::read(&path).expect("read"), entries);
        assert!(Ledger::create(&path, &Entry::Ready).is_err(), "a second lab of the same id is refused");
    }

    #[test]
    fn a_new_ledger_leaves_no_other_file_beside_it() {
        let directory = tempfile::tempdir().expect("temporary directory");
        Ledger::create(&directory.path().join("x.ledger"), &Entry::Ready).expect("made");
        assert_eq!(fs::read_dir(directory.path()).expect("read").count(), 1);
    }

    #[test]
    fn a_lab_outlives_its_maker_only_when_it_is_complete_and_not_bound_to_it() {
        let holder = Entry::Holder { process: ProcessId::current() };
        assert!(!is_dead(&[started(gone(), false), holder.clone(), Entry::Ready]));
        assert!(is_dead(&[started(gone(), false), holder.clone()]));
        assert!(is_dead(&[started(gone(), true), holder.clone(), Entry::Ready]));
        assert!(!is_dead(&[started(ProcessId::current(), true)]));
        assert!(is_dead(&[started(ProcessId::current(), false), Entry::Holder { process: gone() }, Entry::Ready]));
        assert!(is_dead(&[]));
    }
}
