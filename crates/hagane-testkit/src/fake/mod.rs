//! In-memory stand-ins for the ports, with hooks to bring about every fault a control loop must live with.
//!
//! A fake keeps the same contract as the real adapter: the suites under [`crate::contract`] run on both.

pub mod actuator;
pub mod images;
pub mod installer;
pub mod nodes;
pub mod packages;
pub mod probe;
pub mod shell;

pub use actuator::{ActuatorCall, CreateStage, FakeActuator, SiteState};
pub use images::FakeImages;
pub use installer::{FakeInstaller, InstallerCall};
pub use nodes::{FakeNode, FakeNodes};
pub use packages::{FakePackages, UnitEnd};
pub use probe::{FakeProbe, ProbeAnswer};
pub use shell::{FakeShell, ShellAnswer, ShellCall};
