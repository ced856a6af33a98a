//! An ordered map of entries whose clones are cheap: chunks are shared and copied only when changed while shared.

use std::sync::Arc;

use crate::model::Entry;

/// Chunks are split in two at this size. Small enough to copy in a microsecond, large enough to keep the list of
/// chunks short.
const CHUNK: usize = 64;

type Chunk = Vec<Arc<Entry>>;

/// Entries of one resource, ordered by namespace, then name.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrderedMap {
    /// Never holds an empty chunk.
    chunks: Arc<Vec<Arc<Chunk>>>,
    length: usize,
}

/// A place between entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    chunk: usize,
    offset: usize,
}

fn place(entry: &Entry) -> (&str, &str) {
    (&entry.key.namespace, &entry.key.name)
}

impl OrderedMap {
    /// Builds the map from entries that are ordered already.
    pub(crate) fn from_ordered(entries: Vec<Arc<Entry>>) -> Self {
        let length = entries.len();
        // Half full, so that the first insertions do not split every chunk.
        let chunks = entries.chunks(CHUNK / 2).map(|chunk| Arc::new(chunk.to_vec())).collect();
        Self { chunks: Arc::new(chunks), length }
    }

    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The position of the first entry for which `before` is false; entries must be partitioned by `before`.
    pub(crate) fn position(&self, before: impl Fn((&str, &str)) -> bool) -> Position {
        let chunk = self.chunks.partition_point(|chunk| chunk.last().is_some_and(|last| before(place(last))));
        let offset = self.chunks.get(chunk).map_or(0, |entries| entries.partition_point(|entry| before(place(entry))));
        Position { chunk, offset }
    }

    fn find(&self, namespace: &str, name: &str) -> (Position, Option<&Arc<Entry>>) {
        let position = self.position(|at| at < (namespace, name));
        let found = self.at(position).filter(|entry| place(entry) == (namespace, name));
        (position, found)
    }

    fn at(&self, position: Position) -> Option<&Arc<Entry>> {
        self.chunks.get(position.chunk)?.get(position.offset)
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<Entry>> {
        self.find(namespace, name).1
    }

    /// Puts the entry and returns the one it replaced.
    pub(crate) fn insert(&mut self, entry: Arc<Entry>) -> Option<Arc<Entry>> {
        let (Position { chunk, offset }, found) = self.find(&entry.key.namespace, &entry.key.name);
        let replaces = found.is_some();
        let chunks = Arc::make_mut(&mut self.chunks);
        // Past the last chunk: append to it.
        let append = chunk == chunks.len();
        let chunk = if append { chunk.saturating_sub(1) } else { chunk };
        let Some(shared) = chunks.get_mut(chunk) else {
            chunks.push(Arc::new(vec![entry]));
            self.length += 1;
            return None;
        };
        let entries = Arc::make_mut(shared);
        if replaces {
            return entries.get_mut(offset).map(|slot| std::mem::replace(slot, entry));
        }
        let offset = if append { entries.len() } else { offset };
        entries.insert(offset, entry);
        self.length += 1;
        if entries.len() >= CHUNK {
            let tail = entries.split_off(CHUNK / 2);
            chunks.insert(chunk + 1, Arc::new(tail));
        }
        None
    }

    /// Removes and returns the entry.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        let (Position { chunk, offset }, found) = self.find(namespace, name);
        found?;
        let chunks = Arc::make_mut(&mut self.chunks);
        let entries = Arc::make_mut(chunks.get_mut(chunk)?);
        let removed = entries.remove(offset);
        if entries.is_empty() {
            chunks.remove(chunk);
        }
        self.length -= 1;
        Some(removed)
    }

    /// The entries from one position to another.
    pub(crate) fn range(&self, from: Position, to: Position) -> impl Iterator<Item = &Arc<Entry>> {
        let last = to.chunk.min(self.chunks.len().saturating_sub(1));
        let chunks = self.chunks.get(from.chunk..=last).unwrap_or_default();
        chunks.iter().enumerate().flat_map(move |(index, entries)| {
            let chunk = from.chunk + index;
            let start = if chunk == from.chunk { from.offset } else { 0 };
            let end = if chunk == to.chunk { to.offset } else { entries.len() };
            entries.get(start..end).unwrap_or_default()
        })
    }

    /// How many entries lie between two positions.
    pub(crate) fn count(&self, from: Position, to: Position) -> usize {
        if from.chunk == to.chunk {
            return to.offset.saturating_sub(from.offset);
        }
        let whole: usize = self.chunks.get(from.chunk..to.chunk).unwrap_or_default().iter().map(|c| c.len()).sum();
        (whole + to.offset).saturating_sub(from.offset)
    }

    pub(crate) fn start(&self) -> Position {
        Position { chunk: 0, offset: 0 }
    }

    pub(crate) fn end(&self) -> Position {
        Position { chunk: self.chunks.len(), offset: 0 }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::model::{Index, Key};

    fn entry(namespace: u8, name: u8, revision: u64) -> Arc<Entry> {
        let key = Key::new("r", format!("n{namespace}"), format!("o{name:03}"));
        Arc::new(Entry { key, revision, value: Bytes::new(), index: Arc::new(Index::default()) })
    }

    proptest! {
        #[test]
        fn agrees_with_a_btree_and_leaves_clones_alone(
            steps in prop::collection::vec((0u8..4, any::<u8>(), prop::bool::weighted(0.6)), 0..600),
        ) {
            let mut map = OrderedMap::default();
            let mut model = BTreeMap::new();
            let mut kept = Vec::new();
            for (revision, (namespace, name, put)) in steps.into_iter().enumerate() {
                let entry = entry(namespace, name, revision as u64);
                let place = (entry.key.namespace.to_string(), entry.key.name.to_string());
                if put {
                    prop_assert_eq!(map.insert(entry.clone()), model.insert(place, entry));
                } else {
                    prop_assert_eq!(map.remove(&place.0, &place.1), model.remove(&place));
                }
                if revision % 50 == 0 {
                    kept.push((map.clone(), model.clone()));
                }
            }
            kept.push((map, model));
            for (map, model) in kept {
                let listed: Vec<_> = map.range(map.start(), map.end()).cloned().collect();
                prop_assert_eq!(map.len(), model.len());
                prop_assert_eq!(map.count(map.start(), map.end()), model.len());
                prop_assert_eq!(listed, model.into_values().collect::<Vec<_>>());
            }
        }
    }
}
