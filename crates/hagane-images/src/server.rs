//! Serves the files below one directory to machines: read-only, no listings, nothing outside.

use std::fs::File;
use std::io::Seek as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, response};
use axum::response::{IntoResponse as _, Response};
use tokio::io::AsyncReadExt as _;
use tokio_util::io::ReaderStream;

use crate::beneath;
use crate::cache::modified;

/// Bytes read at a time.
const PIECE: usize = 64 * 1024;

/// A router that answers GET and HEAD for regular files below `directory`, with single ranges and entity tags.
///
/// Links are followed as long as they lead below `directory`. Directories, names that begin with a dot and everything
/// else answer 404. It asks for no credentials: what lies there is for every machine that can reach the server.
pub fn image_server(directory: impl Into<PathBuf>) -> Router {
    Router::new().fallback(serve).with_state(Arc::new(directory.into()))
}

/// An open file and what is said about it.
struct Served {
    file: File,
    length: u64,
    tag: String,
}

async fn serve(State(directory): State<Arc<PathBuf>>, request: Request) -> Response {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET, HEAD")]).into_response();
    }
    let Some(path) = relative_path(request.uri().path()) else { return StatusCode::NOT_FOUND.into_response() };
    let opened = tokio::task::spawn_blocking(move || open(&directory, &path)).await;
    let Ok(Some(served)) = opened else { return StatusCode::NOT_FOUND.into_response() };
    let headers = request.headers();
    let start = Response::builder().header(ACCEPT_RANGES, "bytes").header(ETAG, &served.tag);
    if header(headers, &IF_NONE_MATCH).is_some_and(|tags| names(tags, &served.tag)) {
        return finish(start.status(StatusCode::NOT_MODIFIED), Body::empty());
    }
    // A range of another version than the client has begun with would be garbage: it gets the whole file.
    let same_version = header(headers, &IF_RANGE).is_none_or(|tag| tag == served.tag);
    let wanted = header(headers, &RANGE).filter(|_| same_version).map(|text| range(text, served.length));
    let (start, first, length) = match wanted {
        None | Some(Wanted::All) => (start.status(StatusCode::OK), 0, served.length),
        Some(Wanted::Part { first, last }) => {
            let place = format!("bytes {first}-{last}/{}", served.length);
            (start.status(StatusCode::PARTIAL_CONTENT).header(CONTENT_RANGE, place), first, last - first + 1)
        }
        Some(Wanted::Nothing) => {
            let place = format!("bytes */{}", served.length);
            return finish(start.status(StatusCode::RANGE_NOT_SATISFIABLE).header(CONTENT_RANGE, place), Body::empty());
        }
    };
    let start = start.header(CONTENT_LENGTH, length).header(CONTENT_TYPE, "application/octet-stream");
    if request.method() == Method::HEAD {
        return finish(start, Body::empty());
    }
    match body(served.file, first, length).await {
        Ok(body) => finish(start, body),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn body(mut file: File, first: u64, length: u64) -> std::io::Result<Body> {
    let moved = tokio::task::spawn_blocking(move || file.seek(std::io::SeekFrom::Start(first)).map(|_| file)).await;
    let file = tokio::fs::File::from_std(moved.map_err(std::io::Error::other)??);
    Ok(Body::from_stream(ReaderStream::with_capacity(file.take(length), PIECE)))
}

fn finish(start: response::Builder, body: Body) -> Response {
    start.body(body).unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

fn open(directory: &Path, path: &Path) -> Option<Served> {
    let file = beneath::open(directory, &directory.join(path)).ok()?;
    let metadata = file.metadata().ok()?;
    let tag = format!("\"{:x}-{:x}-{:x}\"", metadata.ino(), metadata.len(), modified(&metadata));
    Some(Served { file, length: metadata.len(), tag })
}

/// The path of a file, where the text can be one.
fn relative_path(text: &str) -> Option<PathBuf> {
    let decoded = percent_decoded(text.strip_prefix('/')?)?;
    if decoded.is_empty() || decoded.contains('\0') || decoded.split('/').any(|name| name.starts_with('.')) {
        return None;
    }
    let path = PathBuf::from(decoded);
    path.components().all(|component| matches!(component, Component::Normal(_))).then_some(path)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let value = digit(bytes.next()?)? * 16 + digit(bytes.next()?)?;
            decoded.push(u8::try_from(value).ok()?);
        } else {
            decoded.push(byte);
        }
    }
    String::from_utf8(decoded).ok()
}

fn header<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn names(tags: &str, tag: &str) -> bool {
    tags.split(',').map(str::trim).any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// What a Range header asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    /// Not understood, or several ranges: the header is ignored, as the standard allows.
    All,
    /// Both inclusive.
    Part { first: u64, last: u64 },
    /// Nothing of the file.
    Nothing,
}

fn range(text: &str, length: u64) -> Wanted {
    let Some((first, last)) = text.strip_prefix("bytes=").and_then(|range| range.trim().split_once('-')) else {
        return Wanted::All;
    };
    let end = length.saturating_sub(1);
    match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first > last => Wanted::All,
        (Ok(first), _) if first >= length => {
            if last.is_empty() || last.parse::<u64>().is_ok() {
                Wanted::Nothing
            } else {
                Wanted::All
            }
        }
        (Ok(first), Ok(last)) => Wanted::Part { first, last: last.min(end) },
        (Ok(first), Err(_)) if last.is_empty() => Wanted::Part { first, last: end },
        (Err(_), Ok(count)) if first.is_empty() => match count {
            0 => Wanted::Nothing,
            _ if length == 0 => Wanted::Nothing,
            _ => Wanted::Part { first: length.saturating_sub(count), last: end },
        },
        _ => Wanted::All,
    }
}

#[cfg(test)]
mod tests;
