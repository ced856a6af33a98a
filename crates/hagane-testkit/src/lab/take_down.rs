//! Taking labs down by their ledgers alone.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::ledger::{Entry, Ledger, is_dead};
use super::paths::{LabPaths, labs_directory};
use super::{cgroup, command};

/// Ends everything of a lab and removes what it left. Safe to repeat; a lab that does not exist is fine.
///
/// # Errors
/// When something does not go away; the ledger is kept then, so that the next try finds it.
pub fn take_down(paths: &LabPaths) -> Result<()> {
    if !paths.ledger.exists() {
        return Ok(());
    }
    let entries = Ledger::read(&paths.ledger)?;
    for entry in &entries {
        if let Entry::Process { process } = entry {
            process.kill();
        }
    }
    let groups: Vec<PathBuf> = entries.iter().filter_map(group).collect();
    if !cgroup::kill_all(&groups, Duration::from_secs(30)) {
        bail!("processes of lab {} do not end", paths.id);
    }
    for entry in entries.iter().rev() {
        match entry {
            Entry::Holder { process } => process.kill(),
            Entry::Cgroup { path } => cgroup::remove(path)?,
            Entry::CgroupController { path, controller } => cgroup::withdraw(path, controller),
            Entry::Directory { path } => remove_directory(path)?,
            Entry::Started { .. } | Entry::Process { .. } | Entry::Ready => {}
        }
    }
    absent_is_fine(fs::remove_file(&paths.ledger)).with_context(|| format!("remove {}", paths.ledger.display()))?;
    if let Some(labs) = paths.ledger.parent() {
        let _other_labs_are_left = fs::remove_dir(labs);
    }
    Ok(())
}

/// Ids of all labs that have a ledger, in order.
///
/// # Errors
/// When the directory of labs can not be read.
pub fn list() -> Result<Vec<String>> {
    let labs = labs_directory()?;
    let entries = match fs::read_dir(&labs) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("read {}", labs.display()))?,
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut ids: Vec<String> = names.filter_map(|name| name.strip_suffix(".ledger").map(str::to_owned)).collect();
    ids.sort();
    Ok(ids)
}

/// Whether the lab of this ledger is dead.
///
/// # Errors
/// When the ledger can not be read.
pub fn dead(paths: &LabPaths) -> Result<bool> {
    Ok(is_dead(&Ledger::read(&paths.ledger)?))
}

/// Takes down every dead lab; gives their ids.
///
/// # Errors
/// When one of them does not go away.
pub fn take_down_dead() -> Result<Vec<String>> {
    let mut taken = Vec::new();
    for id in list()? {
        let Ok(paths) = LabPaths::of(&id) else { continue };
        if dead(&paths)? {
            take_down(&paths).with_context(|| format!("take down the dead lab {id}"))?;
            taken.push(id);
        }
    }
    Ok(taken)
}

fn group(entry: &Entry) -> Option<PathBuf> {
    match entry {
        Entry::Cgroup { path } => Some(path.clone()),
        _ => None,
    }
}

/// Removes a directory with all in it, but never what is mounted in it: a mount of another is unmounted first.
fn remove_directory(path: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
    let targets =
        mounts.lines().filter_map(|line| line.split(' ').nth(1)).filter(|target| Path::new(target).starts_with(path));
    let targets: Vec<&str> = targets.collect();
    for target in targets.iter().rev() {
        command::run(["umount", "--lazy", target])?;
    }
    absent_is_fine(fs::remove_dir_all(path)).with_context(|| format!("remove {}", path.display()))
}

fn absent_is_fine(outcome: std::io::Result<()>) -> std::io::Result<()> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}
