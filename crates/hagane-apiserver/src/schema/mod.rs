//! Structural schemas (`openAPIV3Schema`): compiled once, they prune, fill in defaults and check objects.
//!
//! Knows values only: no kinds, no storage, no HTTP.

mod defaults;
mod format;
mod metadata;
mod node;
mod path;
mod prune;
mod structural;
#[cfg(test)]
mod tests;
mod validate;

use std::sync::{Arc, OnceLock};

use hagane_api::field::FieldError;
use serde_json::Value;

pub(crate) use metadata::object_meta;
use node::Node;
pub(crate) use structural::structural_problems;

/// The schema of whole objects. Clones share the compiled form, which is made at the first use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schema {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    raw: Arc<Value>,
    root: OnceLock<Node>,
}

impl Schema {
    /// The schema of an object with `apiVersion`, `kind` and `metadata`. What cannot be understood is as if it were not
    /// there; [`structural_problems`] finds it.
    pub(crate) fn new(raw: Arc<Value>) -> Self {
        Self { inner: Arc::new(Inner { raw, root: OnceLock::new() }) }
    }

    /// The schema as it was given.
    pub(crate) fn raw(&self) -> &Arc<Value> {
        &self.inner.raw
    }

    fn root(&self) -> &Node {
        self.inner.root.get_or_init(|| Node::root(&self.inner.raw))
    }

    /// Removes the fields the schema does not know and answers their paths, sorted.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(self.root(), object)
    }

    /// The paths of fields that [`Schema::prune`] would remove.
    #[cfg(test)]
    pub(crate) fn unknown_fields(&self, object: &Value) -> Vec<String> {
        self.prune(&mut object.clone())
    }

    /// Fills in defaults where the parent exists, and drops nulls of fields that are not nullable.
    pub(crate) fn default(&self, object: &mut Value) {
        defaults::fill(self.root(), object);
    }

    /// Checks an object. On updates, parts that equal their counterpart in `old` are taken as they are.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        validate::validate(self.root(), object, old)
    }
}
