//! The words of the store: keys, entries, writes and events.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

/// Where a value lives.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The kind of thing, such as `group/plural`; each has its own order, lists and watches.
    pub resource: Arc<str>,
    /// The namespace; empty for things that have none.
    pub namespace: Arc<str>,
    /// The name within the namespace.
    pub name: Arc<str>,
}

impl Key {
    /// A key from its parts; `namespace` is empty for things that have none.
    pub fn new(resource: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.as_ref() {
            "" => write!(formatter, "{} {}", self.resource, self.name),
            namespace => write!(formatter, "{} {namespace}/{}", self.resource, self.name),
        }
    }
}

/// What the caller found in a value, kept beside it so that selecting never parses the value again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Identity over the life of one object; empty when it has none.
    pub uid: Arc<str>,
    /// Labels, in any order.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
    /// The uids of the owners, for [`Store::by_owner`](crate::Store::by_owner).
    pub owner_uids: Vec<Arc<str>>,
    /// Other fields that can be selected by.
    pub fields: Vec<(Arc<str>, Arc<str>)>,
}

/// A value with its place and revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where the value lives.
    pub key: Key,
    /// The revision that wrote the value. In the event of a delete: the revision of the delete.
    pub revision: u64,
    /// The value as it was given.
    pub value: Bytes,
    /// What was found in the value.
    pub index: Arc<Index>,
}

/// What a write expects to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// Nothing at the key.
    Absent,
    /// A value last written by this revision.
    Revision(u64),
    /// For a put: anything or nothing. For a delete: any value.
    Any,
}

/// One change of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Sets the value.
    Put {
        /// Where.
        key: Key,
        /// The new value.
        value: Bytes,
        /// What is to be found in the value.
        index: Index,
        /// The precondition.
        expect: Expect,
    },
    /// Removes the value; a conflict if there is none.
    Delete {
        /// Where.
        key: Key,
        /// The precondition.
        expect: Expect,
    },
}

impl Write {
    /// Where the write goes.
    #[must_use]
    pub fn key(&self) -> &Key {
        match self {
            Self::Put { key, .. } | Self::Delete { key, .. } => key,
        }
    }
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A value where none was.
    Added,
    /// Another value.
    Modified,
    /// The value is gone.
    Deleted,
}

/// One change, as watches report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The new entry; for `Deleted` the last value under the revision of the delete.
    pub entry: Arc<Entry>,
    /// The entry before, as it was; none for `Added`.
    pub previous: Option<Arc<Entry>>,
    /// The revision of the change, equal to `entry.revision`.
    pub revision: u64,
}
