//! One connection to libvirtd: calls, streams, events and keepalive over one unix socket.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::error::RpcError;
use super::frame::{Frame, FrameError, Kind, PROGRAM_KEEPALIVE, PROGRAM_REMOTE, STREAM_CHUNK, Status, read_frame};
use super::procedure;
use super::types::DomainRef;
use super::xdr::{Decoder, Encoder, XdrError};

/// How long an ordinary call may take.
pub const CALL_LIMIT: Duration = Duration::from_secs(30);
/// How long a call may take that moves data or stops a machine.
pub const SLOW_CALL_LIMIT: Duration = Duration::from_secs(120);
/// How often a silent connection is asked for a sign of life.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);
/// Unanswered questions after which the connection counts as dead.
const KEEPALIVE_MISSES: u32 = 5;
/// Frames that may wait to be written.
const OUTGOING_MAX: usize = 32;
/// Frames of one stream that may wait to be read.
const INCOMING_MAX: usize = 64;
/// How many kinds of authentication libvirtd may offer.
const AUTH_TYPES_MAX: usize = 20;

/// A domain started, stopped, was defined or undefined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifecycleEvent {
    /// The domain it happened to.
    pub domain: DomainRef,
}

/// An open connection. Dropping it closes the socket.
#[derive(Debug)]
pub struct Connection {
    shared: Arc<Shared>,
    hypervisor: String,
    network_update_swapped: bool,
    _tasks: Vec<AbortOnDropHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    outgoing: mpsc::Sender<Bytes>,
    waiting: Mutex<HashMap<u32, mpsc::Sender<Frame>>>,
    next_serial: AtomicU32,
    frames_read: AtomicU64,
    closed: CancellationToken,
    reason: Mutex<Option<String>>,
    events: mpsc::Sender<LifecycleEvent>,
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, HashMap<u32, mpsc::Sender<Frame>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection; the first reason is kept.
    fn close(&self, reason: impl Into<String>) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| reason.into());
        self.closed.cancel();
        // Dropping the senders wakes everybody who waits.
        self.waiting().clear();
    }

    fn disconnected(&self) -> RpcError {
        let reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        RpcError::Disconnected(reason.unwrap_or_else(|| "the connection ended".to_owned()))
    }

    fn malformed(&self, problem: XdrError) -> RpcError {
        self.close(format!("libvirtd sent a message that makes no sense: {problem}"));
        RpcError::Malformed(problem)
    }
}

/// Receives the frames of one call, and forgets it when dropped.
#[derive(Debug)]
pub(super) struct Exchange {
    shared: Arc<Shared>,
    procedure: i32,
    serial: u32,
    incoming: mpsc::Receiver<Frame>,
    limit: Duration,
    /// Stream frames that overtook the reply.
    early: VecDeque<Frame>,
    /// True while a stream is open that must be told when we give up.
    streaming: bool,
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.shared.waiting().remove(&self.serial);
        if self.streaming {
            let abort = self.frame(Kind::Stream, Status::Error, Bytes::new());
            if self.shared.outgoing.try_send(abort.encode()).is_err() {
                // libvirtd would wait for data that never comes; a new connection is the clean way out.
                self.shared.close("a stream could not be given up in an orderly way");
            }
        }
    }
}

impl Exchange {
    fn frame(&self, kind: Kind, status: Status, payload: Bytes) -> Frame {
        Frame { program: PROGRAM_REMOTE, procedure: self.procedure, kind, serial: self.serial, status, payload }
    }

    async fn send(&self, kind: Kind, status: Status, payload: Bytes) -> Result<(), RpcError> {
        let frame = self.frame(kind, status, payload);
        if !frame.fits() {
            return Err(RpcError::LocalData("a message is larger than the protocol allows".to_owned()));
        }
        match tokio::time::timeout(self.limit, self.shared.outgoing.send(frame.encode())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(self.shared.disconnected()),
            Err(_) => Err(RpcError::Timeout { procedure: self.procedure, limit: self.limit }),
        }
    }

    async fn receive(&mut self) -> Result<Frame, RpcError> {
        match tokio::time::timeout(self.limit, self.incoming.recv()).await {
            Ok(Some(frame)) if frame.status == Status::Error => Err(self.remote_error(&frame)),
            Ok(Some(frame)) => Ok(frame),
            Ok(None) => Err(self.shared.disconnected()),
            Err(_) => Err(RpcError::Timeout { procedure: self.procedure, limit: self.limit }),
        }
    }

    fn remote_error(&mut self, frame: &Frame) -> RpcError {
        // libvirtd has ended the stream itself.
        self.streaming = false;
        decode_error(&frame.payload).unwrap_or_else(|problem| self.shared.malformed(problem))
    }

    async fn reply(&mut self) -> Result<Bytes, RpcError> {
        loop {
            let frame = self.receive().await?;
            match frame.kind {
                Kind::Reply => return Ok(frame.payload),
                // libvirtd sends from two threads: the first data of a download may come before the reply.
                Kind::Stream if self.early.len() < INCOMING_MAX => self.early.push_back(frame),
                _ => return Err(self.unexpected()),
            }
        }
    }

    fn unexpected(&self) -> RpcError {
        self.shared.close("libvirtd sent a frame out of turn");
        self.shared.disconnected()
    }

    /// Sends a piece of a stream, or notices that libvirtd has given the stream up.
    pub(super) async fn send_data(&mut self, data: Bytes) -> Result<(), RpcError> {
        if let Ok(frame) = self.incoming.try_recv() {
            return Err(if frame.status == Status::Error { self.remote_error(&frame) } else { self.unexpected() });
        }
        self.send(Kind::Stream, Status::Continue, data).await
    }

    /// Sends a hole: that many zero bytes that need no room.
    pub(super) async fn send_hole(&mut self, length: u64) -> Result<(), RpcError> {
        let payload = Encoder::new().u64(length).u32(0).finish();
        self.send(Kind::StreamHole, Status::Continue, payload.into()).await
    }

    /// Receives a piece of a stream; an empty one is the end.
    pub(super) async fn receive_data(&mut self) -> Result<Bytes, RpcError> {
        let frame = match self.early.pop_front() {
            Some(frame) => frame,
            None => self.receive().await?,
        };
        match (frame.kind, frame.status) {
            (Kind::Stream, Status::Continue) => Ok(frame.payload),
            _ => Err(self.unexpected()),
        }
    }

    /// Ends a stream in order and waits until libvirtd has all of it.
    pub(super) async fn finish(mut self) -> Result<(), RpcError> {
        self.send(Kind::Stream, Status::Ok, Bytes::new()).await?;
        self.streaming = false;
        loop {
            let frame = self.receive().await?;
            match (frame.kind, frame.status) {
                (Kind::Stream, Status::Ok) => return Ok(()),
                (Kind::Stream, Status::Continue) => {}
                _ => return Err(self.unexpected()),
            }
        }
    }
}

impl Connection {
    /// Connects to the socket, authenticates and opens the hypervisor `name` (such as `qemu:///system`). Lifecycle
    /// events go to `events` from then on.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn open(
        socket: &Path,
        name: &str,
        events: Option<mpsc::Sender<LifecycleEvent>>,
    ) -> Result<Self, RpcError> {
        let stream = tokio::time::timeout(CALL_LIMIT, UnixStream::connect(socket)).await;
        let stream = match stream {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Err(RpcError::Disconnected(format!("{}: {error}", socket.display()))),
            Err(_) => return Err(RpcError::Disconnected(format!("{}: no answer", socket.display()))),
        };
        let wants_events = events.is_some();
        let mut connection = Self::start(stream, events.unwrap_or_else(|| mpsc::channel(1).0));
        connection.authenticate().await?;
        let arguments = Encoder::new().optional_string(Some(name)).u32(0).finish();
        connection.call(procedure::CONNECT_OPEN, arguments).await?;
        let reply = connection.call(procedure::CONNECT_GET_TYPE, Vec::new()).await?;
        connection.hypervisor = connection.decode(&reply, Decoder::string)?;
        connection.network_update_swapped = !connection.supports(procedure::FEATURE_NETWORK_UPDATE_ORDER).await?;
        if connection.supports(procedure::FEATURE_KEEPALIVE).await? {
            connection.keep_alive();
        }
        if wants_events {
            connection.register_events().await?;
        }
        Ok(connection)
    }

    fn start(stream: UnixStream, events: mpsc::Sender<LifecycleEvent>) -> Self {
        let (reader, writer) = stream.into_split();
        let (outgoing, to_write) = mpsc::channel(OUTGOING_MAX);
        let shared = Arc::new(Shared {
            outgoing,
            waiting: Mutex::default(),
            next_serial: AtomicU32::new(1),
            frames_read: AtomicU64::new(0),
            closed: CancellationToken::new(),
            reason: Mutex::default(),
            events,
        });
        let tasks = vec![
            AbortOnDropHandle::new(tokio::spawn(write_frames(writer, to_write, shared.clone()))),
            AbortOnDropHandle::new(tokio::spawn(read_frames(reader, shared.clone()))),
        ];
        Self { shared, hypervisor: String::new(), network_update_swapped: false, _tasks: tasks }
    }

    fn keep_alive(&mut self) {
        self._tasks.push(AbortOnDropHandle::new(tokio::spawn(ask_for_life(self.shared.clone()))));
    }

    async fn authenticate(&self) -> Result<(), RpcError> {
        let reply = self.call(procedure::AUTH_LIST, Vec::new()).await?;
        let offered = self.decode(&reply, |decoder| decoder.list(AUTH_TYPES_MAX, Decoder::i32))?;
        if offered.is_empty() || offered.contains(&procedure::AUTH_NONE) {
            return Ok(());
        }
        if offered.contains(&procedure::AUTH_TYPE_POLKIT) {
            self.call(procedure::AUTH_POLKIT, Vec::new()).await?;
            return Ok(());
        }
        Err(RpcError::Disconnected(
            "libvirtd asks for SASL authentication; only none and polkit are supported".to_owned(),
        ))
    }

    async fn supports(&self, feature: i32) -> Result<bool, RpcError> {
        let reply = self.call(procedure::CONNECT_SUPPORTS_FEATURE, Encoder::new().i32(feature).finish()).await;
        match reply {
            Ok(reply) => Ok(self.decode(&reply, Decoder::i32)? > 0),
            Err(RpcError::Remote { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn register_events(&self) -> Result<(), RpcError> {
        if !self.supports(procedure::FEATURE_EVENT_CALLBACK).await? {
            return Ok(());
        }
        let arguments = Encoder::new().i32(procedure::EVENT_LIFECYCLE).u32(0).finish();
        self.call(procedure::DOMAIN_EVENT_CALLBACK_REGISTER_ANY, arguments).await?;
        Ok(())
    }

    /// libvirt's name of the hypervisor: `QEMU`, `TEST`, …
    #[must_use]
    pub fn hypervisor(&self) -> &str {
        &self.hypervisor
    }

    /// Whether this libvirtd takes section before command in `NETWORK_UPDATE` (before 7.2).
    pub(super) fn network_update_swapped(&self) -> bool {
        self.network_update_swapped
    }

    /// Waits until the connection has ended and says why.
    pub async fn closed(&self) -> RpcError {
        self.shared.closed.cancelled().await;
        self.shared.disconnected()
    }

    /// Whether the connection has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.closed.is_cancelled()
    }

    /// Calls a procedure and returns its still encoded answer.
    pub(super) async fn call(&self, procedure: i32, arguments: Vec<u8>) -> Result<Bytes, RpcError> {
        self.call_within(CALL_LIMIT, procedure, arguments).await
    }

    /// As [`Self::call`], with another limit.
    pub(super) async fn call_within(
        &self,
        limit: Duration,
        procedure: i32,
        arguments: Vec<u8>,
    ) -> Result<Bytes, RpcError> {
        let mut exchange = self.begin(limit, procedure);
        exchange.send(Kind::Call, Status::Ok, arguments.into()).await?;
        exchange.reply().await
    }

    /// Calls a procedure that opens a stream.
    pub(super) async fn open_stream(&self, procedure: i32, arguments: Vec<u8>) -> Result<Exchange, RpcError> {
        let mut exchange = self.begin(SLOW_CALL_LIMIT, procedure);
        exchange.send(Kind::Call, Status::Ok, arguments.into()).await?;
        exchange.reply().await?;
        exchange.streaming = true;
        Ok(exchange)
    }

    fn begin(&self, limit: Duration, procedure: i32) -> Exchange {
        let serial = self.shared.next_serial.fetch_add(1, Ordering::Relaxed);
        let (sender, incoming) = mpsc::channel(INCOMING_MAX);
        let mut waiting = self.shared.waiting();
        // On a closed connection the sender is dropped at once, and receiving says why it is closed.
        if !self.shared.closed.is_cancelled() {
            waiting.insert(serial, sender);
        }
        drop(waiting);
        Exchange {
            shared: self.shared.clone(),
            procedure,
            serial,
            incoming,
            limit,
            early: VecDeque::new(),
            streaming: false,
        }
    }

    /// Decodes an answer; one that makes no sense ends the connection.
    pub(super) fn decode<'a, T>(
        &self,
        reply: &'a [u8],
        read: impl FnOnce(&mut Decoder<'a>) -> Result<T, XdrError>,
    ) -> Result<T, RpcError> {
        let mut decoder = Decoder::new(reply);
        let value = read(&mut decoder).and_then(|value| decoder.end().map(|()| value));
        value.map_err(|problem| self.shared.malformed(problem))
    }
}

/// Largest piece of data to pass to [`Exchange::send_data`].
pub(super) const CHUNK: usize = STREAM_CHUNK;

fn decode_error(payload: &[u8]) -> Result<RpcError, XdrError> {
    let mut decoder = Decoder::new(payload);
    let code = decoder.i32()?;
    let _domain = decoder.i32()?;
    let message = decoder.optional_string()?.unwrap_or_else(|| format!("error {code}"));
    // What follows (level, three more texts, two numbers, unused references) repeats the message in parts.
    Ok(RpcError::Remote { code, message: message.trim_end().to_owned() })
}

async fn write_frames(mut writer: OwnedWriteHalf, mut frames: mpsc::Receiver<Bytes>, shared: Arc<Shared>) {
    let work = async {
        while let Some(frame) = frames.recv().await {
            if let Err(error) = writer.write_all(&frame).await {
                shared.close(format!("writing failed: {error}"));
                return;
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = shared.closed.cancelled() => {}
    }
}

async fn read_frames(reader: OwnedReadHalf, shared: Arc<Shared>) {
    let mut reader = tokio::io::BufReader::with_capacity(64 << 10, reader);
    let work = async {
        loop {
            match read_frame(&mut reader).await {
                Ok(frame) => deliver(frame, &shared),
                Err(FrameError::Closed) => return shared.close("libvirtd closed the connection"),
                Err(error) => return shared.close(error.to_string()),
            }
        }
    };
    tokio::select! {
        () = work => {}
        () = shared.closed.cancelled() => {}
    }
}

fn deliver(frame: Frame, shared: &Shared) {
    shared.frames_read.fetch_add(1, Ordering::Relaxed);
    if frame.program == PROGRAM_KEEPALIVE {
        if frame.procedure == procedure::KEEPALIVE_PING {
            // A full queue means that data is flowing, which is a sign of life as well.
            let _ = shared.outgoing.try_send(keepalive(procedure::KEEPALIVE_PONG));
        }
        return;
    }
    match frame.kind {
        Kind::Reply | Kind::Stream | Kind::StreamHole => {
            let waiting = shared.waiting().get(&frame.serial).cloned();
            // Nobody waits any more: the caller gave up, and a late answer is no fault.
            let Some(waiting) = waiting else { return };
            if matches!(waiting.try_send(frame), Err(mpsc::error::TrySendError::Full(_))) {
                shared.close("libvirtd sent more of a stream than was asked for");
            }
        }
        Kind::Message if frame.procedure == procedure::DOMAIN_EVENT_CALLBACK_LIFECYCLE => {
            match decode_lifecycle(&frame.payload) {
                // A reader that lags behind misses single events; it polls as well.
                Ok(event) => drop(shared.events.try_send(event)),
                Err(problem) => drop(shared.malformed(problem)),
            }
        }
        Kind::Message => {}
        Kind::Call => shared.close("libvirtd sent a call, which only clients do"),
    }
}

fn decode_lifecycle(payload: &[u8]) -> Result<LifecycleEvent, XdrError> {
    let mut decoder = Decoder::new(payload);
    let _callback = decoder.i32()?;
    let domain = DomainRef::decode(&mut decoder)?;
    Ok(LifecycleEvent { domain })
}

fn keepalive(procedure: i32) -> Bytes {
    let payload = Bytes::new();
    Frame { program: PROGRAM_KEEPALIVE, procedure, kind: Kind::Message, serial: 0, status: Status::Ok, payload }
        .encode()
}

/// Asks a silent libvirtd for a sign of life and ends the connection when none comes.
async fn ask_for_life(shared: Arc<Shared>) {
    let mut seen = 0;
    let mut misses = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(KEEPALIVE_EVERY) => {}
            () = shared.closed.cancelled() => return,
        }
        let now = shared.frames_read.load(Ordering::Relaxed);
        if now == seen {
            misses += 1;
            if misses > KEEPALIVE_MISSES {
                return shared.close("libvirtd gave no sign of life");
            }
            let _ = shared.outgoing.try_send(keepalive(procedure::KEEPALIVE_PING));
        } else {
            (seen, misses) = (now, 0);
        }
    }
}

#[cfg(test)]
mod tests;
