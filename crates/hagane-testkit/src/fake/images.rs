//! An image source whose answers the test chooses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hagane_api::quantity::{ByteSize, GIB, MIB};
use hagane_ports::{
    DiskFormat, ImageFailure, ImagePurpose, ImageRequest, ImageSource, ImageState, LocalImage, Progress,
};
use sha2::{Digest, Sha256};

/// Answers every URI with a ready image unless told otherwise. It touches no disk: the paths it names do not exist.
#[derive(Debug, Default)]
pub struct FakeImages {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: BTreeMap<String, ImageState>,
    requests: Vec<ImageRequest>,
}

impl FakeImages {
    /// A source that has every image.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what is answered for `uri` from now on.
    pub fn set(&self, uri: &str, answer: ImageState) {
        self.lock().answers.insert(uri.to_owned(), answer);
    }

    /// Makes `uri` an image of this virtual size, ready at once.
    pub fn set_ready(&self, uri: &str, virtual_size: ByteSize) {
        let image = LocalImage { virtual_size, ..Self::ready_image(uri, ImagePurpose::RootDisk) };
        self.set(uri, ImageState::Ready(image));
    }

    /// Makes `uri` a download that has come as far as `done` of `total` bytes.
    pub fn set_fetching(&self, uri: &str, done: u64, total: Option<u64>) {
        let progress = Progress { what: format!("downloading {uri}"), done, total };
        self.set(uri, ImageState::Fetching(progress));
    }

    /// Makes `uri` fail; `retry_after` is what the real source would wait, `None` where only an edit helps.
    pub fn set_failed(&self, uri: &str, failure: ImageFailure, retry_after: Option<Duration>) {
        let message = format!("{uri}: {failure:?}");
        self.set(uri, ImageState::Failed { failure, message, retry_after });
    }

    /// Forgets what was set for `uri`: it is ready again.
    pub fn reset(&self, uri: &str) {
        self.lock().answers.remove(uri);
    }

    /// Every request so far, in order.
    #[must_use]
    pub fn requests(&self) -> Vec<ImageRequest> {
        self.lock().requests.clone()
    }

    /// The image that is answered for `uri` when nothing else was set: its digest is that of the URI's text.
    #[must_use]
    pub fn ready_image(uri: &str, purpose: ImagePurpose) -> LocalImage {
        let sha256: String = Sha256::digest(uri.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
        let (format, virtual_size) = match purpose {
            ImagePurpose::RootDisk => (DiskFormat::Qcow2, ByteSize(2 * GIB)),
            ImagePurpose::Seed => (DiskFormat::Raw, ByteSize(MIB)),
        };
        let path = PathBuf::from("/nonexistent/images").join(&sha256);
        LocalImage { path, sha256, format, virtual_size, file_size: ByteSize(MIB) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ImageSource for FakeImages {
    async fn ensure(&self, request: &ImageRequest) -> ImageState {
        let mut state = self.lock();
        state.requests.push(request.clone());
        let answer = state.answers.get(&request.uri).cloned();
        answer.unwrap_or_else(|| ImageState::Ready(Self::ready_image(&request.uri, request.purpose)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_what_was_set_and_ready_otherwise() {
        let images = FakeImages::new();
        let request =
            ImageRequest { uri: "http://images.test/a".into(), checksum: None, purpose: ImagePurpose::RootDisk };
        assert!(matches!(images.ensure(&request).await, ImageState::Ready(_)));
        images.set_fetching(&request.uri, 1, Some(4));
        assert!(matches!(images.ensure(&request).await, ImageState::Fetching(_)));
        images.set_failed(&request.uri, ImageFailure::NotAnImage, None);
        assert!(matches!(images.ensure(&request).await, ImageState::Failed { retry_after: None, .. }));
        assert_eq!(images.requests().len(), 3);
    }
}
