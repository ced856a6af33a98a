//! One HTTP answer into a temporary file.

use std::time::Duration;

use hagane_ports::ImageFailure;
use jiff::Timestamp;
use reqwest::header::{CONTENT_ENCODING, CONTENT_LENGTH, ETAG, HeaderMap, HeaderName, LAST_MODIFIED, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, timeout};
use url::Url;

use crate::cache::Temporary;
use crate::client::chain;
use crate::fault::{Fault, Retry};
use crate::fetch::Fetcher;
use crate::index::Validators;
use crate::progress::ProgressCell;
use crate::sink::{DigestWriter, Sink, Written};
use crate::uri::shown_url;

/// Fewest bytes in a second, over the time after which a silent server has stalled: the largest images take the whole
/// time limit at many times this rate, and a trickle would keep others waiting for as long.
const RATE_MIN: u64 = 1024;

/// How a download ended.
pub(crate) enum Outcome {
    /// The known version is still the server's.
    Unchanged,
    /// There is a new file.
    Fetched(Fetched),
}

/// A complete, synced, not yet verified file.
pub(crate) struct Fetched {
    pub(crate) temporary: Temporary,
    pub(crate) written: Written,
    pub(crate) validators: Validators,
}

impl Fetcher {
    pub(crate) async fn download(
        &self,
        url: &Url,
        known: &Validators,
        with_sha512: bool,
        progress: &ProgressCell,
    ) -> Result<Outcome, Fault> {
        let response = self.client.get(url, known).await?;
        match response.status() {
            StatusCode::OK => {}
            StatusCode::NOT_MODIFIED if !known.is_empty() => return Ok(Outcome::Unchanged),
            status => return Err(refused(status, response.headers(), self.clock.now())),
        }
        if let Some(encoding) = text(response.headers(), &CONTENT_ENCODING).filter(|encoding| encoding != "identity") {
            return Err(Fault::fetch(format!(
                "answers with the content encoding {encoding:?}, which was not asked for"
            )));
        }
        let announced = announced_length(response.headers())?;
        self.check_size(announced.unwrap_or(0))?;
        let validators = Validators {
            tag: text(response.headers(), &ETAG),
            last_modified: text(response.headers(), &LAST_MODIFIED),
        };
        progress.begin(format!("downloading {}", shown_url(url)), announced);
        let (temporary, file) = self.blocking(|cache| cache.temporary()).await?;
        let sink = Sink::start(DigestWriter::new(file, with_sha512));
        self.receive(response, &sink, progress, announced).await?;
        let written = sink.finish().await.map_err(|error| Fault::storage("cannot be stored", &error))?;
        match announced {
            Some(length) if length != written.size => Err(cut_short(written.size, length)),
            None if written.size == 0 => Err(Fault::fetch("is empty")),
            _ => Ok(Outcome::Fetched(Fetched { temporary, written, validators })),
        }
    }

    /// Hands every piece on, until the end or until the writer gives up.
    async fn receive(
        &self,
        mut response: Response,
        sink: &Sink,
        progress: &ProgressCell,
        announced: Option<u64>,
    ) -> Result<(), Fault> {
        let mut size = 0_u64;
        let (window, stalled) = (self.options.stall_timeout, self.options.stall_timeout.as_secs());
        let (mut since, mut before) = (Instant::now(), 0);
        loop {
            let piece = timeout(window, response.chunk()).await;
            let piece = piece.map_err(|_| Fault::fetch(format!("stalled after {size} bytes for {stalled} s")))?;
            if since.elapsed() >= window {
                if size - before < stalled.max(1) * RATE_MIN {
                    let came = size - before;
                    return Err(Fault::fetch(format!(
                        "stalled after {size} bytes: only {came} of them in {stalled} s"
                    )));
                }
                (since, before) = (Instant::now(), size);
            }
            let piece = match (piece, announced) {
                (Ok(Some(piece)), _) => piece,
                (Ok(None), _) => return Ok(()),
                (Err(_), Some(length)) if size < length => return Err(cut_short(size, length)),
                (Err(error), _) => {
                    return Err(Fault::fetch(format!("was cut off after {size} bytes: {}", chain(error))));
                }
            };
            size += piece.len() as u64;
            self.check_size(size)?;
            progress.add(piece.len() as u64);
            if !sink.write(piece).await {
                return Ok(());
            }
        }
    }

    /// Refuses what is larger than the operator allows.
    pub(crate) fn check_size(&self, size: u64) -> Result<(), Fault> {
        let limit = self.options.max_size;
        if size <= limit.0 {
            return Ok(());
        }
        Err(Fault::new(ImageFailure::TooLarge, format!("is larger than the limit of {limit}")))
    }
}

fn cut_short(size: u64, length: u64) -> Fault {
    Fault::fetch(format!("was cut short: {size} of {length} bytes arrived"))
}

fn refused(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Fault {
    let fault = Fault::fetch(format!("answers {status}"));
    match text(headers, &RETRY_AFTER).and_then(|value| retry_after(&value, now)) {
        Some(delay) => fault.with_retry(Retry::NotBefore(delay)),
        None => fault,
    }
}

/// Seconds or an HTTP date (RFC 9110, 10.2.3).
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = value.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value.trim()).ok()?;
    Some(date.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

fn announced_length(headers: &HeaderMap) -> Result<Option<u64>, Fault> {
    let Some(value) = headers.get(CONTENT_LENGTH) else { return Ok(None) };
    match value.to_str().ok().and_then(|value| value.trim().parse().ok()) {
        Some(0) => Err(Fault::fetch("is empty (Content-Length: 0)")),
        Some(length) => Ok(Some(length)),
        None => Err(Fault::fetch("has a Content-Length that is no number")),
    }
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_forms_of_retry_after() {
        let now: Timestamp = "2015-10-21T07:27:00Z".parse().expect("a time");
        assert_eq!(retry_after("120", now), Some(Duration::from_secs(120)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:28:00 GMT", now), Some(Duration::from_secs(60)));
        assert_eq!(retry_after("Wed, 21 Oct 2015 07:26:00 GMT", now), Some(Duration::ZERO));
        for nonsense in ["", "soon", "-1", "1e3"] {
            assert_eq!(retry_after(nonsense, now), None, "{nonsense}");
        }
    }
}
