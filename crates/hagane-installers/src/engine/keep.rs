//! What is kept of runs, and for how long.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::PoisonError;
use std::time::Duration;

use hagane_ports::installer::{InstallerError, RunState};

use super::{Engine, directory_error, goes_on, prepare, read_intent, remove_if_there, state_of};
use crate::run::RunLayout;
use crate::run::process::end_marked;

/// Most runs kept of an owner, the newest among them.
const RUNS_KEPT: usize = 5;
/// Most bytes of an owner's earlier runs.
const BYTES_KEPT: u64 = 256 * 1024 * 1024;

impl Engine {
    /// Makes room for another run of an owner: the oldest ended ones go, beyond a number and a size. A run that goes on
    /// stays, and so does what cannot be removed now.
    pub(super) fn make_room(&self, owner_uid: &str, next: &RunLayout) {
        let Ok(layouts) = self.owned(owner_uid) else { return };
        let mut ended: Vec<_> = layouts
            .into_iter()
            .filter(|(layout, _)| layout != next)
            .filter(|(layout, _)| matches!(state_of(layout, layout.started().exists()), Ok((RunState::Finished(_), _))))
            .filter_map(|(layout, id)| Some((read_intent(&layout).ok()??.created_at, layout, id)))
            .collect();
        ended.sort_by_key(|(created_at, ..)| std::cmp::Reverse(*created_at));
        let mut bytes = 0_u64;
        for (number, (_, layout, id)) in ended.iter().enumerate() {
            bytes = bytes.saturating_add(size(layout.directory()));
            if number + 1 < RUNS_KEPT && bytes <= BYTES_KEPT {
                continue;
            }
            match self.forget_now(id) {
                Ok(()) => tracing::info!(run = id, "the oldest runs of the owner were removed"),
                Err(error) => tracing::warn!(run = id, %error, "an old run could not be removed"),
            }
        }
    }

    /// The runs of an owner, by layout and id.
    pub(super) fn owned(&self, owner_uid: &str) -> Result<Vec<(RunLayout, String)>, InstallerError> {
        let failed = directory_error("list the run directories");
        let entries = match fs::read_dir(&self.options.runs) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut owned = Vec::new();
        for entry in entries {
            let name = entry.map_err(&failed)?.file_name();
            let Some(layout) = name.to_str().and_then(|id| self.layout(id).ok()) else { continue };
            // A record that cannot be read names no owner; another owner's must not stand in the way.
            if let Some(intent) = read_intent(&layout).ok().flatten().filter(|intent| intent.owner_uid == owner_uid) {
                owned.push((layout, intent.run_id));
            }
        }
        Ok(owned)
    }

    pub(super) fn forget_now(&self, run_id: &str) -> Result<(), InstallerError> {
        let layout = self.layout(run_id)?;
        let failed = directory_error("remove the run directory");
        if goes_on(&layout).map_err(&failed)? {
            return Err(InstallerError::HeldElsewhere { id: run_id.to_owned() });
        }
        if let Some(intent) = read_intent(&layout)? {
            end_marked(intent.marks(), Duration::ZERO);
            for directory in &intent.remove_at_end {
                remove_if_there(directory).map_err(&failed)?;
            }
        }
        remove_if_there(layout.directory()).map_err(&failed)?;
        self.readers.lock().unwrap_or_else(PoisonError::into_inner).remove(run_id);
        Ok(())
    }

    pub(super) fn forget_owned_now(&self, owner_uid: &str) -> Result<(), InstallerError> {
        let mut result = Ok(());
        for (_, id) in self.owned(owner_uid)? {
            // One that is held does not keep the others.
            result = self.forget_now(&id).and(result);
        }
        if let Ok(facts) = prepare::file_name_of(owner_uid) {
            let failed = directory_error("remove the owner's facts");
            remove_if_there(&self.options.runs.join("facts").join(facts)).map_err(failed)?;
        }
        result
    }
}

/// Bytes of a tree. Somebody else may change it meanwhile: what cannot be read counts nothing.
fn size(path: &Path) -> u64 {
    let Ok(data) = fs::symlink_metadata(path) else { return 0 };
    if !data.is_dir() {
        return data.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).fold(data.len(), u64::saturating_add)
}
