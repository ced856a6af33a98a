//! Suites that every implementation of a port must pass, the fakes included.

pub mod actuator;
pub mod remote_shell;
