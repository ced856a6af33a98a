//! Images: asked for by URI, answered with a verified local file.

use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;
use hagane_api::quantity::ByteSize;

use crate::Progress;

/// Format of a disk image, read from its content, never from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFormat {
    /// Plain bytes of the disk.
    Raw,
    /// QEMU copy-on-write, version 2 or 3, without a backing file.
    Qcow2,
}

/// A digest the image must have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Checksum {
    /// SHA-256, 64 lower-case hex digits.
    Sha256(String),
    /// SHA-512, 128 lower-case hex digits.
    Sha512(String),
}

/// What the image is for: it sets which contents are plausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImagePurpose {
    /// A bootable root disk.
    RootDisk,
    /// A cloud-init seed (ISO 9660 or FAT).
    Seed,
}

/// A wish for an image.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ImageRequest {
    /// `http:`, `https:` or `file:` URI.
    pub uri: String,
    /// Digest the content must have, where the user gave one.
    pub checksum: Option<Checksum>,
    /// What it is for.
    pub purpose: ImagePurpose,
}

/// A verified image on local disk. Its path is content-addressed: other content has another path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalImage {
    /// Where it is; read-only.
    pub path: PathBuf,
    /// SHA-256 of the file, lower-case hex.
    pub sha256: String,
    /// Format, from the content.
    pub format: DiskFormat,
    /// Size of the disk it describes.
    pub virtual_size: ByteSize,
    /// Size of the file.
    pub file_size: ByteSize,
}

/// Class of a failure to get an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFailure {
    /// The URI can never work: bad syntax or scheme, outside `--image-dir`, forbidden address.
    InvalidUri,
    /// The server answered with an error, cut the connection, looped or could not be reached.
    FetchFailed,
    /// The digest differs.
    ChecksumMismatch,
    /// The content is no usable image (an HTML page, an archive, a qcow2 with a backing file, …).
    NotAnImage,
    /// Larger than the operator's limit.
    TooLarge,
    /// The local disk is full or unreadable.
    LocalStorage,
}

/// Where an image is on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImageState {
    /// It is there.
    Ready(LocalImage),
    /// It is being fetched; ask again.
    Fetching(Progress),
    /// It could not be had; the next attempt starts after `retry_after` on its own when asked again then.
    Failed {
        /// Class of the failure.
        failure: ImageFailure,
        /// URL (without credentials) and reason, one line.
        message: String,
        /// Time until a next call tries again; `None` where only another request can help.
        retry_after: Option<Duration>,
    },
}

/// Fetches, verifies and keeps images.
#[async_trait]
pub trait ImageSource: Send + Sync {
    /// Starts the fetch if need be and says at once where it stands. Equal requests share one fetch; each caller's
    /// request is independent of who asked first.
    async fn ensure(&self, request: &ImageRequest) -> ImageState;
}
