//! Connection URIs: which hypervisor, over which socket.

use std::path::PathBuf;

use url::Url;

/// Where libvirtd listens unless the URI names another socket.
const DEFAULT_SOCKET: &str = "/run/libvirt/libvirt-sock";
/// What is allowed, for messages.
const SUPPORTED: &str = "qemu:///system and test:///default, each with an optional ?socket=PATH";

/// A parsed connection URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionUri {
    /// As the user wrote it; shown in messages.
    pub text: String,
    /// Path of libvirtd's socket.
    pub socket: PathBuf,
    /// The hypervisor to open, as libvirtd wants it.
    pub hypervisor: String,
}

/// Why a text is no usable connection URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UriProblem {
    /// Not a URI at all.
    #[error("libvirt URI {text:?} is no URI: {reason}; supported are {SUPPORTED}")]
    Syntax {
        /// The text given.
        text: String,
        /// The parser's reason.
        reason: String,
    },
    /// A URI that libvirt may know and this driver does not serve.
    #[error("libvirt URI {text:?}: {what} is not supported; supported are {SUPPORTED}")]
    Unsupported {
        /// The text given.
        text: String,
        /// Which part of it.
        what: String,
    },
}

impl ConnectionUri {
    /// Parses a connection URI.
    ///
    /// # Errors
    /// [`UriProblem`], which says what is supported.
    pub fn parse(text: &str) -> Result<Self, UriProblem> {
        let url = Url::parse(text)
            .map_err(|error| UriProblem::Syntax { text: text.to_owned(), reason: error.to_string() })?;
        let unsupported = |what: String| Err(UriProblem::Unsupported { text: text.to_owned(), what });
        let (driver, transport) = match url.scheme().split_once('+') {
            Some((driver, transport)) => (driver, Some(transport)),
            None => (url.scheme(), None),
        };
        if transport.is_some_and(|transport| transport != "unix") {
            return unsupported(format!("the transport {:?}", transport.unwrap_or_default()));
        }
        if url.host_str().is_some_and(|host| !host.is_empty()) {
            return unsupported("a host name (the connection is local)".to_owned());
        }
        match (driver, url.path()) {
            ("qemu", "/system") | ("test", "/default") => {}
            ("qemu", "/session") => return unsupported("the session daemon (its networks need root)".to_owned()),
            ("qemu" | "test", path) => return unsupported(format!("the path {path:?}")),
            (driver, _) => return unsupported(format!("the driver {driver:?}")),
        }
        let mut socket = PathBuf::from(DEFAULT_SOCKET);
        for (name, value) in url.query_pairs() {
            match &*name {
                "socket" if value.starts_with('/') => socket = PathBuf::from(value.into_owned()),
                "socket" => return unsupported(format!("the socket path {value:?} (it is not absolute)")),
                name => return unsupported(format!("the parameter {name:?}")),
            }
        }
        Ok(Self { text: text.to_owned(), socket, hypervisor: format!("{driver}://{}", url.path()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_socket_and_the_hypervisor() {
        for (text, socket, hypervisor) in [
            ("qemu:///system", DEFAULT_SOCKET, "qemu:///system"),
            ("qemu+unix:///system", DEFAULT_SOCKET, "qemu:///system"),
            ("qemu:///system?socket=/a/b%20c", "/a/b c", "qemu:///system"),
            ("test:///default?socket=/s", "/s", "test:///default"),
        ] {
            let uri = ConnectionUri::parse(text).expect(text);
            assert_eq!((uri.socket, uri.hypervisor), (PathBuf::from(socket), hypervisor.to_owned()), "{text}");
        }
    }

    #[test]
    fn says_what_it_does_not_serve() {
        for (text, what) in [
            ("qemu:///session", "the session daemon (its networks need root)"),
            ("qemu+ssh://host/system", "the transport \"ssh\""),
            ("qemu://host/system", "a host name (the connection is local)"),
            ("xen:///system", "the driver \"xen\""),
            ("qemu:///embed", "the path \"/embed\""),
            ("qemu:///system?mode=direct", "the parameter \"mode\""),
            ("qemu:///system?socket=a", "the socket path \"a\" (it is not absolute)"),
        ] {
            let problem = ConnectionUri::parse(text).expect_err(text);
            assert_eq!(problem, UriProblem::Unsupported { text: text.to_owned(), what: what.to_owned() });
            assert!(problem.to_string().contains("qemu:///system and test:///default"));
        }
        assert!(matches!(ConnectionUri::parse("nothing"), Err(UriProblem::Syntax { .. })));
    }
}
