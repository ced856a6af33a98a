//! A consistent view of the entries of one resource.

use std::sync::Arc;

use crate::map::{OrderedMap, Position};
use crate::model::Entry;

/// The entries of one resource at one revision, in the order of namespace, then name. Cheap to make and to keep.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The revision of the store at which this was true.
    pub revision: u64,
    entries: OrderedMap,
    start: Position,
    end: Position,
}

impl Snapshot {
    pub(crate) fn new(revision: u64, entries: OrderedMap, namespace: Option<&str>) -> Self {
        let (start, end) = match namespace {
            None => (entries.start(), entries.end()),
            Some(wanted) => (entries.position(|at| at.0 < wanted), entries.position(|at| at.0 <= wanted)),
        };
        Self { revision, entries, start, end }
    }

    /// All entries, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.range(self.start, self.end)
    }

    /// The entries that come after this place, in order; an entry at the place itself is left out.
    pub fn after(&self, namespace: &str, name: &str) -> impl Iterator<Item = &Arc<Entry>> {
        let from = self.entries.position(|at| at <= (namespace, name));
        // A place before the namespace of the snapshot means: from its beginning.
        self.entries.range(from.max(self.start), self.end)
    }

    /// The entry of this name.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Entry>> {
        self.entries.get(namespace, name)
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.count(self.start, self.end)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
