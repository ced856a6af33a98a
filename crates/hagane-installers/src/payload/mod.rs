//! The Kubernetes payload: binaries and images that the kubeadm installer lays on hosts, listed in `payload.yaml`.
//!
//! Installers read only this list and the files it names. A payload is built once by [`build`] and kept by version in a
//! cache; an operator with the official release may write the list by hand.

mod build;
mod image;
mod recipe;
mod shelf;

use std::error::Error;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use hagane_ports::installer::NodeRole;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

pub use build::{BuildOptions, Progress, build, directory, directory_of, versions};
pub use shelf::{Shelf, Stored};

/// Name of the list in a payload directory.
pub const MANIFEST: &str = "payload.yaml";

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A program for /usr/local/bin.
    Binary,
    /// A container image archive that `ctr images import` takes.
    Image,
    /// A Debian package.
    Package,
}

/// One file of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Item {
    /// Name, unique among items of its kind.
    pub name: String,
    /// Version of what is inside.
    pub version: String,
    /// Architecture, as Go spells it.
    pub arch: String,
    /// What it is.
    pub kind: Kind,
    /// File, relative to the payload directory.
    pub file: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// Where it came from, for people.
    pub source: String,
    /// Image reference; images only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Which nodes need it.
    pub roles: Vec<NodeRole>,
}

/// The list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Manifest {
    /// Version of Kubernetes, without `v`.
    pub kubernetes_version: String,
    /// The files.
    pub items: Vec<Item>,
}

/// Why a payload cannot be built or used.
#[derive(Debug, thiserror::Error)]
pub enum PayloadError {
    /// The list or a listed file cannot be read, or something cannot be written.
    #[error("failed to {operation} {path}")]
    File {
        /// What was tried.
        operation: &'static str,
        /// On what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The list is not what it should be.
    #[error("{path}: {problem}")]
    Malformed {
        /// The list.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A file is not the one that was listed.
    #[error("{path}: the SHA-256 digest is {found}, {listed} is listed; build the payload again")]
    Digest {
        /// The file.
        path: PathBuf,
        /// The digest in the list.
        listed: String,
        /// The digest of the file.
        found: String,
    },
    /// The version is not among those that can be built.
    #[error("version {version} of Kubernetes cannot be built here: {known} can")]
    Version {
        /// What was asked for.
        version: String,
        /// What there is.
        known: String,
    },
    /// A program that building needs cannot be started.
    #[error("failed to start {program}; {hint}")]
    Program {
        /// Which.
        program: String,
        /// How to get it.
        hint: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A program that building needs said no.
    #[error("{program} failed: {message}")]
    Refused {
        /// Which.
        program: String,
        /// The end of what it wrote.
        message: String,
    },
}

/// Reads the list of the payload in `directory`; the files are not looked at.
///
/// # Errors
/// [`PayloadError::File`] and [`PayloadError::Malformed`].
pub fn load(directory: &Path) -> Result<Manifest, PayloadError> {
    let path = directory.join(MANIFEST);
    let text = std::fs::read_to_string(&path).map_err(file_error("read", &path))?;
    let malformed = |problem: String| PayloadError::Malformed { path: path.clone(), problem };
    let manifest: Manifest = serde_saphyr::from_str(&text).map_err(|error| malformed(error.to_string()))?;
    for item in &manifest.items {
        let plain = item.file.components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || item.file.as_os_str().is_empty() {
            return Err(malformed(format!("{}: file {:?} is not below the payload", item.name, item.file)));
        }
        if !is_digest(&item.sha256) {
            return Err(malformed(format!("{}: sha256 is not 64 hexadecimal digits", item.name)));
        }
        if (item.kind == Kind::Image) != item.tag.is_some() {
            return Err(malformed(format!("{}: images, and only images, have a tag", item.name)));
        }
    }
    Ok(manifest)
}

/// Checks every file of the payload in `directory` against the list; `progress` is told each item before it is read.
///
/// # Errors
/// Any [`PayloadError`], of the first file that is not right.
pub fn verify(directory: &Path, progress: &mut dyn FnMut(&Item)) -> Result<Manifest, PayloadError> {
    let manifest = load(directory)?;
    for item in &manifest.items {
        progress(item);
        let path = directory.join(&item.file);
        let found = digest_of(&path)?;
        if found != item.sha256 {
            return Err(PayloadError::Digest { path, listed: item.sha256.clone(), found });
        }
    }
    Ok(manifest)
}

/// An error and its causes in one line.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

fn is_digest(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

fn digest_of(path: &Path) -> Result<String, PayloadError> {
    let mut file = File::open(path).map_err(file_error("open", path))?;
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1024 * 1024];
    loop {
        match file.read(&mut buffer).map_err(file_error("read", path))? {
            0 => return Ok(hexadecimal(&digest.finalize())),
            count => digest.update(buffer.get(..count).unwrap_or_default()),
        }
    }
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn file_error(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> PayloadError {
    let path = path.to_path_buf();
    move |source| PayloadError::File { operation, path: path.clone(), source }
}

#[cfg(test)]
mod tests;
