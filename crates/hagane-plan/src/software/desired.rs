//! Which packages a node should have, and how its host compares.

use std::collections::{BTreeMap, BTreeSet};

use hagane_api::bpa::software::{Package, SoftwareSpec};
use hagane_api::bpa::software_reasons::{PackageManager, PackageState};
use hagane_api::bpa::software_status::{HostPackage, SoftwareHost};

use super::facts::{ClusterNode, Facts, Other};

/// Packages of a node in their order: name and exact version.
pub(super) type Desired = Vec<(String, Option<String>)>;

/// What the spec asks for on a node: the lists of its roles, each name once.
pub(super) fn desired(spec: &SoftwareSpec, node: &ClusterNode) -> Desired {
    let mut found: Desired = Vec::new();
    for package in lists(spec, node) {
        match found.iter_mut().find(|(name, _)| name == package.name()) {
            Some((_, version)) if version.is_none() => *version = package.version().map(str::to_owned),
            Some(_) => {}
            None => found.push((package.name().to_owned(), package.version().map(str::to_owned))),
        }
    }
    found
}

fn lists<'a>(spec: &'a SoftwareSpec, node: &ClusterNode) -> impl Iterator<Item = &'a Package> {
    let masters = if node.master { &spec.master_software[..] } else { &[] };
    let workers = if node.worker { &spec.worker_software[..] } else { &[] };
    masters.iter().chain(workers)
}

/// Two versions of one package that are asked for on one node, by this spec or by an older Software: what is told about the first
/// pair found.
pub(super) fn conflict(facts: &Facts, nodes: &[ClusterNode]) -> Option<String> {
    let elders = facts.others.iter().filter(|other| other.older && !other.deleting);
    for node in nodes {
        let mut versions: BTreeMap<&str, (&str, String)> = BTreeMap::new();
        for other in elders.clone() {
            for package in lists(&other.spec, node) {
                let Some(version) = package.version() else { continue };
                versions.entry(package.name()).or_insert_with(|| (version, format!("Software {}", other.name)));
            }
        }
        for package in lists(&facts.spec, node) {
            let Some(version) = package.version() else { continue };
            let known = versions.entry(package.name()).or_insert_with(|| (version, "the other list".to_owned()));
            if known.0 != version {
                let (name, node, (first, who)) = (package.name(), &node.node, known);
                return Some(format!(
                    "package {name:?} on node {node}: {version:?} is asked for, and {first:?} by {who}"
                ));
            }
        }
    }
    None
}

/// Whether another Software wants this package on the node.
fn wanted_by_another(others: &[Other], node: &ClusterNode, name: &str) -> bool {
    let living = others.iter().filter(|other| !other.deleting);
    living.flat_map(|other| lists(&other.spec, node)).any(|package| package.name() == name)
}

/// The packages of a host as they are now: those asked for, and ours that are not asked for any more.
pub(super) fn compared(
    host: &SoftwareHost,
    node: &ClusterNode,
    desired: &Desired,
    installed: &BTreeMap<String, String>,
    others: &[Other],
) -> Vec<HostPackage> {
    let manager = host.manager.unwrap_or(PackageManager::Apt);
    let known = |name: &str| host.packages.iter().find(|package| package.name == name);
    let mut packages: Vec<HostPackage> = desired
        .iter()
        .map(|(name, wanted)| {
            let there = installed.get(name);
            let state = match (there, wanted) {
                (None, _) => PackageState::Missing,
                (Some(there), Some(wanted)) if !same_version(manager, there, wanted) => PackageState::OtherVersion,
                (Some(_), _) => PackageState::Installed,
            };
            HostPackage {
                name: name.clone(),
                wanted: wanted.clone(),
                installed: there.cloned(),
                state,
                ours: known(name).is_some_and(|package| package.ours),
            }
        })
        .collect();
    for old in &host.packages {
        let asked_for = desired.iter().any(|(name, _)| *name == old.name);
        let there = installed.get(&old.name);
        if asked_for || !old.ours || there.is_none() || wanted_by_another(others, node, &old.name) {
            continue;
        }
        let (wanted, state) = (None, PackageState::Leaving);
        packages.push(HostPackage { wanted, installed: there.cloned(), state, ..old.clone() });
    }
    packages
}

/// Marks packages that are about to come as ours, unless they are there, or another Software brought them, in which case the
/// last of both takes them away.
pub(super) fn mark_ours(host: &mut SoftwareHost, others: &[Other]) {
    let owned: BTreeSet<_> = others.iter().flat_map(|other| &other.owns).collect();
    for package in &mut host.packages {
        let shared = owned.contains(&(host.host_uid.clone(), package.name.clone()));
        package.ours |= package.state == PackageState::Missing || shared;
    }
}

/// Names of all packages that a host is asked after.
pub(super) fn names(host: &SoftwareHost, desired: &Desired) -> Vec<String> {
    let known = host.packages.iter().map(|package| package.name.clone());
    let all: BTreeSet<String> = desired.iter().map(|(name, _)| name.clone()).chain(known).collect();
    all.into_iter().collect()
}

/// RPM versions may be given without epoch and release.
pub(super) fn same_version(manager: PackageManager, installed: &str, wanted: &str) -> bool {
    if installed == wanted {
        return true;
    }
    let plain = |text: &str| text.split_once(':').map_or(text.to_owned(), |(_, rest)| rest.to_owned());
    let shorter = plain(installed);
    manager == PackageManager::Dnf
        && (shorter == wanted || shorter.rsplit_once('-').is_some_and(|(version, _)| version == wanted))
}
