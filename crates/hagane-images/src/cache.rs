//! The cache directory: `sha256/<digest>` (verified files), `tmp/` (unfinished ones), `index.json`, `lock`.
//!
//! Every function here blocks on the disk; callers run them off the async runtime.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use crate::OpenError;
use crate::index::{Blob, Index, SourceEntry, VERSION};
use crate::sink::Written;

/// An opened cache; the only one on its directory.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    index: Mutex<Index>,
    saving: Mutex<()>,
    next: AtomicU64,
    /// Held for as long as the cache is open.
    _lock: File,
}

/// An unfinished file, removed when dropped.
#[derive(Debug)]
pub(crate) struct Temporary {
    pub(crate) path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Gone already where it was kept; anything left over is removed at the next start.
        let _ = fs::remove_file(&self.path);
    }
}

impl Cache {
    /// Opens the directory, makes it where it is missing, and clears what a dead run left behind.
    pub(crate) fn open(directory: &Path) -> Result<Self, OpenError> {
        let failed = |path: &Path, source| OpenError::Cache { path: path.to_owned(), source };
        let blobs = directory.join("sha256");
        let temporary = directory.join("tmp");
        for path in [directory, &blobs, &temporary] {
            let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| failed(path, error))?;
        }
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(directory.join("lock"));
        let lock = lock.map_err(|error| failed(directory, error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(OpenError::InUse { path: directory.to_owned() }),
            Err(fs::TryLockError::Error(error)) => return Err(failed(directory, error)),
        }
        remove_files(&temporary, |_| true).map_err(|error| failed(&temporary, error))?;
        let mut index = read_index(directory).map_err(|error| failed(&directory.join("index.json"), error))?;
        // A file that is not in the index was renamed into place but never recorded: nobody knows it.
        remove_files(&blobs, |name| !index.blobs.contains_key(name)).map_err(|error| failed(&blobs, error))?;
        index.blobs.retain(|digest, _| blobs.join(digest).exists());
        let known = index.blobs.keys().cloned().collect::<Vec<_>>();
        index.sources.retain(|_, source| known.binary_search(&source.sha256).is_ok());
        Ok(Self {
            directory: directory.to_owned(),
            index: Mutex::new(index),
            saving: Mutex::new(()),
            next: AtomicU64::new(0),
            _lock: lock,
        })
    }

    /// A new file to write to.
    pub(crate) fn temporary(&self) -> io::Result<(Temporary, File)> {
        let name = self.next.fetch_add(1, Ordering::Relaxed).to_string();
        let path = self.directory.join("tmp").join(name);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok((Temporary { path }, file))
    }

    /// Where the file of this digest is.
    pub(crate) fn path(&self, sha256: &str) -> PathBuf {
        self.directory.join("sha256").join(sha256)
    }

    /// Moves a verified, synced file to its place and records it.
    pub(crate) fn keep(&self, temporary: Temporary, written: &Written) -> io::Result<()> {
        fs::set_permissions(&temporary.path, Permissions::from_mode(0o400))?;
        let path = self.path(&written.sha256);
        fs::rename(&temporary.path, &path)?;
        File::open(self.directory.join("sha256"))?.sync_all()?;
        let modified = modified(&fs::metadata(&path)?);
        let mut index = self.lock();
        let before = index.blobs.get(&written.sha256).and_then(|blob| blob.sha512.clone());
        let sha512 = written.sha512.clone().or(before);
        index.blobs.insert(written.sha256.clone(), Blob { size: written.size, modified, sha512 });
        Ok(())
    }

    /// Opens the file of this digest; forgets it where it is gone or was changed by somebody else.
    pub(crate) fn find(&self, sha256: &str) -> Option<File> {
        let blob = self.lock().blobs.get(sha256).cloned()?;
        let file = File::open(self.path(sha256)).ok();
        let file = file.filter(|file| {
            file.metadata()
                .is_ok_and(|found| found.is_file() && found.len() == blob.size && modified(&found) == blob.modified)
        });
        if file.is_none() {
            tracing::warn!(sha256, "a cached image is missing or was changed; it will be fetched again");
            self.lock().blobs.remove(sha256);
        }
        file
    }

    /// The SHA-256 of the file with this SHA-512, where one is known.
    pub(crate) fn by_sha512(&self, sha512: &str) -> Option<String> {
        let index = self.lock();
        let found = index.blobs.iter().find(|(_, blob)| blob.sha512.as_deref() == Some(sha512));
        found.map(|(sha256, _)| sha256.clone())
    }

    pub(crate) fn source(&self, key: &str) -> Option<SourceEntry> {
        self.lock().sources.get(key).cloned()
    }

    pub(crate) fn set_source(&self, key: String, entry: SourceEntry) {
        self.lock().sources.insert(key, entry);
    }

    /// The server says (or is not there to deny) that its version is still the known one.
    pub(crate) fn confirm_source(&self, key: &str, now: Timestamp) {
        if let Some(entry) = self.lock().sources.get_mut(key) {
            entry.checked_at = now;
        }
    }

    /// Writes the index: whole or not at all.
    pub(crate) fn save(&self) -> io::Result<()> {
        let _one_at_a_time = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let text = serde_json::to_vec_pretty(&*self.lock())?;
        let (temporary, mut file) = self.temporary()?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&temporary.path, self.directory.join("index.json"))?;
        File::open(&self.directory)?.sync_all()
    }

    fn lock(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the index. One that cannot be understood is started anew: it only saves downloads.
fn read_index(directory: &Path) -> io::Result<Index> {
    let text = match fs::read(directory.join("index.json")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Index::default()),
        Err(error) => return Err(error),
    };
    match serde_json::from_slice::<Index>(&text) {
        Ok(index) if index.version == VERSION => Ok(index),
        Ok(index) => {
            tracing::warn!(version = index.version, "the image index is of another version; images are fetched again");
            Ok(Index::default())
        }
        Err(error) => {
            tracing::warn!(%error, "the image index is damaged; images are fetched again");
            Ok(Index::default())
        }
    }
}

fn remove_files(directory: &Path, unwanted: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_name().to_str().is_none_or(&unwanted) && !entry.file_type()?.is_dir() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Modification time in nanoseconds since 1970.
pub(crate) fn modified(metadata: &fs::Metadata) -> i64 {
    metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec())
}
