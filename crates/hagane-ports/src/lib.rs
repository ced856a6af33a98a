//! The narrow traits through which the control loops touch the world, with their value and error types.
//!
//! Owned by their consumers (`hagane-controllers`), implemented by one adapter crate each and by the fakes of
//! `hagane-testkit`. This crate names no adapter, performs no I/O and knows no Kubernetes client: references to
//! Secrets and other objects are resolved to values before a port is called.

pub mod actuator;
pub mod clock;
pub mod image;
pub mod installer;
pub mod nodes;
pub mod probe;
pub mod progress;
pub mod shell;

pub use actuator::{
    Actuator, ActuatorError, CloudInitFiles, CreateMachine, Creation, MachineFacts, MachineKey, MachineShape,
    PowerState, Presence, Removal, Seed,
};
pub use clock::{Clock, SystemClock};
pub use image::{Checksum, DiskFormat, ImageFailure, ImagePurpose, ImageRequest, ImageSource, ImageState, LocalImage};
pub use installer::{
    ClusterInstaller, HostStats, InstallRequest, InstallVerb, InstallerError, InstallerKind, Inventory, InventoryNode,
    NodeRole, PlayTime, RunExit, RunHandle, RunLimits, RunObservation, RunProgress, RunState, SshAccess, TaskFailure,
    TaskTime,
};
pub use nodes::{ClusterNodes, Drained, NodeState};
pub use probe::{ClusterProbe, ProbeError};
pub use progress::Progress;
pub use shell::{HostKey, HostKeyMaker, RemoteCommand, RemoteOutput, RemoteShell, ShellError, ShellTarget, SshKeyPair};
