//! Control groups of a lab: they bound the container hosts, and every process of the lab is found by them.
//!
//! Works with version 1 controllers, with version 2, and with both side by side.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::ledger::{Entry, Ledger};
use super::process::{kill, wait_until};

/// Most processes and threads one container host may have.
const HOST_PIDS: u32 = 16_384;

/// Controllers the container hosts need.
const NEEDED: [&str; 3] = ["cpuset", "memory", "pids"];

/// One mounted control group hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hierarchy {
    mount: PathBuf,
    version: Version,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Version {
    /// With the controllers it was mounted with.
    One(Vec<String>),
    Two,
}

impl Hierarchy {
    fn has(&self, controller: &str) -> bool {
        match &self.version {
            Version::One(controllers) => controllers.iter().any(|name| name == controller),
            Version::Two => controllers_in(&self.mount.join("cgroup.controllers")).contains(controller),
        }
    }
}

/// The control groups of one lab, in every hierarchy of the machine.
#[derive(Debug, Clone)]
pub struct Cgroups {
    hierarchies: Vec<Hierarchy>,
    name: String,
}

impl Cgroups {
    /// Makes the lab's groups.
    ///
    /// # Errors
    /// When no hierarchy is mounted or a group can not be made.
    pub fn create(id: &str, ledger: &mut Ledger) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
        let groups = Self { hierarchies: parse(&mounts), name: format!("hagane-{id}") };
        if groups.hierarchies.is_empty() {
            bail!("no control group hierarchy is mounted on this machine (looked in /proc/self/mounts)");
        }
        for hierarchy in &groups.hierarchies {
            let top = hierarchy.mount.join(&groups.name);
            ledger.record(&Entry::Cgroup { path: top.clone() })?;
            if hierarchy.version == Version::Two {
                delegate(&hierarchy.mount, Some(ledger))?;
            }
            make(&top, hierarchy)?;
            if hierarchy.version == Version::Two {
                delegate(&top, None)?;
            }
            make(&top.join("lab"), hierarchy)?;
        }
        Ok(groups)
    }

    /// Makes the groups of a container host and bounds its memory, processors and number of processes.
    ///
    /// # Errors
    /// When a group can not be made or a limit is refused.
    pub fn create_host(&self, host: &str, processors: u32, memory_mib: u64) -> Result<()> {
        for hierarchy in &self.hierarchies {
            let group = hierarchy.mount.join(&self.name).join(host);
            make(&group, hierarchy)?;
            let one = matches!(hierarchy.version, Version::One(_));
            let memory = memory_mib * 1024 * 1024;
            if hierarchy.has("memory") {
                write(&group.join(if one { "memory.limit_in_bytes" } else { "memory.max" }), &memory.to_string())?;
            }
            if hierarchy.has("pids") {
                write(&group.join("pids.max"), &HOST_PIDS.to_string())?;
            }
            if hierarchy.has("cpuset") {
                let own = fs::read_to_string(group.join(if one { "cpuset.cpus" } else { "cpuset.cpus.effective" }));
                let own = own.context("read the processors of a control group")?;
                write(&group.join("cpuset.cpus"), &first_processors(own.trim(), processors)?)?;
            }
        }
        Ok(())
    }

    /// The files a process writes its number to, to live in the group `child` (`lab`, or a container host).
    pub fn entry_files(&self, child: &str) -> Vec<PathBuf> {
        let groups = self.hierarchies.iter().map(|hierarchy| hierarchy.mount.join(&self.name).join(child));
        groups.map(|group| group.join("cgroup.procs")).collect()
    }

    /// The groups of a lab that exists.
    ///
    /// # Errors
    /// When the mount table can not be read.
    pub fn of(id: &str) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
        Ok(Self { hierarchies: parse(&mounts), name: format!("hagane-{id}") })
    }
}

fn parse(mounts: &str) -> Vec<Hierarchy> {
    let mut found: Vec<Hierarchy> = Vec::new();
    for line in mounts.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(mount), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let version = match kind {
            "cgroup" => Version::One(options.split(',').map(str::to_owned).collect()),
            "cgroup2" => Version::Two,
            _ => continue,
        };
        let options: Vec<&str> = options.split(',').collect();
        if !options.contains(&"ro") && !found.iter().any(|known| known.mount == Path::new(mount)) {
            found.push(Hierarchy { mount: mount.into(), version });
        }
    }
    found
}

/// The first `count` of a processor list such as `0-3,8`, as a list.
fn first_processors(list: &str, count: u32) -> Result<String> {
    let mut processors = Vec::new();
    for range in list.split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let parse = |text: &str| text.parse::<u32>().with_context(|| format!("read the processor list {list:?}"));
        processors.extend(parse(first)?..=parse(last)?);
    }
    let count = usize::try_from(count).context("count processors")?;
    if count == 0 || count > processors.len() {
        bail!("a container host asks for {count} processors; 1 to {} are allowed on this machine", processors.len());
    }
    Ok(processors[..count].iter().map(u32::to_string).collect::<Vec<_>>().join(","))
}

fn make(group: &Path, hierarchy: &Hierarchy) -> Result<()> {
    fs::create_dir_all(group).with_context(|| format!("make the control group {}", group.display()))?;
    // A new version 1 cpuset group has no processors, and takes no process until it has.
    if matches!(hierarchy.version, Version::One(_)) && hierarchy.has("cpuset") {
        let parent = group.parent().unwrap_or(&hierarchy.mount);
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let value =
                fs::read_to_string(parent.join(file)).with_context(|| format!("read {file} of a control group"))?;
            write(&group.join(file), value.trim())?;
        }
    }
    Ok(())
}

/// Hands the needed controllers of a version 2 group to its children; writes down those it had to switch on.
fn delegate(group: &Path, mut ledger: Option<&mut Ledger>) -> Result<()> {
    let present = controllers_in(&group.join("cgroup.controllers"));
    let handed_on = controllers_in(&group.join("cgroup.subtree_control"));
    for controller in NEEDED.iter().filter(|name| present.contains(**name) && !handed_on.contains(**name)) {
        if let Some(ledger) = ledger.as_deref_mut() {
            ledger.record(&Entry::CgroupController { path: group.to_owned(), controller: (*controller).to_owned() })?;
        }
        write(&group.join("cgroup.subtree_control"), &format!("+{controller}"))?;
    }
    Ok(())
}

fn controllers_in(file: &Path) -> BTreeSet<String> {
    fs::read_to_string(file).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

fn write(file: &Path, value: &str) -> Result<()> {
    fs::write(file, value).with_context(|| format!("write {value:?} to {}", file.display()))
}

/// Kills everything that lives below these groups and waits until all have ended.
pub(crate) fn kill_all(groups: &[PathBuf], limit: Duration) -> bool {
    wait_until(limit, || {
        let members: BTreeSet<u32> = groups.iter().flat_map(|group| members(group)).collect();
        members.iter().copied().for_each(kill);
        members.is_empty()
    })
}

/// Removes a group with all below it; a group that is gone is fine.
pub(crate) fn remove(group: &Path) -> Result<()> {
    for child in children(group) {
        remove(&child)?;
    }
    let mut refusal = None;
    let gone = wait_until(Duration::from_secs(10), || match fs::remove_dir(group) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
        // Processes that have just been killed still count for a moment.
        Err(error) => {
            refusal = Some(error);
            false
        }
    });
    match refusal {
        Some(error) if !gone => Err(error).with_context(|| format!("remove the control group {}", group.display())),
        _ => Ok(()),
    }
}

/// Switches off a controller that a lab had switched on, unless others use it by now.
pub(crate) fn withdraw(group: &Path, controller: &str) {
    let _in_use = fs::write(group.join("cgroup.subtree_control"), format!("-{controller}"));
}

fn members(group: &Path) -> Vec<u32> {
    let own = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    let below = children(group).into_iter().flat_map(|child| members(&child));
    own.lines().filter_map(|line| line.parse().ok()).chain(below).collect()
}

fn children(group: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(group) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_hierarchies_of_both_versions_and_leaves_read_only_ones_out() {
        let mounts = "cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0\n\
                      cgroup /ro cgroup ro,memory 0 0\n\
                      proc /proc proc rw 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = parse(mounts);
        assert_eq!(found.len(), 2);
        assert!(found[0].has("cpuset") && !found[0].has("memory"));
        assert_eq!(found[1].version, Version::Two);
    }

    #[test]
    fn takes_the_first_processors_of_a_list_with_gaps() {
        assert_eq!(first_processors("0-1,4,6-7", 4).expect("enough"), "0,1,4,6");
    }

    #[test]
    fn refuses_more_processors_than_the_machine_has() {
        let error = first_processors("0-1", 3).expect_err("only two");
        assert!(error.to_string().contains("1 to 2 are allowed"), "{error}");
    }
}
