//! The run's output: always taken from the playbook, kept up to a limit, its begin and its end.
//!
//! It is kept in parts of one size: `log.0` is the begin, `log.N` what came later, `log` the newest. When the limit is
//! reached, the oldest part but the begin goes. A place in the output is therefore a number that never changes, and a
//! reader that follows loses nothing when a part is closed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Smallest useful limit.
const LIMIT_MIN: u64 = 16 * 1024;
/// Parts kept: the begin, two closed ones, and the newest.
const PARTS: u64 = 4;
/// Name of the newest part; closed ones have their number behind it.
const NAME: &str = "log";

/// Output on its way to the files.
#[derive(Debug)]
pub struct BoundedLog {
    directory: PathBuf,
    part_size: u64,
    /// Number of the newest part.
    number: u64,
    file: Option<File>,
    written: u64,
    dropped: u64,
}

impl BoundedLog {
    /// Opens the log in a run directory; all parts together stay below `limit` bytes.
    #[must_use]
    pub fn open(directory: PathBuf, limit: u64) -> Self {
        let part_size = limit.max(LIMIT_MIN) / PARTS;
        let file = create(&directory.join(NAME)).ok();
        Self { directory, part_size, number: 0, file, written: 0, dropped: 0 }
    }

    /// Takes output. A disk that refuses it never stops the run: what cannot be kept is counted.
    pub fn write(&mut self, mut output: &[u8]) {
        while !output.is_empty() {
            if self.written >= self.part_size && self.close_part().is_err() {
                self.dropped += output.len() as u64;
                return;
            }
            let room = usize::try_from(self.part_size - self.written).unwrap_or(usize::MAX);
            let (piece, rest) = output.split_at(output.len().min(room));
            self.write_piece(piece);
            output = rest;
        }
    }

    fn write_piece(&mut self, piece: &[u8]) {
        let before = self.written;
        if self.file.is_none() {
            self.file = create(&self.directory.join(NAME)).ok();
        }
        if self.file.as_mut().is_some_and(|file| file.write_all(piece).is_ok()) {
            self.written += piece.len() as u64;
        } else {
            // Part of it may have been taken: places are counted by what is in the file.
            let size = self.file.as_ref().and_then(|file| file.metadata().ok()).map_or(before, |data| data.len());
            self.written = size.clamp(before, self.part_size);
            self.dropped += piece.len() as u64 - (self.written - before);
        }
    }

    /// Bytes that are not in the files any more, or never were.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    fn close_part(&mut self) -> io::Result<()> {
        fs::rename(self.directory.join(NAME), part(&self.directory, self.number))?;
        if let Some(old) = self.number.checked_sub(PARTS - 2).filter(|old| *old > 0) {
            fs::remove_file(part(&self.directory, old))?;
            self.dropped += self.part_size;
        }
        (self.number, self.written, self.file) = (self.number + 1, 0, None);
        Ok(())
    }
}

fn part(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{NAME}.{number}"))
}

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o640).open(path)
}

/// A piece of a run's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPiece {
    /// The output; empty where there is none after the place asked for yet.
    pub bytes: Vec<u8>,
    /// The place after it: what to ask for next.
    pub next: u64,
    /// Bytes that were asked for and are not kept any more.
    pub left_out: u64,
}

/// Reads at most `limit` bytes of the output in `directory` from the place `from` on.
///
/// # Errors
/// Whatever the file system says; [`io::ErrorKind::NotFound`] where there is no output at all.
pub fn read_log(directory: &Path, from: u64, limit: usize) -> io::Result<LogPiece> {
    // A part may be closed between two looks.
    for _ in 0..5 {
        if let Some(piece) = try_read(directory, from, limit)? {
            return Ok(piece);
        }
    }
    Ok(LogPiece { bytes: Vec::new(), next: from, left_out: 0 })
}

fn try_read(directory: &Path, from: u64, limit: usize) -> io::Result<Option<LogPiece>> {
    let closed = closed_parts(directory)?;
    let newest = closed.last().map_or(0, |last| last + 1);
    // A closed part is full, so it tells the size of all.
    let part_size = match closed.first() {
        Some(first) => fs::metadata(part(directory, *first))?.len().max(1),
        None => u64::MAX,
    };
    let wanted = (from / part_size).min(newest);
    let there = closed.iter().copied().find(|number| *number >= wanted).unwrap_or(newest);
    let begin = there.saturating_mul(part_size).max(from);
    let path = if there == newest { directory.join(NAME) } else { part(directory, there) };
    let mut file = match File::open(path) {
        Ok(file) => file,
        // Closed or dropped meanwhile; or just closed, and the next one not begun.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !closed.is_empty() => return Ok(None),
        Err(error) => return Err(error),
    };
    let offset = begin - there.saturating_mul(part_size);
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.take(limit as u64).read_to_end(&mut bytes)?;
    if closed_parts(directory)? != closed {
        return Ok(None);
    }
    Ok(Some(LogPiece { next: begin + bytes.len() as u64, bytes, left_out: begin - from }))
}

/// Numbers of the closed parts, in order.
fn closed_parts(directory: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME)?.strip_prefix('.')?.parse::<u64>().ok());
        numbers.extend(number);
    }
    numbers.sort_unstable();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u32) -> String {
        format!("line {number:06}\n")
    }

    /// Everything that is kept, and what is left out.
    fn read_all(directory: &Path) -> (String, u64) {
        let (mut text, mut left_out, mut at) = (Vec::new(), 0, 0);
        loop {
            let piece = read_log(directory, at, 1000).expect("readable");
            if piece.bytes.is_empty() {
                return (String::from_utf8(text).expect("text"), left_out);
            }
            left_out += piece.left_out;
            (at, text) = (piece.next, [text, piece.bytes].concat());
        }
    }

    #[test]
    fn keeps_the_begin_and_the_newest_output_within_the_limit() {
        let place = tempfile::tempdir().expect("a directory");
        let mut log = BoundedLog::open(place.path().to_path_buf(), 32 * 1024);
        for number in 0..10_000_u32 {
            log.write(line(number).as_bytes());
            if number == 500 {
                let (text, left_out) = read_all(place.path());
                assert_eq!((text.len(), left_out), (501 * 12, 0));
            }
        }
        let (text, left_out) = read_all(place.path());
        assert!(text.len() <= 32 * 1024);
        assert!(text.starts_with(&line(0)) && text.ends_with(&line(9999)));
        assert_eq!((left_out + text.len() as u64, log.dropped()), (120_000, left_out));
    }

    #[test]
    fn a_reader_that_follows_loses_nothing_when_a_part_is_closed() {
        let place = tempfile::tempdir().expect("a directory");
        let mut log = BoundedLog::open(place.path().to_path_buf(), 1 << 20);
        let (mut at, mut text) = (0, Vec::new());
        let whole: String = (0..60_000).map(line).collect();
        for piece in whole.as_bytes().chunks(7777) {
            log.write(piece);
            let read = read_log(place.path(), at, 1 << 20).expect("readable");
            assert_eq!(read.left_out, 0);
            at = read.next;
            text.extend(read.bytes);
            // What is beyond the end of a part comes with the next question.
            let read = read_log(place.path(), at, 1 << 20).expect("readable");
            at = read.next;
            text.extend(read.bytes);
        }
        assert_eq!(String::from_utf8(text).expect("text"), whole);
    }

    #[test]
    fn a_question_beyond_the_end_waits_there() {
        let place = tempfile::tempdir().expect("a directory");
        assert_eq!(read_log(place.path(), 0, 10).expect_err("nothing yet").kind(), io::ErrorKind::NotFound);
        let mut log = BoundedLog::open(place.path().to_path_buf(), 1 << 20);
        log.write(b"abc");
        let piece = read_log(place.path(), 3, 10).expect("readable");
        assert_eq!(piece, LogPiece { bytes: Vec::new(), next: 3, left_out: 0 });
    }

    #[test]
    fn a_place_that_cannot_be_written_counts_what_it_lost() {
        let place = tempfile::tempdir().expect("a directory");
        let mut log = BoundedLog::open(place.path().join("no"), 1 << 20);
        log.write(b"gone");
        assert_eq!(log.dropped(), 4);
    }
}
