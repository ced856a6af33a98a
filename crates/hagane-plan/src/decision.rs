//! What every decision has: actions, conditions, a phase, and when to look again.

use std::time::Duration;

use hagane_api::condition::{ConditionDraft, ConditionStatus};

/// When to decide again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<W> {
    /// When something that is watched changes.
    AwaitChange,
    /// After this time too, because of something that is not watched.
    After(Duration, W),
    /// As soon as the actions are done: in the same pass for actions that find something out, else in the next one.
    Now,
}

/// What to do about an object, and what to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<A, P, W> {
    /// What to do, in order. Empty: nothing.
    pub actions: Vec<A>,
    /// What holds. Conditions that are not named stay as they are.
    pub conditions: Vec<ConditionDraft>,
    /// Where the object is; `None` leaves it as it is.
    pub phase: Option<P>,
    /// When to decide again.
    pub next: Next<W>,
}

impl<A, P, W> Decision<A, P, W> {
    /// Nothing to do and nothing to say.
    #[must_use]
    pub fn nothing() -> Self {
        Self { actions: Vec::new(), conditions: Vec::new(), phase: None, next: Next::AwaitChange }
    }

    /// Only these actions; decide again after them.
    #[must_use]
    pub fn only(actions: Vec<A>) -> Self {
        Self { actions, conditions: Vec::new(), phase: None, next: Next::Now }
    }
}

/// A condition draft from the words of a kind.
pub(crate) fn draft(
    r#type: &'static str,
    status: ConditionStatus,
    reason: &'static str,
    message: impl Into<String>,
) -> ConditionDraft {
    ConditionDraft { r#type, status, reason, message: message.into() }
}

/// Errors of fields as one line.
pub(crate) fn one_line(errors: &[hagane_api::field::FieldError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// At most eight names, and how many more.
pub(crate) fn names<S: AsRef<str>>(names: &[S]) -> String {
    const MOST: usize = 8;
    let shown = names.iter().take(MOST).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(MOST) {
        Some(more) if more > 0 => format!("{shown} and {more} more"),
        _ => shown,
    }
}
