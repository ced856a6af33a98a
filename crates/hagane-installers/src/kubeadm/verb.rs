//! What a verb asks of the playbooks: which one runs, which nodes stay, leave or are lost, which version is laid down.

use hagane_ports::installer::{InstallRequest, InstallVerb, InstallerError, NodeRole};
use serde_json::Value;

use crate::inventory::{Group, invalid};
use crate::payload::Shelf;

/// Name of the check that the first master stays.
const FIRST_MASTER: &str = "FirstControlPlaneNode";

/// The nodes of a run by what becomes of them, and the playbook that does it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) playbook: &'static str,
    /// The master from which the others are managed; chosen on the way where masters were lost.
    first: Option<String>,
    staying: Vec<String>,
    leaving: Vec<String>,
    lost: Vec<String>,
}

impl Parts {
    /// The groups that the playbooks go by.
    pub(super) fn groups(&self) -> Vec<Group> {
        vec![
            Group::new("hagane_first", self.first.iter().cloned()),
            Group::new("hagane_staying", self.staying.iter().cloned()),
            Group::new("hagane_leaving", self.leaving.iter().cloned()),
            Group::new("hagane_lost", self.lost.iter().cloned()),
        ]
    }
}

/// Sorts the nodes of a request.
///
/// # Errors
/// [`InstallerError::Invalid`] where a name is not in the inventory, [`InstallerError::Preflight`] where the first master
/// would go.
pub(super) fn parts(request: &InstallRequest) -> Result<Parts, InstallerError> {
    let (leaving, lost): (Vec<String>, Vec<String>) = match &request.verb {
        InstallVerb::RemoveNodes { nodes, lost } => {
            check_names("removed node", nodes, request)?;
            if let Some(stray) = lost.iter().find(|name| !nodes.contains(name)) {
                return Err(invalid("lost node", stray, "one of the nodes to remove"));
            }
            if nodes.is_empty() {
                return Err(invalid("nodes to remove", "(none)", "at least one"));
            }
            (nodes.iter().filter(|name| !lost.contains(name)).cloned().collect(), lost.clone())
        }
        InstallVerb::RecoverControlPlane { lost } => (Vec::new(), lost.clone()),
        _ => (Vec::new(), Vec::new()),
    };
    check_verb(request)?;
    let nodes = &request.inventory.nodes;
    let goes = |name: &String| leaving.contains(name) || lost.contains(name);
    let staying = nodes.iter().map(|node| node.name.clone()).filter(|name| !goes(name)).collect();
    let recovers = matches!(request.verb, InstallVerb::RecoverControlPlane { .. });
    let first = masters(request).first().filter(|_| !recovers).map(|name| (*name).clone());
    Ok(Parts { playbook: playbook(&request.verb), first, staying, leaving, lost })
}

fn playbook(verb: &InstallVerb) -> &'static str {
    match verb {
        // It converges: nodes that stand are left as they are, but for the routes to new ones.
        InstallVerb::Install | InstallVerb::AddWorkers(_) | InstallVerb::AddMasters(_) => "site.yml",
        InstallVerb::RemoveNodes { .. } => "remove.yml",
        InstallVerb::Upgrade { .. } => "upgrade.yml",
        InstallVerb::Reconfigure => "reconfigure.yml",
        InstallVerb::RenewCertificates => "renew.yml",
        InstallVerb::Reset => "reset.yml",
        InstallVerb::RecoverControlPlane { .. } => "recover.yml",
    }
}

fn masters(request: &InstallRequest) -> Vec<&String> {
    let masters = request.inventory.nodes.iter().filter(|node| node.roles.contains(&NodeRole::Master));
    masters.map(|node| &node.name).collect()
}

fn check_verb(request: &InstallRequest) -> Result<(), InstallerError> {
    let masters = masters(request);
    let first = masters.first().copied();
    match &request.verb {
        InstallVerb::AddWorkers(names) => check_names("worker to add", names, request),
        InstallVerb::AddMasters(names) => {
            check_names("master to add", names, request)?;
            match names.iter().find(|name| !masters.contains(name) || Some(*name) == first) {
                Some(name) => {
                    Err(invalid("master to add", name, "a master of the inventory that is not the first one"))
                }
                None => Ok(()),
            }
        }
        InstallVerb::RemoveNodes { nodes, .. } => match nodes.iter().find(|name| Some(*name) == first) {
            Some(name) => Err(no(
                FIRST_MASTER,
                format!(
                    "{name} is the first master, from which the others are managed, and cannot be removed; reset the \
                     cluster, or recover its control plane where this master is lost for good"
                ),
            )),
            None => Ok(()),
        },
        InstallVerb::RecoverControlPlane { lost } => {
            check_names("lost master", lost, request)?;
            if let Some(name) = lost.iter().find(|name| !masters.contains(name)) {
                return Err(invalid("lost master", name, "a master"));
            }
            if lost.is_empty() || masters.iter().all(|name| lost.contains(name)) {
                return Err(invalid("lost masters", lost.join(", "), "at least one, and not all of them"));
            }
            let balanced =
                ["loadbalancer_apiserver", "kube_vip_address"].iter().any(|name| request.variables.contains_key(*name));
            match lost.iter().find(|name| Some(*name) == first) {
                Some(name) if !balanced => Err(no(
                    FIRST_MASTER,
                    format!(
                        "{name} is the first master, whose address all nodes use: neither loadbalancer_apiserver nor kube_vip_address is set"
                    ),
                )),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

fn check_names(field: &str, names: &[String], request: &InstallRequest) -> Result<(), InstallerError> {
    let known = |name: &String| request.inventory.nodes.iter().any(|node| node.name == *name);
    match names.iter().find(|name| !known(name)) {
        Some(name) => Err(invalid(field, name, "a node of the inventory")),
        None => Ok(()),
    }
}

/// Whether the verb lays something of a payload on hosts.
pub(super) fn needs_payload(verb: &InstallVerb) -> bool {
    use InstallVerb::{RemoveNodes, RenewCertificates, Reset};
    !matches!(verb, RemoveNodes { .. } | RenewCertificates | Reset)
}

/// The version that the request names, where it names one; without one, the version that stands is kept, and the newest
/// is installed where none stands.
///
/// # Errors
/// [`InstallerError::Preflight`] naming the versions that there are payloads of, where it is none of them.
pub(super) fn version<'a>(request: &'a InstallRequest, shelf: &Shelf) -> Result<Option<&'a str>, InstallerError> {
    let variable = request.variables.get("kube_version").and_then(Value::as_str).map(without_v);
    let (field, version) = match (&request.verb, variable) {
        (InstallVerb::Upgrade { version }, Some(other)) if without_v(version) != other => {
            return Err(invalid("kube_version", other, format!("{version}, which the upgrade is to")));
        }
        (InstallVerb::Upgrade { version }, _) => ("version to upgrade to", without_v(version)),
        (_, Some(version)) => ("kube_version", version),
        (_, None) => return Ok(None),
    };
    if needs_payload(&request.verb) && shelf.find(version).is_none() {
        let there = shelf.versions().join(", ");
        let detail = format!("{field} is {version}, of which there is no payload; there are payloads of {there}");
        return Err(no("KubernetesVersion", detail));
    }
    Ok(Some(version))
}

fn no(check: &'static str, detail: String) -> InstallerError {
    InstallerError::Preflight { check, detail }
}

fn without_v(version: &str) -> &str {
    version.strip_prefix('v').unwrap_or(version)
}

#[cfg(test)]
mod tests;
