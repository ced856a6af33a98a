//! Errors as a person reads them: the chain once, then a hint where one is known.

use std::error::Error;
use std::path::PathBuf;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The kubeconfig cannot be used.
    #[error("failed to use kubeconfig {}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// A request to the API failed.
    #[error("failed to {operation}")]
    Api {
        /// What was tried.
        operation: String,
        /// The cause.
        #[source]
        source: Box<kube::Error>,
    },
    /// There is no such object.
    #[error("{what} {name:?} does not exist in namespace {namespace:?}")]
    NotFound {
        /// Kind.
        what: String,
        /// Name.
        name: String,
        /// Namespace.
        namespace: String,
    },
    /// The object is there, but not what is asked for.
    #[error("{0}")]
    NotYet(String),
    /// A file cannot be read or written.
    #[error("failed to {operation} {}", path.display())]
    File {
        /// `read`, `write`, …
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A file is not what it should be.
    #[error("{}: {problem}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// An argument cannot be used.
    #[error("{argument}: {value:?} is not possible: {allowed}")]
    Argument {
        /// Which one.
        argument: &'static str,
        /// The value.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// A program of the system did not do what was asked.
    #[error("failed to run {program} {arguments}")]
    Program {
        /// Its name.
        program: &'static str,
        /// Its arguments.
        arguments: String,
        /// The cause: what it said, or why it could not be run.
        #[source]
        source: std::io::Error,
    },
    /// Output cannot be written.
    #[error("failed to write the output")]
    Output(#[source] Box<dyn Error + Send + Sync>),
}

impl CliError {
    /// Advice, where some is known.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Kubeconfig { .. } => Some(
                "give --kubeconfig, or set KUBECONFIG; `hagane up` writes admin.kubeconfig into its data directory"
                    .into(),
            ),
            Self::Api { source, .. }
                if matches!(source.as_ref(), kube::Error::HyperError(_) | kube::Error::Service(_)) =>
            {
                Some("is `hagane up` running, and is this its kubeconfig? `hagane doctor` looks closer".into())
            }
            Self::NotFound { .. } => Some("other namespaces: add -n NAMESPACE; `kubectl get -A` lists all".into()),
            _ => None,
        }
    }
}

/// The chain of causes joined by colons, each said once, and the hint on a line of its own.
#[must_use]
pub fn print_chain(error: &CliError) -> String {
    let mut text = format!("error: {error}");
    let mut last = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        // Some libraries repeat their source in their own message.
        if !last.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
            last = words;
        }
        cause = inner.source();
    }
    if let Some(hint) = error.hint() {
        text.push_str("\nhint: ");
        text.push_str(&hint);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_the_chain_once_and_a_hint() {
        let source = std::io::Error::new(std::io::ErrorKind::NotFound, "no such file");
        let error = CliError::Kubeconfig { path: "/x".into(), source: Box::new(source) };
        let text = print_chain(&error);
        assert!(text.starts_with("error: failed to use kubeconfig /x: no such file\nhint: "), "{text}");
    }
}
