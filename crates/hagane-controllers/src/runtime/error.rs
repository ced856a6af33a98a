//! Why a pass ended early.

use hagane_ports::ShellError;

use super::schedule::Next;

/// Why a pass ended early. What the world says (away, missing, refused) is never an error but a fact that is recorded;
/// only our own API failing aborts a pass.
#[derive(Debug, thiserror::Error)]
pub enum PassError {
    /// The object or a child was changed by somebody else since it was read.
    #[error("the object changed while it was worked on")]
    Conflict,
    /// The API server failed an operation.
    #[error("failed to {operation}")]
    Api {
        /// What was tried, as a phrase after "failed to".
        operation: &'static str,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// A value could not be written as JSON.
    #[error("failed to encode {what}")]
    Encode {
        /// Which value.
        what: &'static str,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// No key pair could be made.
    #[error("failed to make a host key")]
    HostKey {
        /// The cause.
        #[source]
        source: ShellError,
    },
}

impl PassError {
    /// Wraps an error of the client; a conflict is told apart.
    #[must_use]
    pub fn api(operation: &'static str, source: kube::Error) -> Self {
        match &source {
            kube::Error::Api(status) if status.code == 409 && status.reason == "Conflict" => Self::Conflict,
            _ => Self::Api { operation, source: Box::new(source) },
        }
    }

    /// Wraps an error of a write to the pass's own object: one that is gone since it was read has changed, too.
    #[must_use]
    pub fn own(operation: &'static str, source: kube::Error) -> Self {
        if is_not_found(&source) { Self::Conflict } else { Self::api(operation, source) }
    }

    /// When to look again.
    #[must_use]
    pub fn next(&self) -> Next {
        match self {
            Self::Conflict => Next::Stale,
            Self::Api { .. } | Self::Encode { .. } | Self::HostKey { .. } => Next::Retry,
        }
    }
}

/// Whether the API server says that an object is not there.
#[must_use]
pub fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the API server says that an object of that name is there already.
#[must_use]
pub fn is_already_there(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists")
}

/// An error with its causes, as one line.
#[must_use]
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // The client's own text prints the whole answer, and then its cause does again.
        let answer = match error.downcast_ref::<Box<kube::Error>>().map(Box::as_ref).or(error.downcast_ref()) {
            Some(kube::Error::Api(status)) => Some(format!("{} ({})", status.message, status.reason)),
            _ => None,
        };
        if let Some(answer) = answer {
            return format!("{line}: {answer}");
        }
        let text = error.to_string();
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line
}
