//! Conditions: what holds now, since when, and why.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `True`, `False` or `Unknown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known.
    Unknown,
}

/// One condition of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about.
    pub r#type: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, as one word in camel case.
    pub reason: String,
    /// Why, as one line for people.
    #[serde(default)]
    pub message: String,
    /// When the status last changed.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Timestamp,
    /// Generation of the spec this was seen for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A condition as a decision states it, before it meets the stored ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionDraft {
    /// Type, from the kind's enum of types.
    pub r#type: &'static str,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Reason, from the kind's enum of reasons.
    pub reason: &'static str,
    /// One line for people.
    pub message: String,
}

/// Merges drafts into the stored conditions: the transition time moves only when the status flips, conditions that no
/// draft names stay, and the order is that of first appearance.
#[must_use]
pub fn merge_conditions(
    stored: &[Condition],
    drafts: &[ConditionDraft],
    now: Timestamp,
    generation: Option<i64>,
) -> Vec<Condition> {
    let mut merged = stored.to_vec();
    for draft in drafts {
        let known = merged.iter_mut().find(|condition| condition.r#type == draft.r#type);
        let since = known.as_ref().filter(|condition| condition.status == draft.status);
        let fresh = Condition {
            r#type: draft.r#type.to_owned(),
            status: draft.status,
            reason: draft.reason.to_owned(),
            message: draft.message.clone(),
            last_transition_time: since.map_or(now, |condition| condition.last_transition_time),
            observed_generation: generation,
        };
        match known {
            Some(condition) => *condition = fresh,
            None => merged.push(fresh),
        }
    }
    merged
}

/// Declares an enum of words (condition types, reasons, phases) with their spelling, so that docs and tests can list them.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $visibility:vis enum $name:ident { $($(#[$doc:meta])* $variant:ident),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $visibility enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            /// Every word.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its spelling in objects.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str(self.as_str())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a valid time")
    }

    fn draft(status: ConditionStatus, reason: &'static str) -> ConditionDraft {
        ConditionDraft { r#type: "Ready", status, reason, message: String::new() }
    }

    #[test]
    fn transition_time_moves_only_when_the_status_flips() {
        let first = merge_conditions(&[], &[draft(ConditionStatus::False, "A")], at(1), Some(1));
        let second = merge_conditions(&first, &[draft(ConditionStatus::False, "B")], at(2), Some(1));
        let third = merge_conditions(&second, &[draft(ConditionStatus::True, "C")], at(3), Some(2));
        let times: Vec<_> = [&first, &second, &third].iter().map(|list| list[0].last_transition_time).collect();
        assert_eq!(times, [at(1), at(1), at(3)]);
        assert_eq!((third.len(), third[0].reason.as_str(), third[0].observed_generation), (1, "C", Some(2)));
    }
}
