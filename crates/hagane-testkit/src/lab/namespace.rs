//! The lab's network and mount namespaces: a sleeping process holds them, everything else enters them.
//!
//! In the mount namespace /run is the lab's own, and /etc, /var/lib, /var/log and /var/cache are covered by writable layers of
//! the lab (and the maker's home too, where it is closed to others): programs inside find the machine's files and may change them without the machine seeing any of it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::cgroup::Cgroups;
use super::command;
use super::ledger::{Entry, Ledger};
use super::paths::LabPaths;
use super::process::{ProcessId, wait_until};

/// Directories of the machine that the lab covers with a layer of its own.
pub(crate) const COVERED: [&str; 4] = ["/etc", "/var/lib", "/var/log", "/var/cache"];

/// Writes its process number to the files named before `--`, then becomes the program named after it.
const ENTER_GROUPS: &str = r#"while [ "$1" != -- ]; do echo $$ >"$1" || exit 125; shift; done; shift; exec "$@""#;

/// The lab's namespaces, by the process that holds them.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// The holder.
    pub holder: ProcessId,
    groups: Cgroups,
}

impl Namespace {
    /// Starts the holder and lays the lab's layers over the machine's directories.
    ///
    /// # Errors
    /// When namespaces are refused (root is needed) or a mount fails.
    pub fn create(paths: &LabPaths, groups: &Cgroups, ledger: &mut Ledger) -> Result<Self> {
        let unshare = ["setsid", "unshare", "--net", "--mount", "--propagation", "private", "sleep", "infinity"];
        let mut starting = command::program(in_groups(groups, "lab", unshare));
        let mut child = starting
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start the holder of the namespaces")?;
        let holder = ProcessId::of(child.id()).context("the holder of the namespaces ended at once")?;
        ledger.record(&Entry::Holder { process: holder })?;
        let asleep =
            || fs::read_to_string(format!("/proc/{}/comm", holder.pid)).is_ok_and(|name| name.trim() == "sleep");
        if !wait_until(Duration::from_secs(10), asleep) {
            let status = child.try_wait().ok().flatten();
            bail!(
                "the holder of the lab's namespaces did not start ({status:?}): making network and mount namespaces needs root"
            );
        }
        let namespace = Self { holder, groups: groups.clone() };
        namespace.cover(&paths.directory)?;
        Ok(namespace)
    }

    /// The namespaces of a lab that exists.
    pub fn of(holder: ProcessId, groups: Cgroups) -> Self {
        Self { holder, groups }
    }

    fn cover(&self, directory: &Path) -> Result<()> {
        self.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "hagane-lab", "/run"])?;
        self.run(["mkdir", "-p", "/run/lock", "/run/libvirt", "/run/systemd/nspawn", "/run/lab"])?;
        for covered in COVERED {
            self.cover_one(directory, covered, 0o755)?;
        }
        if let Some(home) = closed_home() {
            self.cover_one(directory, &home, 0o711)?;
        }
        Ok(())
    }

    fn cover_one(&self, directory: &Path, covered: &str, mode: u32) -> Result<()> {
        let layer = layer(directory, covered);
        let work = directory.join("work").join(covered.trim_start_matches('/').replace('/', "-"));
        for made in [&layer, &work] {
            fs::create_dir_all(made).with_context(|| format!("make {}", made.display()))?;
        }
        let open = fs::Permissions::from_mode(mode);
        fs::set_permissions(&layer, open).with_context(|| format!("open {} for reading", layer.display()))?;
        let options = format!("lowerdir={covered},upperdir={},workdir={}", layer.display(), work.display());
        self.run(["mount", "-t", "overlay", "-o", &options, "hagane-lab", covered]).map(|_| ())
    }

    /// Argument vector that runs a program inside the lab and in the control group `child`.
    /// The working directory is the root.
    pub fn argv<S: Into<OsString>>(&self, child: &str, argv: impl IntoIterator<Item = S>) -> Vec<OsString> {
        let target = self.holder.pid.to_string();
        let enter = ["nsenter", "--target", &target, "--net", "--mount", "--"].map(OsString::from);
        in_groups(&self.groups, child, enter.into_iter().chain(argv.into_iter().map(Into::into)))
    }

    /// Runs a program inside the lab to its end; gives standard output.
    ///
    /// # Errors
    /// When it can not be run or ends with a status other than 0.
    pub fn run<S: Into<OsString>>(&self, argv: impl IntoIterator<Item = S>) -> Result<String> {
        command::run(self.argv("lab", argv))
    }

    /// Whether a program run inside the lab ends with status 0.
    pub fn succeeds<S: Into<OsString>>(&self, argv: impl IntoIterator<Item = S>) -> bool {
        command::succeeds(self.argv("lab", argv))
    }

    /// Handle of the network namespace, as a file.
    pub fn network_file(&self) -> PathBuf {
        format!("/proc/{}/ns/net", self.holder.pid).into()
    }
}

/// The maker's home where only its owner can pass through it: caches lie below it, and the lab's unprivileged user must
/// get there.
fn closed_home() -> Option<String> {
    let home = std::env::var("HOME").ok().filter(|home| home.len() > 1 && home.starts_with('/'))?;
    let mode = fs::metadata(&home).ok()?.permissions().mode();
    (mode & 0o001 == 0).then(|| home.trim_end_matches('/').to_owned())
}

/// Where the lab's own layer over a covered directory lies; files put there are seen inside.
pub(crate) fn layer(lab_directory: &Path, covered: &str) -> PathBuf {
    lab_directory.join("layers").join(covered.trim_start_matches('/').replace('/', "-"))
}

fn in_groups<S: AsRef<OsStr>>(groups: &Cgroups, child: &str, argv: impl IntoIterator<Item = S>) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh", "-c", ENTER_GROUPS, "lab"].map(OsString::from).into();
    words.extend(groups.entry_files(child).into_iter().map(OsString::from));
    words.push("--".into());
    words.extend(argv.into_iter().map(|word| word.as_ref().to_owned()));
    words
}
