//! Events: one object a (subject, reason), counted up when it happens again.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::error::is_not_found;
use super::resource::ObjectKey;
use hagane_api::keys::FIELD_MANAGER;

/// Longest message the API keeps.
const MESSAGE_LENGTH_MAX: usize = 1024;

/// Weight of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The expected course.
    Normal,
    /// Somebody may want to look.
    Warning,
}

impl Severity {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDraft {
    /// How grave it is.
    pub severity: Severity,
    /// One word in camel case.
    pub reason: String,
    /// One line for people.
    pub message: String,
}

/// Name of the event object: the same for the same subject, severity and reason.
fn event_name(subject: &str, uid: &str, draft: &EventDraft) -> String {
    let digest = Sha256::digest(format!("{uid}\n{}\n{}", draft.severity.as_str(), draft.reason));
    let hex: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let kept: String = subject.chars().take(230).collect();
    format!("{}.{hex}", kept.trim_end_matches(['-', '.']))
}

fn cut(message: &str) -> String {
    if message.len() <= MESSAGE_LENGTH_MAX {
        return message.to_owned();
    }
    let mut end = MESSAGE_LENGTH_MAX - 3;
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &message[..end])
}

/// Writes the event, or counts the one that is there.
pub(crate) async fn publish(
    client: &Client,
    key: &ObjectKey,
    subject: &DynamicObject,
    draft: &EventDraft,
    now: Timestamp,
) -> Result<(), kube::Error> {
    let api: Api<Event> = Api::namespaced(client.clone(), &key.namespace);
    let uid = subject.metadata.uid.clone().unwrap_or_default();
    let name = event_name(&key.name, &uid, draft);
    match api.get(&name).await {
        Ok(known) => {
            let count = known.count.unwrap_or(1).saturating_add(1);
            let change = json!({"count": count, "lastTimestamp": Time(now), "message": cut(&draft.message)});
            let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
            api.patch(&name, &params, &Patch::Merge(change)).await.map(drop)
        }
        Err(error) if is_not_found(&error) => {
            let event = Event {
                metadata: ObjectMeta {
                    name: Some(name),
                    namespace: Some(key.namespace.clone()),
                    ..ObjectMeta::default()
                },
                involved_object: ObjectReference {
                    api_version: Some(key.resource.api_version()),
                    kind: Some(key.resource.kind.to_owned()),
                    name: Some(key.name.clone()),
                    namespace: Some(key.namespace.clone()),
                    uid: Some(uid),
                    ..ObjectReference::default()
                },
                type_: Some(draft.severity.as_str().to_owned()),
                reason: Some(draft.reason.clone()),
                message: Some(cut(&draft.message)),
                count: Some(1),
                first_timestamp: Some(Time(now)),
                last_timestamp: Some(Time(now)),
                source: Some(EventSource { component: Some(FIELD_MANAGER.to_owned()), host: None }),
                reporting_component: Some(FIELD_MANAGER.to_owned()),
                ..Event::default()
            };
            let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            api.create(&params, &event).await.map(drop)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_a_subject_and_reason() {
        let draft = |reason: &str, message: &str| EventDraft {
            severity: Severity::Normal,
            reason: reason.to_owned(),
            message: message.to_owned(),
        };
        let first = event_name("m1", "u1", &draft("Created", "one"));
        assert_eq!(first, event_name("m1", "u1", &draft("Created", "two")));
        assert_ne!(first, event_name("m1", "u1", &draft("Deleted", "one")));
        assert_ne!(first, event_name("m1", "u2", &draft("Created", "one")));
        let long = event_name(&format!("{}.a", "m".repeat(229)), "u1", &draft("Created", ""));
        assert!(long.len() <= 253 && !long.contains(".."), "{long}");
    }

    #[test]
    fn cuts_long_messages_between_characters() {
        let long = cut(&"é".repeat(800));
        assert!(long.len() <= MESSAGE_LENGTH_MAX && long.ends_with('…'));
    }
}
