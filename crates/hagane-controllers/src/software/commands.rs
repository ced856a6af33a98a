//! The words in which hosts are asked and told, and what their answers mean. Every word is an argument of its own.

use std::collections::BTreeMap;

use hagane_api::bpa::software_reasons::PackageManager;
use hagane_plan::software::{UnitSeen, Work};

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// Which packages are installed, one line each: name, state, version.
pub(super) fn query(manager: PackageManager, names: &[String]) -> Vec<String> {
    let mut argv = match manager {
        PackageManager::Apt => {
            words(&["dpkg-query", "--show", "--showformat=${Package}\t${db:Status-Abbrev}\t${Version}\n", "--"])
        }
        PackageManager::Dnf => {
            words(&["rpm", "--query", "--queryformat=%{NAME}\tii\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\n", "--"])
        }
    };
    argv.extend(names.iter().cloned());
    argv
}

/// Installed packages and versions. A package that is unpacked but not configured counts as missing.
pub(super) fn installed(manager: PackageManager, output: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in output.lines() {
        let mut fields = line.split('\t');
        let (Some(name), Some(state), Some(version)) = (fields.next(), fields.next(), fields.next()) else { continue };
        if state.chars().nth(1) != Some('i') {
            continue;
        }
        let version = match manager {
            PackageManager::Apt => version,
            PackageManager::Dnf => version.strip_prefix("0:").unwrap_or(version),
        };
        found.entry(name.to_owned()).or_insert_with(|| version.to_owned());
    }
    found
}

/// Starts the package manager in a unit of its own, which outlives the connection and us. It stays when it has ended well, so that
/// its end can be seen.
pub(super) fn start(unit: &str, manager: PackageManager, work: &Work, seconds: u64) -> Vec<String> {
    let mut argv = words(&[
        "systemd-run",
        "--quiet",
        "--no-block",
        "--remain-after-exit",
        "--property=Type=oneshot",
        "--setenv=DEBIAN_FRONTEND=noninteractive",
        "--setenv=NEEDRESTART_SUSPEND=1",
        "--setenv=LC_ALL=C.UTF-8",
    ]);
    argv.push(format!("--unit={unit}"));
    argv.push(format!("--property=TimeoutStartSec={seconds}"));
    // Another program's lock is waited for, but not all of the time.
    let lock = format!("DPkg::Lock::Timeout={}", seconds / 2);
    if let (PackageManager::Apt, Work::Install(_)) = (manager, work) {
        // Lists that cannot be fetched fail nothing that the old ones are good for.
        argv.push(format!("--property=ExecStartPre=-/usr/bin/apt-get -q -o {lock} update"));
    }
    argv.push("--".to_owned());
    match (manager, work) {
        (PackageManager::Apt, Work::Install(packages)) => {
            argv.extend(words(&["/usr/bin/apt-get", "-q", "-y", "-o", &lock]));
            argv.extend(words(&["-o", "APT::Cmd::Pattern-Only=true"]));
            argv.extend(words(&["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]));
            argv.extend(words(&["--no-remove", "--allow-downgrades", "install", "--"]));
            argv.extend(packages.iter().map(|(name, version)| match version {
                Some(version) => format!("{name}={version}"),
                None => name.clone(),
            }));
        }
        (PackageManager::Dnf, Work::Install(packages)) => {
            argv.extend(words(&["/usr/bin/dnf", "-y", "install", "--"]));
            argv.extend(packages.iter().map(|(name, version)| match version {
                Some(version) => format!("{name}-{version}"),
                None => name.clone(),
            }));
        }
        // The low-level tools refuse what other packages need; the others would take those along.
        (PackageManager::Apt, Work::Remove(names)) => {
            argv.extend(words(&["/usr/bin/dpkg", "--remove", "--"]));
            argv.extend(names.iter().cloned());
        }
        (PackageManager::Dnf, Work::Remove(names)) => {
            argv.extend(words(&["/usr/bin/rpm", "--erase", "--"]));
            argv.extend(names.iter().cloned());
        }
    }
    argv
}

/// How a unit is doing.
pub(super) fn show(unit: &str) -> Vec<String> {
    let properties = "--property=LoadState,ActiveState,Result,ExecMainStatus";
    words(&["systemctl", "show", properties, &format!("{unit}.service")])
}

/// The last lines that a unit printed.
pub(super) fn journal(unit: &str) -> Vec<String> {
    let unit = format!("--unit={unit}.service");
    words(&["journalctl", "--quiet", "--no-pager", "--output=cat", "--lines=40", &unit])
}

/// Forgets units that have ended, well or not.
pub(super) fn forget(prefix: &str) -> [Vec<String>; 2] {
    let units = format!("{prefix}*.service");
    [words(&["systemctl", "stop", &units]), words(&["systemctl", "reset-failed", &units])]
}

/// What `systemctl show` tells, together with what the unit printed.
pub(super) fn unit_seen(shown: &str, output: &str) -> UnitSeen {
    let field = |name: &str| {
        let lines = shown.lines().filter_map(|line| line.split_once('='));
        lines.filter(|(key, _)| *key == name).map(|(_, value)| value.trim()).next_back().unwrap_or_default()
    };
    if field("LoadState") == "not-found" {
        return UnitSeen::Absent;
    }
    match (field("ActiveState"), field("Result")) {
        ("activating" | "deactivating" | "reloading", _) => UnitSeen::Running(lock_waited_for(output)),
        ("active", _) => UnitSeen::Succeeded,
        ("failed", "timeout") => UnitSeen::TimedOut,
        ("failed", "signal" | "core-dump" | "oom-kill") => UnitSeen::Killed,
        ("failed", _) => {
            let status = field("ExecMainStatus").parse().unwrap_or(1);
            UnitSeen::Failed(status, was_locked(output))
        }
        _ => UnitSeen::Absent,
    }
}

fn lock_waited_for(output: &str) -> Option<String> {
    const MARKS: [&str; 2] = ["Waiting for cache lock", "Waiting for process with pid"];
    let last = output.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    // apt counts the seconds on one line that it writes over.
    let last = last.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or(last).trim();
    let waits = MARKS.iter().any(|mark| last.contains(mark));
    waits.then(|| last.split("...").next().unwrap_or(last).trim().to_owned())
}

fn was_locked(output: &str) -> bool {
    const MARKS: [&str; 5] = [
        "Could not get lock",
        "lock was locked by another process",
        "Unable to acquire the dpkg frontend lock",
        "Failed to obtain the transaction lock",
        "can't create transaction lock",
    ];
    MARKS.iter().any(|mark| output.contains(mark))
}

/// Whether the package manager wants a reboot, and what its answer means.
pub(super) fn reboot_required(manager: PackageManager) -> Vec<String> {
    match manager {
        PackageManager::Apt => words(&["test", "-e", "/run/reboot-required"]),
        PackageManager::Dnf => words(&["dnf", "needs-restarting", "--reboothint"]),
    }
}

/// What the answer to [`reboot_required`] means.
pub(super) fn wants_reboot(manager: PackageManager, status: Option<u32>, output: &str) -> bool {
    match manager {
        PackageManager::Apt => status == Some(0),
        PackageManager::Dnf => status == Some(1) && output.contains("Reboot is required"),
    }
}

/// Identity of the boot.
pub(super) fn boot() -> Vec<String> {
    words(&["cat", "/proc/sys/kernel/random/boot_id"])
}

/// Reboots.
pub(super) fn reboot() -> Vec<String> {
    words(&["systemctl", "reboot"])
}

/// Programs that tell which package manager a host has, and that it can run units.
pub(super) fn probes() -> [(PackageManager, Vec<String>); 2] {
    [(PackageManager::Apt, words(&["apt-get", "--version"])), (PackageManager::Dnf, words(&["dnf", "--version"]))]
}

/// Whether units can be started.
pub(super) fn systemd() -> Vec<String> {
    words(&["systemd-run", "--version"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_of_a_user_is_an_argument_after_the_options() {
        let install = Work::Install(vec![("jq".to_owned(), Some("1.6-2.1".to_owned())), ("htop".to_owned(), None)]);
        let remove = Work::Remove(vec!["jq".to_owned()]);
        for (manager, work, end) in [
            (PackageManager::Apt, &install, ["install", "--", "jq=1.6-2.1", "htop"]),
            (PackageManager::Dnf, &install, ["install", "--", "jq-1.6-2.1", "htop"]),
            (PackageManager::Apt, &remove, ["/usr/bin/dpkg", "--remove", "--", "jq"]),
            (PackageManager::Dnf, &remove, ["/usr/bin/rpm", "--erase", "--", "jq"]),
        ] {
            let argv = start("u-1", manager, work, 60);
            assert_eq!(argv[argv.len() - 4..], end);
            assert!(
                argv.contains(&"--unit=u-1".to_owned()) && argv.contains(&"--property=TimeoutStartSec=60".to_owned())
            );
        }
    }

    #[test]
    fn reads_what_is_installed() {
        let dpkg = "jq\tii \t1.6-2.1\nhtop\trc \t3.2\ncurl\tiU \t7\nheld\thi \t1\n\tbroken\n";
        let expected = BTreeMap::from([("held".to_owned(), "1".to_owned()), ("jq".to_owned(), "1.6-2.1".to_owned())]);
        assert_eq!(installed(PackageManager::Apt, dpkg), expected);
        let rpm = "jq\tii\t0:1.6-2.el9\npackage htop is not installed\nbind\tii\t32:9.16-1\n";
        let expected =
            BTreeMap::from([("bind".to_owned(), "32:9.16-1".to_owned()), ("jq".to_owned(), "1.6-2.el9".to_owned())]);
        assert_eq!(installed(PackageManager::Dnf, rpm), expected);
    }

    #[test]
    fn tells_how_a_unit_is_doing() {
        let seen = |load: &str, active: &str, result: &str, output: &str| {
            let shown = format!("Result={result}\nExecMainStatus=100\nLoadState={load}\nActiveState={active}\n");
            unit_seen(&shown, output)
        };
        assert_eq!(seen("not-found", "inactive", "success", ""), UnitSeen::Absent);
        assert_eq!(seen("loaded", "activating", "success", "Unpacking jq\n"), UnitSeen::Running(None));
        let waits = "Reading\nWaiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)... 3s\n";
        let told =
            "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (apt)";
        assert_eq!(seen("loaded", "activating", "success", waits), UnitSeen::Running(Some(told.to_owned())));
        assert_eq!(seen("loaded", "active", "success", ""), UnitSeen::Succeeded);
        assert_eq!(seen("loaded", "failed", "exit-code", "E: Unable to locate"), UnitSeen::Failed(100, false));
        let locked = "dpkg: error: dpkg frontend lock was locked by another process with pid 7";
        assert_eq!(seen("loaded", "failed", "exit-code", locked), UnitSeen::Failed(100, true));
        assert_eq!(seen("loaded", "failed", "timeout", ""), UnitSeen::TimedOut);
        assert_eq!(seen("loaded", "failed", "signal", ""), UnitSeen::Killed);
    }

    #[test]
    fn tells_whether_a_reboot_is_wanted() {
        assert!(wants_reboot(PackageManager::Apt, Some(0), "") && !wants_reboot(PackageManager::Apt, Some(1), ""));
        assert!(wants_reboot(PackageManager::Dnf, Some(1), "Reboot is required to fully utilize these updates."));
        assert!(!wants_reboot(PackageManager::Dnf, Some(1), "No such command: needs-restarting"));
    }
}
