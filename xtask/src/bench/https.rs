//! Asking an HTTPS server whether it is ready, as often as can be.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// How long a server may take.
const LIMIT: Duration = Duration::from_secs(120);
/// How long one answer may take before it is asked again.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(1);

/// An address on loopback that nobody uses now.
pub(super) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").context("failed to find a free port")?;
    listener.local_addr().context("failed to find a free port")
}

/// Returns at the first 200 of `/readyz`. The authority's file may come into being meanwhile.
pub(super) fn wait_until_ready(address: SocketAddr, authority: &Path) -> Result<()> {
    let begin = Instant::now();
    loop {
        let answer = ask(address, authority);
        if answer.as_ref().is_ok_and(|line| line.starts_with("HTTP/1.1 200")) {
            return Ok(());
        }
        if begin.elapsed() > LIMIT {
            let answer = answer.unwrap_or_else(|error| format!("{error:#}"));
            bail!("{address} was not ready after {} s; its last answer: {answer}", LIMIT.as_secs());
        }
        std::thread::sleep(PAUSE);
    }
}

fn ask(address: SocketAddr, authority: &Path) -> Result<String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(authority)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let socket = TcpStream::connect_timeout(&address, ANSWER_LIMIT)?;
    socket.set_read_timeout(Some(ANSWER_LIMIT))?;
    socket.set_nodelay(true)?;
    let connection = ClientConnection::new(Arc::new(config), ServerName::from(address.ip()))?;
    let mut stream = StreamOwned::new(connection, socket);
    stream.write_all(format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = [0; 32];
    let count = stream.read(&mut answer)?;
    let text = String::from_utf8_lossy(answer.get(..count).unwrap_or_default()).into_owned();
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
