//! Which objects a list, watch or collection delete means.

use hagane_store::Entry;
use serde_json::Value;

use crate::context::Context;
use crate::error::{ApiError, ApiResult};
use crate::object::scalar_text;
use crate::select::{FieldSelector, LabelSelector};

/// Both selectors of a request, and the name that a path may pin.
#[derive(Clone, Debug, Default)]
pub(super) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
    /// Selector paths with their pointers into the stored form.
    pointers: Vec<(String, String)>,
    name: Option<String>,
}

impl Selection {
    pub(super) fn of(context: &Context) -> ApiResult<Self> {
        let pointers = context.endpoint.version().selectable.clone();
        let known = |path: &str| {
            matches!(path, "metadata.name" | "metadata.namespace") || pointers.iter().any(|(known, _)| known == path)
        };
        let fields = FieldSelector::parse(&context.query.field_selector, known)?;
        if let (Some(name), Some(pinned)) = (&context.path.name, fields.exact_name())
            && name != pinned
        {
            return Err(ApiError::bad_request(format!(
                "fieldSelector metadata.name={pinned} doesn't match name {name}"
            )));
        }
        Ok(Self {
            labels: LabelSelector::parse(&context.query.label_selector)?,
            name: context.path.name.clone().or_else(|| fields.exact_name().map(str::to_owned)),
            fields,
            pointers,
        })
    }

    /// Whether everything is selected.
    pub(super) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.name.is_none()
    }

    pub(super) fn matches(&self, entry: &Entry) -> bool {
        if self.name.as_deref().is_some_and(|name| *entry.key.name != *name) {
            return false;
        }
        let label = |key: &str| {
            entry.index.labels.iter().find(|(name, _)| name.as_ref() == key).map(|(_, value)| value.as_ref())
        };
        self.labels.matches(label) && (self.fields.is_empty() || self.fields_match(entry))
    }

    fn fields_match(&self, entry: &Entry) -> bool {
        // Read only if a path asks for something that the store does not keep beside the object.
        let mut body: Option<Value> = None;
        if self.fields.needs_body() {
            let indexed = |pointer: &str| entry.index.fields.iter().any(|(known, _)| known.as_ref() == pointer);
            if !self.pointers.iter().all(|(_, pointer)| indexed(pointer)) {
                body = serde_json::from_slice(&entry.value).ok();
            }
        }
        self.fields.matches(|path| match path {
            "metadata.name" => entry.key.name.to_string(),
            "metadata.namespace" => entry.key.namespace.to_string(),
            path => {
                let pointer = self.pointers.iter().find(|(known, _)| known == path).map_or("", |(_, pointer)| pointer);
                let indexed = entry.index.fields.iter().find(|(known, _)| known.as_ref() == pointer);
                indexed.map_or_else(
                    || scalar_text(body.as_ref().and_then(|body| body.pointer(pointer))),
                    |(_, value)| value.to_string(),
                )
            }
        })
    }
}
