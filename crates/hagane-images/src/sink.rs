//! Bytes to a temporary file and through the digests, off the async runtime.

use std::fs::File;
use std::io::{self, Write as _};

use bytes::Bytes;
use sha2::{Digest as _, Sha256, Sha512};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Pieces that may wait for the disk.
const QUEUE: usize = 16;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// Lower-case hex.
    pub(crate) sha256: String,
    /// Lower-case hex, where it was asked for.
    pub(crate) sha512: Option<String>,
    pub(crate) size: u64,
}

/// Writes and digests; for use where blocking is allowed.
pub(crate) struct DigestWriter {
    file: File,
    sha256: Sha256,
    sha512: Option<Sha512>,
    size: u64,
}

impl DigestWriter {
    pub(crate) fn new(file: File, with_sha512: bool) -> Self {
        Self { file, sha256: Sha256::new(), sha512: with_sha512.then(Sha512::new), size: 0 }
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.sha256.update(bytes);
        if let Some(sha512) = &mut self.sha512 {
            sha512.update(bytes);
        }
        self.size += bytes.len() as u64;
        Ok(())
    }

    /// Makes everything durable.
    pub(crate) fn finish(self) -> io::Result<Written> {
        self.file.sync_all()?;
        let sha512 = self.sha512.map(|digest| hex(&digest.finalize()));
        Ok(Written { sha256: hex(&self.sha256.finalize()), sha512, size: self.size })
    }
}

/// The writer behind a queue, for async callers.
pub(crate) struct Sink {
    /// Pieces, then `None` when all have been handed over.
    queue: mpsc::Sender<Option<Bytes>>,
    worker: JoinHandle<io::Result<Written>>,
}

impl Sink {
    pub(crate) fn start(mut writer: DigestWriter) -> Self {
        let (queue, mut pieces) = mpsc::channel::<Option<Bytes>>(QUEUE);
        let worker = tokio::task::spawn_blocking(move || {
            while let Some(piece) = pieces.blocking_recv() {
                match piece {
                    Some(piece) => writer.write(&piece)?,
                    None => return writer.finish(),
                }
            }
            // The fetch failed; making half a file durable would only cost time.
            Err(io::ErrorKind::Interrupted.into())
        });
        Self { queue, worker }
    }

    /// Hands a piece on. False where the writer has given up; [`Sink::finish`] then says why.
    pub(crate) async fn write(&self, piece: Bytes) -> bool {
        self.queue.send(Some(piece)).await.is_ok()
    }

    pub(crate) async fn finish(self) -> io::Result<Written> {
        // Where the writer has given up, its own error is the answer.
        let _ = self.queue.send(None).await;
        self.worker.await.map_err(io::Error::other)?
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
