//! One run of `ansible-playbook`: its directory, its records, and the supervisor that outlives this process.

pub mod files;
pub mod history;
pub mod intent;
pub mod layout;
mod limits;
pub mod log;
pub mod process;
pub mod records;
pub mod shim;

pub use intent::{Intent, Marks, Resume, RunKind, RunUser, Stage};
pub use layout::RunLayout;
pub use records::{ExitRecord, Started, StepsDone, now};
