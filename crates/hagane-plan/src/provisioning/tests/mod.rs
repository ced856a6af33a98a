//! Demands, the decision step by step, and a model world in which decisions are carried out.

mod demands;
mod model;
mod steps;
mod world;
