//! Checks before a run that need no host. Each has a name, which stands in the message where it says no. The checks on the
//! hosts are tasks of a playbook of ours, `playbooks/kubespray/preflight.yml`, under the same kind of names.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use hagane_ports::installer::{InstallRequest, InstallVerb, InstallerError, Inventory, NodeRole};
use serde_json::Value;

use super::checkout::{Checkout, Version};
use super::memory::Memory;
use super::networks;

/// Names of all checks, those on the hosts included.
pub const CHECKS: [&str; 19] = [
    "AnsibleVersion",
    "PythonVersion",
    "EtcdIsOdd",
    "NodeNames",
    "PodNetworkSize",
    "KubernetesVersion",
    "KubernetesVersionSkip",
    "KubesprayVersionSkip",
    "FirstControlPlaneNode",
    "PythonOnHost",
    "PasswordlessSudo",
    "MemoryFloor",
    "DiskSpace",
    "ClockSkew",
    "PortsFree",
    "Reachability",
    "NodeAddress",
    "Systemd",
    "StandsWhereItShould",
];

/// Pythons that a minor version of ansible-core runs with.
const PYTHONS: [((u32, u32), (u32, u32)); 5] =
    [((16, 10), (12, 12)), ((17, 10), (12, 12)), ((18, 11), (13, 13)), ((19, 11), (13, 13)), ((20, 12), (14, 14))];

/// What a checkout, an inventory and the past have to say to a request.
pub(super) struct Preflight<'a> {
    pub checkout: &'a Checkout,
    pub request: &'a InstallRequest,
    pub memory: &'a Memory,
    pub skip: &'a BTreeSet<String>,
    pub ansible: Option<&'a AnsibleVersion>,
}

impl Preflight<'_> {
    /// The Kubernetes version that the run leads to; `None` where nothing says it.
    pub(super) fn kubernetes(&self) -> Result<Option<Version>, InstallerError> {
        let asked = match &self.request.verb {
            InstallVerb::Upgrade { version } => Some(version.clone()),
            _ => match self.request.variables.get("kube_version") {
                Some(Value::String(version)) => Some(version.clone()),
                Some(other) => return Err(no("KubernetesVersion", format!("kube_version is {other}, not a string"))),
                None => None,
            },
        };
        if let Some(asked) = asked {
            return asked.parse().map(Some).map_err(|problem| no("KubernetesVersion", problem));
        }
        // A cluster that stands keeps its version, also under a newer checkout.
        let stands = self.memory.kubernetes.as_deref().and_then(|version| version.parse().ok());
        Ok(stands.or_else(|| self.checkout.default_kubernetes()))
    }

    pub(super) fn check(&self) -> Result<(), InstallerError> {
        let checks: [(&str, Result<(), InstallerError>); 8] = [
            ("AnsibleVersion", self.ansible_version()),
            ("PythonVersion", self.python_version()),
            ("EtcdIsOdd", self.etcd_is_odd()),
            ("KubesprayVersionSkip", self.kubespray_skip()),
            ("FirstControlPlaneNode", self.first_master()),
            ("KubernetesVersion", self.kubernetes_version()),
            ("KubernetesVersionSkip", self.kubernetes_skip()),
            ("PodNetworkSize", networks::check(self.request, self.memory)),
        ];
        checks.into_iter().filter(|(name, _)| !self.skip.contains(*name)).try_for_each(|(_, result)| result)
    }

    fn ansible_version(&self) -> Result<(), InstallerError> {
        let (Some((from, below)), Some(found)) = (self.checkout.ansible, self.ansible) else { return Ok(()) };
        if found.core >= from && found.core < below {
            return Ok(());
        }
        Err(no(
            "AnsibleVersion",
            format!(
                "{} needs ansible-core from {from} and below {below}, and {} has {}; `hagane payload kubespray-python` makes one",
                self.checkout.described(),
                found.program,
                found.core
            ),
        ))
    }

    fn python_version(&self) -> Result<(), InstallerError> {
        let Some(found) = self.ansible else { return Ok(()) };
        let Some(python) = found.python else { return Ok(()) };
        let Some((low, high)) = PYTHONS.iter().find(|row| row.0.0 == found.core.minor).map(|row| (row.0.1, row.1.1))
        else {
            return Ok(());
        };
        if (low..=high).contains(&python.minor) && python.major == 3 {
            return Ok(());
        }
        let detail = format!("ansible-core {} needs Python 3.{low} to 3.{high}, and runs with {python}", found.core);
        Err(no("PythonVersion", detail))
    }

    fn etcd_is_odd(&self) -> Result<(), InstallerError> {
        let masters = masters(&self.request.inventory);
        if masters.len() % 2 == 1 {
            return Ok(());
        }
        let detail = format!("{} masters: each is an etcd member, and etcd needs an odd number", masters.len());
        Err(no("EtcdIsOdd", detail))
    }

    fn kubespray_skip(&self) -> Result<(), InstallerError> {
        let before = self.memory.kubespray.as_deref().and_then(|version| version.parse::<Version>().ok());
        let (Some(before), Some(now)) = (before, self.checkout.version) else { return Ok(()) };
        if matches!(self.request.verb, InstallVerb::Reset) {
            return Ok(());
        }
        let detail = if now < before && (now.major, now.minor) != (before.major, before.minor) {
            "an older one may not know it; name the newer one by --kubespray-dir"
        } else if now.major == before.major && now.minor > before.minor + 1 {
            "one minor version at a time: name the next one by --kubespray-dir and upgrade with it first"
        } else {
            return Ok(());
        };
        Err(no(
            "KubesprayVersionSkip",
            format!("the cluster was made with kubespray {before}, and this is {now}: {detail}"),
        ))
    }

    fn first_master(&self) -> Result<(), InstallerError> {
        let Some(before) = &self.memory.first_master else { return Ok(()) };
        if matches!(self.request.verb, InstallVerb::Reset | InstallVerb::RecoverControlPlane { .. }) {
            return Ok(());
        }
        let now = masters(&self.request.inventory).first().copied();
        let leaves = matches!(&self.request.verb, InstallVerb::RemoveNodes { nodes, .. } if nodes.contains(before));
        if now == Some(before.as_str()) && !leaves {
            return Ok(());
        }
        let detail = if leaves {
            format!("{before} is the first of the control plane, which kubespray cannot remove; recover or re-make it")
        } else {
            format!("{before} is the first of the control plane, not {}", now.unwrap_or("nothing"))
        };
        Err(no("FirstControlPlaneNode", detail))
    }

    fn kubernetes_version(&self) -> Result<(), InstallerError> {
        let Some(wanted) = self.kubernetes()? else { return Ok(()) };
        let accepted = &self.checkout.kubernetes;
        if accepted.is_empty() || accepted.contains(&wanted) || !installs(&self.request.verb) {
            return Ok(());
        }
        let (newest, oldest) = (accepted.first(), accepted.last());
        let range = newest.zip(oldest).map(|(newest, oldest)| format!("{oldest} to {newest}")).unwrap_or_default();
        Err(no(
            "KubernetesVersion",
            format!("{} has no checksums for Kubernetes {wanted}; it has them for {range}", self.checkout.described()),
        ))
    }

    fn kubernetes_skip(&self) -> Result<(), InstallerError> {
        let before = self.memory.kubernetes.as_deref().and_then(|version| version.parse::<Version>().ok());
        let (Some(before), Some(wanted)) = (before, self.kubernetes()?) else { return Ok(()) };
        let upgrade = matches!(self.request.verb, InstallVerb::Upgrade { .. });
        let detail = match () {
            () if wanted.major != before.major || wanted.minor > before.minor + 1 => "one minor version at a time",
            () if wanted < before => "a cluster cannot go back",
            () if wanted != before && !upgrade && installs(&self.request.verb) => "only an upgrade changes the version",
            () => return Ok(()),
        };
        Err(no(
            "KubernetesVersionSkip",
            format!("the cluster has Kubernetes {before}, and {wanted} is asked for: {detail}"),
        ))
    }
}

/// Whether a verb puts Kubernetes of a version on hosts.
fn installs(verb: &InstallVerb) -> bool {
    !matches!(verb, InstallVerb::RemoveNodes { .. } | InstallVerb::Reset | InstallVerb::RenewCertificates)
}

/// Names of the masters, in order.
pub(super) fn masters(inventory: &Inventory) -> Vec<&str> {
    let nodes = inventory.nodes.iter().filter(|node| node.roles.contains(&NodeRole::Master));
    nodes.map(|node| node.name.as_str()).collect()
}

/// An [`InstallerError::Preflight`].
pub(super) fn no(check: &'static str, detail: impl Into<String>) -> InstallerError {
    InstallerError::Preflight { check, detail: detail.into() }
}

/// What an `ansible-playbook` is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnsibleVersion {
    /// The program.
    pub program: String,
    /// Version of ansible-core.
    pub core: Version,
    /// Version of the Python that runs it.
    pub python: Option<Version>,
}

impl AnsibleVersion {
    /// Asks the program; `None` where it does not say. Blocks for as long as it takes.
    #[must_use]
    pub fn ask(program: &Path) -> Option<Self> {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).current_dir("/").env("ANSIBLE_CONFIG", "/dev/null");
        let output = command.output().ok().filter(|output| output.status.success())?;
        Self::parse(&program.display().to_string(), &String::from_utf8_lossy(&output.stdout))
    }

    fn parse(program: &str, text: &str) -> Option<Self> {
        let core = text.lines().next()?.split_once("[core ")?.1.split(']').next()?;
        let python = text.lines().find_map(|line| line.trim().strip_prefix("python version = "));
        let python = python.and_then(|python| python.split_whitespace().next()?.parse().ok());
        Some(Self { program: program.to_owned(), core: leading(core).parse().ok()?, python })
    }
}

/// Digits and dots at the start: `2.18.0rc1` is 2.18.0.
fn leading(text: &str) -> &str {
    let end = text.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(text.len());
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;
