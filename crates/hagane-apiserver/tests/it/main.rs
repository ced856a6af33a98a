//! The server as clients see it: in process, and through a real kubectl.

mod definitions;
mod deletion;
mod field_reports;
mod kubectl;
mod patches;
mod reading;
mod support;
mod writing;
