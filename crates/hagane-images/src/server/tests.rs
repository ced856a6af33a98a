use axum::body::to_bytes;
use axum::http::Request;
use tower::ServiceExt as _;

use super::*;

struct Site {
    directory: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let images = directory.path().join("images");
        std::fs::create_dir_all(images.join("sub dir")).expect("it is ours");
        std::fs::write(images.join("a.img"), b"0123456789").expect("it is ours");
        std::fs::write(images.join("empty"), b"").expect("it is ours");
        std::fs::write(images.join(".hidden"), b"h").expect("it is ours");
        std::fs::write(images.join("sub dir/b"), b"b").expect("it is ours");
        std::fs::write(directory.path().join("secret"), b"s").expect("it is ours");
        std::os::unix::fs::symlink("a.img", images.join("inside")).expect("it is ours");
        std::os::unix::fs::symlink("../secret", images.join("outside")).expect("it is ours");
        Self { directory }
    }

    async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> (StatusCode, HeaderMap, Vec<u8>) {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).expect("a request");
        let router = image_server(self.directory.path().join("images"));
        let response = router.oneshot(request).await.expect("the router always answers");
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, 1 << 20).await.expect("a short body");
        (parts.status, parts.headers, body.to_vec())
    }

    async fn status(&self, path: &str) -> StatusCode {
        self.ask("GET", path, &[]).await.0
    }
}

#[tokio::test]
async fn serves_files_with_length_and_tag() {
    let site = Site::new();
    let (status, headers, body) = site.ask("GET", "/a.img", &[]).await;
    assert_eq!((status, body.as_slice()), (StatusCode::OK, b"0123456789".as_slice()));
    assert_eq!(headers["content-length"], "10");
    let tag = headers["etag"].to_str().expect("ASCII").to_owned();
    assert_eq!(site.ask("GET", "/a.img", &[("if-none-match", &tag)]).await.0, StatusCode::NOT_MODIFIED);
    let (status, headers, body) = site.ask("HEAD", "/a.img", &[]).await;
    assert_eq!((status, headers["content-length"].as_bytes(), body.len()), (StatusCode::OK, b"10".as_slice(), 0));
    for path in ["/inside", "/sub%20dir/b", "/empty"] {
        assert_eq!(site.status(path).await, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn nothing_else_is_there() {
    let site = Site::new();
    for path in [
        "/",
        "/sub%20dir",
        "/sub%20dir/",
        "/absent",
        "/outside",
        "/.hidden",
        "/../secret",
        "/%2e%2e/secret",
        "/..%2fsecret",
        "/sub%20dir/../../secret",
        "/%2e%2e%2fsecret",
        "//etc/passwd",
        "/%2Fetc%2Fpasswd",
        "/a.img%00",
        "/%zz",
        "/a.img/",
        "/%ff",
    ] {
        assert_eq!(site.status(path).await, StatusCode::NOT_FOUND, "{path}");
    }
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        assert_eq!(site.ask(method, "/a.img", &[]).await.0, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
}

#[tokio::test]
async fn serves_single_ranges() {
    let site = Site::new();
    for (range, status, body, place) in [
        ("bytes=2-4", 206, "234", "bytes 2-4/10"),
        ("bytes=7-", 206, "789", "bytes 7-9/10"),
        ("bytes=-3", 206, "789", "bytes 7-9/10"),
        ("bytes=-300", 206, "0123456789", "bytes 0-9/10"),
        ("bytes=8-300", 206, "89", "bytes 8-9/10"),
        ("bytes=10-", 416, "", "bytes */10"),
        ("bytes=-0", 416, "", "bytes */10"),
    ] {
        let (found, headers, content) = site.ask("GET", "/a.img", &[("range", range)]).await;
        assert_eq!((found.as_u16(), content.as_slice()), (status, body.as_bytes()), "{range}");
        assert_eq!(headers["content-range"], place, "{range}");
    }
    for range in ["bytes=4-2", "bytes=0-1,3-4", "lines=0-1", "bytes=x-y", "bytes=", "bytes=--1"] {
        let (status, _, content) = site.ask("GET", "/a.img", &[("range", range)]).await;
        assert_eq!((status, content.len()), (StatusCode::OK, 10), "{range}");
    }
    let (status, _, content) = site.ask("GET", "/a.img", &[("range", "bytes=2-4"), ("if-range", "\"old\"")]).await;
    assert_eq!((status, content.len()), (StatusCode::OK, 10), "a range of another version");
    let (status, ..) = site.ask("GET", "/empty", &[("range", "bytes=0-")]).await;
    assert_eq!(status, StatusCode::RANGE_NOT_SATISFIABLE);
}
