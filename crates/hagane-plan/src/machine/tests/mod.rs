//! The decision step by step, in a model world, and the resolution of provider specs.

mod model;
mod resolve;
mod steps;
