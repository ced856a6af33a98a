//! Watches: one JSON object a line, in the order of revisions, each change once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hagane_api::field::FieldError;
use hagane_store::{Entry, Event, EventKind, Watch};
use http::StatusCode;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Interval};
use tokio_util::sync::CancellationToken;

use super::list::options_error;
use super::read::{reach, revision};
use super::selection::Selection;
use crate::body::ResponseBody;
use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::negotiate::{Form, Shape};
use crate::query::Query;
use crate::registry::{Endpoint, Registry};
use crate::render::{self, Answer};
use crate::table::{Include, partial_metadata};

/// How often an idle watch is told where it is.
const BOOKMARK_PERIOD: Duration = Duration::from_secs(60);
/// Length of watches whose client does not ask for one; each gets a little more, so that not all end together.
const LENGTH: Duration = Duration::from_secs(30 * 60);
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

pub(super) async fn watch(context: &Context) -> ApiResult<Answer> {
    check_options(&context.query)?;
    let selection = Selection::of(context)?;
    let from = revision(context.query.resource_version.as_deref())?;
    reach(context, from).await?;
    let initial = context.query.send_initial_events.unwrap_or(from == 0);
    let mut stream = Stream::new(context, selection, crate::rows::include(context.query.include_object.as_deref())?);
    stream.begin(context, from, initial);
    let frames =
        futures::stream::unfold(stream, |mut stream| async move { stream.next().await.map(|frame| (frame, stream)) });
    let mut response = render::respond(StatusCode::OK, Bytes::new(), "application/json");
    *response.body_mut() = ResponseBody::stream(frames);
    Ok(response)
}

fn check_options(query: &Query) -> ApiResult<()> {
    let field = "resourceVersionMatch";
    let error = match (query.send_initial_events, query.resource_version_match.as_deref()) {
        (Some(_), Some("NotOlderThan")) | (None, None) => return Ok(()),
        (Some(_), None) => {
            FieldError::forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        }
        (Some(_), Some(other)) => FieldError::invalid(field, other, "supported values: \"NotOlderThan\""),
        (None, Some(_)) => FieldError::forbidden(
            field,
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    };
    Err(options_error(&error))
}

struct Stream {
    endpoint: Endpoint,
    form: Form,
    include: Include,
    selection: Selection,
    watch: Option<Watch>,
    queue: VecDeque<Bytes>,
    columns_sent: bool,
    bookmarks: bool,
    bookmark_timer: Interval,
    last_bookmark: u64,
    deadline: Instant,
    stopping: CancellationToken,
    registry: watch::Receiver<Arc<Registry>>,
}

impl Stream {
    fn new(context: &Context, selection: Selection, include: Include) -> Self {
        let length = match context.query.timeout_seconds {
            Some(0) | None => LENGTH + Duration::from_millis(u64::from(rand_part(LENGTH))),
            Some(seconds) => Duration::from_secs(seconds.min(24 * 3600)),
        };
        let now = Instant::now();
        Self {
            endpoint: context.endpoint.clone(),
            form: context.form,
            include,
            selection,
            watch: None,
            queue: VecDeque::new(),
            columns_sent: false,
            bookmarks: context.query.allow_bookmarks,
            bookmark_timer: tokio::time::interval_at(now + BOOKMARK_PERIOD, BOOKMARK_PERIOD),
            last_bookmark: 0,
            deadline: now + length,
            stopping: context.core.stopping.clone(),
            registry: context.core.registry_changes(),
        }
    }

    /// Queues the state so far if it is wanted, and starts listening after it.
    fn begin(&mut self, context: &Context, from: u64, initial: bool) {
        let store = &context.core.store;
        let storage = Arc::clone(&context.resource().storage);
        let namespace = context.path.namespace.clone();
        let mut from = from;
        if initial || from == 0 {
            let snapshot = store.list(&storage, namespace.as_deref());
            from = snapshot.revision;
            if initial {
                for entry in snapshot.iter() {
                    if self.selection.matches(entry) {
                        self.push("ADDED", entry);
                    }
                }
                if self.bookmarks {
                    self.push_bookmark(from, true);
                }
            }
        }
        match store.watch(storage, namespace, from) {
            Ok(watch) => self.watch = Some(watch),
            Err(compacted) => {
                let message = format!("too old resource version: {from} ({})", compacted.oldest);
                self.push_error(&ApiError::expired(message));
            }
        }
    }

    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(frame) = self.queue.pop_front() {
                return Some(frame);
            }
            let watch = self.watch.as_mut()?;
            tokio::select! {
                biased;
                () = self.stopping.cancelled() => return None,
                event = watch.next() => match event {
                    Ok(event) => self.push_event(&event),
                    // Too slow, or the store closed: the client comes again from where it was.
                    Err(_) => return None,
                },
                () = tokio::time::sleep_until(self.deadline) => {
                    let at = watch.progress();
                    self.watch = None;
                    if self.bookmarks && at > self.last_bookmark {
                        self.push_bookmark(at, false);
                    }
                }
                _ = self.bookmark_timer.tick(), if self.bookmarks => {
                    let at = watch.progress();
                    self.push_bookmark(at, false);
                }
                changed = self.registry.changed() => {
                    if changed.is_err() || self.is_redefined() {
                        return None;
                    }
                }
            }
        }
    }

    /// Whether the kind is no longer what it was when the watch began.
    fn is_redefined(&mut self) -> bool {
        let registry = self.registry.borrow_and_update();
        let resource = &self.endpoint.resource;
        registry
            .find(&resource.group, &resource.plural)
            .is_none_or(|now| !Arc::ptr_eq(now, resource) && now.schema_since != resource.schema_since)
    }

    fn push_event(&mut self, event: &Event) {
        let now = event.kind != EventKind::Deleted && self.selection.matches(&event.entry);
        let before = event.previous.as_ref().is_some_and(|previous| self.selection.matches(previous));
        match (before, now) {
            (false, true) => self.push("ADDED", &event.entry),
            (true, true) => self.push("MODIFIED", &event.entry),
            (true, false) => {
                // The last state that was selected, at the revision of the change.
                let last = event.previous.as_deref().unwrap_or(&event.entry);
                let gone = Entry { revision: event.revision, ..last.clone() };
                self.push("DELETED", &gone);
            }
            (false, false) => {}
        }
    }

    fn push(&mut self, r#type: &str, entry: &Entry) {
        match self.frame(r#type, entry) {
            Ok(frame) => self.queue.push_back(frame),
            Err(error) => self.push_error(&error),
        }
    }

    fn frame(&mut self, r#type: &str, entry: &Entry) -> ApiResult<Bytes> {
        let mut out = BytesMut::with_capacity(entry.value.len() + 96);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(r#type.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        match self.form.shape {
            Shape::Object => render::write_object(&self.endpoint, entry, &mut out)?,
            _ => {
                let object = render::versioned(&self.endpoint, entry)?;
                let shown = self.shaped(object);
                out.extend_from_slice(shown.to_string().as_bytes());
            }
        }
        out.extend_from_slice(b"}\n");
        Ok(out.freeze())
    }

    fn shaped(&mut self, object: Value) -> Value {
        match self.form.shape {
            Shape::Object => object,
            Shape::Metadata { beta } => partial_metadata(&object, beta),
            Shape::Table { beta } => {
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let mut metadata = Map::new();
                if let Some(version) = object.pointer("/metadata/resourceVersion") {
                    metadata.insert("resourceVersion".to_owned(), version.clone());
                }
                crate::rows::table(&self.endpoint, self.include, &[object], metadata, beta, columns)
            }
        }
    }

    fn push_bookmark(&mut self, revision: u64, initial_end: bool) {
        self.last_bookmark = revision;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({INITIAL_EVENTS_END: "true"});
        }
        let object = json!({
            "kind": self.endpoint.resource.kind, "apiVersion": self.endpoint.api_version(), "metadata": metadata,
        });
        let shown = self.shaped(object);
        self.queue.push_back(format!("{}\n", json!({"type": "BOOKMARK", "object": shown})).into());
    }

    fn push_error(&mut self, error: &ApiError) {
        self.watch = None;
        self.queue.push_back(format!("{}\n", json!({"type": "ERROR", "object": error.to_status()})).into());
    }
}

/// A part of `of`, different for each watch, in milliseconds.
fn rand_part(of: Duration) -> u32 {
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    u32::try_from(u128::from(high) % of.as_millis().max(1)).unwrap_or(0)
}
