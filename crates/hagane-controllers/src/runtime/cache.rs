//! One reflector a kind, shared by all controllers: what the API holds, and who wants to hear of changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use kube::api::{Api, DynamicObject};
use kube::runtime::reflector::store::Writer;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::watcher::{self, Config, Event};
use kube::runtime::{WatchStreamExt as _, watcher::watcher};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::sync::watch;
use tracing::{debug, warn};

use super::resource::{ObjectKey, Resource};

/// A change of one object, as the cache saw it. At least one side is there.
pub struct Change<'a> {
    /// Which object.
    pub key: &'a ObjectKey,
    /// The object before; nothing where it is new to the cache.
    pub old: Option<&'a DynamicObject>,
    /// The object now; nothing where it is gone.
    pub new: Option<&'a DynamicObject>,
}

impl Change<'_> {
    /// The newest form there is.
    #[must_use]
    pub fn object(&self) -> Option<&DynamicObject> {
        self.new.or(self.old)
    }

    /// False where nothing but the status (and bookkeeping of the API server) differs.
    #[must_use]
    pub fn beyond_status(&self) -> bool {
        let (Some(old), Some(new)) = (self.old, self.new) else { return true };
        let meta = |object: &DynamicObject| {
            let meta = &object.metadata;
            (meta.uid.clone(), meta.labels.clone(), meta.annotations.clone(), meta.finalizers.clone())
        };
        let deletion = |object: &DynamicObject| object.metadata.deletion_timestamp.is_some();
        let content = |object: &DynamicObject| {
            object.data.as_object().map(|fields| {
                let kept = fields.iter().filter(|(name, _)| *name != "status");
                kept.map(|(name, value)| (name.clone(), value.clone())).collect::<BTreeMap<_, _>>()
            })
        };
        deletion(old) != deletion(new) || meta(old) != meta(new) || content(old) != content(new)
    }
}

/// Hears of changes; called on the cache's task, so it must be quick and never block.
pub(crate) type Listener = Box<dyn Fn(&Change<'_>) + Send + Sync>;

/// Read access to every watched kind.
#[derive(Clone, Default)]
pub struct Caches {
    kinds: Arc<BTreeMap<Resource, Kind>>,
}

struct Kind {
    store: Store<DynamicObject>,
    /// Whether it was listed once. The store's own signal wakes only one of several waiters.
    listed: watch::Receiver<bool>,
}

impl Caches {
    /// The object, as last seen.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<DynamicObject>> {
        self.kinds.get(&key.resource)?.store.get(&reference(key))
    }

    /// Every object of a kind in one namespace, by name. Empty where the kind is not watched.
    #[must_use]
    pub fn list(&self, resource: Resource, namespace: &str) -> Vec<Arc<DynamicObject>> {
        let mut found = self.list_all(resource);
        found.retain(|object| object.metadata.namespace.as_deref() == Some(namespace));
        found
    }

    /// Every object of a kind, by namespace and name. Empty where the kind is not watched.
    #[must_use]
    pub fn list_all(&self, resource: Resource) -> Vec<Arc<DynamicObject>> {
        let mut found = self.kinds.get(&resource).map(|kind| kind.store.state()).unwrap_or_default();
        found.sort_by_cached_key(|object| (object.namespace(), object.name_any()));
        found
    }

    /// Waits until each of `resources` was listed once.
    pub(crate) async fn ready(&self, resources: &[Resource]) {
        for kind in resources.iter().filter_map(|resource| self.kinds.get(resource)) {
            // The sender lives as long as the engine; when it is dropped nobody waits any more.
            let _ = kind.listed.clone().wait_for(|listed| *listed).await;
        }
    }
}

fn reference(key: &ObjectKey) -> ObjectRef<DynamicObject> {
    ObjectRef::new_with(&key.name, key.resource.api_resource()).within(&key.namespace)
}

/// The writing side: collects listeners first, then watches.
#[derive(Default)]
pub(crate) struct CacheBuilder {
    kinds: BTreeMap<Resource, Vec<Listener>>,
}

/// What one watch task works with.
pub(crate) struct KindWatch {
    resource: Resource,
    writer: Writer<DynamicObject>,
    store: Store<DynamicObject>,
    listed: watch::Sender<bool>,
    listeners: Vec<Listener>,
    served: bool,
}

impl CacheBuilder {
    pub(crate) fn listen(&mut self, resource: Resource, listener: Listener) {
        self.kinds.entry(resource).or_default().push(listener);
    }

    pub(crate) fn build(self) -> (Caches, Vec<KindWatch>) {
        let mut kinds = BTreeMap::new();
        let mut watches = Vec::new();
        for (resource, listeners) in self.kinds {
            let writer = Writer::new(resource.api_resource());
            let store = writer.as_reader();
            let (listed, receiver) = watch::channel(false);
            kinds.insert(resource, Kind { store: store.clone(), listed: receiver });
            watches.push(KindWatch { resource, writer, store, listed, listeners, served: true });
        }
        (Caches { kinds: Arc::new(kinds) }, watches)
    }
}

impl KindWatch {
    /// Follows the kind for ever.
    pub(crate) async fn run(mut self, client: Client) {
        let api: Api<DynamicObject> = Api::all_with(client, &self.resource.api_resource());
        let mut stream = std::pin::pin!(watcher(api, Config::default()).default_backoff());
        let mut before = BTreeMap::new();
        while let Some(event) = stream.next().await {
            match event {
                Ok(event) => self.apply(event.modify(|object| trim(self.resource, object)), &mut before),
                Err(error) => self.failed(&error),
            }
        }
    }

    fn apply(&mut self, event: Event<DynamicObject>, before: &mut BTreeMap<ObjectKey, Arc<DynamicObject>>) {
        self.served = true;
        match &event {
            Event::Apply(object) => {
                let key = ObjectKey::of(self.resource, object);
                let old = self.store.get(&reference(&key));
                self.writer.apply_watcher_event(&event);
                self.tell(&Change { key: &key, old: old.as_deref(), new: Some(object) });
            }
            Event::Delete(object) => {
                let key = ObjectKey::of(self.resource, object);
                self.writer.apply_watcher_event(&event);
                self.tell(&Change { key: &key, old: Some(object), new: None });
            }
            Event::Init => {
                *before = self.snapshot();
                self.writer.apply_watcher_event(&event);
            }
            Event::InitApply(_) => self.writer.apply_watcher_event(&event),
            Event::InitDone => {
                self.writer.apply_watcher_event(&event);
                self.listed.send_replace(true);
                let mut gone = std::mem::take(before);
                for (key, object) in self.snapshot() {
                    let old = gone.remove(&key);
                    self.tell(&Change { key: &key, old: old.as_deref(), new: Some(&object) });
                }
                for (key, object) in &gone {
                    self.tell(&Change { key, old: Some(object), new: None });
                }
            }
        }
    }

    fn snapshot(&self) -> BTreeMap<ObjectKey, Arc<DynamicObject>> {
        self.store.state().into_iter().map(|object| (ObjectKey::of(self.resource, &object), object)).collect()
    }

    fn tell(&self, change: &Change<'_>) {
        for listener in &self.listeners {
            listener(change);
        }
    }

    /// A kind that this server does not serve counts as empty, so that nobody waits for it.
    fn failed(&mut self, error: &watcher::Error) {
        let resource = self.resource;
        let not_served =
            matches!(error, watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 404);
        if !not_served {
            warn!(plural = resource.plural, group = resource.group, error = %error, "watch failed; trying again");
            return;
        }
        if std::mem::replace(&mut self.served, false) {
            debug!(plural = resource.plural, group = resource.group, "kind is not served here");
            self.writer.apply_watcher_event(&Event::Init);
            self.writer.apply_watcher_event(&Event::InitDone);
            self.listed.send_replace(true);
        }
    }
}

/// Keeps memory small, and secret values out of it.
fn trim(resource: Resource, object: &mut DynamicObject) {
    object.metadata.managed_fields = None;
    if resource == Resource::SECRETS {
        object.data = Value::Null;
        if let Some(annotations) = &mut object.metadata.annotations {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
}
