//! inotify instances: container hosts share those of the machine's root user.
//!
//! Where they have run out, systemd, kubelet and kube-proxy in the hosts end with "too many open files", again and again. The
//! limit is the machine's own, so a lab can only say so.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// The sysctl with the limit for one user.
const LIMIT: &str = "/proc/sys/fs/inotify/max_user_instances";
/// What a container host holds once it has booted: systemd, udevd, logind, D-Bus and the session of a login.
const HOST: usize = 13;

/// Checks that so many container hosts can boot.
///
/// # Errors
/// When there are too few instances left; the message says what to do.
pub(crate) fn check(hosts: usize) -> Result<()> {
    let limit = fs::read_to_string(LIMIT).with_context(|| format!("read {LIMIT}"))?;
    let limit = limit.trim().parse().with_context(|| format!("read a number from {LIMIT}"))?;
    enough(hosts, used(Path::new("/proc")), limit)
}

fn enough(hosts: usize, used: usize, limit: usize) -> Result<()> {
    let (left, needed) = (limit.saturating_sub(used), hosts.saturating_mul(HOST));
    if needed <= left {
        return Ok(());
    }
    bail!(
        "{hosts} container hosts need {needed} inotify instances, and {left} of the {limit} that root may have on this machine are \
         left; take down other labs (`cargo xtask lab list`) or raise the sysctl fs.inotify.max_user_instances"
    )
}

/// Instances that processes of root hold. Descriptors that share one are counted each, so it is never less than the truth.
fn used(proc: &Path) -> usize {
    let processes = fs::read_dir(proc).into_iter().flatten().flatten();
    let of_root = processes.filter(|entry| entry.metadata().is_ok_and(|metadata| metadata.uid() == 0));
    let descriptors = of_root.flat_map(|entry| fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten());
    let is_instance = |target: &Path| target.as_os_str() == "anon_inode:inotify";
    descriptors.filter(|entry| fs::read_link(entry.path()).is_ok_and(|target| is_instance(&target))).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_how_many_are_missing_and_what_to_do() {
        assert!(enough(3, 0, 128).is_ok() && enough(0, 128, 128).is_ok());
        let error = enough(3, 100, 128).expect_err("too few").to_string();
        for word in ["need 39", "28 of the 128", "fs.inotify.max_user_instances"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn counts_only_descriptors_of_instances() {
        let proc = tempfile::tempdir().expect("a folder");
        let descriptors = proc.path().join("17/fd");
        fs::create_dir_all(&descriptors).expect("made");
        for (name, target) in [("3", "anon_inode:inotify"), ("4", "anon_inode:[eventpoll]"), ("5", "/dev/null")] {
            std::os::unix::fs::symlink(target, descriptors.join(name)).expect("linked");
        }
        let owner = fs::metadata(proc.path()).expect("there").uid();
        assert_eq!(used(proc.path()), usize::from(owner == 0));
    }
}
