//! Suites that every implementation of a port must pass, the fakes included.

pub mod actuator;
pub mod cluster_installer;
pub mod image_source;
pub mod remote_shell;
