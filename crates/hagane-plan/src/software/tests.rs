//! What is decided for a Software, step by step.

mod deletion;
mod properties;
mod steps;
mod turns;
mod world;
