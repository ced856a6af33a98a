//! Definitions of kinds: what is checked beyond their form, what follows a change of one, and how ours are protected.
//!
//! Kinds of ours and of Kubernetes are served from the start. A definition that agrees with one of them is kept as an
//! object, so that clients find what they wrote, and has no other effect.

use hagane_api::field::FieldError;
use hagane_store::Entry;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::ApiResult;
use crate::object::{self, finalizers, is_terminating, map_at, meta, set_finalizers, text};
use crate::registry::{Origin, Registry, Resource, from_definition};
use crate::state::Core;

/// Finalizer that keeps a definition until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

fn names(definition: &Value) -> (&str, &str) {
    (text(definition, &["spec", "group"]), text(definition, &["spec", "names", "plural"]))
}

/// The row that a definition names, if it is not the definition's to change.
fn fixed<'a>(registry: &'a Registry, definition: &Value) -> Option<&'a Resource> {
    let (group, plural) = names(definition);
    registry.find(group, plural).map(AsRef::as_ref).filter(|row| row.origin != Origin::Defined)
}

/// Checks a definition against what is served, and writes its status.
pub(crate) fn prepare(context: &Context, new: &mut Value, old: Option<&Value>) -> ApiResult<()> {
    let registry = context.core.registry();
    if let Some(row) = fixed(&registry, new) {
        context.check(meta(new, "name"), &disagreements(row, new))?;
        context.warn(format!(
            "{} is served by hagane itself; this definition is kept but changes nothing",
            row.full_name()
        ));
    } else {
        warn_of_what_is_not_done(context, new);
    }
    if old.is_none() && fixed(&registry, new).is_none() && !finalizers(new).contains(&CLEANUP) {
        let mut list: Vec<String> = finalizers(new).into_iter().map(str::to_owned).collect();
        list.push(CLEANUP.to_owned());
        set_finalizers(new, &list.iter().map(String::as_str).collect::<Vec<_>>());
    }
    write_status(&context.core, &registry, new);
    Ok(())
}

/// Some features of definitions are not served; saying so is better than looking as if they were.
fn warn_of_what_is_not_done(context: &Context, definition: &Value) {
    if text(definition, &["spec", "conversion", "strategy"]) == "Webhook" {
        context.warn("spec.conversion.strategy: webhooks are not called; conversion only changes apiVersion");
    }
    let versions = definition.pointer("/spec/versions");
    if versions.is_some_and(|versions| has_key(versions, "x-kubernetes-validations")) {
        context.warn("x-kubernetes-validations: these rules are kept but not checked");
    }
    if versions
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .any(|version| version.pointer("/subresources/scale").is_some())
    {
        context.warn("spec.versions[].subresources.scale: it is kept but not served");
    }
}

fn has_key(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, inner)| name == key || has_key(inner, key)),
        Value::Array(items) => items.iter().any(|item| has_key(item, key)),
        _ => false,
    }
}

fn disagreements(row: &Resource, definition: &Value) -> Vec<FieldError> {
    let scope = if row.namespaced { "Namespaced" } else { "Cluster" };
    let pairs = [("spec.scope", scope), ("spec.names.kind", row.kind.as_str())];
    let mut errors: Vec<FieldError> = pairs
        .into_iter()
        .filter_map(|(field, served)| {
            let path: Vec<&str> = field.split('.').collect();
            let given = text(definition, &path);
            let detail = format!("{} is served with {served:?}", row.full_name());
            (given != served).then(|| FieldError::invalid(field, given, detail))
        })
        .collect();
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    for (index, version) in versions.into_iter().flatten().enumerate() {
        let name = text(version, &["name"]);
        if !row.versions.iter().any(|served| served.name == name) && row.origin == Origin::BuiltIn {
            let field = format!("spec.versions[{index}].name");
            errors.push(FieldError::invalid(field, name, "a kind of Kubernetes cannot be defined anew"));
        }
    }
    errors
}

/// Names of a definition that others have already: condition reason and message.
fn conflict(registry: &Registry, definition: &Value) -> Option<(&'static str, String)> {
    let (group, plural) = names(definition);
    let others: Vec<_> = registry.rows().iter().filter(|row| row.group == group && row.plural != plural).collect();
    let taken = |word: &str| {
        others
            .iter()
            .any(|row| row.plural == word || row.singular == word || row.short_names.iter().any(|short| short == word))
    };
    let kind_taken = |word: &str| others.iter().any(|row| row.kind == word || row.list_kind == word);
    let name = |field: &str| text(definition, &["spec", "names", field]);
    let message = |word: &str| format!("{word:?} is already in use");
    for (field, reason) in [("plural", "PluralConflict"), ("singular", "SingularConflict")] {
        if taken(name(field)) {
            return Some((reason, message(name(field))));
        }
    }
    let short_names = definition.pointer("/spec/names/shortNames").and_then(Value::as_array);
    for short in short_names.into_iter().flatten().filter_map(Value::as_str) {
        if taken(short) {
            return Some(("ShortNamesConflict", message(short)));
        }
    }
    for (field, reason) in [("kind", "KindConflict"), ("listKind", "ListKindConflict")] {
        if kind_taken(name(field)) {
            return Some((reason, message(name(field))));
        }
    }
    None
}

fn write_status(core: &Core, registry: &Registry, definition: &mut Value) {
    let now = core.now();
    let conflict = conflict(registry, definition);
    let established = is_condition(definition, "Established", "True");
    let names = definition.pointer("/spec/names").cloned().unwrap_or_else(|| json!({}));
    let stored = definition.pointer("/spec/versions").and_then(Value::as_array).and_then(|versions| {
        versions
            .iter()
            .find(|version| version.get("storage") == Some(&Value::Bool(true)))
            .map(|version| text(version, &["name"]).to_owned())
    });
    match &conflict {
        None => {
            set_condition(definition, "NamesAccepted", "True", "NoConflicts", "no conflicts found", &now);
            set_condition(
                definition,
                "Established",
                "True",
                "InitialNamesAccepted",
                "the initial names have been accepted",
                &now,
            );
        }
        Some((reason, message)) => {
            set_condition(definition, "NamesAccepted", "False", reason, message, &now);
            if !established {
                set_condition(definition, "Established", "False", "NotAccepted", "not all names are accepted", &now);
            }
        }
    }
    let status = map_at(definition, "status");
    if conflict.is_none() {
        status.insert("acceptedNames".to_owned(), names);
    } else {
        status.entry("acceptedNames").or_insert_with(|| json!({"plural": "", "kind": ""}));
    }
    let versions = status.entry("storedVersions").or_insert_with(|| json!([]));
    if let (Some(stored), Some(versions)) = (stored, versions.as_array_mut())
        && !versions.iter().any(|version| *version == stored)
    {
        versions.push(stored.into());
    }
}

fn is_condition(definition: &Value, r#type: &str, status: &str) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|condition| text(condition, &["type"]) == r#type && text(condition, &["status"]) == status)
}

/// Sets a condition; its time moves only when its status changes.
pub(crate) fn set_condition(object: &mut Value, r#type: &str, status: &str, reason: &str, message: &str, now: &str) {
    let conditions = map_at(object, "status").entry("conditions").or_insert_with(|| json!([]));
    let Some(conditions) = conditions.as_array_mut() else { return };
    let fresh =
        json!({"type": r#type, "status": status, "lastTransitionTime": now, "reason": reason, "message": message});
    match conditions.iter_mut().find(|condition| text(condition, &["type"]) == r#type) {
        Some(condition) => {
            let since = if text(condition, &["status"]) == status {
                condition.get("lastTransitionTime").cloned()
            } else {
                None
            };
            *condition = fresh;
            if let (Some(since), Some(fields)) = (since, condition.as_object_mut()) {
                fields.insert("lastTransitionTime".to_owned(), since);
            }
        }
        None => conditions.push(fresh),
    }
}

/// Writes into a definition that its objects are being deleted.
pub(crate) fn mark_terminating(core: &Core, definition: &mut Value) {
    if finalizers(definition).contains(&CLEANUP) {
        let message = "CustomResource deletion is in progress";
        set_condition(definition, "Terminating", "True", "InstanceDeletionInProgress", message, &core.now());
    }
}

/// Serves a stored definition, or stops serving it. The caller holds the gate.
pub(crate) fn stored(core: &Core, entry: &Entry) {
    if let Ok(definition) = object::from_entry(entry) {
        let mut registry = Registry::clone(&core.registry());
        if serve(&mut registry, &definition, entry.revision) {
            core.replace_registry(registry);
        }
    }
}

/// Puts the row of a definition into the table; answers whether anything changed.
pub(crate) fn serve(registry: &mut Registry, definition: &Value, revision: u64) -> bool {
    if fixed(registry, definition).is_some() || !is_condition(definition, "Established", "True") {
        return false;
    }
    let mut row = from_definition(definition, revision);
    if let Some(before) = registry.find(&row.group, &row.plural) {
        let unchanged =
            before.definition_uid == row.definition_uid && before.definition_generation == row.definition_generation;
        if unchanged && before.terminating == row.terminating {
            return false;
        }
        if before.definition_uid == row.definition_uid && (unchanged || is_terminating(definition)) {
            row.schema_since = before.schema_since;
        }
    }
    registry.put(row);
    true
}

/// Stops serving a definition that is gone. The caller holds the gate.
pub(crate) fn removed(core: &Core, name: &str) {
    let Some((plural, group)) = name.split_once('.') else { return };
    let mut registry = Registry::clone(&core.registry());
    if registry.find(group, plural).is_some_and(|row| row.origin == Origin::Defined) {
        registry.remove(group, plural);
        core.replace_registry(registry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(plural: &str, kind: &str) -> Value {
        json!({
            "metadata": {"name": format!("{plural}.example.com"), "uid": plural, "generation": 1},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
                "versions": [{"name": "v1", "served": true, "storage": true}]},
            "status": {"conditions": [{"type": "Established", "status": "True"}]},
        })
    }

    #[test]
    fn a_kind_that_is_taken_is_a_conflict() {
        let mut registry = Registry::new();
        assert!(serve(&mut registry, &definition("widgets", "Widget"), 5));
        assert!(!serve(&mut registry, &definition("widgets", "Widget"), 6));
        assert_eq!(conflict(&registry, &definition("widgets", "Widget")), None);
        let (reason, _) = conflict(&registry, &definition("gadgets", "Widget")).expect("a conflict");
        assert_eq!(reason, "SingularConflict");
    }

    #[test]
    fn ours_are_not_replaced() {
        let mut registry = Registry::new();
        let mut ours = definition("provisionings", "Provisioning");
        ours["spec"]["group"] = "bpa.akraino.org".into();
        assert!(!serve(&mut registry, &ours, 5));
        let row = fixed(&registry, &ours).expect("served by us");
        assert_eq!(disagreements(row, &ours), []);
        ours["spec"]["scope"] = "Cluster".into();
        assert_eq!(disagreements(row, &ours)[0].field, "spec.scope");
    }
}
