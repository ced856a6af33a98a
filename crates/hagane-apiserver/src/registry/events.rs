//! The two forms of events, which are one collection.

use serde_json::Value;

use super::{Conversion, Strategy};

/// Fields of the stored (core) form beside those of `events.k8s.io`.
const RENAMES: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Selector paths of the core form.
pub(super) const CORE_FIELDS: &[(&str, &str)] = &[
    ("involvedObject.kind", "/involvedObject/kind"),
    ("involvedObject.namespace", "/involvedObject/namespace"),
    ("involvedObject.name", "/involvedObject/name"),
    ("involvedObject.uid", "/involvedObject/uid"),
    ("involvedObject.apiVersion", "/involvedObject/apiVersion"),
    ("involvedObject.resourceVersion", "/involvedObject/resourceVersion"),
    ("involvedObject.fieldPath", "/involvedObject/fieldPath"),
    ("reason", "/reason"),
    ("reportingComponent", "/reportingComponent"),
    ("source", "/source/component"),
    ("type", "/type"),
];

/// Selector paths of the newer form, with pointers into the stored one.
pub(super) const NEW_FIELDS: &[(&str, &str)] = &[
    ("regarding.kind", "/involvedObject/kind"),
    ("regarding.namespace", "/involvedObject/namespace"),
    ("regarding.name", "/involvedObject/name"),
    ("regarding.uid", "/involvedObject/uid"),
    ("regarding.apiVersion", "/involvedObject/apiVersion"),
    ("regarding.resourceVersion", "/involvedObject/resourceVersion"),
    ("regarding.fieldPath", "/involvedObject/fieldPath"),
    ("reason", "/reason"),
    ("reportingController", "/reportingComponent"),
    ("type", "/type"),
];

pub(super) fn strategy() -> Strategy {
    Strategy { create_on_update: true, unconditional_update: true, has_generation: false, ..Strategy::default() }
}

/// How the newer form is brought into the stored one and back.
pub(super) const CONVERSION: Conversion = Conversion {
    to_stored: |event, _| rename(event, |(core, new)| (new, core)),
    from_stored: |event, _| rename(event, |(core, new)| (core, new)),
};

type Pair = (&'static str, &'static str);

fn rename(event: &mut Value, direction: fn(Pair) -> Pair) {
    let Some(fields) = event.as_object_mut() else { return };
    for pair in RENAMES {
        let (from, to) = direction(*pair);
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}
