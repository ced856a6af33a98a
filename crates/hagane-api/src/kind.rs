//! The table of kinds.

use std::sync::LazyLock;

use serde_json::Value;

use crate::field::FieldError;
use crate::{bpa, machine, metal3};

/// A printer column of `kubectl get`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Header.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub r#type: &'static str,
    /// kubectl `JSONPath` with a leading dot.
    pub json_path: &'static str,
    /// 0 is always shown, more only with `-o wide`.
    pub priority: i32,
    /// What it shows.
    pub description: &'static str,
}

/// Everything generic code needs to know of a kind.
#[derive(Clone, Copy)]
pub struct KindDescriptor {
    /// API group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Kind, singular camel case.
    pub kind: &'static str,
    /// Resource name in paths.
    pub plural: &'static str,
    /// Lower-case singular.
    pub singular: &'static str,
    /// Short names for kubectl.
    pub short_names: &'static [&'static str],
    /// Categories for kubectl.
    pub categories: &'static [&'static str],
    /// What it is, one or two sentences.
    pub description: &'static str,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Whether `/status` is a subresource.
    pub status_subresource: bool,
    /// Columns after the name.
    pub columns: &'static [Column],
    /// `openAPIV3Schema` of the whole object, structural.
    pub schema: fn() -> Value,
    /// Fills defaults that a schema cannot express. Must be idempotent.
    pub default: fn(&mut Value),
    /// Checks what a schema cannot express; `old` is the stored object on updates.
    pub validate: fn(new: &Value, old: Option<&Value>) -> Vec<FieldError>,
}

impl KindDescriptor {
    /// `group/version`.
    #[must_use]
    pub fn api_version(&self) -> String {
        format!("{}/{}", self.group, self.version)
    }

    /// Kind of lists.
    #[must_use]
    pub fn list_kind(&self) -> String {
        format!("{}List", self.kind)
    }

    /// `plural.group`, the full resource name.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.plural, self.group)
    }
}

/// The default hook of kinds whose schema says all.
pub(crate) fn no_defaults(_: &mut Value) {}

/// Every kind of ours, in the order of discovery.
#[must_use]
pub fn kinds() -> &'static [KindDescriptor] {
    static KINDS: LazyLock<Vec<KindDescriptor>> =
        LazyLock::new(|| [machine::kinds(), bpa::kinds(), metal3::kinds()].concat());
    &KINDS
}

/// Looks a kind up by group and plural.
#[must_use]
pub fn kind_of(group: &str, plural: &str) -> Option<&'static KindDescriptor> {
    kinds().iter().find(|kind| kind.group == group && kind.plural == plural)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_once() {
        let mut names: Vec<_> = kinds().iter().map(KindDescriptor::full_name).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(kind_of("bpa.akraino.org", "provisionings").is_some());
    }
}
