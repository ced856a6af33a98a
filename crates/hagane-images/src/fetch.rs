//! From a request to a verified file in the cache.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use hagane_api::quantity::ByteSize;
use hagane_ports::{Checksum, Clock, ImageFailure, ImageRequest, LocalImage};
use jiff::SignedDuration;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use url::Url;

use crate::cache::Cache;
use crate::client::HttpClient;
use crate::content::{self, Content};
use crate::copy;
use crate::download::{Fetched, Outcome};
use crate::fault::{Fault, Retry};
use crate::index::{SourceEntry, Validators, source_key};
use crate::progress::ProgressCell;
use crate::uri::{Source, shown};
use crate::{ImageOptions, OpenError};

/// Everything a fetch needs.
pub(crate) struct Fetcher {
    pub(crate) options: ImageOptions,
    pub(crate) client: HttpClient,
    pub(crate) clock: Arc<dyn Clock>,
    cache: Arc<Cache>,
    permits: Semaphore,
}

/// What the cache can say without a fetch.
pub(crate) enum Known {
    /// The image is there.
    Ready(LocalImage),
    /// The content is there and not what was asked for.
    Unfit(Fault),
    /// There is a version that the server should be asked about.
    Stale,
    /// Nothing.
    Unknown,
}

impl Fetcher {
    /// Opens the cache and sets the client up; blocks.
    pub(crate) fn open(options: ImageOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let client = HttpClient::new(&options)?;
        let cache = Arc::new(Cache::open(&options.cache_dir)?);
        let permits = Semaphore::new(options.parallel_fetches.max(1));
        Ok(Self { options, client, clock, cache, permits })
    }

    /// Asks the cache; blocks on the disk.
    pub(crate) fn known(&self, request: &ImageRequest, source: &Source) -> Known {
        let found = match (&request.checksum, source) {
            (Some(Checksum::Sha256(digest)), _) => Some(digest.to_ascii_lowercase()),
            (Some(Checksum::Sha512(digest)), _) => self.cache.by_sha512(&digest.to_ascii_lowercase()),
            (None, _) => match self.known_by_uri(&request.uri, source) {
                Ok(found) => found,
                Err(()) => return Known::Stale,
            },
        };
        let Some(sha256) = found else { return Known::Unknown };
        let Some(file) = self.cache.find(&sha256) else { return Known::Unknown };
        match self.local_image(request, &sha256, &file) {
            Ok(image) => Known::Ready(image),
            Err(fault) => Known::Unfit(fault),
        }
    }

    /// The digest that the URI had when it was last asked; an error where the server should be asked again.
    fn known_by_uri(&self, uri: &str, source: &Source) -> Result<Option<String>, ()> {
        let Some(entry) = self.cache.source(&source_key(uri)) else { return Ok(None) };
        match source {
            Source::Local(path) => {
                let current = copy::open(&self.options, path).and_then(|file| {
                    let metadata = file.metadata().map_err(|error| Fault::local(error.to_string()))?;
                    Ok(copy::validators(&metadata))
                });
                Ok(current.is_ok_and(|current| current == entry.validators).then_some(entry.sha256))
            }
            Source::Remote(_) => {
                let age = self.clock.now().duration_since(entry.checked_at);
                let fresh = SignedDuration::try_from(self.options.revalidate_after).is_ok_and(|limit| age < limit);
                // Without validators the question would be a whole download.
                if fresh || entry.validators.is_empty() { Ok(Some(entry.sha256)) } else { Err(()) }
            }
        }
    }

    fn local_image(&self, request: &ImageRequest, sha256: &str, file: &File) -> Result<LocalImage, Fault> {
        let unreadable = |error: std::io::Error| Fault::storage("cannot be read back", &error);
        let Content { format, virtual_size } =
            content::inspect(file, request.purpose).map_err(unreadable)?.map_err(Fault::not_an_image)?;
        let file_size = ByteSize(file.metadata().map_err(unreadable)?.len());
        Ok(LocalImage { path: self.cache.path(sha256), sha256: sha256.to_owned(), format, virtual_size, file_size })
    }

    /// Fetches, verifies and keeps. The image is then in the cache, and [`Fetcher::known`] finds it.
    pub(crate) async fn run(
        self: &Arc<Self>,
        request: &ImageRequest,
        source: &Source,
        progress: &Arc<ProgressCell>,
    ) -> Result<(), Fault> {
        let _permit = self.permit(request, progress).await?;
        let limit = self.options.fetch_timeout;
        let fetch = async {
            match source {
                Source::Local(path) => self.fetch_local(request, path.clone(), progress).await,
                Source::Remote(url) => self.fetch_remote(request, url, progress).await,
            }
        };
        let finished = timeout(limit, fetch).await;
        finished.map_err(|_| Fault::fetch(format!("was not fetched within {} s", limit.as_secs())))?
    }

    /// Leave to fetch. Only who really waits for others is told so.
    async fn permit(&self, request: &ImageRequest, progress: &ProgressCell) -> Result<SemaphorePermit<'_>, Fault> {
        if let Ok(permit) = self.permits.try_acquire() {
            return Ok(permit);
        }
        progress.begin(format!("waiting for other downloads before {}", shown(&request.uri)), None);
        self.permits.acquire().await.map_err(|_| Fault::local("the image store is closed"))
    }

    async fn fetch_local(
        self: &Arc<Self>,
        request: &ImageRequest,
        path: PathBuf,
        progress: &Arc<ProgressCell>,
    ) -> Result<(), Fault> {
        let (fetcher, progress, request) = (Arc::clone(self), Arc::clone(progress), request.clone());
        self.blocking_task(move || {
            let file = copy::open(&fetcher.options, &path)?;
            let total = file.metadata().map(|metadata| metadata.len()).ok();
            progress.begin(format!("copying {}", shown(&request.uri)), total);
            let with_sha512 = wants_sha512(&request);
            let fetched = copy::copy(file, &fetcher.cache, with_sha512, &progress, |size| fetcher.check_size(size))?;
            fetcher.keep(&request, fetched)
        })
        .await
    }

    async fn fetch_remote(
        self: &Arc<Self>,
        request: &ImageRequest,
        url: &Url,
        progress: &ProgressCell,
    ) -> Result<(), Fault> {
        let key = source_key(&request.uri);
        let known = self.known_version(request, &key).await?;
        let uri = shown(&request.uri);
        if known.is_some() {
            progress.begin(format!("asking whether {uri} has changed"), None);
        }
        let validators = known.clone().unwrap_or_default();
        match self.download(url, &validators, wants_sha512(request), progress).await {
            Ok(Outcome::Fetched(fetched)) => {
                let (fetcher, request) = (Arc::clone(self), request.clone());
                self.blocking_task(move || fetcher.keep(&request, fetched)).await
            }
            Ok(Outcome::Unchanged) => self.confirm(key).await,
            Err(fault) if known.is_some() && fault.failure == ImageFailure::FetchFailed => {
                tracing::warn!(uri, reason = fault.reason, "cannot ask for changes; the known image is used");
                self.confirm(key).await
            }
            Err(fault) => Err(fault),
        }
    }

    /// What the server said about the version in the cache, where its file is there and no digest is asked for.
    async fn known_version(self: &Arc<Self>, request: &ImageRequest, key: &str) -> Result<Option<Validators>, Fault> {
        if request.checksum.is_some() {
            return Ok(None);
        }
        let key = key.to_owned();
        let entry =
            self.blocking(move |cache| Ok(cache.source(&key).filter(|entry| cache.find(&entry.sha256).is_some())));
        Ok(entry.await?.map(|entry| entry.validators).filter(|validators| !validators.is_empty()))
    }

    async fn confirm(self: &Arc<Self>, key: String) -> Result<(), Fault> {
        let now = self.clock.now();
        self.blocking(move |cache| {
            cache.confirm_source(&key, now);
            cache.save()
        })
        .await
    }

    /// Verifies a complete file and moves it to its place; blocks on the disk.
    fn keep(&self, request: &ImageRequest, fetched: Fetched) -> Result<(), Fault> {
        let Fetched { temporary, written, validators } = fetched;
        let failed = |error: std::io::Error| Fault::storage("cannot be kept", &error);
        let content = File::open(&temporary.path).and_then(|file| content::inspect(&file, request.purpose));
        let content = content.map_err(failed)?;
        let found = match &request.checksum {
            None => None,
            Some(Checksum::Sha256(wanted)) => differs(wanted, Some(&written.sha256)),
            Some(Checksum::Sha512(wanted)) => differs(wanted, written.sha512.as_ref()),
        };
        if let Some(found) = found {
            let hint = content.err().map(|reason| format!("; it {reason}")).unwrap_or_default();
            return Err(Fault::new(ImageFailure::ChecksumMismatch, format!("has another checksum: {found}{hint}")));
        }
        content.map_err(Fault::not_an_image)?;
        let uri = shown(&request.uri);
        tracing::info!(uri, sha256 = written.sha256, size = written.size, "image fetched");
        self.cache.keep(temporary, &written).map_err(failed)?;
        let entry = SourceEntry { shown: uri, sha256: written.sha256, checked_at: self.clock.now(), validators };
        self.cache.set_source(source_key(&request.uri), entry);
        self.cache.save().map_err(failed)
    }

    /// Runs a cache operation off the async runtime.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Cache) -> std::io::Result<T> + Send + 'static,
    ) -> Result<T, Fault> {
        let cache = Arc::clone(&self.cache);
        let work = move || work(&cache).map_err(|error| Fault::storage("the image cache does not work", &error));
        self.blocking_task(work).await
    }

    async fn blocking_task<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let done = tokio::task::spawn_blocking(work).await;
        done.map_err(|error| Fault::local(format!("internal error: {error}")))?
    }
}

/// Refuses digests that no file can have.
pub(crate) fn check_checksum(checksum: Option<&Checksum>) -> Result<(), Fault> {
    let (name, digits, text) = match checksum {
        None => return Ok(()),
        Some(Checksum::Sha256(text)) => ("SHA-256", 64, text),
        Some(Checksum::Sha512(text)) => ("SHA-512", 128, text),
    };
    if text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    let reason = format!("is asked for with a {name} that has not {digits} hex digits");
    Err(Fault::new(ImageFailure::ChecksumMismatch, reason).with_retry(Retry::Never))
}

fn wants_sha512(request: &ImageRequest) -> bool {
    matches!(request.checksum, Some(Checksum::Sha512(_)))
}

/// The digest that was found, where it is not the wanted one.
fn differs(wanted: &str, found: Option<&String>) -> Option<String> {
    match found {
        Some(found) if found.eq_ignore_ascii_case(wanted) => None,
        other => Some(other.cloned().unwrap_or_default()),
    }
}
