//! `file:` images: copied into the cache, because the operator's file may change later.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::ImageOptions;
use crate::beneath::{self, Refusal};
use crate::cache::{Cache, modified};
use crate::download::Fetched;
use crate::fault::{Fault, Retry};
use crate::index::Validators;
use crate::progress::ProgressCell;
use crate::sink::DigestWriter;

/// Bytes copied at a time.
const PIECE: usize = 1 << 20;

/// Opens a file below the image directory.
pub(crate) fn open(options: &ImageOptions, path: &Path) -> Result<File, Fault> {
    let Some(directory) = &options.image_dir else {
        return Err(Fault::invalid("file: URIs need the operator's --image-dir"));
    };
    beneath::open(directory, path).map_err(|refusal| match refusal {
        Refusal::Outside => Fault::invalid("lies outside of --image-dir"),
        Refusal::NotAFile => Fault::not_an_image("is no regular file"),
        Refusal::Io(error) if error.kind() == io::ErrorKind::NotFound => Fault::fetch("there is no such file"),
        Refusal::Io(error) => Fault::local(format!("cannot be opened: {error}")),
    })
}

/// What tells one version of a file from another.
pub(crate) fn validators(metadata: &Metadata) -> Validators {
    let tag = format!("{}-{}-{}-{}", metadata.dev(), metadata.ino(), metadata.len(), modified(metadata));
    Validators { tag: Some(tag), last_modified: None }
}

/// Copies and digests. `check_size` refuses what is too large.
pub(crate) fn copy(
    mut source: File,
    cache: &Cache,
    with_sha512: bool,
    progress: &ProgressCell,
    check_size: impl Fn(u64) -> Result<(), Fault>,
) -> Result<Fetched, Fault> {
    let unreadable = |error: &io::Error| Fault::local(format!("cannot be read: {error}"));
    let before = source.metadata().map_err(|error| unreadable(&error))?;
    if before.len() == 0 {
        return Err(Fault::not_an_image("is empty"));
    }
    check_size(before.len())?;
    let unwritable = |error: &io::Error| Fault::storage("cannot be stored", error);
    let (temporary, file) = cache.temporary().map_err(|error| unwritable(&error))?;
    let mut writer = DigestWriter::new(file, with_sha512);
    let mut buffer = vec![0; PIECE];
    let mut size = 0_u64;
    loop {
        let count = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unreadable(&error)),
        };
        size += count as u64;
        check_size(size)?;
        writer.write(&buffer[..count]).map_err(|error| unwritable(&error))?;
        progress.add(count as u64);
    }
    let written = writer.finish().map_err(|error| unwritable(&error))?;
    let after = source.metadata().map_err(|error| unreadable(&error))?;
    let validators = validators(&before);
    if written.size != before.len() || validators != self::validators(&after) {
        return Err(Fault::fetch("changed while it was read").with_retry(Retry::Backoff));
    }
    Ok(Fetched { temporary, written, validators })
}
