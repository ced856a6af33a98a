//! A revisioned key-value log on SQLite: atomic commits with compare-and-swap, consistent lists, ordered watches and
//! compaction.
//!
//! One thread owns the database and groups whatever commits are waiting into one synced transaction. All current
//! values are in memory, so reads never touch the disk; memory changes before the committer is answered.
//!
//! This crate does not know HTTP, JSON or Kubernetes: values are bytes, and what is to be found in them comes as an
//! [`Index`] from the caller.
#![warn(missing_docs)]

mod database;
mod error;
mod map;
mod migrations;
mod model;
mod snapshot;
mod state;
mod store;
mod watch;
mod writer;

pub use error::{CommitError, Compacted, OpenError, WatchError};
pub use model::{Entry, Event, EventKind, Expect, Index, Key, Write};
pub use snapshot::Snapshot;
pub use store::{Durability, Keep, Options, Store};
pub use watch::Watch;
