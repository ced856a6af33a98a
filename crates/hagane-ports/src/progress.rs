//! How far a piece of slow work has come.

use serde::{Deserialize, Serialize};

/// What is being done and how far it is. Shown in conditions, by the CLI and in events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// What is being waited for, as a short phrase ("downloading http://…").
    pub what: String,
    /// Bytes (or steps) done so far.
    pub done: u64,
    /// Bytes (or steps) in all, where that is known.
    pub total: Option<u64>,
}
