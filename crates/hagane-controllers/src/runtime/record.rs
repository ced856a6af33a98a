//! The one writer: status, finalizers, our own fields of an object, events.
//!
//! Every write carries the resourceVersion the decision was made on. A conflict ends the pass; the next one sees the
//! newer object. There is no retry loop in here, and no other module writes a status.

use hagane_api::condition::Condition;
use hagane_api::keys::FIELD_MANAGER;
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde::Serialize;
use serde_json::{Value, json};
use tracing::debug;

use super::diff::merge_patch;
use super::error::PassError;
use super::event::{self, EventDraft, Severity};
use super::object::Seen;
use super::resource::ObjectKey;

/// Writes to one object during one pass.
pub struct Recorder {
    client: Client,
    api: Api<DynamicObject>,
    key: ObjectKey,
    newest: DynamicObject,
    now: Timestamp,
}

impl Recorder {
    /// A writer for the object as it was seen.
    #[must_use]
    pub fn new<S, T>(client: &Client, seen: &Seen<S, T>, now: Timestamp) -> Self {
        Self::of_raw(client, seen.key.clone(), DynamicObject::clone(&seen.raw), now)
    }

    pub(crate) fn of_raw(client: &Client, key: ObjectKey, newest: DynamicObject, now: Timestamp) -> Self {
        let api = key.resource.api(client, &key.namespace);
        Self { client: client.clone(), api, key, newest, now }
    }

    /// Generation of the spec, after the writes so far.
    #[must_use]
    pub fn generation(&self) -> Option<i64> {
        self.newest.metadata.generation
    }

    /// Writes the difference between two statuses; nothing where there is none. Says whether it wrote.
    ///
    /// # Errors
    /// [`PassError::Conflict`] where the object changed since it was read, [`PassError::Api`], [`PassError::Encode`].
    pub async fn status<T: Serialize + Sync>(&mut self, old: &T, new: &T) -> Result<bool, PassError> {
        let encode =
            |value: &T| serde_json::to_value(value).map_err(|source| PassError::Encode { what: "a status", source });
        let (old, new) = (encode(old)?, encode(new)?);
        self.raw_status(&old, &new).await
    }

    pub(crate) async fn raw_status(&mut self, old: &Value, new: &Value) -> Result<bool, PassError> {
        let Some(change) = merge_patch(old, new) else { return Ok(false) };
        let patch = json!({"metadata": self.precondition(), "status": change});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.api.patch_status(&self.key.name, &params, &Patch::Merge(patch)).await;
        self.newest = written.map_err(|error| PassError::own("write the status", error))?;
        Ok(true)
    }

    /// Merges `change` into the object's metadata and spec.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub async fn patch(&mut self, mut change: Value) -> Result<(), PassError> {
        let precondition = self.precondition();
        match change.get_mut("metadata").and_then(Value::as_object_mut) {
            Some(metadata) => metadata.extend(precondition.as_object().cloned().unwrap_or_default()),
            None => change["metadata"] = precondition,
        }
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let written = self.api.patch(&self.key.name, &params, &Patch::Merge(change)).await;
        self.newest = written.map_err(|error| PassError::own("write the object", error))?;
        Ok(())
    }

    /// Adds a finalizer, unless it is there.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub async fn add_finalizer(&mut self, finalizer: &str) -> Result<(), PassError> {
        let mut finalizers = self.newest.metadata.finalizers.clone().unwrap_or_default();
        if finalizers.iter().any(|known| known == finalizer) {
            return Ok(());
        }
        finalizers.push(finalizer.to_owned());
        self.patch(json!({"metadata": {"finalizers": finalizers}})).await
    }

    /// Removes a finalizer: for an object that is being deleted, the last one ends its life.
    ///
    /// # Errors
    /// As [`Self::status`].
    pub async fn remove_finalizer(&mut self, finalizer: &str) -> Result<(), PassError> {
        let mut finalizers = self.newest.metadata.finalizers.clone().unwrap_or_default();
        let before = finalizers.len();
        finalizers.retain(|known| known != finalizer);
        if finalizers.len() == before {
            return Ok(());
        }
        self.patch(json!({"metadata": {"finalizers": finalizers}})).await
    }

    /// Publishes events. They are a service to people: one that cannot be written is logged and dropped.
    pub async fn events(&self, drafts: &[EventDraft]) {
        for draft in drafts {
            let published = event::publish(&self.client, &self.key, &self.newest, draft, self.now).await;
            if let Err(error) = published {
                debug!(key = %self.key, reason = draft.reason, error = %error, "event not written");
            }
        }
    }

    fn precondition(&self) -> Value {
        json!({"resourceVersion": self.newest.metadata.resource_version})
    }
}

/// Events for the conditions of type `kind` whose status or reason moved between two statuses.
#[must_use]
pub fn transitions(
    old: &[Condition],
    new: &[Condition],
    kind: &str,
    severity: impl Fn(&Condition) -> Severity,
) -> Vec<EventDraft> {
    let moved = |condition: &&Condition| {
        let before = old.iter().find(|known| known.r#type == condition.r#type);
        condition.r#type == kind
            && before.is_none_or(|known| known.reason != condition.reason || known.status != condition.status)
    };
    let draft = |condition: &Condition| EventDraft {
        severity: severity(condition),
        reason: condition.reason.clone(),
        message: condition.message.clone(),
    };
    new.iter().filter(moved).map(draft).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hagane_api::condition::{ConditionDraft, ConditionStatus, merge_conditions};

    fn conditions(reason: &'static str, message: &str) -> Vec<Condition> {
        let draft =
            ConditionDraft { r#type: "Ready", status: ConditionStatus::False, reason, message: message.to_owned() };
        merge_conditions(&[], &[draft], Timestamp::UNIX_EPOCH, Some(1))
    }

    #[test]
    fn announces_moves_of_reason_not_of_message() {
        let found = |old: &[Condition], new: &[Condition]| {
            transitions(old, new, "Ready", |_| Severity::Normal)
                .into_iter()
                .map(|draft| draft.reason)
                .collect::<Vec<_>>()
        };
        assert_eq!(found(&[], &conditions("A", "")), ["A"]);
        assert_eq!(found(&conditions("A", "10 %"), &conditions("A", "20 %")), Vec::<String>::new());
        assert_eq!(found(&conditions("A", ""), &conditions("B", "")), ["B"]);
    }
}
