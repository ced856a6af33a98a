//! Field numbers of the messages that clients send: facts of the published interfaces.

/// How a field is read, and when it is left out.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// A text; left out when empty.
    Text,
    /// A text that says something even when empty.
    OptionalText,
    /// A number; left out when 0.
    Number,
    /// A number that says something even when 0.
    OptionalNumber,
    /// A flag that says something also when false.
    OptionalFlag,
    /// Seconds and nanoseconds, shown in whole seconds.
    Time,
    /// The same, shown in microseconds.
    MicroTime,
    /// JSON in a message with one field of bytes.
    Json,
    /// A message.
    Message(&'static Table),
    /// Messages.
    Messages(&'static Table),
    /// Texts.
    Texts,
    /// Texts by text.
    TextMap,
    /// Bytes by text, shown in base64.
    BytesMap,
}

/// Field number, name, form.
pub(super) type Table = [(u64, &'static str, Form)];

use Form::{
    BytesMap, Json, Message, Messages, MicroTime, Number, OptionalFlag, OptionalNumber, OptionalText, Text, TextMap,
    Texts, Time,
};

static OWNER_REFERENCE: &Table = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", OptionalFlag),
    (7, "blockOwnerDeletion", OptionalFlag),
];

static MANAGED_FIELDS: &Table = &[
    (1, "manager", Text),
    (2, "operation", Text),
    (3, "apiVersion", Text),
    (4, "time", Time),
    (6, "fieldsType", Text),
    (7, "fieldsV1", Json),
    (8, "subresource", Text),
];

static METADATA: &Table = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (4, "selfLink", Text),
    (5, "uid", Text),
    (6, "resourceVersion", Text),
    (7, "generation", Number),
    (8, "creationTimestamp", Time),
    (9, "deletionTimestamp", Time),
    (10, "deletionGracePeriodSeconds", OptionalNumber),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (13, "ownerReferences", Messages(OWNER_REFERENCE)),
    (14, "finalizers", Texts),
    (17, "managedFields", Messages(MANAGED_FIELDS)),
];

static OBJECT_REFERENCE: &Table = &[
    (1, "kind", Text),
    (2, "namespace", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "resourceVersion", Text),
    (7, "fieldPath", Text),
];

static LOCAL_REFERENCE: &Table = &[(1, "name", Text)];

static NAMESPACE: &Table = &[
    (1, "metadata", Message(METADATA)),
    (2, "spec", Message(&[(1, "finalizers", Texts)])),
    (
        3,
        "status",
        Message(&[
            (1, "phase", Text),
            (
                2,
                "conditions",
                Messages(&[
                    (1, "type", Text),
                    (2, "status", Text),
                    (4, "lastTransitionTime", Time),
                    (5, "reason", Text),
                    (6, "message", Text),
                ]),
            ),
        ]),
    ),
];

static CONFIG_MAP: &Table = &[
    (1, "metadata", Message(METADATA)),
    (2, "data", TextMap),
    (3, "binaryData", BytesMap),
    (4, "immutable", OptionalFlag),
];

static SECRET: &Table = &[
    (1, "metadata", Message(METADATA)),
    (2, "data", BytesMap),
    (3, "type", Text),
    (4, "stringData", TextMap),
    (5, "immutable", OptionalFlag),
];

static SERVICE_ACCOUNT: &Table = &[
    (1, "metadata", Message(METADATA)),
    (2, "secrets", Messages(OBJECT_REFERENCE)),
    (3, "imagePullSecrets", Messages(LOCAL_REFERENCE)),
    (4, "automountServiceAccountToken", OptionalFlag),
];

static EVENT_SOURCE: &Table = &[(1, "component", Text), (2, "host", Text)];

static EVENT_SERIES: &Table = &[(1, "count", Number), (2, "lastObservedTime", MicroTime)];

static CORE_EVENT: &Table = &[
    (1, "metadata", Message(METADATA)),
    (2, "involvedObject", Message(OBJECT_REFERENCE)),
    (3, "reason", Text),
    (4, "message", Text),
    (5, "source", Message(EVENT_SOURCE)),
    (6, "firstTimestamp", Time),
    (7, "lastTimestamp", Time),
    (8, "count", Number),
    (9, "type", Text),
    (10, "eventTime", MicroTime),
    (11, "series", Message(EVENT_SERIES)),
    (12, "action", Text),
    (13, "related", Message(OBJECT_REFERENCE)),
    (14, "reportingComponent", Text),
    (15, "reportingInstance", Text),
];

static EVENT: &Table = &[
    (1, "metadata", Message(METADATA)),
    (2, "eventTime", MicroTime),
    (3, "series", Message(EVENT_SERIES)),
    (4, "reportingController", Text),
    (5, "reportingInstance", Text),
    (6, "action", Text),
    (7, "reason", Text),
    (8, "regarding", Message(OBJECT_REFERENCE)),
    (9, "related", Message(OBJECT_REFERENCE)),
    (10, "note", Text),
    (11, "type", Text),
    (12, "deprecatedSource", Message(EVENT_SOURCE)),
    (13, "deprecatedFirstTimestamp", Time),
    (14, "deprecatedLastTimestamp", Time),
    (15, "deprecatedCount", Number),
];

static LEASE: &Table = &[
    (1, "metadata", Message(METADATA)),
    (
        2,
        "spec",
        Message(&[
            (1, "holderIdentity", OptionalText),
            (2, "leaseDurationSeconds", OptionalNumber),
            (3, "acquireTime", MicroTime),
            (4, "renewTime", MicroTime),
            (5, "leaseTransitions", OptionalNumber),
            (6, "strategy", OptionalText),
            (7, "preferredHolder", OptionalText),
        ]),
    ),
];

static DELETE_OPTIONS: &Table = &[
    (1, "gracePeriodSeconds", OptionalNumber),
    (2, "preconditions", Message(&[(1, "uid", OptionalText), (2, "resourceVersion", OptionalText)])),
    (3, "orphanDependents", OptionalFlag),
    (4, "propagationPolicy", OptionalText),
    (5, "dryRun", Texts),
    (6, "ignoreStoreReadErrorWithClusterBreakingPotential", OptionalFlag),
];

/// The message of a kind.
pub(super) fn table(api_version: &str, kind: &str) -> Option<&'static Table> {
    Some(match (api_version, kind) {
        // Every group has its own name for these options.
        (_, "DeleteOptions") => DELETE_OPTIONS,
        ("v1", "Namespace") => NAMESPACE,
        ("v1", "ConfigMap") => CONFIG_MAP,
        ("v1", "Secret") => SECRET,
        ("v1", "ServiceAccount") => SERVICE_ACCOUNT,
        ("v1", "Event") => CORE_EVENT,
        ("events.k8s.io/v1", "Event") => EVENT,
        ("coordination.k8s.io/v1", "Lease") => LEASE,
        _ => return None,
    })
}
