//! The connection: TCP, key exchange with the host-key check, login.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hagane_ports::{HostKey, ShellError, ShellTarget};
use russh::client::{self, DisconnectReason, Handle};
use russh::keys::{Algorithm, EcdsaCurve, PrivateKeyWithHashAlg, PublicKey, PublicKeyOrCertificate};
use russh::{AlgorithmKind, Preferred};
use tokio::net::TcpStream;

use crate::{SshOptions, keys};

/// Host-key types that can be verified, the preferred one first.
const HOST_KEY_TYPES: [Algorithm; 4] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP256 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP384 },
    Algorithm::Ecdsa { curve: EcdsaCurve::NistP521 },
];

/// What the connection's own task learns and the caller wants to know.
#[derive(Default)]
struct Seen {
    host_key: Option<PublicKey>,
    end: Option<String>,
}

/// Checks the host's key and remembers it.
pub(crate) struct Checker {
    accepted: Vec<PublicKey>,
    seen: Arc<Mutex<Seen>>,
}

impl client::Handler for Checker {
    type Error = russh::Error;

    async fn check_server_key(&mut self, shown: &PublicKeyOrCertificate) -> Result<bool, Self::Error> {
        let key = shown.public_key();
        let known =
            shown.certificate().is_none() && self.accepted.iter().any(|accepted| accepted.key_data() == key.key_data());
        lock(&self.seen).host_key = Some(key);
        Ok(known)
    }

    async fn disconnected(&mut self, reason: DisconnectReason<Self::Error>) -> Result<(), Self::Error> {
        lock(&self.seen).end = Some(match reason {
            DisconnectReason::ReceivedDisconnect(info) => format!("the host ended it: {}", info.message),
            DisconnectReason::Error(russh::Error::KeepaliveTimeout) => "the host does not answer any more".to_owned(),
            DisconnectReason::Error(error) => error.to_string(),
        });
        Ok(())
    }
}

/// A logged-in connection.
pub(crate) struct Session {
    pub(crate) handle: Handle<Checker>,
    seen: Arc<Mutex<Seen>>,
}

impl Session {
    /// Connects, checks the host's key, logs in. `limit` bounds how long a forgotten connection may live.
    pub(crate) async fn open(options: &SshOptions, target: &ShellTarget, limit: Duration) -> Result<Self, ShellError> {
        let key = keys::read_private(&target.private_key)?;
        let accepted = accepted_keys(target)?;
        let types =
            HOST_KEY_TYPES.into_iter().filter(|kind| accepted.iter().any(|key| key.algorithm() == *kind)).collect();
        let name = format!("{target:?}");
        let seen = Arc::new(Mutex::new(Seen::default()));
        let stream = connect(options, &target.host, target.port, &name).await?;
        let checker = Checker { accepted, seen: Arc::clone(&seen) };
        let handle = client::connect_stream(configuration(options, types, limit), stream, checker).await;
        let handle = handle.map_err(|error| handshake_error(error, &name, &seen))?;
        let mut session = Self { handle, seen };
        session.login(&target.user, PrivateKeyWithHashAlg::new(Arc::new(key), None), &name).await?;
        Ok(session)
    }

    async fn login(&mut self, user: &str, key: PrivateKeyWithHashAlg, name: &str) -> Result<(), ShellError> {
        let answer = self.handle.authenticate_publickey(user, key).await;
        let answer = answer.map_err(|error| unreachable_error(name, error))?;
        if answer.success() {
            return Ok(());
        }
        match self.end() {
            Some(end) => Err(unreachable_error(name, end)),
            None => Err(ShellError::LoginRefused { target: name.to_owned() }),
        }
    }

    /// Why the connection ended, where it has.
    pub(crate) fn end(&self) -> Option<String> {
        lock(&self.seen).end.clone()
    }

    /// Says goodbye; the connection ends in any case when the session is dropped.
    pub(crate) async fn close(self) {
        let _ = self.handle.disconnect(russh::Disconnect::ByApplication, "", "en").await;
    }
}

/// Asks for the host's key and hangs up before login.
pub(crate) async fn scan(options: &SshOptions, host: &str, port: u16, limit: Duration) -> Result<HostKey, ShellError> {
    let name = format!("{host}:{port}");
    let seen = Arc::new(Mutex::new(Seen::default()));
    let stream = connect(options, host, port, &name).await?;
    // No key is accepted: the key exchange ends right after the host has proved that it holds the key it shows.
    let checker = Checker { accepted: Vec::new(), seen: Arc::clone(&seen) };
    let result = client::connect_stream(configuration(options, HOST_KEY_TYPES.to_vec(), limit), stream, checker).await;
    let key = lock(&seen).host_key.take();
    match (key, result.err()) {
        (Some(key), _) => keys::public_line(&key).map(HostKey).map_err(|error| unreachable_error(&name, error)),
        (None, Some(error)) => Err(unreachable_error(&name, error)),
        (None, None) => Err(unreachable_error(&name, "the host showed no key")),
    }
}

fn accepted_keys(target: &ShellTarget) -> Result<Vec<PublicKey>, ShellError> {
    let readable = |key: &HostKey| PublicKey::from_openssh(key.0.trim()).ok();
    let accepted: Vec<PublicKey> = target.host_keys.iter().filter_map(readable).collect();
    if accepted.iter().any(|key| HOST_KEY_TYPES.contains(&key.algorithm())) {
        return Ok(accepted);
    }
    Err(ShellError::HostKeyUnknown { target: format!("{target:?}") })
}

async fn connect(options: &SshOptions, host: &str, port: u16, name: &str) -> Result<TcpStream, ShellError> {
    let stream = tokio::time::timeout(options.connect_timeout, TcpStream::connect((host, port))).await;
    let stream = stream.map_err(|_| {
        unreachable_error(name, format!("no answer within {} s", options.connect_timeout.as_secs_f32()))
    })?;
    let stream = stream.map_err(|error| unreachable_error(name, error))?;
    stream.set_nodelay(true).map_err(|error| unreachable_error(name, error))?;
    Ok(stream)
}

fn configuration(options: &SshOptions, host_key_types: Vec<Algorithm>, limit: Duration) -> Arc<client::Config> {
    Arc::new(client::Config {
        // Only types that are pinned are asked for: a host may hold keys of several types.
        preferred: Preferred { key: host_key_types.into(), ..Preferred::default() },
        keepalive_interval: Some(options.keepalive_interval),
        keepalive_max: options.keepalive_max,
        // Ends the library's task where the peer falls silent in the key exchange and the caller has given up.
        inactivity_timeout: Some(limit + Duration::from_secs(5)),
        ..client::Config::default()
    })
}

fn handshake_error(error: russh::Error, name: &str, seen: &Mutex<Seen>) -> ShellError {
    let changed = |found: String| ShellError::HostKeyChanged { target: name.to_owned(), found };
    match (error, &lock(seen).host_key) {
        (russh::Error::UnknownKey, Some(key)) => changed(keys::fingerprint(key)),
        (russh::Error::NoCommonAlgo { kind: AlgorithmKind::Key, theirs, .. }, _) => {
            changed(format!("of another type ({})", theirs.join(", ")))
        }
        (error, _) => unreachable_error(name, error),
    }
}

fn unreachable_error(name: &str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> ShellError {
    ShellError::Unreachable { target: name.to_owned(), source: source.into() }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
