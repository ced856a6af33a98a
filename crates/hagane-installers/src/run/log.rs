//! The run's output: always taken from the playbook, kept up to a limit.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Smallest useful limit.
const LIMIT_MIN: u64 = 16 * 1024;

/// Output kept in two files, the newer and the older part; the oldest output goes first.
#[derive(Debug)]
pub struct BoundedLog {
    path: PathBuf,
    older: PathBuf,
    part_limit: u64,
    file: Option<File>,
    written: u64,
    dropped: u64,
    older_size: u64,
}

impl BoundedLog {
    /// Opens the log; the two files together stay below `limit` bytes.
    #[must_use]
    pub fn open(path: PathBuf, older: PathBuf, limit: u64) -> Self {
        let part_limit = limit.max(LIMIT_MIN) / 2;
        let file = create(&path).ok();
        Self { path, older, part_limit, file, written: 0, dropped: 0, older_size: 0 }
    }

    /// Takes output. A disk that refuses it never stops the run: what cannot be kept is counted.
    pub fn write(&mut self, output: &[u8]) {
        for piece in output.chunks(usize::try_from(self.part_limit).unwrap_or(usize::MAX)) {
            if self.written + piece.len() as u64 > self.part_limit && self.rotate().is_err() {
                self.dropped += piece.len() as u64;
                continue;
            }
            if self.file.is_none() {
                self.file = create(&self.path).ok();
            }
            let kept = self.file.as_mut().is_some_and(|file| file.write_all(piece).is_ok());
            if kept {
                self.written += piece.len() as u64;
            } else {
                self.dropped += piece.len() as u64;
            }
        }
    }

    /// Bytes that are not in the files any more, or never were.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn rotate(&mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.older)?;
        self.dropped += std::mem::replace(&mut self.older_size, self.written);
        self.written = 0;
        self.file = None;
        self.file = Some(create(&self.path)?);
        Ok(())
    }
}

fn create(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_newest_output_within_the_limit() {
        let directory = tempfile::tempdir().expect("a directory");
        let (path, older) = (directory.path().join("log"), directory.path().join("log.1"));
        let mut log = BoundedLog::open(path.clone(), older.clone(), 32 * 1024);
        for number in 0..10_000_u32 {
            log.write(format!("line {number:06}\n").as_bytes());
        }
        let (new, old) = (fs::read_to_string(&path).expect("a log"), fs::read_to_string(&older).expect("a log"));
        assert!(new.len() + old.len() <= 32 * 1024);
        assert!(new.ends_with("line 009999\n"));
        assert!(old.ends_with('\n') && new.starts_with("line "));
        assert_eq!(log.dropped() + (new.len() + old.len()) as u64, 120_000);
    }

    #[test]
    fn a_place_that_cannot_be_written_counts_what_it_lost() {
        let directory = tempfile::tempdir().expect("a directory");
        let mut log = BoundedLog::open(directory.path().join("no/log"), directory.path().join("no/log.1"), 1 << 20);
        log.write(b"gone");
        assert_eq!(log.dropped(), 4);
    }
}
