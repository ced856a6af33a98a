//! Where everything of a run is.

use std::path::{Path, PathBuf};

use hagane_ports::installer::InstallerError;

use crate::inventory::invalid;

/// Most characters of a run id: it is a directory name and part of a systemd unit's name.
const ID_LENGTH_MAX: usize = 128;

/// Paths of one run directory. The directory itself holds the supervisor's records; `work/` belongs to the user that
/// Ansible runs as, and nothing in it is trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunLayout {
    directory: PathBuf,
}

impl RunLayout {
    /// The layout of the run `id` below `root`.
    ///
    /// # Errors
    /// [`InstallerError::Invalid`] for an id that is no plain file name.
    pub fn of(root: &Path, id: &str) -> Result<Self, InstallerError> {
        let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
        let starts_well = id.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        if !starts_well || id.len() > ID_LENGTH_MAX || !id.bytes().all(inside) {
            return Err(invalid("run id", id, "lower-case letters, digits, '-' and '.', at most 128 characters"));
        }
        Ok(Self::at(root.join(id)))
    }

    /// The layout of a given directory.
    #[must_use]
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// The run directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What is to be run: written before anything starts.
    #[must_use]
    pub fn intent(&self) -> PathBuf {
        self.directory.join("intent.json")
    }

    /// Held exclusively by the supervisor while it lives.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.directory.join("lock")
    }

    /// Who supervises, since when.
    #[must_use]
    pub fn started(&self) -> PathBuf {
        self.directory.join("started.json")
    }

    /// How the run ended: written and synced last.
    #[must_use]
    pub fn exit(&self) -> PathBuf {
        self.directory.join("exit.json")
    }

    /// Space kept for the exit record, so that a full disk cannot swallow it.
    #[must_use]
    pub fn exit_reserve(&self) -> PathBuf {
        self.directory.join("exit.json.new")
    }

    /// Present once somebody asked for the run's end.
    #[must_use]
    pub fn cancel_request(&self) -> PathBuf {
        self.directory.join("cancel")
    }

    /// Output of the playbook, newest part; see [`super::log`] for the others.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.directory.join("log")
    }

    /// How long plays, tasks and hosts took, once the run has ended.
    #[must_use]
    pub fn timings(&self) -> PathBuf {
        self.directory.join("timings.json")
    }

    /// How many steps are finished.
    #[must_use]
    pub fn steps_done(&self) -> PathBuf {
        self.directory.join("steps.json")
    }

    /// Values that are never told: a private file, since it holds them.
    #[must_use]
    pub fn hidden(&self) -> PathBuf {
        self.directory.join("hidden.json")
    }

    /// What belongs to the user that Ansible runs as.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.directory.join("work")
    }

    /// A path below [`Self::work`].
    #[must_use]
    pub fn in_work(&self, name: &str) -> PathBuf {
        self.work().join(name)
    }

    /// What the user asked for, as data.
    #[must_use]
    pub fn variables(&self) -> PathBuf {
        self.in_work("variables.yaml")
    }

    /// What the installer itself sets; these win.
    #[must_use]
    pub fn own_variables(&self) -> PathBuf {
        self.in_work("installer.yaml")
    }

    /// `ansible.cfg` of this run alone.
    #[must_use]
    pub fn ansible_config(&self) -> PathBuf {
        self.in_work("ansible.cfg")
    }

    /// Progress lines of the callback plugin.
    #[must_use]
    pub fn progress(&self) -> PathBuf {
        self.in_work(PROGRESS)
    }

    /// Where the playbook leaves the cluster's kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.work().join(KUBECONFIG)
    }
}

/// Progress file, relative to [`RunLayout::work`].
pub(crate) const PROGRESS: &str = "progress.jsonl";
/// Kubeconfig, relative to [`RunLayout::work`].
pub(crate) const KUBECONFIG: &str = "artifacts/admin.conf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_ids_that_would_leave_the_root() {
        for id in ["", ".", "..", "a/b", "../x", "A", "-x", "a b", &"x".repeat(129)] {
            assert!(RunLayout::of(Path::new("/runs"), id).is_err(), "{id:?}");
        }
        let layout = RunLayout::of(Path::new("/runs"), "0b2c-1.x").expect("a plain id");
        assert_eq!(layout.exit(), Path::new("/runs/0b2c-1.x/exit.json"));
    }
}
