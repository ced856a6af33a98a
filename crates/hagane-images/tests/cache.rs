//! What is kept, for how long, and what survives restarts and other people's hands.

mod support;

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use hagane_images::{ImageStore, OpenError};
use hagane_ports::{Checksum, Clock, ImageFailure, ImagePurpose, ImageRequest, ImageSource as _, ImageState};
use support::*;

/// Answers with the image of this seed and its tag, or 304 where the client has it.
fn tagged(length: usize) -> impl Fn(&Asked) -> Vec<Step> + Send + Sync + 'static {
    move |asked| {
        let tag = format!("\"v{length}\"");
        if asked.headers.get("if-none-match") == Some(&tag) {
            return answer_without_length("304 Not Modified", &[], b"");
        }
        answer("200 OK", &[&format!("ETag: {tag}")], &raw_image(length))
    }
}

#[tokio::test]
async fn a_known_image_is_ready_at_once_also_after_a_restart() {
    let (server, site) = (TestServer::start(tagged(5000)).await, Site::new());
    let request = root_disk(&server.url("/x"));
    let image = ready(&site.store().await, &request).await;
    let mode = std::fs::metadata(&image.path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o400, "kept files are read-only");
    let restarted = site.store().await;
    assert_eq!(restarted.ensure(&request).await, ImageState::Ready(image.clone()));
    let by_digest = with_checksum("http://elsewhere.invalid/y", Checksum::Sha256(image.sha256.clone()));
    assert_eq!(restarted.ensure(&by_digest).await, ImageState::Ready(image), "the digest alone says what it is");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn the_server_is_asked_for_changes_now_and_then() {
    let (server, site) = (TestServer::start(tagged(5000)).await, Site::new());
    let store = site.store().await;
    let request = root_disk(&server.url("/x"));
    let first = ready(&store, &request).await;
    site.clock.advance(Duration::from_secs(601));
    assert_eq!(ready(&store, &request).await, first);
    assert_eq!(server.asked().len(), 2);
    assert_eq!(server.asked()[1].headers["if-none-match"], "\"v5000\"");
    ready(&store, &request).await;
    assert_eq!(server.asked().len(), 2, "once in ten minutes is enough");
    server.set(tagged(6000));
    site.clock.advance(Duration::from_secs(601));
    let second = ready(&store, &request).await;
    assert_eq!(second.sha256, sha256(&raw_image(6000)));
    assert!(first.path.exists(), "the old version may be in use");
    server.set(|_| answer("500 Internal Server Error", &[], b""));
    site.clock.advance(Duration::from_secs(601));
    assert_eq!(ready(&store, &request).await, second, "a server that is ill does not take the image away");
}

#[tokio::test]
async fn an_image_without_version_is_kept_as_it_is() {
    let (server, site) = (TestServer::start(|_| answer("200 OK", &[], &raw_image(5000))).await, Site::new());
    let store = site.store().await;
    let request = root_disk(&server.url("/x"));
    ready(&store, &request).await;
    site.clock.advance(Duration::from_secs(1_000_000));
    assert!(matches!(store.ensure(&request).await, ImageState::Ready(_)));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_file_lost_or_changed_behind_our_back_is_fetched_again() {
    let (server, site) = (TestServer::start(tagged(5000)).await, Site::new());
    let store = site.store().await;
    let request = root_disk(&server.url("/x"));
    let image = ready(&store, &request).await;
    std::fs::remove_file(&image.path).expect("it is there");
    assert_eq!(ready(&store, &request).await, image);
    assert_eq!(server.asked().len(), 2);
    std::fs::set_permissions(&image.path, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    std::fs::write(&image.path, raw_image(4000)).expect("it is ours");
    assert_eq!(ready(&store, &request).await, image);
    assert_eq!(std::fs::read(&image.path).expect("it is there"), raw_image(5000));
    std::fs::remove_file(&image.path).expect("it is there");
    drop(store);
    assert_eq!(ready(&site.store().await, &request).await, image);
}

#[tokio::test]
async fn one_content_for_another_purpose_is_refused_without_another_fetch() {
    let (server, site) = (TestServer::start(tagged(50_000)).await, Site::new());
    let store = site.store().await;
    let request = root_disk(&server.url("/x"));
    ready(&store, &request).await;
    let (failure, message, _) = failed(&store, &ImageRequest { purpose: ImagePurpose::Seed, ..request }).await;
    assert_eq!(failure, ImageFailure::NotAnImage, "{message}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn what_a_dead_run_left_is_cleared() {
    let (server, site) = (TestServer::start(tagged(5000)).await, Site::new());
    let request = root_disk(&server.url("/x"));
    let image = ready(&site.store().await, &request).await;
    let cache = site.directory.path().join("cache");
    std::fs::write(cache.join("tmp/7"), b"half").expect("it is ours");
    std::fs::write(cache.join("sha256").join("f".repeat(64)), b"unrecorded").expect("it is ours");
    let restarted = site.store().await;
    assert_eq!(site.files(), std::slice::from_ref(&image.sha256));
    drop(restarted);
    for damage in ["", "{", "[]", "{\"version\": 99, \"blobs\": {}, \"sources\": {}}"] {
        std::fs::write(cache.join("index.json"), damage).expect("it is ours");
        assert_eq!(ready(&site.store().await, &request).await, image, "{damage:?}");
    }
}

#[tokio::test]
async fn a_cache_has_one_owner() {
    let site = Site::new();
    let first = site.store().await;
    let second = ImageStore::open(site.options(), Arc::clone(&site.clock) as Arc<dyn Clock>).await;
    assert!(matches!(second.err(), Some(OpenError::InUse { .. })));
    drop(first);
    site.store().await;
}

#[tokio::test]
async fn a_bad_certificate_file_is_named() {
    let site = Site::new();
    let ca = site.directory.path().join("ca.pem");
    for content in
        [None, Some("no certificate"), Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")]
    {
        if let Some(content) = content {
            std::fs::write(&ca, content).expect("it is ours");
        }
        let mut options = site.options();
        options.extra_ca = Some(ca.clone());
        let opened = ImageStore::open(options, Arc::clone(&site.clock) as Arc<dyn Clock>).await;
        assert!(matches!(opened.err(), Some(OpenError::ExtraCa { path, .. }) if path == ca), "{content:?}");
    }
}

#[tokio::test]
async fn files_are_copied_from_the_image_directory_only() {
    let site = Site::new();
    let images = site.directory.path().join("images");
    std::fs::create_dir(&images).expect("it is ours");
    let (good, secret) = (images.join("a b.img"), site.directory.path().join("secret.img"));
    std::fs::write(&good, raw_image(5000)).expect("it is ours");
    std::fs::write(&secret, raw_image(5000)).expect("it is ours");
    symlink(&secret, images.join("out.img")).expect("it is ours");
    symlink(&good, images.join("in.img")).expect("it is ours");
    std::fs::create_dir(images.join("directory")).expect("it is ours");
    let uri = |name: &str| format!("file://{}/{name}", images.display());
    let mut options = site.options();
    options.image_dir = Some(images.clone());
    let store = site.open(options).await;
    for name in ["a%20b.img", "in.img"] {
        let image = ready(&store, &root_disk(&uri(name))).await;
        assert_eq!(image.sha256, sha256(&raw_image(5000)));
    }
    for (uri, expected, again) in [
        (uri("out.img"), ImageFailure::InvalidUri, false),
        (uri("../secret.img"), ImageFailure::InvalidUri, false),
        ("file:///etc/passwd".to_owned(), ImageFailure::InvalidUri, false),
        ("file:///nonexistent/x".to_owned(), ImageFailure::InvalidUri, false),
        (uri("absent.img"), ImageFailure::FetchFailed, true),
        (uri("directory"), ImageFailure::NotAnImage, true),
    ] {
        let (failure, message, retry_after) = failed(&store, &root_disk(&uri)).await;
        assert_eq!((failure, retry_after.is_some()), (expected, again), "{message}");
    }
    std::fs::write(&good, raw_image(6000)).expect("it is ours");
    let changed = ready(&store, &root_disk(&uri("a%20b.img"))).await;
    assert_eq!(changed.sha256, sha256(&raw_image(6000)), "a changed file is another image");
    std::fs::remove_file(&good).expect("it is ours");
    assert!(changed.path.exists(), "the copy does not depend on the original");
}

#[tokio::test]
async fn files_need_an_image_directory() {
    let site = Site::new();
    let (failure, message, retry_after) = failed(&site.store().await, &root_disk("file:///srv/a.img")).await;
    assert_eq!((failure, retry_after), (ImageFailure::InvalidUri, None));
    assert!(message.contains("--image-dir"), "{message}");
}

/// A small file system that is taken down again.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(path: std::path::PathBuf) -> Option<Self> {
        std::fs::create_dir(&path).expect("it is ours");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&path).output();
        mounted.is_ok_and(|output| output.status.success()).then_some(Self(path))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test]
async fn a_full_disk_is_named_and_recovered_from() {
    let (server, site) = (TestServer::start(tagged(500_000)).await, Site::new());
    let Some(disk) = SmallDisk::mount(site.directory.path().join("cache")) else {
        eprintln!("left out: mounting a small file system needs root");
        return;
    };
    let store = site.store().await;
    let request = root_disk(&server.url("/x"));
    let (failure, message, retry_after) = failed(&store, &request).await;
    assert_eq!(failure, ImageFailure::LocalStorage, "{message}");
    assert!(message.contains("no space") && retry_after.is_some(), "{message}");
    assert!(site.files().is_empty(), "the failed file gave its space back");
    let grown =
        Command::new("mount").args(["-o", "remount,size=4m"]).arg(&disk.0).status().expect("mount is installed");
    assert!(grown.success());
    site.clock.advance(Duration::from_secs(300));
    ready(&store, &request).await;
    drop(store);
}

#[tokio::test]
async fn reads_what_qemu_img_writes() {
    let site = Site::new();
    let images = site.directory.path().join("images");
    std::fs::create_dir(&images).expect("it is ours");
    let make = |arguments: &[&str]| {
        let made = Command::new("qemu-img").args(["create", "-q"]).args(arguments).current_dir(&images).output();
        made.is_ok_and(|output| output.status.success())
    };
    if !make(&["-f", "qcow2", "v3.img", "10G"]) {
        eprintln!("left out: qemu-img is not installed");
        return;
    }
    assert!(make(&["-f", "qcow2", "-o", "compat=0.10", "v2.img", "1536M"]));
    assert!(make(&["-f", "qcow2", "-b", "v3.img", "-F", "qcow2", "backed.img"]));
    assert!(make(&["-f", "qcow2", "-o", "data_file=data.raw", "outside.img", "1G"]));
    let mut options = site.options();
    options.image_dir = Some(images.clone());
    let store = site.open(options).await;
    let request = |name: &str| root_disk(&format!("file://{}/{name}", images.display()));
    assert_eq!(ready(&store, &request("v3.img")).await.virtual_size.0, 10 << 30);
    assert_eq!(ready(&store, &request("v2.img")).await.virtual_size.0, 1536 << 20);
    for (name, word) in [("backed.img", "backing file"), ("outside.img", "another file")] {
        let (failure, message, _) = failed(&store, &request(name)).await;
        assert_eq!(failure, ImageFailure::NotAnImage);
        assert!(message.contains(word), "{message}");
    }
}
