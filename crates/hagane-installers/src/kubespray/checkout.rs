//! What a checkout of kubespray says of itself. What it does not say is unknown, and nothing is concluded from that.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::Value;

/// Largest file of a checkout that is read.
const FILE_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A version as `MAJOR.MINOR.PATCH`; what follows, such as `-dev`, is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// Third number.
    pub patch: u32,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let problem = || format!("{text:?} is no version such as 1.35.4");
        let text = text.trim();
        let text = text.strip_prefix('v').unwrap_or(text);
        let numbers = text.split(['-', '+']).next().unwrap_or_default();
        let mut parts = numbers.split('.').map(str::parse);
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch)), None) => Ok(Self { major, minor, patch }),
            (Some(Ok(major)), Some(Ok(minor)), None, None) => Ok(Self { major, minor, patch: 0 }),
            _ => Err(problem()),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

/// A checkout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checkout {
    /// Where it is.
    pub directory: PathBuf,
    /// Its own version, from `galaxy.yml`.
    pub version: Option<Version>,
    /// The oldest ansible-core it takes, and the first that it does not take any more.
    pub ansible: Option<(Version, Version)>,
    /// The Kubernetes versions it has checksums for, newest first.
    pub kubernetes: Vec<Version>,
    /// Whether it writes Kubernetes versions with a `v`.
    pub with_v: bool,
}

impl Checkout {
    /// Reads what there is; nothing of the checkout is run.
    #[must_use]
    pub fn read(directory: &Path) -> Self {
        let text = |path: &str| read(&directory.join(path));
        let version = text("galaxy.yml").and_then(|galaxy| value_of(&galaxy, "version")?.parse().ok());
        let pins = text("playbooks/ansible_version.yml").or_else(|| text("ansible_version.yml"));
        let ansible = pins.and_then(|pins| {
            let bound = |name: &str| value_of(&pins, name)?.parse().ok();
            Some((bound("minimal_ansible_version")?, bound("maximal_ansible_version")?))
        });
        let tables = ["kubespray_defaults/vars", "kubespray-defaults/vars", "kubespray-defaults/defaults"];
        let table = tables.iter().find_map(|role| text(&format!("roles/{role}/main/checksums.yml")));
        let spelled = table.map(|table| accepted(&table)).unwrap_or_default();
        let mut kubernetes: Vec<Version> = spelled.iter().filter_map(|version| version.parse().ok()).collect();
        kubernetes.sort_unstable_by(|one, other| other.cmp(one));
        let with_v = spelled.iter().any(|version| version.starts_with('v'));
        Self { directory: directory.to_path_buf(), version, ansible, kubernetes, with_v }
    }

    /// A Kubernetes version as its variables have it.
    #[must_use]
    pub fn spelled(&self, version: Version) -> String {
        if self.with_v { format!("v{version}") } else { version.to_string() }
    }

    /// The version that it installs where none is asked for: its newest.
    #[must_use]
    pub fn default_kubernetes(&self) -> Option<Version> {
        self.kubernetes.first().copied()
    }

    /// One line for people.
    #[must_use]
    pub fn described(&self) -> String {
        self.version.map_or_else(|| "kubespray of unknown version".to_owned(), |version| format!("kubespray {version}"))
    }
}

fn read(path: &Path) -> Option<String> {
    let size = fs::metadata(path).ok()?.len();
    (size <= FILE_BYTES_MAX).then(|| fs::read_to_string(path).ok()).flatten()
}

/// The value of the first line `name: value`, however deep.
fn value_of(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'))?;
    Some(line.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']).to_owned())
}

/// The versions of kubelet in a table of checksums.
fn accepted(table: &str) -> Vec<String> {
    let tables: BTreeMap<String, Value> = serde_saphyr::from_str(table).unwrap_or_default();
    let kubelet = tables.get("kubelet_checksums").and_then(|kubelet| kubelet.get("amd64"));
    kubelet.and_then(Value::as_object).map(|versions| versions.keys().cloned().collect()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout(files: &[(&str, &str)]) -> (tempfile::TempDir, Checkout) {
        let directory = tempfile::tempdir().expect("a directory");
        for (path, text) in files {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            fs::write(path, text).expect("a file");
        }
        let read = Checkout::read(directory.path());
        (directory, read)
    }

    fn version(text: &str) -> Version {
        text.parse().expect("a version")
    }

    #[test]
    fn reads_version_bounds_and_accepted_kubernetes_versions() {
        let (_directory, read) = checkout(&[
            ("galaxy.yml", "namespace: x\nversion: 2.31.0\n"),
            (
                "playbooks/ansible_version.yml",
                "- vars:\n    minimal_ansible_version: 2.18.0\n    maximal_ansible_version: 2.19.0 # not it\n",
            ),
            (
                "roles/kubespray_defaults/vars/main/checksums.yml",
                "kubelet_checksums:\n  arm64:\n    1.36.0: sha256:a\n  amd64:\n    1.35.4: sha256:b\n    1.34.10: sha256:c\n    1.34.9: sha256:d\n",
            ),
        ]);
        assert_eq!(read.version, Some(version("2.31.0")));
        assert_eq!(read.ansible, Some((version("2.18.0"), version("2.19.0"))));
        assert_eq!(read.kubernetes, [version("1.35.4"), version("1.34.10"), version("1.34.9")]);
        assert_eq!(
            (read.spelled(version("1.34.9")), read.described()),
            ("1.34.9".to_owned(), "kubespray 2.31.0".to_owned())
        );
    }

    #[test]
    fn older_ones_spell_versions_with_a_v_and_are_read_too() {
        let table = "kubelet_checksums:\n  amd64:\n    v1.31.4: abc\n";
        let (_directory, read) = checkout(&[
            ("galaxy.yml", "version: '2.27.0'"),
            ("roles/kubespray-defaults/defaults/main/checksums.yml", table),
        ]);
        assert_eq!((read.spelled(version("1.31.4")), read.version), ("v1.31.4".to_owned(), Some(version("2.27.0"))));
        assert_eq!(read.default_kubernetes(), Some(version("1.31.4")));
    }

    #[test]
    fn what_is_not_said_is_unknown() {
        let (directory, read) = checkout(&[("galaxy.yml", "version: next"), ("playbooks/ansible_version.yml", "{{")]);
        assert_eq!(read, Checkout { directory: directory.path().to_path_buf(), ..Checkout::default() });
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        assert!(version("1.34.10") > version("1.34.9") && version("v2.32.0-dev") == version("2.32"));
        for text in ["", "1", "1.x.0", "1.2.3.4", "{{ x }}"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }
}
