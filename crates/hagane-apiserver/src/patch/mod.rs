//! The three ways to describe a change. Nothing here knows resources or requests.

pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod strategic;
