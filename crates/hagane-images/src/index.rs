//! What the cache holds and where it came from: `index.json`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::sink::hex;

/// Version of the file's form; a file of another version is started anew.
pub(crate) const VERSION: u32 = 1;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Index {
    pub(crate) version: u32,
    /// By SHA-256.
    pub(crate) blobs: BTreeMap<String, Blob>,
    /// By [`source_key`].
    pub(crate) sources: BTreeMap<String, SourceEntry>,
}

impl Default for Index {
    fn default() -> Self {
        Self { version: VERSION, blobs: BTreeMap::new(), sources: BTreeMap::new() }
    }
}

/// One file of the cache, as it was when it was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Blob {
    pub(crate) size: u64,
    /// Modification time in nanoseconds since 1970: another value means that somebody else wrote to the file.
    pub(crate) modified: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sha512: Option<String>,
}

/// What a URI led to when it was last asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceEntry {
    /// The URI as it may be shown, for people who read the file.
    pub(crate) shown: String,
    pub(crate) sha256: String,
    pub(crate) checked_at: Timestamp,
    #[serde(default)]
    pub(crate) validators: Validators,
}

/// What the server (or the file system) said about the version.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Validators {
    /// `ETag`, or for a local file its identity, size and time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tag: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_modified: Option<String>,
}

impl Validators {
    pub(crate) fn is_empty(&self) -> bool {
        self.tag.is_none() && self.last_modified.is_none()
    }
}

/// A URI may hold secrets, so the file holds its digest.
pub(crate) fn source_key(uri: &str) -> String {
    hex(&Sha256::digest(uri.as_bytes()))
}
