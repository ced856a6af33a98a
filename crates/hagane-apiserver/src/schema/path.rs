//! Paths of fields, grown and cut back while walking.

use std::fmt::Write;

/// A dotted path with indexes, `spec.masters[0].cpu`.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// The path of a field below this one.
    pub(super) fn child(&self, field: &str) -> String {
        if self.0.is_empty() { field.to_owned() } else { format!("{}.{field}", self.0) }
    }

    /// Goes to a field; the answer leads back by [`Path::back`].
    pub(super) fn enter_field(&mut self, field: &str) -> usize {
        let length = self.0.len();
        if length > 0 {
            self.0.push('.');
        }
        self.0.push_str(field);
        length
    }

    /// Goes to an element; the answer leads back by [`Path::back`].
    pub(super) fn enter_index(&mut self, index: usize) -> usize {
        let length = self.0.len();
        // Writing to a String cannot fail.
        let _ = write!(self.0, "[{index}]");
        length
    }

    pub(super) fn back(&mut self, length: usize) {
        self.0.truncate(length);
    }
}
