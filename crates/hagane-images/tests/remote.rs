//! Fetching by HTTP: good and bad servers, good and bad files.

mod support;

use std::sync::Arc;
use std::time::Duration;

use hagane_api::quantity::ByteSize;
use hagane_ports::{Checksum, DiskFormat, ImageFailure, ImagePurpose, ImageRequest, ImageSource, ImageState};
use hagane_testkit::contract::image_source;
use support::*;

/// Every route of a catalogue of servers that were met in the field, by its letter.
fn field_routes(asked: &Asked) -> Vec<Step> {
    let image = raw_image(300_000);
    match asked.path.as_str() {
        "/a" => redirect("302 Found", "/a2"),
        "/a2" => redirect("307 Temporary Redirect", "/j"),
        "/b" if asked.method == "HEAD" => answer("403 Forbidden", &[], b""),
        "/b" | "/j" => answer("200 OK", &[], &image),
        "/c" => {
            let mut steps = answer_without_length("200 OK", &["Transfer-Encoding: chunked"], b"");
            for piece in image.chunks(50_000) {
                let size = format!("{:x}\r\n", piece.len());
                steps.push(Step::Send([size.as_bytes(), piece, b"\r\n"].concat()));
            }
            steps.push(Step::Send(b"0\r\n\r\n".to_vec()));
            steps
        }
        "/close" => answer_without_length("200 OK", &[], &image),
        "/d" => answer("200 OK", &[], b""),
        "/f" => answer_without_length("200 OK", &["Content-Length: 300000"], &image[..150_000]),
        "/f-chunked" => answer_without_length("200 OK", &["Transfer-Encoding: chunked"], b"3e8\r\nhalf"),
        "/g.qcow2" => answer("200 OK", &[], b"just a text\n"),
        "/h" => redirect("302 Found", "/h2"),
        "/h2" => redirect("301 Moved Permanently", "/h"),
        "/i" => answer("200 OK", &["Content-Type: text/html"], b"<!DOCTYPE html><html><body>Log in</body></html>"),
        "/k" => answer("200 OK", &[], &qcow2_image(Some("/etc/passwd"))),
        "/k-good" => answer("200 OK", &[], &qcow2_image(None)),
        "/l.xz" => answer("200 OK", &[], b"\xfd7zXZ\0rest"),
        "/encoded" => answer("200 OK", &["Content-Encoding: gzip"], &image),
        "/partial" => answer("206 Partial Content", &[], &image),
        "/unasked" => answer_without_length("304 Not Modified", &[], b""),
        "/long-way" => redirect("302 Found", "/long-way-1"),
        "/no-target" => answer("302 Found", &[], b""),
        "/ftp" => redirect("302 Found", "ftp://127.0.0.1/x"),
        "/file" => redirect("302 Found", "file:///etc/passwd"),
        "/metadata" => redirect("302 Found", "http://169.254.169.254/latest"),
        path if path.starts_with("/long-way-") => redirect("302 Found", &format!("{path}1")),
        _ => not_found(),
    }
}

#[tokio::test]
async fn good_images_come_by_every_honest_way() {
    let (server, site) = (TestServer::start(field_routes).await, Site::new());
    let store = site.store().await;
    let expected = raw_image(300_000);
    for path in ["/a", "/b", "/c", "/j", "/close"] {
        let image = ready(&store, &root_disk(&server.url(path))).await;
        assert_eq!(image.sha256, sha256(&expected), "{path}");
        assert_eq!(std::fs::read(&image.path).expect("it is there"), expected, "{path}");
        assert_eq!((image.format, image.file_size), (DiskFormat::Raw, ByteSize(300_000)), "{path}");
        assert_eq!(image.virtual_size, ByteSize(300_032), "rounded up to whole sectors");
    }
    assert!(server.asked().iter().all(|asked| asked.method == "GET"), "HEAD is not needed");
    assert_eq!(site.files(), [sha256(&expected)], "equal content is kept once, and nothing else");
    let image = ready(&store, &root_disk(&server.url("/k-good"))).await;
    assert_eq!((image.format, image.virtual_size), (DiskFormat::Qcow2, ByteSize(10 << 30)));
}

#[tokio::test]
async fn bad_answers_are_named_and_leave_nothing() {
    let (server, site) = (TestServer::start(field_routes).await, Site::new());
    let store = site.store().await;
    for (path, expected, word) in [
        ("/d", ImageFailure::FetchFailed, "Content-Length: 0"),
        ("/e", ImageFailure::FetchFailed, "404 Not Found"),
        ("/f", ImageFailure::FetchFailed, "cut short: 150000 of 300000 bytes"),
        ("/f-chunked", ImageFailure::FetchFailed, "cut off"),
        ("/g.qcow2", ImageFailure::NotAnImage, "text file"),
        ("/h", ImageFailure::FetchFailed, "loop"),
        ("/i", ImageFailure::NotAnImage, "HTML page"),
        ("/k", ImageFailure::NotAnImage, "backing file"),
        ("/l.xz", ImageFailure::NotAnImage, "xz-compressed"),
        ("/encoded", ImageFailure::FetchFailed, "content encoding"),
        ("/partial", ImageFailure::FetchFailed, "206"),
        ("/unasked", ImageFailure::FetchFailed, "304"),
        ("/long-way", ImageFailure::FetchFailed, "more than 5 times"),
        ("/no-target", ImageFailure::FetchFailed, "without a target"),
        ("/ftp", ImageFailure::FetchFailed, "scheme \"ftp\""),
        ("/file", ImageFailure::FetchFailed, "scheme \"file\""),
        ("/metadata", ImageFailure::InvalidUri, "link-local"),
    ] {
        let url = server.url(path);
        let (failure, message, retry_after) = failed(&store, &root_disk(&url)).await;
        assert_eq!(failure, expected, "{message}");
        assert!(message.starts_with(&format!("{url} ")) && message.contains(word), "{message}");
        let retry_after = retry_after.expect("the server may be put right");
        assert!(retry_after <= Duration::from_secs(2), "{message}: {retry_after:?}");
    }
    assert!(site.files().is_empty(), "{:?}", site.files());
}

#[tokio::test]
async fn a_server_put_right_is_asked_again_after_the_delay_only() {
    let (server, site) = (TestServer::start(|_| not_found()).await, Site::new());
    let store = site.store().await;
    let request = root_disk(&server.url("/x"));
    let (_, _, first) = failed(&store, &request).await;
    for _ in 0..10 {
        failed(&store, &request).await;
    }
    assert_eq!(server.asked().len(), 1, "asking again does not fetch again before the delay is over");
    site.clock.advance(first.expect("it is tried again"));
    let (_, _, second) = failed(&store, &request).await;
    assert!(second > first, "the delay grows: {first:?}, {second:?}");
    assert_eq!(server.asked().len(), 2);
    server.set(|_| answer("200 OK", &[], &raw_image(1000)));
    site.clock.advance(Duration::from_secs(300));
    ready(&store, &request).await;
}

#[tokio::test]
async fn a_server_may_ask_for_more_time() {
    let busy = |_: &Asked| answer("503 Service Unavailable", &["Retry-After: 600"], b"");
    let (server, site) = (TestServer::start(busy).await, Site::new());
    let (_, message, retry_after) = failed(&site.store().await, &root_disk(&server.url("/x"))).await;
    assert!(message.contains("503"), "{message}");
    assert_eq!(retry_after, Some(Duration::from_secs(600)));
}

#[tokio::test]
async fn silence_is_noticed_before_and_within_the_body() {
    let server = TestServer::start(|asked| match asked.path.as_str() {
        "/never" => vec![Step::Hang],
        _ => {
            let head = answer_without_length("200 OK", &["Content-Length: 100000"], &raw_image(2000));
            [head, vec![Step::Hang]].concat()
        }
    })
    .await;
    let site = Site::new();
    let mut options = site.options();
    options.stall_timeout = Duration::from_millis(300);
    let store = site.open(options).await;
    for (path, word) in [("/never", "does not answer"), ("/half", "stalled after 2000 bytes")] {
        let (failure, message, _) = failed(&store, &root_disk(&server.url(path))).await;
        assert_eq!(failure, ImageFailure::FetchFailed);
        assert!(message.contains(word), "{message}");
    }
    assert!(site.files().is_empty());
}

fn drip(_: &Asked) -> Vec<Step> {
    let mut steps = answer_without_length("200 OK", &["Content-Length: 100000"], b"");
    for _ in 0..1000 {
        steps.extend([Step::Send(vec![0]), Step::Pause(Duration::from_millis(50))]);
    }
    steps
}

#[tokio::test]
async fn a_trickle_is_as_good_as_silence() {
    let (server, site) = (TestServer::start(drip).await, Site::new());
    let mut options = site.options();
    options.stall_timeout = Duration::from_millis(300);
    let (failure, message, retry_after) = failed(&site.open(options).await, &root_disk(&server.url("/x"))).await;
    assert_eq!(failure, ImageFailure::FetchFailed);
    assert!(message.contains("stalled after") && message.contains("only"), "{message}");
    assert!(retry_after.is_some() && site.files().is_empty());
}

#[tokio::test]
async fn a_fetch_that_nobody_asks_about_any_more_is_given_up() {
    let (server, site) = (TestServer::start(drip).await, Site::new());
    let mut options = site.options();
    options.abandon_after = Duration::from_secs(1);
    let store = site.open(options).await;
    assert!(matches!(store.ensure(&root_disk(&server.url("/x"))).await, ImageState::Fetching(_)));
    let until = async |there: bool| {
        while site.files().is_empty() == there {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    until(true).await;
    // Asked again in time it goes on, longer than it would otherwise.
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(matches!(store.ensure(&root_disk(&server.url("/x"))).await, ImageState::Fetching(_)));
    }
    assert_eq!(server.asked().len(), 1);
    tokio::time::timeout(Duration::from_secs(20), until(false)).await.expect("its file goes with it");
}

#[tokio::test]
async fn a_fetch_that_drips_for_ever_ends() {
    let server = TestServer::start(drip).await;
    let site = Site::new();
    let mut options = site.options();
    options.fetch_timeout = Duration::from_millis(500);
    let (failure, message, _) = failed(&site.open(options).await, &root_disk(&server.url("/x"))).await;
    assert_eq!(failure, ImageFailure::FetchFailed);
    assert!(message.contains("was not fetched within"), "{message}");
}

#[tokio::test]
async fn too_large_is_refused_announced_or_not() {
    let server = TestServer::start(|asked| match asked.path.as_str() {
        "/announced" => answer_without_length("200 OK", &["Content-Length: 100001"], b""),
        _ => answer_without_length("200 OK", &[], &raw_image(200_000)),
    })
    .await;
    let site = Site::new();
    let mut options = site.options();
    options.max_size = ByteSize(100_000);
    let store = site.open(options).await;
    for path in ["/announced", "/unannounced"] {
        let (failure, message, _) = failed(&store, &root_disk(&server.url(path))).await;
        assert_eq!(failure, ImageFailure::TooLarge, "{message}");
    }
    assert!(site.files().is_empty());
}

#[tokio::test]
async fn digests_are_checked() {
    let (server, site) = (TestServer::start(field_routes).await, Site::new());
    let store = site.store().await;
    let (image, url) = (raw_image(300_000), server.url("/j"));
    let wrong = with_checksum(&url, Checksum::Sha256("0".repeat(64)));
    let (failure, message, retry_after) = failed(&store, &wrong).await;
    assert_eq!(failure, ImageFailure::ChecksumMismatch);
    assert!(message.contains(&sha256(&image)) && retry_after.is_some(), "{message}");
    let (failure, message, _) =
        failed(&store, &with_checksum(&server.url("/i"), Checksum::Sha512("0".repeat(128)))).await;
    assert_eq!(failure, ImageFailure::ChecksumMismatch);
    assert!(message.contains("HTML page"), "the hint says what came instead: {message}");
    assert!(site.files().is_empty());
    for checksum in [
        Checksum::Sha512(sha512(&image)),
        Checksum::Sha256(sha256(&image)),
        Checksum::Sha256(sha256(&image).to_uppercase()),
    ] {
        ready(&store, &with_checksum(&url, checksum)).await;
    }
    for checksum in [Checksum::Sha256("abc".to_owned()), Checksum::Sha512("x".repeat(128))] {
        let (failure, _, retry_after) = failed(&store, &with_checksum(&url, checksum)).await;
        assert_eq!((failure, retry_after), (ImageFailure::ChecksumMismatch, None));
    }
}

#[tokio::test]
async fn equal_requests_share_one_fetch_and_see_its_progress() {
    let slow = |_: &Asked| {
        let image = raw_image(100_000);
        let mut steps = answer_without_length("200 OK", &["Content-Length: 100000"], &image[..40_000]);
        steps.extend([Step::Pause(Duration::from_millis(700)), Step::Send(image[40_000..].to_vec())]);
        steps
    };
    let (server, site) = (TestServer::start(slow).await, Site::new());
    let store = site.store().await;
    let request = root_disk(&server.url("/x"));
    let asks = (0..50).map(|_| store.ensure(&request));
    for state in futures::future::join_all(asks).await {
        assert!(matches!(state, ImageState::Fetching(_)), "{state:?}");
    }
    let mut seen = Vec::new();
    while let ImageState::Fetching(progress) = store.ensure(&request).await {
        seen.push((progress.done, progress.total));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(seen.contains(&(40_000, Some(100_000))), "{seen:?}");
    ready(&store, &request).await;
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn only_a_fetch_behind_others_says_that_it_waits_for_them() {
    let server = TestServer::start(|_| vec![Step::Hang]).await;
    let site = Site::new();
    let mut options = site.options();
    options.parallel_fetches = 1;
    let store = site.open(options).await;
    let told = async |path: &str, word: &str| loop {
        match store.ensure(&root_disk(&server.url(path))).await {
            ImageState::Fetching(progress) if progress.what.starts_with(word) => break,
            ImageState::Fetching(_) => tokio::task::yield_now().await,
            other => unreachable!("the server is silent: {other:?}"),
        }
    };
    told("/first", "about to fetch http").await;
    while server.asked().is_empty() {
        tokio::task::yield_now().await;
    }
    told("/second", "waiting for other downloads before http").await;
}

#[tokio::test]
async fn secrets_in_a_url_reach_the_server_and_nothing_else() {
    let (server, site) = (TestServer::start(|_| not_found()).await, Site::new());
    let store = site.store().await;
    let url = format!("http://user:hunter2@127.0.0.1:{}/x?token=hunter2", server.port);
    let (_, message, _) = failed(&store, &root_disk(&url)).await;
    assert!(message.starts_with(&server.url("/x ")) && !message.contains("hunter2"), "{message}");
    let asked = server.asked();
    assert!(asked[0].headers["authorization"].starts_with("Basic "));
    assert_eq!(asked[0].path, "/x?token=hunter2");
    server.set(|_| answer("200 OK", &[], &raw_image(1000)));
    site.clock.advance(Duration::from_secs(300));
    ready(&store, &root_disk(&url)).await;
    let index = std::fs::read_to_string(site.directory.path().join("cache/index.json")).expect("it was written");
    assert!(index.contains("127.0.0.1") && !index.contains("hunter2"), "{index}");
}

#[tokio::test]
async fn this_machine_and_the_link_are_out_of_bounds_by_default() {
    let (server, site) = (TestServer::start(field_routes).await, Site::new());
    let mut options = site.options();
    options.allow_loopback = false;
    let store = site.open(options).await;
    for url in [
        server.url("/j"),
        format!("http://localhost:{}/j", server.port),
        format!("http://[::ffff:127.0.0.1]:{}/j", server.port),
        format!("http://0:{}/j", server.port),
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "https://[fe80::1]/".to_owned(),
    ] {
        let (failure, message, _) = failed(&store, &root_disk(&url)).await;
        assert_eq!(failure, ImageFailure::InvalidUri, "{message}");
        assert!(message.contains("not allowed"), "{message}");
    }
    assert!(server.asked().is_empty(), "nothing was connected to");
}

#[tokio::test]
async fn an_unreachable_server_is_a_failed_fetch() {
    let port = {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        listener.local_addr().expect("it is bound").port()
    };
    let site = Site::new();
    let store = site.store().await;
    for url in [format!("http://127.0.0.1:{port}/x"), "http://no-such-host.invalid/x".to_owned()] {
        let (failure, message, _) = failed(&store, &root_disk(&url)).await;
        assert_eq!(failure, ImageFailure::FetchFailed, "{message}");
        assert!(message.contains("cannot be reached"), "{message}");
    }
}

#[tokio::test]
async fn https_needs_a_known_issuer_and_never_falls_back() {
    let issued = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let key = rustls::pki_types::PrivateKeyDer::try_from(issued.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(vec![issued.cert.der().clone()], key)
        .expect("the pair belongs together");
    let plain = TestServer::start(field_routes).await;
    let target = plain.url("/j");
    let server = TestServer::start_with_tls(Some(Arc::new(config).into()), move |asked| match asked.path.as_str() {
        "/down" => redirect("302 Found", &target),
        _ => answer("200 OK", &[], &raw_image(1000)),
    })
    .await;
    let url = |path: &str| format!("https://localhost:{}{path}", server.port);
    let site = Site::new();
    let strict = site.store().await;
    let (failure, message, _) = failed(&strict, &root_disk(&url("/x"))).await;
    assert_eq!(failure, ImageFailure::FetchFailed);
    assert!(message.contains("certificate"), "{message}");
    drop(strict);
    let site = Site::new();
    let ca = site.directory.path().join("ca.pem");
    std::fs::write(&ca, issued.cert.pem()).expect("it is ours");
    let mut options = site.options();
    options.extra_ca = Some(ca);
    let store = site.open(options).await;
    ready(&store, &root_disk(&url("/x"))).await;
    let (failure, message, _) = failed(&store, &root_disk(&url("/down"))).await;
    assert_eq!(failure, ImageFailure::FetchFailed);
    assert!(message.contains("not encrypted"), "{message}");
    assert!(plain.asked().is_empty());
}

struct RealWorld {
    store: ImageStore,
    server: TestServer,
}

use hagane_images::ImageStore;

impl image_source::World for RealWorld {
    fn source(&self) -> Arc<dyn ImageSource> {
        Arc::new(self.store.clone())
    }

    fn good(&self) -> ImageRequest {
        root_disk(&self.server.url("/j"))
    }

    fn wrong_checksum(&self) -> ImageRequest {
        with_checksum(&self.server.url("/b"), Checksum::Sha256("0".repeat(64)))
    }

    fn missing(&self) -> ImageRequest {
        root_disk(&format!("http://user:hunter2@127.0.0.1:{}/e", self.server.port))
    }

    fn page(&self) -> ImageRequest {
        ImageRequest { purpose: ImagePurpose::Seed, ..root_disk(&self.server.url("/i")) }
    }

    fn invalid(&self) -> ImageRequest {
        root_disk("gopher://127.0.0.1/x")
    }
}

#[tokio::test]
async fn obeys_the_contract() {
    let (server, site) = (TestServer::start(field_routes).await, Site::new());
    image_source::obeys_the_contract(&RealWorld { store: site.store().await, server }).await;
}
