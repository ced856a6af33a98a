//! A failed fetch, on its way to becoming [`hagane_ports::ImageState::Failed`].

use std::io;
use std::time::Duration;

use hagane_ports::ImageFailure;

/// When trying again makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    /// Only another request can help.
    Never,
    /// After the usual, growing delay.
    Backoff,
    /// Not before this, as the server asked.
    NotBefore(Duration),
}

/// Why there is no image: class, reason (without the URL) and what next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) failure: ImageFailure,
    pub(crate) reason: String,
    pub(crate) retry: Retry,
}

impl Fault {
    pub(crate) fn new(failure: ImageFailure, reason: impl Into<String>) -> Self {
        Self { failure, reason: reason.into(), retry: Retry::Backoff }
    }

    pub(crate) fn fetch(reason: impl Into<String>) -> Self {
        Self::new(ImageFailure::FetchFailed, reason)
    }

    pub(crate) fn local(reason: impl Into<String>) -> Self {
        Self::new(ImageFailure::LocalStorage, reason)
    }

    pub(crate) fn not_an_image(reason: impl Into<String>) -> Self {
        Self::new(ImageFailure::NotAnImage, reason)
    }

    /// A request that can never work.
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::new(ImageFailure::InvalidUri, reason).with_retry(Retry::Never)
    }

    pub(crate) fn with_retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// A fault of our own disk.
    pub(crate) fn storage(doing: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::local(format!("{doing}: no space is left in the image cache"))
            }
            _ => Self::local(format!("{doing}: {error}")),
        }
    }
}
