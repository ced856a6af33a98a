//! Where an image comes from, and how that may be shown.

use std::path::PathBuf;

use url::Url;

use crate::fault::Fault;

/// A parsed image URI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Remote(Url),
    Local(PathBuf),
}

impl Source {
    /// Parses a URI of one of the three schemes.
    pub(crate) fn parse(uri: &str) -> Result<Self, Fault> {
        let url = Url::parse(uri).map_err(|error| Fault::invalid(format!("is no valid URI: {error}")))?;
        match url.scheme() {
            "http" | "https" => Ok(Self::Remote(url)),
            "file" => {
                let path = url.to_file_path().map_err(|()| Fault::invalid("a file: URI must name no host"))?;
                Ok(Self::Local(path))
            }
            other => Err(Fault::invalid(format!("the scheme {other:?} is not http, https or file"))),
        }
    }
}

/// The URI as it may be shown: without user, password, query and fragment, all of which can carry secrets.
pub(crate) fn shown(uri: &str) -> String {
    match Url::parse(uri) {
        Ok(url) => shown_url(&url),
        // Not parsed, so nothing is known about which part is secret: only the scheme is safe.
        Err(_) => match uri.split_once(':') {
            Some((scheme, _)) if scheme.len() <= 8 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                format!("{scheme}:…")
            }
            _ => "the image URI".to_owned(),
        },
    }
}

/// Like [`shown`], of a parsed URL.
pub(crate) fn shown_url(url: &Url) -> String {
    const CHARACTERS_MAX: usize = 300;
    let mut clean = url.clone();
    // These fail for URLs without a host only, which have neither part.
    let _ = clean.set_username("");
    let _ = clean.set_password(None);
    clean.set_query(None);
    clean.set_fragment(None);
    let text = String::from(clean);
    if text.chars().count() <= CHARACTERS_MAX {
        return text;
    }
    text.chars().take(CHARACTERS_MAX).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_no_secret_part() {
        assert_eq!(
            shown("https://user:secret@host.test:8443/a/b.img?token=secret#secret"),
            "https://host.test:8443/a/b.img"
        );
        assert_eq!(shown("http://[::1/secret"), "http:…");
        assert_eq!(shown("secret"), "the image URI");
        assert_eq!(shown("http://h/a\nb"), "http://h/ab", "one line only");
        assert!(shown(&format!("http://h/{}", "x".repeat(10_000))).len() < 400);
    }

    #[test]
    fn refuses_other_schemes_and_nonsense() {
        for uri in [
            "",
            "x",
            "/srv/image.img",
            "ftp://h/x",
            "data:,x",
            "javascript:1",
            "http://",
            "http://h:99999/",
            "file://host/x",
        ] {
            let fault = Source::parse(uri).expect_err(uri);
            assert_eq!(
                (fault.failure, fault.retry),
                (hagane_ports::ImageFailure::InvalidUri, crate::fault::Retry::Never)
            );
        }
    }

    #[test]
    fn dots_in_file_uris_are_resolved_before_any_check() {
        let source = Source::parse("file:///srv/images/%2e%2e/../etc/shadow").expect("a file URI");
        assert_eq!(source, Source::Local(PathBuf::from("/etc/shadow")));
    }
}
