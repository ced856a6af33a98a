//! The port's implementation: which requests are running, waiting or answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{Clock, ImageRequest, ImageSource, ImageState};
use jiff::Timestamp;
use tokio::time::Instant;

use crate::fault::Fault;
use crate::fetch::{Fetcher, Known, check_checksum};
use crate::progress::ProgressCell;
use crate::uri::{Source, shown};
use crate::{ImageOptions, OpenError, backoff};

/// From so many remembered requests on, old failures are forgotten.
const SLOTS_MAX: usize = 1024;
/// A failure nobody asked about for so long is forgotten then.
const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// Fetches, verifies and keeps images. Clones share everything.
#[derive(Clone)]
pub struct ImageStore {
    fetcher: Arc<Fetcher>,
    slots: Arc<Mutex<HashMap<ImageRequest, Slot>>>,
}

/// A request that is not simply answered from the cache.
enum Slot {
    Running { progress: Arc<ProgressCell>, failures: u32, asked: Instant },
    Failed { fault: Fault, failures: u32, at: Timestamp, wait: Option<Duration> },
}

impl ImageStore {
    /// Opens the cache directory: takes its lock, clears what a dead run left, and reads what is there.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(options: ImageOptions, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        let opened = tokio::task::spawn_blocking(move || Fetcher::open(options, clock)).await;
        let fetcher = opened.map_err(|error| OpenError::Client { source: Box::new(error) })??;
        Ok(Self { fetcher: Arc::new(fetcher), slots: Arc::default() })
    }

    /// The answer for a request that runs or whose failure is not over; nothing where more must be looked at.
    fn pending(&self, request: &ImageRequest) -> Option<ImageState> {
        match self.lock().get_mut(request)? {
            Slot::Running { progress, asked, .. } => {
                *asked = Instant::now();
                Some(ImageState::Fetching(progress.read()))
            }
            Slot::Failed { fault, at, wait, .. } => {
                let left = match wait {
                    None => None,
                    Some(wait) => {
                        // A clock that was set back must not prolong the wait.
                        let passed = self.fetcher.clock.now().duration_since(*at);
                        let passed = Duration::try_from(passed).unwrap_or(Duration::ZERO);
                        Some(wait.checked_sub(passed).filter(|left| !left.is_zero())?)
                    }
                };
                Some(failed_state(request, fault, left))
            }
        }
    }

    /// Records a failure and says when the next attempt may start.
    fn fail(&self, request: &ImageRequest, fault: Fault) -> ImageState {
        let mut slots = self.lock();
        let failures = match slots.get(request) {
            Some(Slot::Running { failures, .. } | Slot::Failed { failures, .. }) => failures.saturating_add(1),
            None => 1,
        };
        let wait = backoff::delay(fault.retry, failures);
        let state = failed_state(request, &fault, wait);
        tracing::warn!(uri = shown(&request.uri), reason = fault.reason, failures, "no image");
        slots.insert(request.clone(), Slot::Failed { fault, failures, at: self.fetcher.clock.now(), wait });
        self.forget_old(&mut slots);
        state
    }

    fn forget_old(&self, slots: &mut HashMap<ImageRequest, Slot>) {
        if slots.len() <= SLOTS_MAX {
            return;
        }
        let now = self.fetcher.clock.now();
        slots.retain(|_, slot| match slot {
            Slot::Running { .. } => true,
            Slot::Failed { at, .. } => Duration::try_from(now.duration_since(*at)).is_ok_and(|age| age < FORGET_AFTER),
        });
    }

    /// Starts a fetch in the background unless one is running.
    fn start(&self, request: &ImageRequest, source: Source) -> ImageState {
        let progress = {
            let mut slots = self.lock();
            let failures = match slots.get(request) {
                Some(Slot::Running { progress, .. }) => return ImageState::Fetching(progress.read()),
                Some(Slot::Failed { failures, .. }) => *failures,
                None => 0,
            };
            let waiting = format!("about to fetch {}", shown(&request.uri));
            let progress = Arc::new(ProgressCell::new(waiting));
            let running = Slot::Running { progress: Arc::clone(&progress), failures, asked: Instant::now() };
            slots.insert(request.clone(), running);
            progress
        };
        let state = ImageState::Fetching(progress.read());
        let (store, request) = (self.clone(), request.clone());
        tokio::spawn(async move {
            let (fetcher, wanted) = (Arc::clone(&store.fetcher), request.clone());
            // A task of its own: should it panic, the request must not stay "running" for ever.
            let mut fetch = tokio::spawn(async move { fetcher.run(&wanted, &source, &progress).await });
            let ended = tokio::select! {
                ended = &mut fetch => ended,
                () = store.abandoned(&request) => {
                    tracing::info!(uri = shown(&request.uri), "nobody asks for the image any more");
                    fetch.abort();
                    store.lock().remove(&request);
                    return;
                }
            };
            match ended {
                Ok(Ok(())) => {
                    store.lock().remove(&request);
                }
                Ok(Err(fault)) => {
                    store.fail(&request, fault);
                }
                Err(error) => {
                    store.fail(&request, Fault::local(format!("internal error: {error}")));
                }
            }
        });
        state
    }

    /// Waits until nobody has asked about a running fetch for long.
    async fn abandoned(&self, request: &ImageRequest) {
        let limit = self.fetcher.options.abandon_after;
        loop {
            let asked = match self.lock().get(request) {
                Some(Slot::Running { asked, .. }) => *asked,
                _ => Instant::now(),
            };
            if asked.elapsed() >= limit {
                return;
            }
            tokio::time::sleep_until(asked + limit).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ImageRequest, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ImageSource for ImageStore {
    async fn ensure(&self, request: &ImageRequest) -> ImageState {
        if let Some(state) = self.pending(request) {
            return state;
        }
        let source = match Source::parse(&request.uri).and_then(|source| {
            check_checksum(request.checksum.as_ref())?;
            Ok(source)
        }) {
            Ok(source) => source,
            // Known for good at a glance: nothing to remember.
            Err(fault) => return failed_state(request, &fault, None),
        };
        let (fetcher, wanted, place) = (Arc::clone(&self.fetcher), request.clone(), source.clone());
        match tokio::task::spawn_blocking(move || fetcher.known(&wanted, &place)).await {
            Ok(Known::Ready(image)) => {
                self.lock().remove(request);
                ImageState::Ready(image)
            }
            Ok(Known::Unfit(fault)) => self.fail(request, fault),
            Ok(Known::Stale | Known::Unknown) => self.start(request, source),
            Err(error) => self.fail(request, Fault::local(format!("internal error: {error}"))),
        }
    }
}

fn failed_state(request: &ImageRequest, fault: &Fault, retry_after: Option<Duration>) -> ImageState {
    let message = format!("{} {}", shown(&request.uri), fault.reason);
    // One line, whatever a server put into its headers.
    let message = message.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    ImageState::Failed { failure: fault.failure, message, retry_after }
}
