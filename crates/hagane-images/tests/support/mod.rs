//! An HTTP server that answers exactly the bytes a test wants, and the images it answers with.

#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hagane_images::{ImageOptions, ImageStore};
use hagane_ports::{Checksum, Clock, ImageFailure, ImagePurpose, ImageRequest, ImageState, LocalImage};
use hagane_testkit::contract::image_source::settled;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256, Sha512};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;

/// A request as it came in.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    /// Lower-case names.
    pub headers: BTreeMap<String, String>,
}

/// What the server does next.
#[derive(Clone, Debug)]
pub enum Step {
    Send(Vec<u8>),
    Pause(Duration),
    /// Stays silent until the client goes away.
    Hang,
}

type Answer = Arc<dyn Fn(&Asked) -> Vec<Step> + Send + Sync>;

/// A server on loopback; ends with the test.
pub struct TestServer {
    pub port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
    answer: Arc<Mutex<Answer>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl TestServer {
    pub async fn start(answer: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::start_with_tls(None, answer).await
    }

    pub async fn start_with_tls(
        tls: Option<tokio_rustls::TlsAcceptor>,
        answer: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let port = listener.local_addr().expect("it is bound").port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Arc::new(answer)));
        let (record, current) = (Arc::clone(&asked), Arc::clone(&answer));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (record, current, tls) = (Arc::clone(&record), Arc::clone(&current), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => converse(stream, &record, &current).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                converse(stream, &record, &current).await;
                            }
                        }
                    }
                });
            }
        });
        Self { port, asked, answer, task }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// From now on answers otherwise.
    pub fn set(&self, answer: impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(answer);
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One request, one answer, then the connection is closed.
async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, record: &Mutex<Vec<Asked>>, answer: &Mutex<Answer>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let headers =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let asked = Asked {
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        headers: headers.collect(),
    };
    record.lock().unwrap_or_else(PoisonError::into_inner).push(asked.clone());
    let answer = Arc::clone(&*answer.lock().unwrap_or_else(PoisonError::into_inner));
    for step in answer(&asked) {
        match step {
            Step::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() {
                    return;
                }
            }
            Step::Pause(time) => tokio::time::sleep(time).await,
            Step::Hang => {
                let _ = stream.read_u8().await;
            }
        }
    }
    let _ = stream.shutdown().await;
}

/// An answer with these header lines and Content-Length.
pub fn answer(status: &str, headers: &[&str], body: &[u8]) -> Vec<Step> {
    let length = format!("Content-Length: {}", body.len());
    answer_without_length(status, &[headers, &[length.as_str()]].concat(), body)
}

/// An answer with these header lines only; the end of the connection ends the body.
pub fn answer_without_length(status: &str, headers: &[&str], body: &[u8]) -> Vec<Step> {
    let mut head = format!("HTTP/1.1 {status}\r\n");
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    head.push_str("Connection: close\r\n\r\n");
    vec![Step::Send([head.as_bytes(), body].concat())]
}

pub fn redirect(status: &str, location: &str) -> Vec<Step> {
    answer(status, &[&format!("Location: {location}")], b"")
}

pub fn not_found() -> Vec<Step> {
    answer("404 Not Found", &["Content-Type: text/html"], b"<!DOCTYPE html><h1>Not Found</h1>")
}

/// A plain disk with a boot signature.
pub fn raw_image(length: usize) -> Vec<u8> {
    let mut state = 0x2545_f491_u32;
    let mut image: Vec<u8> = (0..length)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        })
        .collect();
    image[..4].copy_from_slice(&[0xeb, 0x63, 0x90, 0x00]);
    image[510..512].copy_from_slice(&[0x55, 0xaa]);
    image
}

/// A qcow2 file of a 10 GiB disk; with the name of a backing file if given.
pub fn qcow2_image(backing: Option<&str>) -> Vec<u8> {
    let mut image = vec![0_u8; 0x4_0000];
    let mut put = |offset: usize, bytes: &[u8]| image[offset..offset + bytes.len()].copy_from_slice(bytes);
    put(0, b"QFI\xfb");
    put(4, &3_u32.to_be_bytes());
    if let Some(name) = backing {
        put(8, &512_u64.to_be_bytes());
        put(16, &u32::try_from(name.len()).expect("a short name").to_be_bytes());
        put(512, name.as_bytes());
    }
    put(20, &16_u32.to_be_bytes());
    put(24, &(10_u64 << 30).to_be_bytes());
    put(36, &20_u32.to_be_bytes());
    put(40, &0x3_0000_u64.to_be_bytes());
    put(48, &0x1_0000_u64.to_be_bytes());
    put(56, &1_u32.to_be_bytes());
    put(96, &4_u32.to_be_bytes());
    put(100, &104_u32.to_be_bytes());
    image
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn sha512(bytes: &[u8]) -> String {
    Sha512::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct TestClock(Mutex<Timestamp>);

impl TestClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new("2026-01-01T00:00:00Z".parse().expect("a time"))))
    }

    pub fn advance(&self, time: Duration) {
        let mut now = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.checked_add(time).expect("not the end of time");
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store in a directory of its own.
pub struct Site {
    pub directory: tempfile::TempDir,
    pub clock: Arc<TestClock>,
}

impl Site {
    pub fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a temporary directory"), clock: TestClock::new() }
    }

    pub fn options(&self) -> ImageOptions {
        let mut options = ImageOptions::new(self.directory.path().join("cache"));
        options.allow_loopback = true;
        options.stall_timeout = Duration::from_secs(20);
        options
    }

    pub async fn open(&self, options: ImageOptions) -> ImageStore {
        ImageStore::open(options, Arc::clone(&self.clock) as Arc<dyn Clock>).await.expect("the cache can be opened")
    }

    pub async fn store(&self) -> ImageStore {
        self.open(self.options()).await
    }

    /// Names of the files in the cache's two directories.
    pub fn files(&self) -> Vec<String> {
        let list = |path: &Path| {
            let entries = std::fs::read_dir(path).expect("the cache was opened");
            entries
                .map(|entry| entry.expect("it is ours").file_name().to_string_lossy().into_owned())
                .collect::<Vec<_>>()
        };
        let cache = self.directory.path().join("cache");
        [list(&cache.join("sha256")), list(&cache.join("tmp"))].concat()
    }
}

pub fn root_disk(uri: &str) -> ImageRequest {
    ImageRequest { uri: uri.to_owned(), checksum: None, purpose: ImagePurpose::RootDisk }
}

pub fn with_checksum(uri: &str, checksum: Checksum) -> ImageRequest {
    ImageRequest { checksum: Some(checksum), ..root_disk(uri) }
}

/// The image, which must come.
pub async fn ready(store: &ImageStore, request: &ImageRequest) -> LocalImage {
    match settled(store, request).await {
        ImageState::Ready(image) => Some(image),
        other => {
            eprintln!("{}: {other:?}", request.uri);
            None
        }
    }
    .expect("the image can be had")
}

/// Class, message and delay of the failure, which must come.
pub async fn failed(store: &ImageStore, request: &ImageRequest) -> (ImageFailure, String, Option<Duration>) {
    match settled(store, request).await {
        ImageState::Failed { failure, message, retry_after } => Some((failure, message, retry_after)),
        other => {
            eprintln!("{}: {other:?}", request.uri);
            None
        }
    }
    .expect("the image cannot be had")
}
