//! Files that must be whole or absent, and files that somebody else may have put there.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Bytes kept for a record on a disk that may fill up.
const RESERVE_BYTES: usize = 4096;

/// Creates a directory of the given mode; its parents must be there.
///
/// # Errors
/// As [`std::fs::DirBuilder::create`].
pub fn create_directory(path: &Path, mode: u32) -> io::Result<()> {
    fs::DirBuilder::new().mode(mode).create(path)
}

/// Writes a new file of the given mode; an existing one is an error.
///
/// # Errors
/// As [`std::fs::OpenOptions::open`] and writing.
pub fn write_new(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(content)
}

/// Writes a record whole, through a file beside it, and syncs it and its directory.
///
/// # Errors
/// Whatever the file system says.
pub fn write_record<T: Serialize>(path: &Path, record: &T, mode: u32) -> io::Result<()> {
    let beside = path.with_extension("json.new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
    file.write_all(&serde_json::to_vec(record)?)?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    sync_parent(path)
}

/// Reserves space for a record that is to be written later by [`write_reserved`].
///
/// # Errors
/// Whatever the file system says.
pub fn reserve(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o640).open(path)?;
    file.write_all(&[b' '; RESERVE_BYTES])?;
    file.sync_all()
}

/// Writes a record into the space reserved at `reserve` and gives it its name. Works on a full disk, since nothing
/// new is allocated; the rest of the space stays blank, which JSON allows.
///
/// # Errors
/// Whatever the file system says, or a record larger than the space.
pub fn write_reserved<T: Serialize>(reserve: &Path, path: &Path, record: &T) -> io::Result<()> {
    let content = serde_json::to_vec(record)?;
    if content.len() > RESERVE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the record is larger than the space kept for it"));
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o640).open(reserve)?;
    file.write_all(&content)?;
    file.sync_all()?;
    fs::rename(reserve, path)?;
    sync_parent(path)
}

/// Reads a record; `None` where there is none.
///
/// # Errors
/// Whatever the file system says; a torn record is [`io::ErrorKind::InvalidData`].
pub fn read_record<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(content) => Ok(Some(serde_json::from_slice(&content)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes the names in the parent of `path` durable.
///
/// # Errors
/// Whatever the file system says.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

/// Opens a regular file below a directory that another user may write to: no link on the way is followed, and opening
/// never waits (as it would for a pipe). `None` where there is no such file.
///
/// # Errors
/// Whatever the file system says; something other than a regular file is [`io::ErrorKind::InvalidData`].
pub fn open_untrusted(directory: &Path, relative: &str) -> io::Result<Option<File>> {
    let base =
        match rustix::fs::openat(CWD, directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(base) => base,
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let file = match rustix::fs::openat2(base, relative, flags, Mode::empty(), resolve) {
        Ok(file) => File::from(file),
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{relative} is not a regular file")));
    }
    Ok(Some(file))
}

/// Reads such a file, at most `limit` bytes.
///
/// # Errors
/// As [`open_untrusted`]; a larger file is [`io::ErrorKind::InvalidData`].
pub fn read_untrusted(directory: &Path, relative: &str, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_untrusted(directory, relative)? else { return Ok(None) };
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{relative} is larger than {limit} bytes")));
    }
    Ok(Some(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_in_a_foreign_directory_is_not_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("secret"), "s").expect("a file");
        let work = directory.path().join("work");
        fs::create_dir(&work).expect("a directory");
        std::os::unix::fs::symlink("../secret", work.join("link")).expect("a link");
        std::os::unix::fs::symlink("..", work.join("up")).expect("a link");
        assert!(read_untrusted(&work, "link", 10).is_err());
        assert!(read_untrusted(&work, "up/secret", 10).is_err());
        assert!(read_untrusted(&work, "none", 10).expect("absence is no error").is_none());
        fs::write(work.join("plain"), "0123456789").expect("a file");
        assert_eq!(read_untrusted(&work, "plain", 10).expect("readable").as_deref(), Some(&b"0123456789"[..]));
        assert!(read_untrusted(&work, "plain", 9).is_err());
    }

    #[test]
    fn a_reserved_record_reads_back_with_its_padding() {
        let directory = tempfile::tempdir().expect("a directory");
        let (kept, path) = (directory.path().join("exit.json.new"), directory.path().join("exit.json"));
        reserve(&kept).expect("space");
        write_reserved(&kept, &path, &vec![1, 2]).expect("written");
        assert_eq!(read_record::<Vec<i32>>(&path).expect("readable"), Some(vec![1, 2]));
        assert!(!kept.exists());
    }

    #[test]
    fn a_torn_record_is_an_error_and_a_missing_one_is_not() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x.json");
        assert_eq!(read_record::<Vec<i32>>(&path).expect("absence is no error"), None);
        fs::write(&path, "[1, 2").expect("a file");
        assert!(read_record::<Vec<i32>>(&path).is_err());
    }
}
