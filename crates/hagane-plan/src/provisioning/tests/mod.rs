//! Demands, the decision step by step, and a model world in which decisions are carried out.

mod bad_days;
mod change;
mod demands;
mod model;
mod runs;
mod steps;
mod verbs;
mod world;
