//! What has to stay the same, or may only go on step by step, from one run of a cluster to the next. It lies beside the
//! runs, in a directory that the run's user cannot reach, and goes with its owner.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hagane_ports::installer::InstallerError;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::engine::directory_error;
use crate::run::files::{read_record, write_record};

/// What is remembered of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Memory {
    /// Version of kubespray of the last good run.
    pub kubespray: Option<String>,
    /// Kubernetes version of the last good run.
    pub kubernetes: Option<String>,
    /// The first master: kubespray can neither move nor remove it.
    pub first_master: Option<String>,
    /// Prefix length of a node's part of the pod network, by IP family.
    pub node_prefix: Option<u8>,
    /// The same for IPv6.
    pub node_prefix_v6: Option<u8>,
    /// When the run ended that left this.
    pub at: Option<Timestamp>,
}

/// The memory of one owner.
pub(crate) struct Memories {
    directory: PathBuf,
}

impl Memories {
    pub(crate) fn beside(runs: &Path) -> Self {
        Self { directory: runs.join("clusters") }
    }

    fn path(&self, owner: &str) -> Result<PathBuf, InstallerError> {
        Ok(self.directory.join(format!("{}.json", crate::engine::file_name_of(owner)?)))
    }

    /// What is remembered; nothing for a new owner.
    pub(crate) fn load(&self, owner: &str) -> Result<Memory, InstallerError> {
        let record = read_record(&self.path(owner)?).map_err(directory_error("read what is known of the cluster"))?;
        Ok(record.unwrap_or_default())
    }

    /// Remembers what a run left that ended well at that time, unless something newer is known.
    pub(crate) fn remember(&self, owner: &str, then: &Memory, at: Timestamp) -> Result<(), InstallerError> {
        if self.load(owner)?.at.is_some_and(|known| known >= at) {
            return Ok(());
        }
        let memory = Memory { at: Some(at), ..then.clone() };
        let path = self.path(owner)?;
        let failed = directory_error("keep what is known of the cluster");
        crate::engine::make_passage(&self.directory).map_err(&failed)?;
        write_record(&path, &memory, 0o600).map_err(failed)
    }

    /// Forgets.
    pub(crate) fn forget(&self, owner: &str) -> Result<(), InstallerError> {
        match fs::remove_file(self.path(owner)?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(directory_error("forget what is known of the cluster")(error))
            }
            _ => Ok(()),
        }
    }
}
