//! The way in over the network: TLS, HTTP/2 and HTTP/1.1, identities from client certificates.

use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use rustls::pki_types::CertificateDer;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::Service;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::Identity;
use crate::server::ApiServer;

/// Most connections at once.
const CONNECTIONS_MAX: usize = 4096;
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
const HEADERS_TIME_MAX: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// How long requests may go on after the end was asked for.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(5);
/// Pause after the system refused a connection, for want of file descriptors say.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl ApiServer {
    /// Serves connections until `shutdown`, then lets running requests end. Watches end at once.
    pub async fn serve(&self, listener: TcpListener, tls: Arc<rustls::ServerConfig>, shutdown: CancellationToken) {
        let acceptor = TlsAcceptor::from(tls);
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let graceful = GracefulShutdown::new();
        loop {
            let place = tokio::select! {
                () = shutdown.cancelled() => break,
                place = Arc::clone(&places).acquire_owned() => place,
            };
            // The semaphore is never closed.
            let Ok(place) = place else { break };
            let accepted = tokio::select! {
                () = shutdown.cancelled() => break,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let (server, acceptor, watcher) = (self.clone(), acceptor.clone(), graceful.watcher());
            tokio::spawn(async move {
                connection(server, acceptor, stream, watcher).await;
                drop(place);
            });
        }
        drop(listener);
        self.core().stopping.cancel();
        if tokio::time::timeout(DRAIN_TIME_MAX, graceful.shutdown()).await.is_err() {
            tracing::warn!("some requests did not end in time");
        }
    }
}

async fn connection(
    server: ApiServer,
    acceptor: TlsAcceptor,
    stream: TcpStream,
    watcher: hyper_util::server::graceful::Watcher,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "a connection keeps its delays");
    }
    let stream = match tokio::time::timeout(HANDSHAKE_TIME_MAX, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            return;
        }
        Err(_) => return,
    };
    let certificates = stream.get_ref().1.peer_certificates();
    let identity = certificates.and_then(|chain| chain.first()).and_then(identity_of);
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        if let Some(identity) = &identity {
            request.extensions_mut().insert(identity.clone());
        }
        let mut server = server.clone();
        async move { server.call(request).await }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADERS_TIME_MAX);
    builder.http2().timer(TokioTimer::new()).keep_alive_interval(KEEP_ALIVE).max_concurrent_streams(250);
    let connection = builder.serve_connection(TokioIo::new(stream), service).into_owned();
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!(error = %error, "a connection ended early");
    }
}

/// The user and groups that a client certificate names.
fn identity_of(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok());
    Some(Identity::new(user, groups.chain(["system:authenticated"])))
}
