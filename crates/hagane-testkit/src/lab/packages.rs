//! Debian packages the lab's programs come from.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::command;

/// What the lab runs, and what builds its tools. Nothing of it starts a service: libvirt's units are in a package that is
/// not named here.
pub const PACKAGES: [&str; 17] = [
    "curl",
    "dnsmasq-base",
    "e2fsprogs",
    "fdisk",
    "iproute2",
    "libvirt-clients",
    "libvirt-daemon",
    "libvirt-daemon-driver-qemu",
    "mmdebstrap",
    "mount",
    "openssh-client",
    "python3",
    "python3-venv",
    "qemu-system-x86",
    "qemu-utils",
    "systemd-container",
    "util-linux",
];

/// How often fetching the lists is tried, and the pause between.
const ATTEMPTS: u32 = 5;
const RETRY_AFTER: Duration = Duration::from_secs(5);

const POLICY: &str = "/usr/sbin/policy-rc.d";
const POLICY_TEXT: &str =
    "#!/bin/sh\n# hagane lab: no service is started while packages are installed; removed afterwards.\nexit 101\n";

/// Which of the packages are not installed.
///
/// # Errors
/// When dpkg-query can not be run, as on a system other than Debian.
pub fn missing(names: &[&str]) -> Result<Vec<String>> {
    let query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\\n"];
    let output = command::program(query.iter().chain(names)).output();
    let output = output.context("ask dpkg-query which packages are installed (the lab needs a Debian system)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let installed = |name: &&&str| text.lines().any(|line| line == format!("{name} installed"));
    Ok(names.iter().filter(|name| !installed(name)).map(|name| (*name).to_owned()).collect())
}

/// Installs the packages that are missing, without recommended ones, and starts no service.
///
/// # Errors
/// When not run by root or apt-get fails.
pub fn install(names: &[&str]) -> Result<()> {
    remove_stale_policy()?;
    let missing = missing(names)?;
    if missing.is_empty() {
        return Ok(());
    }
    if !rustix::process::geteuid().is_root() {
        bail!("these packages are missing, and only root can install them: {}", missing.join(" "));
    }
    let made_policy = write_policy()?;
    let install = ["apt-get", "install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"];
    let install = install.map(str::to_owned);
    let words = install.into_iter().chain(missing);
    let outcome = update_lists().and_then(|()| apt(words));
    if made_policy {
        remove_stale_policy()?;
    }
    outcome
}

/// Fetches the lists of packages: recipes look in them, and a new machine has none.
pub(crate) fn update_lists() -> Result<()> {
    let mut outcome = Ok(());
    for _attempt in 0..ATTEMPTS {
        outcome = apt(["apt-get", "update"].map(str::to_owned));
        if outcome.is_ok() {
            break;
        }
        // Another apt may be at work: for the lists, apt itself does not wait.
        std::thread::sleep(RETRY_AFTER);
    }
    outcome
}

fn apt(words: impl IntoIterator<Item = String>) -> Result<()> {
    let environment = ["env", "DEBIAN_FRONTEND=noninteractive"].map(str::to_owned);
    command::run(environment.into_iter().chain(words)).map(|_| ())
}

/// Writes the policy file, unless the machine has one of its own.
fn write_policy() -> Result<bool> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    match fs::File::options().write(true).create_new(true).mode(0o755).open(POLICY) {
        Ok(mut file) => {
            file.write_all(POLICY_TEXT.as_bytes()).with_context(|| format!("write {POLICY}")).map(|()| true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).with_context(|| format!("make {POLICY}")),
    }
}

/// Removes the policy file if it is ours, also one left by an installation that was killed.
fn remove_stale_policy() -> Result<()> {
    let policy = Path::new(POLICY);
    if fs::read_to_string(policy).is_ok_and(|text| text == POLICY_TEXT) {
        fs::remove_file(policy).with_context(|| format!("remove {POLICY}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_no_debian_has_is_missing_and_dpkg_itself_is_not() {
        let missing = missing(&["dpkg", "no-such-package-at-all"]).expect("runs on Debian");
        assert_eq!(missing, ["no-such-package-at-all"]);
    }
}
