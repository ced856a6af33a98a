//! What a kind must bring to get a control loop.

use std::sync::Arc;

use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::cache::{Caches, Change};
use super::error::PassError;
use super::object::Seen;
use super::queue::Waker;
use super::record::Recorder;
use super::resource::{ObjectKey, Resource};
use super::schedule::Next;
use crate::Context;

/// Maps a change of another object to the keys that it concerns.
pub type Mapping = Arc<dyn Fn(&Change<'_>, &Caches) -> Vec<ObjectKey> + Send + Sync>;

/// A kind that wakes a controller although it is not its own.
pub struct Watch {
    /// The kind.
    pub resource: Resource,
    /// Which keys a change concerns; an empty list for changes that do not matter.
    pub concerns: Mapping,
}

impl Watch {
    /// A watch with its mapping.
    pub fn new(
        resource: Resource,
        concerns: impl Fn(&Change<'_>, &Caches) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        Self { resource, concerns: Arc::new(concerns) }
    }
}

/// One pass: what it may use.
pub struct Pass {
    /// Client, ports, settings.
    pub context: Context,
    /// What the API holds, as last seen.
    pub caches: Caches,
    /// The time of this pass.
    pub now: Timestamp,
    /// How often this key failed in a row before.
    pub failures: u32,
}

impl Pass {
    /// A writer for the object of this pass.
    #[must_use]
    pub fn recorder<S, T>(&self, seen: &Seen<S, T>) -> Recorder {
        Recorder::new(&self.context.client, seen, self.now)
    }
}

/// A control loop over one kind (or one kind in two spellings).
///
/// The runtime enters a pass only for an object that is there, is readable, is not paused and carries
/// [`Controller::finalizer`]; it catches panics, limits the time, and turns [`Next`] into the next wake.
#[async_trait]
pub trait Controller: Send + Sync + 'static {
    /// Spec of the kind.
    type Spec: DeserializeOwned + Default + Send + Sync;
    /// Status of the kind.
    type Status: DeserializeOwned + Serialize + Default + Send + Sync;

    /// Name for `--controllers`, logs and counters: the kind in lower case.
    fn name(&self) -> &'static str;

    /// The resources whose objects are the keys.
    fn resources(&self) -> Vec<Resource>;

    /// Finalizer that the runtime adds before the first pass; the controller removes it when nothing is left.
    fn finalizer(&self) -> Option<&'static str>;

    /// Annotations that pause an object, beside [`hagane_api::keys::PAUSED_ANNOTATION`].
    fn pause_annotations(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether the status of the kind has `conditions` in which the runtime may record faults.
    fn has_conditions(&self) -> bool {
        true
    }

    /// Whether a change of an own object asks for a pass. Changes of the status alone do not: they are our own writes.
    fn own_change_matters(&self, change: &Change<'_>) -> bool {
        change.beyond_status()
    }

    /// Other kinds that wake this controller.
    fn watches(&self) -> Vec<Watch> {
        Vec::new()
    }

    /// Tasks that wake keys for reasons outside the API. They run until shutdown.
    fn sources(&self, _context: &Context, _caches: &Caches, _waker: &Waker) -> Vec<BoxFuture<'static, ()>> {
        Vec::new()
    }

    /// One pass: observe, decide, act, record.
    ///
    /// # Errors
    /// [`PassError`] where our own API fails; facts about the world are recorded instead.
    async fn reconcile(&self, seen: Seen<Self::Spec, Self::Status>, pass: &Pass) -> Result<Next, PassError>;
}

/// Whether an object carries an annotation that pauses it.
pub(crate) fn pause_annotation<C: Controller>(controller: &C, object: &DynamicObject) -> Option<&'static str> {
    let annotations = object.metadata.annotations.as_ref()?;
    let known = std::iter::once(&hagane_api::keys::PAUSED_ANNOTATION).chain(controller.pause_annotations());
    known.copied().find(|name| annotations.contains_key(*name))
}
