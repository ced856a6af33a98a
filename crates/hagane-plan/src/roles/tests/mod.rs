//! The planner against brute force, and its behaviours one by one.

mod brute;
mod examples;
mod random;
