//! Everything in memory: current entries, recent events and the lookups by uid and owner.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use tokio::sync::watch;

use crate::error::Compacted;
use crate::map::OrderedMap;
use crate::model::{Entry, Event, EventKind, Index, Key};
use crate::snapshot::Snapshot;

/// How many recent events a resource keeps for watches and old lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingLimits {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// A change that is stored and now becomes visible.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) key: Key,
    pub(crate) revision: u64,
    /// None for a delete.
    pub(crate) value: Option<(Bytes, Arc<Index>)>,
}

/// Recent events of one resource, oldest first. Every event after `floor` is in it.
#[derive(Debug)]
struct Ring {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    floor: u64,
}

impl Ring {
    fn push(&mut self, event: Arc<Event>, limits: RingLimits) {
        self.bytes += event.entry.value.len();
        self.events.push_back(event);
        while self.events.len() > limits.events || (self.bytes > limits.bytes && self.events.len() > 1) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(event) = self.events.pop_front() {
            self.bytes -= event.entry.value.len();
            self.floor = self.floor.max(event.revision);
        }
    }

    fn compact(&mut self, revision: u64) {
        while self.events.front().is_some_and(|event| event.revision <= revision) {
            self.drop_oldest();
        }
        self.floor = self.floor.max(revision);
    }

    fn after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|event| event.revision <= revision);
        self.events.range(start..)
    }
}

#[derive(Debug)]
pub(crate) struct Resource {
    entries: OrderedMap,
    ring: Ring,
    /// Carries the revision of the last event of this resource.
    changed: watch::Sender<u64>,
}

impl Resource {
    fn new(entries: OrderedMap, floor: u64) -> Self {
        let ring = Ring { events: VecDeque::new(), bytes: 0, floor };
        Self { entries, ring, changed: watch::Sender::new(0) }
    }
}

/// What one look into a ring gave.
pub(crate) struct Batch {
    pub(crate) events: Vec<Arc<Event>>,
    /// Everything up to this revision is in `events` or was not wanted.
    pub(crate) through: u64,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) revision: u64,
    pub(crate) compacted: u64,
    pub(crate) closed: bool,
    /// Events up to this revision are unknown for resources without a ring.
    floor: u64,
    limits: RingLimits,
    resources: HashMap<Arc<str>, Resource>,
    owned: HashMap<Arc<str>, BTreeSet<Key>>,
    uids: HashMap<Arc<str>, Key>,
}

impl State {
    pub(crate) fn new(revision: u64, compacted: u64, floor: u64, limits: RingLimits) -> Self {
        Self {
            revision,
            compacted,
            closed: false,
            floor: floor.max(compacted),
            limits,
            resources: HashMap::new(),
            owned: HashMap::new(),
            uids: HashMap::new(),
        }
    }

    /// Takes over the entries of one resource, already ordered; for loading only.
    pub(crate) fn load(&mut self, resource: &Arc<str>, entries: Vec<Arc<Entry>>) {
        for entry in &entries {
            self.learn(entry);
        }
        let loaded = Resource::new(OrderedMap::from_ordered(entries), self.floor);
        self.resources.insert(resource.clone(), loaded);
    }

    /// Says that every event after `floor` is about to be loaded.
    pub(crate) fn lower_floor(&mut self, floor: u64) {
        self.floor = self.floor.min(floor);
        for resource in self.resources.values_mut() {
            resource.ring.floor = self.floor;
        }
    }

    /// Takes over an event of the past; for loading only, oldest first.
    pub(crate) fn load_event(&mut self, event: Event) {
        let limits = self.limits;
        let resource = event.entry.key.resource.clone();
        self.resource(&resource).ring.push(Arc::new(event), limits);
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Entry>> {
        self.resources.get(&key.resource)?.entries.get(&key.namespace, &key.name)
    }

    pub(crate) fn resources(&self) -> Vec<Arc<str>> {
        let filled = self.resources.iter().filter(|(_, resource)| resource.entries.len() > 0);
        let mut names: Vec<_> = filled.map(|(name, _)| name.clone()).collect();
        names.sort_unstable();
        names
    }

    pub(crate) fn by_owner(&self, uid: &str) -> Vec<Arc<Entry>> {
        let keys = self.owned.get(uid).into_iter().flatten();
        keys.filter_map(|key| self.get(key)).cloned().collect()
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<Arc<Entry>> {
        self.get(self.uids.get(uid)?).cloned()
    }

    pub(crate) fn list(&self, resource: &str, namespace: Option<&str>) -> Snapshot {
        let entries = self.resources.get(resource).map(|found| found.entries.clone()).unwrap_or_default();
        Snapshot::new(self.revision, entries, namespace)
    }

    /// The list as it was at `revision`, by undoing the events since.
    pub(crate) fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        revision: u64,
    ) -> Result<Snapshot, Compacted> {
        if revision >= self.revision {
            return Ok(self.list(resource, namespace));
        }
        let Some(found) = self.resources.get(resource) else {
            self.check(revision, self.floor)?;
            return Ok(Snapshot::new(revision, OrderedMap::default(), namespace));
        };
        self.check(revision, found.ring.floor)?;
        let mut entries = found.entries.clone();
        for event in found.ring.after(revision).rev() {
            match &event.previous {
                Some(previous) => drop(entries.insert(previous.clone())),
                None => drop(entries.remove(&event.entry.key.namespace, &event.entry.key.name)),
            }
        }
        Ok(Snapshot::new(revision, entries, namespace))
    }

    fn check(&self, requested: u64, floor: u64) -> Result<(), Compacted> {
        let oldest = floor.max(self.compacted);
        if requested < oldest { Err(Compacted { requested, oldest }) } else { Ok(()) }
    }

    /// Subscribes to the changes of a resource after `from`.
    pub(crate) fn subscribe(&mut self, resource: &Arc<str>, from: u64) -> Result<watch::Receiver<u64>, Compacted> {
        let floor = self.resource(resource).ring.floor;
        self.check(from, floor)?;
        Ok(self.resource(resource).changed.subscribe())
    }

    /// Up to `limit` wanted events after `cursor`; none if events after `cursor` are gone.
    pub(crate) fn events(
        &self,
        resource: &str,
        cursor: u64,
        limit: usize,
        wanted: impl Fn(&Event) -> bool,
    ) -> Option<Batch> {
        let Some(found) = self.resources.get(resource) else {
            return Some(Batch { events: Vec::new(), through: self.revision });
        };
        if cursor < found.ring.floor {
            return None;
        }
        let mut batch = Batch { events: Vec::new(), through: self.revision.max(cursor) };
        for event in found.ring.after(cursor).filter(|event| wanted(event)) {
            batch.events.push(event.clone());
            if batch.events.len() == limit {
                batch.through = event.revision;
                break;
            }
        }
        Some(batch)
    }

    /// Makes a change visible and returns whom to tell.
    pub(crate) fn apply(&mut self, change: Change) -> Option<watch::Sender<u64>> {
        let Change { key, revision, value } = change;
        self.revision = self.revision.max(revision);
        let limits = self.limits;
        let resource = self.resource(&key.resource);
        let (kind, entry, previous) = match value {
            Some((value, index)) => {
                let entry = Arc::new(Entry { key, revision, value, index });
                let previous = resource.entries.insert(entry.clone());
                let kind = if previous.is_some() { EventKind::Modified } else { EventKind::Added };
                (kind, entry, previous)
            }
            None => {
                let previous = resource.entries.remove(&key.namespace, &key.name)?;
                let last = Entry { revision, ..Entry::clone(&previous) };
                (EventKind::Deleted, Arc::new(last), Some(previous))
            }
        };
        let event = Event { kind, entry: entry.clone(), previous: previous.clone(), revision };
        resource.ring.push(Arc::new(event), limits);
        let changed = resource.changed.clone();
        if let Some(previous) = &previous {
            self.forget(previous);
        }
        if kind != EventKind::Deleted {
            self.learn(&entry);
        }
        Some(changed)
    }

    pub(crate) fn compact(&mut self, revision: u64) {
        self.compacted = self.compacted.max(revision);
        self.floor = self.floor.max(revision);
        for resource in self.resources.values_mut() {
            resource.ring.compact(revision);
        }
    }

    /// Marks the state closed and returns everyone to tell.
    pub(crate) fn close(&mut self) -> Vec<watch::Sender<u64>> {
        self.closed = true;
        self.resources.values().map(|resource| resource.changed.clone()).collect()
    }

    fn resource(&mut self, name: &Arc<str>) -> &mut Resource {
        let floor = self.floor;
        self.resources.entry(name.clone()).or_insert_with(|| Resource::new(OrderedMap::default(), floor))
    }

    fn learn(&mut self, entry: &Entry) {
        for owner in &entry.index.owner_uids {
            self.owned.entry(owner.clone()).or_default().insert(entry.key.clone());
        }
        if !entry.index.uid.is_empty() {
            self.uids.insert(entry.index.uid.clone(), entry.key.clone());
        }
    }

    fn forget(&mut self, entry: &Entry) {
        for owner in &entry.index.owner_uids {
            if let Some(keys) = self.owned.get_mut(owner) {
                keys.remove(&entry.key);
                if keys.is_empty() {
                    self.owned.remove(owner);
                }
            }
        }
        if self.uids.get(&entry.index.uid) == Some(&entry.key) {
            self.uids.remove(&entry.index.uid);
        }
    }
}

/// The state as the writer, the readers and the watches share it.
#[derive(Debug)]
pub(crate) struct Shared {
    state: RwLock<State>,
    /// Carries the revision of the store.
    pub(crate) revision: watch::Sender<u64>,
}

impl Shared {
    pub(crate) fn new(state: State) -> Self {
        let revision = watch::Sender::new(state.revision);
        Self { state: RwLock::new(state), revision }
    }

    // Nothing under the lock can panic half way through a change, so a poisoned lock holds a sound state.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes changes visible, all at once, then wakes whoever waits for them.
    pub(crate) fn apply(&self, changes: impl IntoIterator<Item = Change>) {
        let mut woken = Vec::new();
        let revision = {
            let mut state = self.write();
            woken.extend(changes.into_iter().filter_map(|change| state.apply(change)));
            state.revision
        };
        for sender in woken {
            sender.send_replace(revision);
        }
        self.revision.send_replace(revision);
    }

    pub(crate) fn close(&self) {
        let woken = self.write().close();
        for sender in woken {
            sender.send_modify(|_| ());
        }
        self.revision.send_modify(|_| ());
    }
}
