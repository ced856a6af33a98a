//! What is decided for a Software, step by step.

mod deletion;
mod steps;
mod turns;
mod world;
