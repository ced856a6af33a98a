//! States, condition types and reasons of the host kinds.
