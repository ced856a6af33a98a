//! What every [`ImageSource`] must do. Run it with [`obeys_the_contract`] on a [`World`]: images of one's own.

use std::sync::Arc;
use std::time::Duration;

use hagane_ports::{ImageFailure, ImageRequest, ImageSource, ImageState};

/// Requests with a known outcome.
pub trait World: Send + Sync {
    /// The source under test.
    fn source(&self) -> Arc<dyn ImageSource>;

    /// An image that can be had.
    fn good(&self) -> ImageRequest;

    /// One whose digest is another.
    fn wrong_checksum(&self) -> ImageRequest;

    /// One that its server does not have. Its URI carries the password `hunter2`.
    fn missing(&self) -> ImageRequest;

    /// One that turns out to be a page of text.
    fn page(&self) -> ImageRequest;

    /// One whose URI can never work.
    fn invalid(&self) -> ImageRequest;
}

/// Runs the whole suite. Panics, naming the promise, where one is broken.
///
/// # Panics
/// Where the contract is broken.
pub async fn obeys_the_contract(world: &dyn World) {
    let source = world.source();
    let ImageState::Ready(image) = settled(&*source, &world.good()).await else {
        assert_eq!(settled(&*source, &world.good()).await, source.ensure(&world.good()).await, "a good image is ready");
        return;
    };
    assert!(image.path.ends_with(&image.sha256), "the path is content-addressed: {image:?}");
    assert!(image.virtual_size.0 > 0 && image.file_size.0 > 0, "{image:?}");
    assert_eq!(source.ensure(&world.good()).await, ImageState::Ready(image), "a ready image is ready at once");
    for (request, expected) in [
        (world.wrong_checksum(), ImageFailure::ChecksumMismatch),
        (world.missing(), ImageFailure::FetchFailed),
        (world.page(), ImageFailure::NotAnImage),
        (world.invalid(), ImageFailure::InvalidUri),
    ] {
        let state = settled(&*source, &request).await;
        let ImageState::Failed { failure, message, retry_after } = state else {
            assert_eq!(state, source.ensure(&request).await, "{expected:?} is a failure");
            return;
        };
        assert_eq!(failure, expected, "{message}");
        assert!(!message.is_empty() && !message.contains('\n') && !message.contains("hunter2"), "{message}");
        let forever = expected == ImageFailure::InvalidUri;
        assert_eq!(retry_after.is_none(), forever, "{expected:?}: only a URI that never works is not tried again");
    }
    assert!(
        matches!(settled(&*source, &world.good()).await, ImageState::Ready(_)),
        "failures of others change nothing"
    );
}

/// Asks until the fetch is over.
///
/// # Panics
/// After a minute.
pub async fn settled(source: &dyn ImageSource, request: &ImageRequest) -> ImageState {
    for _ in 0..6000 {
        match source.ensure(request).await {
            ImageState::Fetching(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            state => return state,
        }
    }
    let last = source.ensure(request).await;
    assert!(!matches!(last, ImageState::Fetching(_)), "still fetching after a minute: {last:?}");
    last
}

#[cfg(test)]
mod tests {
    use hagane_ports::{Checksum, ImagePurpose};

    use super::*;
    use crate::fake::FakeImages;

    struct FakeWorld(Arc<FakeImages>);

    fn request(uri: &str) -> ImageRequest {
        ImageRequest { uri: uri.to_owned(), checksum: None, purpose: ImagePurpose::RootDisk }
    }

    impl World for FakeWorld {
        fn source(&self) -> Arc<dyn ImageSource> {
            Arc::clone(&self.0) as Arc<dyn ImageSource>
        }

        fn good(&self) -> ImageRequest {
            request("http://images.test/good")
        }

        fn wrong_checksum(&self) -> ImageRequest {
            let checksum = Some(Checksum::Sha256("0".repeat(64)));
            ImageRequest { checksum, ..request("http://images.test/other") }
        }

        fn missing(&self) -> ImageRequest {
            request("http://images.test/missing")
        }

        fn page(&self) -> ImageRequest {
            request("http://images.test/page")
        }

        fn invalid(&self) -> ImageRequest {
            request("gopher://images.test/")
        }
    }

    #[tokio::test]
    async fn the_fake_obeys_the_contract() {
        let world = FakeWorld(Arc::new(FakeImages::new()));
        let soon = Some(Duration::from_secs(2));
        for (request, failure, retry_after) in [
            (world.wrong_checksum(), ImageFailure::ChecksumMismatch, soon),
            (world.missing(), ImageFailure::FetchFailed, soon),
            (world.page(), ImageFailure::NotAnImage, soon),
            (world.invalid(), ImageFailure::InvalidUri, None),
        ] {
            world.0.set_failed(&request.uri, failure, retry_after);
        }
        obeys_the_contract(&world).await;
    }
}
