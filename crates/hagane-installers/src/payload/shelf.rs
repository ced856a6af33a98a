//! The payloads that an operator has: one a version of Kubernetes.

use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

use super::{MANIFEST, Manifest, PayloadError, file_error, load};

/// A payload and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its directory.
    pub directory: PathBuf,
    /// Its list.
    pub manifest: Manifest,
}

/// Payloads by version, the oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shelf {
    payloads: Vec<Stored>,
}

impl Shelf {
    /// Reads the payloads in `places`: a place is a payload, or a directory with payloads directly below it.
    ///
    /// # Errors
    /// Any [`PayloadError`] of a list, where a place holds no payload, or where two are of the same version.
    pub fn read(places: &[PathBuf]) -> Result<Self, PayloadError> {
        let mut shelf = Self::default();
        for place in places {
            for directory in payloads_in(place)? {
                shelf.add(directory)?;
            }
        }
        shelf.payloads.sort_by(|one, other| {
            compare_versions(&one.manifest.kubernetes_version, &other.manifest.kubernetes_version)
        });
        Ok(shelf)
    }

    fn add(&mut self, directory: PathBuf) -> Result<(), PayloadError> {
        if self.payloads.iter().any(|stored| stored.directory == directory) {
            return Ok(());
        }
        let manifest = load(&directory)?;
        if let Some(other) = self.find(&manifest.kubernetes_version) {
            let problem = format!(
                "it is of version {}, and so is {}; keep one of them",
                manifest.kubernetes_version,
                other.directory.display()
            );
            return Err(PayloadError::Malformed { path: directory, problem });
        }
        self.payloads.push(Stored { directory, manifest });
        Ok(())
    }

    /// The payload of a version, without `v`.
    #[must_use]
    pub fn find(&self, version: &str) -> Option<&Stored> {
        self.payloads.iter().find(|stored| stored.manifest.kubernetes_version == version)
    }

    /// The payload of the newest version.
    #[must_use]
    pub fn newest(&self) -> Option<&Stored> {
        self.payloads.last()
    }

    /// The versions, the oldest first.
    #[must_use]
    pub fn versions(&self) -> Vec<&str> {
        self.payloads.iter().map(|stored| stored.manifest.kubernetes_version.as_str()).collect()
    }

    /// The payloads, the oldest first.
    #[must_use]
    pub fn payloads(&self) -> &[Stored] {
        &self.payloads
    }
}

fn payloads_in(place: &Path) -> Result<Vec<PathBuf>, PayloadError> {
    let is_payload = |directory: &Path| directory.join(MANIFEST).exists();
    let mut found = Vec::new();
    if !is_payload(place) && place.is_dir() {
        for entry in fs::read_dir(place).map_err(file_error("list", place))?.flatten() {
            // A build that goes on writes its list last, and is not yet under its name.
            let half_built = entry.path().extension().is_some_and(|extension| extension == "new");
            if !half_built && is_payload(&entry.path()) {
                found.push(entry.path());
            }
        }
        found.sort();
    }
    // Without any, reading the list that should be there tells what is missing.
    if found.is_empty() { Ok(vec![place.to_owned()]) } else { Ok(found) }
}

/// Compares versions number by number: 1.36.10 is newer than 1.36.9.
fn compare_versions(one: &str, other: &str) -> Ordering {
    let numbers = |text: &str| -> Vec<u64> { text.split(['.', '-']).map_while(|part| part.parse().ok()).collect() };
    numbers(one).cmp(&numbers(other)).then_with(|| one.cmp(other))
}
