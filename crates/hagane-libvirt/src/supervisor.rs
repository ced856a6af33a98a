//! Keeps one connection to libvirtd, makes it anew when it breaks, and passes its events on.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OnceCell, mpsc, watch};
use tokio_util::task::AbortOnDropHandle;

use crate::options::Acceleration;
use crate::rpc::{Connection, LifecycleEvent, RpcError};
use crate::uri::ConnectionUri;
use crate::xml::host::{HostProfile, parse_capabilities, parse_domain_capabilities};

/// First pause before another attempt to connect; doubled each time.
const RETRY_FIRST: Duration = Duration::from_millis(250);
/// Longest pause between attempts. Local and cheap, so recovery is worth more than silence.
const RETRY_MAX: Duration = Duration::from_secs(5);
/// How long a call waits while the very first attempt is under way.
const START_WAIT: Duration = Duration::from_secs(5);
/// Events that may wait to be passed on.
const EVENTS_MAX: usize = 1024;

/// A connection and what was learnt over it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: Connection,
    profile: OnceCell<HostProfile>,
}

#[derive(Clone, Debug)]
enum State {
    Starting,
    Up(Arc<Session>),
    Away(RpcError),
}

/// Something that may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The connection is new: anything may have changed meanwhile.
    Anything,
    /// A domain's state.
    Domain([u8; 16]),
}

/// Runs until dropped.
#[derive(Debug)]
pub(crate) struct Supervisor {
    state: watch::Receiver<State>,
    _task: AbortOnDropHandle<()>,
}

impl Supervisor {
    /// Starts connecting in the background. `report` is called for every change.
    pub(crate) fn start(uri: ConnectionUri, report: impl Fn(Change) + Send + Sync + 'static) -> Self {
        let (publish, state) = watch::channel(State::Starting);
        let task = AbortOnDropHandle::new(tokio::spawn(supervise(uri, publish, report)));
        Self { state, _task: task }
    }

    /// The open connection. Fails at once while libvirtd is away.
    pub(crate) async fn session(&self) -> Result<Arc<Session>, RpcError> {
        let mut state = self.state.clone();
        let started = async {
            let state = state.wait_for(|state| !matches!(state, State::Starting)).await;
            state.map_or(State::Starting, |state| state.clone())
        };
        match tokio::time::timeout(START_WAIT, started).await.unwrap_or(State::Starting) {
            State::Up(session) if !session.connection.is_closed() => Ok(session),
            State::Up(session) => Err(session.connection.closed().await),
            State::Away(error) => Err(error),
            State::Starting => Err(RpcError::Disconnected("still connecting".to_owned())),
        }
    }
}

async fn supervise(uri: ConnectionUri, publish: watch::Sender<State>, report: impl Fn(Change)) {
    let mut pause = RETRY_FIRST;
    loop {
        let (events, mut incoming) = mpsc::channel(EVENTS_MAX);
        match Connection::open(&uri.socket, &uri.hypervisor, Some(events)).await {
            Ok(connection) => {
                pause = RETRY_FIRST;
                tracing::info!(uri = %uri.text, "connected to libvirtd");
                let session = Arc::new(Session { connection, profile: OnceCell::new() });
                publish.send_replace(State::Up(session.clone()));
                report(Change::Anything);
                let error = pass_on(&session.connection, &mut incoming, &report).await;
                tracing::warn!(uri = %uri.text, %error, "lost the connection to libvirtd");
                publish.send_replace(State::Away(error));
            }
            Err(error) => {
                tracing::debug!(uri = %uri.text, %error, "cannot connect to libvirtd");
                publish.send_replace(State::Away(error));
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Passes events on until the connection ends.
async fn pass_on(
    connection: &Connection,
    incoming: &mut mpsc::Receiver<LifecycleEvent>,
    report: &impl Fn(Change),
) -> RpcError {
    loop {
        tokio::select! {
            error = connection.closed() => return error,
            Some(event) = incoming.recv() => report(Change::Domain(event.domain.uuid)),
        }
    }
}

impl Session {
    /// Whether the hypervisor is libvirt's in-memory one, which keeps no bytes of volumes.
    pub(crate) fn keeps_no_content(&self) -> bool {
        self.connection.hypervisor().eq_ignore_ascii_case("TEST")
    }

    /// What domains are built on here; asked once a connection.
    pub(crate) async fn profile(&self, acceleration: Acceleration) -> Result<HostProfile, ProfileError> {
        self.profile.get_or_try_init(|| self.find_profile(acceleration)).await.cloned()
    }

    async fn find_profile(&self, acceleration: Acceleration) -> Result<HostProfile, ProfileError> {
        if self.keeps_no_content() {
            return Ok(parse_capabilities(&self.connection.capabilities().await?)?);
        }
        match acceleration {
            Acceleration::Kvm => self.profile_of("kvm").await,
            Acceleration::Emulation => self.profile_of("qemu").await,
            Acceleration::Auto => match self.profile_of("kvm").await {
                Err(ProfileError::Ask(RpcError::Remote { message, .. })) => {
                    tracing::info!(reason = %message, "no KVM here, domains are emulated");
                    self.profile_of("qemu").await
                }
                other => other,
            },
        }
    }

    async fn profile_of(&self, kind: &str) -> Result<HostProfile, ProfileError> {
        let profile = parse_domain_capabilities(&self.connection.domain_capabilities(kind, None).await?)?;
        if profile.arch != "x86_64" {
            return Ok(profile);
        }
        // The default machine of x86 is the PC of 1996; q35 is what current guests expect.
        match self.connection.domain_capabilities(kind, Some("q35")).await {
            Ok(text) => Ok(parse_domain_capabilities(&text)?),
            Err(RpcError::Remote { .. }) => Ok(profile),
            Err(error) => Err(error.into()),
        }
    }
}

/// Why it is not known what domains are built on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ProfileError {
    #[error("libvirtd does not say what the host can do")]
    Ask(#[from] RpcError),
    #[error("libvirtd's description of the host cannot be read")]
    Read(#[from] crate::xml::XmlError),
}
