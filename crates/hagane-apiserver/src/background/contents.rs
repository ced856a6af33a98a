//! Emptying what is being deleted: namespaces, and kinds whose definition goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use hagane_store::{Entry, Key};
use serde_json::Value;

use super::{edit, release};
use crate::definitions::{CLEANUP, set_condition};
use crate::error::ApiResult;
use crate::object::{self, finalizers};
use crate::registry::Resource;
use crate::removal::{self, DeleteOptions};
use crate::state::Core;

/// Deletes what is in a namespace; lets the namespace go when nothing is left.
pub(super) async fn empty_namespace(core: &Core, resource: &Resource, key: &Key) -> ApiResult<()> {
    let rows = rows_of_namespaces(core);
    for row in &rows {
        delete_all(core, row, Some(&key.name)).await?;
    }
    let left = Left::count(core, &rows, &key.name);
    edit(core, resource, key, |object| {
        let before = object.clone();
        left.write(object, &core.now());
        if left.resources.is_empty()
            && let Some(finalizers) = object.pointer_mut("/spec/finalizers").and_then(Value::as_array_mut)
        {
            finalizers.retain(|finalizer| finalizer != "kubernetes");
        }
        *object != before
    })
    .await
}

fn rows_of_namespaces(core: &Core) -> Vec<Arc<Resource>> {
    let mut rows: Vec<Arc<Resource>> = Vec::new();
    for row in core.registry().rows() {
        if row.namespaced && !rows.iter().any(|known| known.storage == row.storage) {
            rows.push(Arc::clone(row));
        }
    }
    rows
}

/// Deletes the objects of a definition that is being deleted; lets the definition go when nothing is left.
pub(super) async fn end_definition(core: &Core, resource: &Resource, key: &Key) -> ApiResult<()> {
    let Some(row) = core.registry().rows().iter().find(|row| row.storage == key.name).cloned() else {
        // Never served: there is nothing of it.
        let _alone = core.gate.write().await;
        return release(core, resource, key, CLEANUP).await;
    };
    if row.terminating {
        delete_all(core, &row, None).await?;
        if core.store.list(&row.storage, None).is_empty() {
            let _alone = core.gate.write().await;
            return release(core, resource, key, CLEANUP).await;
        }
    }
    Ok(())
}

async fn delete_all(core: &Core, row: &Resource, namespace: Option<&str>) -> ApiResult<()> {
    let entries: Vec<Arc<Entry>> = core.store.list(&row.storage, namespace).iter().cloned().collect();
    for entry in entries {
        let options = DeleteOptions { uid: Some(entry.index.uid.to_string()), ..DeleteOptions::default() };
        match removal::delete(core, row, &entry.key, &options).await {
            // Gone, or replaced by another: the next look finds it.
            Err(error) if matches!(error.code.as_u16(), 404 | 409) => {}
            result => {
                result?;
            }
        }
    }
    Ok(())
}

/// What still stands in a namespace.
struct Left {
    resources: Vec<(String, usize)>,
    finalizers: BTreeMap<String, usize>,
}

impl Left {
    fn count(core: &Core, rows: &[Arc<Resource>], namespace: &str) -> Self {
        let mut left = Self { resources: Vec::new(), finalizers: BTreeMap::new() };
        for row in rows {
            let snapshot = core.store.list(&row.storage, Some(namespace));
            if snapshot.is_empty() {
                continue;
            }
            left.resources.push((format!("{}.{}", row.plural, row.group), snapshot.len()));
            for entry in snapshot.iter() {
                let Ok(object) = object::from_entry(entry) else { continue };
                for finalizer in finalizers(&object) {
                    *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
        }
        left
    }

    fn write(&self, namespace: &mut Value, now: &str) {
        let well = [
            ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
            (
                "NamespaceDeletionGroupVersionParsingFailure",
                "ParsedGroupVersions",
                "All legacy kube types successfully parsed",
            ),
            (
                "NamespaceDeletionContentFailure",
                "ContentDeleted",
                "All content successfully deleted, may be waiting on finalization",
            ),
        ];
        for (r#type, reason, message) in well {
            set_condition(namespace, r#type, "False", reason, message, now);
        }
        let list = |items: &mut dyn Iterator<Item = String>| items.collect::<Vec<_>>().join(", ");
        if self.resources.is_empty() {
            set_condition(
                namespace,
                "NamespaceContentRemaining",
                "False",
                "ContentRemoved",
                "All content successfully removed",
                now,
            );
        } else {
            let items =
                list(&mut self.resources.iter().map(|(name, count)| format!("{name} has {count} resource instances")));
            let message = format!("Some resources are remaining: {items}");
            set_condition(namespace, "NamespaceContentRemaining", "True", "SomeResourcesRemain", &message, now);
        }
        if self.finalizers.is_empty() {
            set_condition(
                namespace,
                "NamespaceFinalizersRemaining",
                "False",
                "ContentHasNoFinalizers",
                "All content-preserving finalizers finished",
                now,
            );
        } else {
            let items =
                list(&mut self.finalizers.iter().map(|(name, count)| format!("{name} in {count} resource instances")));
            let message = format!("Some content in the namespace has finalizers remaining: {items}");
            set_condition(namespace, "NamespaceFinalizersRemaining", "True", "SomeFinalizersRemain", &message, now);
        }
    }
}
