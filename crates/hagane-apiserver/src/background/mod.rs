//! What the server does on its own: collecting what lost its owners, emptying namespaces, ending definitions.
//!
//! One task follows the changes that the server itself commits; nothing polls.

mod contents;
mod events;
mod owners;

pub(crate) use events::expire;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use hagane_store::Key;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::error::ApiResult;
use crate::object::{self, finalizers, is_terminating};
use crate::registry::{DEFINITIONS, NAMESPACES, Resource};
use crate::removal::{FOREGROUND, ORPHAN};
use crate::state::{Change, Core};

/// Changes taken up at once; repeated ones count once.
const BATCH: usize = 1024;
/// How long a change waits after a failure to act on it.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Acts on changes until the server stops.
pub(crate) async fn run(core: Arc<Core>, mut changes: mpsc::UnboundedReceiver<Change>) {
    scan(&core);
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            () = core.stopping.cancelled() => return,
            count = changes.recv_many(&mut batch, BATCH) => {
                if count == 0 {
                    return;
                }
            }
        }
        for key in affected(&core, batch.drain(..)) {
            if let Err(error) = look_at(&core, &key).await {
                tracing::warn!(%key, %error, "a background change failed and will be tried again");
                again_later(&core, key);
            }
        }
    }
}

/// Finds what an earlier run left undone.
fn scan(core: &Core) {
    for resource in core.store.resources() {
        for entry in core.store.list(&resource, None).iter() {
            let waiting = entry.value.windows(19).any(|window| window == b"\"deletionTimestamp\"");
            if waiting || !entry.index.owner_uids.is_empty() {
                core.tell(Change::Touched { key: entry.key.clone() });
            }
        }
    }
}

fn again_later(core: &Arc<Core>, key: Key) {
    let core = Arc::clone(core);
    tokio::spawn(async move {
        tokio::select! {
            () = core.stopping.cancelled() => {}
            () = tokio::time::sleep(RETRY_AFTER) => core.tell(Change::Touched { key }),
        }
    });
}

/// The objects that have to be looked at, each once, in order.
fn affected(core: &Core, changes: impl Iterator<Item = Change>) -> Vec<Key> {
    let mut seen = HashSet::new();
    let mut keys = Vec::new();
    let mut add = |key: Key| {
        if seen.insert(key.clone()) {
            keys.push(key);
        }
    };
    for change in changes {
        match change {
            Change::Touched { key } => add(key),
            Change::Gone { key, index } => {
                core.store.by_owner(&index.uid).iter().for_each(|dependent| add(dependent.key.clone()));
                index
                    .owner_uids
                    .iter()
                    .filter_map(|uid| core.store.by_uid(uid))
                    .for_each(|owner| add(owner.key.clone()));
                if !key.namespace.is_empty() {
                    add(Key::new(NAMESPACES, "", Arc::clone(&key.namespace)));
                }
                add(Key::new(DEFINITIONS, "", Arc::clone(&key.resource)));
            }
        }
    }
    keys
}

async fn look_at(core: &Core, key: &Key) -> ApiResult<()> {
    let Some(entry) = core.store.get(key) else { return Ok(()) };
    let Ok(object) = object::from_entry(&entry) else { return Ok(()) };
    let Some(resource) = row_of(core, key) else { return Ok(()) };
    if !is_terminating(&object) {
        return if entry.index.owner_uids.is_empty() {
            Ok(())
        } else {
            owners::check(core, &resource, &entry, &object).await
        };
    }
    let held: Vec<String> = finalizers(&object).into_iter().map(str::to_owned).collect();
    if held.iter().any(|finalizer| finalizer == ORPHAN) {
        owners::orphan_dependents(core, &resource, &entry).await?;
    }
    if held.iter().any(|finalizer| finalizer == FOREGROUND) {
        owners::delete_dependents(core, &resource, &entry).await?;
    }
    match key.resource.as_ref() {
        NAMESPACES => contents::empty_namespace(core, &resource, key).await,
        DEFINITIONS => contents::end_definition(core, &resource, key).await,
        _ => Ok(()),
    }
}

/// The row that keeps its objects where `key` is.
fn row_of(core: &Core, key: &Key) -> Option<Arc<Resource>> {
    core.registry().rows().iter().find(|row| row.storage == key.resource).cloned()
}

/// Changes an object again and again until nothing comes between; `change` answers whether there was anything to do.
/// Removes the object if it only waited for that.
async fn edit(core: &Core, resource: &Resource, key: &Key, change: impl Fn(&mut Value) -> bool) -> ApiResult<()> {
    loop {
        let Some(entry) = core.store.get(key) else { return Ok(()) };
        let Ok(mut object) = object::from_entry(&entry) else { return Ok(()) };
        if !change(&mut object) {
            return Ok(());
        }
        if crate::removal::is_released(resource, &object) {
            if crate::removal::remove(core, resource, &entry, object).await?.is_some() {
                return Ok(());
            }
            continue;
        }
        let expect = hagane_store::Expect::Revision(entry.revision);
        if let Some(stored) = core.put(key.clone(), &object, expect).await? {
            if resource.storage.as_ref() == DEFINITIONS {
                crate::definitions::stored(core, &stored);
            }
            return Ok(());
        }
    }
}

/// Takes a finalizer off an object.
async fn release(core: &Core, resource: &Resource, key: &Key, finalizer: &str) -> ApiResult<()> {
    edit(core, resource, key, |object| {
        let list: Vec<String> = finalizers(object).into_iter().map(str::to_owned).collect();
        let kept: Vec<&str> = list.iter().map(String::as_str).filter(|held| *held != finalizer).collect();
        object::set_finalizers(object, &kept);
        kept.len() < list.len()
    })
    .await
}
