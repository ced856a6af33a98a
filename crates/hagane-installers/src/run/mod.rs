//! One run of `ansible-playbook`: its directory, its records, and the supervisor that outlives this process.

pub mod files;
pub mod intent;
pub mod layout;
pub mod log;
pub mod process;
pub mod records;
pub mod shim;

pub use intent::{Intent, Marks, RunUser};
pub use layout::RunLayout;
pub use records::{ExitRecord, Started, now};
