//! The HTTP client: TLS without a crypto provider of its own, guarded addresses, redirects followed by hand.

use std::collections::HashSet;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::Arc;

use hagane_ports::ImageFailure;
use reqwest::header::{ACCEPT_ENCODING, IF_MODIFIED_SINCE, IF_NONE_MATCH, LOCATION};
use reqwest::{Client, Response, StatusCode, redirect};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;
use url::Url;

use crate::address::{AddressPolicy, ForbiddenAddress, GuardedResolver};
use crate::fault::Fault;
use crate::index::Validators;
use crate::uri::shown_url;
use crate::{ImageOptions, OpenError};

/// Redirects followed in a row.
const REDIRECTS_MAX: usize = 5;

/// Sends requests that lead to an allowed address, or to a fault.
#[derive(Debug)]
pub(crate) struct HttpClient {
    client: Client,
    policy: AddressPolicy,
    stall_timeout: std::time::Duration,
}

impl HttpClient {
    /// Sets the client up; blocks on reading certificates.
    pub(crate) fn new(options: &ImageOptions) -> Result<Self, OpenError> {
        let policy =
            AddressPolicy { allow_loopback: options.allow_loopback, allow_link_local: options.allow_link_local };
        let client = Client::builder()
            .user_agent(concat!("hagane/", env!("CARGO_PKG_VERSION")))
            .tls_backend_preconfigured(tls(options.extra_ca.as_deref())?)
            .redirect(redirect::Policy::none())
            // A proxy would look names up itself, past the address check.
            .no_proxy()
            .dns_resolver(Arc::new(GuardedResolver { policy }))
            .connect_timeout(options.connect_timeout)
            .build()
            .map_err(|error| OpenError::Client { source: Box::new(error) })?;
        Ok(Self { client, policy, stall_timeout: options.stall_timeout })
    }

    /// Asks for a URL and follows redirects. The answer's status is not judged.
    pub(crate) async fn get(&self, start: &Url, known: &Validators) -> Result<Response, Fault> {
        let mut url = start.clone();
        let mut seen = HashSet::new();
        for _ in 0..=REDIRECTS_MAX {
            if !seen.insert(url.clone()) {
                return Err(Fault::fetch(format!("is redirected in a loop, again to {}", shown_url(&url))));
            }
            let response = self.send(&url, known).await?;
            if !is_redirect(response.status()) {
                return Ok(response);
            }
            url = next_url(&url, &response)?;
        }
        Err(Fault::fetch(format!("is redirected more than {REDIRECTS_MAX} times")))
    }

    async fn send(&self, url: &Url, known: &Validators) -> Result<Response, Fault> {
        self.policy.check_url(url).map_err(|problem| forbidden(url, &problem))?;
        // The bytes are wanted as they are kept, not compressed for the way.
        let mut request = self.client.get(url.clone()).header(ACCEPT_ENCODING, "identity");
        if let Some(tag) = &known.tag {
            request = request.header(IF_NONE_MATCH, tag);
        }
        if let Some(time) = &known.last_modified {
            request = request.header(IF_MODIFIED_SINCE, time);
        }
        let sent = timeout(self.stall_timeout, request.send()).await;
        let sent =
            sent.map_err(|_| Fault::fetch(format!("does not answer within {} s", self.stall_timeout.as_secs())))?;
        sent.map_err(|error| send_fault(url, error))
    }
}

/// A text for an HTTP error: all causes, no URL.
pub(crate) fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text = format!("{text}: {inner_text}");
        }
        cause = inner.source();
    }
    text
}

fn send_fault(url: &Url, error: reqwest::Error) -> Fault {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(inner) = cause {
        if let Some(problem) = inner.downcast_ref::<ForbiddenAddress>() {
            return forbidden(url, problem);
        }
        cause = inner.source();
    }
    Fault::fetch(format!("cannot be reached: {}", chain(error)))
}

/// The URL is wrong, but a redirect or a name can be put right on the other side: trying again makes sense.
fn forbidden(url: &Url, problem: &ForbiddenAddress) -> Fault {
    Fault::new(ImageFailure::InvalidUri, format!("leads to {}: {problem}", url.host_str().unwrap_or("no host")))
}

fn is_redirect(status: StatusCode) -> bool {
    matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308)
}

fn next_url(url: &Url, response: &Response) -> Result<Url, Fault> {
    let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
    let location = location.ok_or_else(|| Fault::fetch(format!("answers {} without a target", response.status())))?;
    let next = url.join(location).map_err(|error| Fault::fetch(format!("is redirected to no valid URL: {error}")))?;
    match (url.scheme(), next.scheme()) {
        ("https", "http") => {
            Err(Fault::fetch(format!("is redirected from https to {}, which is not encrypted", shown_url(&next))))
        }
        (_, "http" | "https") => Ok(next),
        (_, other) => Err(Fault::fetch(format!("is redirected to the scheme {other:?}"))),
    }
}

fn tls(extra_ca: Option<&Path>) -> Result<ClientConfig, OpenError> {
    let mut roots = RootCertStore::empty();
    // A machine without certificates can still fetch by http and file; https says then that the issuer is unknown.
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "some of the system's certificates cannot be read");
    }
    roots.add_parsable_certificates(found.certs);
    if let Some(path) = extra_ca {
        add_extra(&mut roots, path).map_err(|source| OpenError::ExtraCa { path: path.to_owned(), source })?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| OpenError::Client { source: Box::new(error) })?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn add_extra(roots: &mut RootCertStore, path: &Path) -> Result<(), Box<dyn Error + Send + Sync>> {
    let text = std::fs::read(path)?;
    let mut count = 0;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        roots.add(certificate?)?;
        count += 1;
    }
    if count == 0 {
        return Err(Box::new(io::Error::new(io::ErrorKind::InvalidData, "there is no certificate in it")));
    }
    Ok(())
}
