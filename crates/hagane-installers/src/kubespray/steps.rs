//! Which playbooks of the checkout a verb is, in which order, on which hosts.

use std::collections::BTreeMap;
use std::path::PathBuf;

use hagane_ports::installer::{GroupNames, InstallRequest, InstallVerb, InstallerError, Inventory, NodeRole};
use serde_json::{Value, json};

use super::preflight::masters;
use crate::engine::Step;
use crate::inventory::{Group, invalid, render_with_groups};

/// Nodes that are to join.
const JOINING: &str = "hagane_joining";
/// Nodes that are to leave and answer.
const LEAVING: &str = "hagane_leaving";
/// Nodes that are to leave and do not answer.
const LOST: &str = "hagane_lost";
/// Inventory without the nodes that do not answer.
const PRESENT: &str = "hosts-present";
/// Inventory without the nodes that leave.
const STAYING: &str = "hosts-staying";
/// Tries that etcd gets while its members change.
const ETCD_RETRIES: u32 = 20;

/// The playbooks of ours, below a run's `work` directory.
pub(super) const PREFLIGHT: &str = "hagane/preflight.yml";
const RENEW: &str = "hagane/renew.yml";

/// What a verb comes to.
#[derive(Default)]
pub(super) struct Steps {
    pub steps: Vec<Step>,
    pub groups: Vec<Group>,
    /// Inventories of single steps, by file name.
    pub files: Vec<(String, String)>,
}

impl Steps {
    fn push(&mut self, playbook: PathBuf, variables: &[(&str, Value)]) -> &mut Step {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.steps.push(Step { variables, ..Step::of(playbook) });
        let last = self.steps.len() - 1;
        &mut self.steps[last]
    }

    /// Lays an inventory down and gives its name.
    fn inventory(&mut self, name: &'static str, inventory: &Inventory, groups: &[Group]) -> &'static str {
        self.files.push((name.to_owned(), render_with_groups(inventory, groups)));
        name
    }
}

/// The steps of a verb in a checkout. The checks on the hosts come first where the verb puts something on them.
pub(super) fn steps(
    checkout: &std::path::Path,
    request: &InstallRequest,
    host_checks: bool,
) -> Result<Steps, InstallerError> {
    let playbook = |name: &str| checkout.join(name);
    let mut steps = Steps::default();
    check_names(request)?;
    let puts = matches!(
        request.verb,
        InstallVerb::Install
            | InstallVerb::AddWorkers(_)
            | InstallVerb::AddMasters(_)
            | InstallVerb::Reconfigure
            | InstallVerb::Upgrade { .. }
    );
    if host_checks && puts {
        steps.push(PathBuf::from(PREFLIGHT), &[]).always = true;
    }
    match &request.verb {
        InstallVerb::Install | InstallVerb::Reconfigure => {
            steps.push(playbook("cluster.yml"), &[]);
        }
        InstallVerb::AddMasters(_) => {
            steps.push(playbook("cluster.yml"), &[("etcd_retries", json!(ETCD_RETRIES))]);
        }
        InstallVerb::AddWorkers(nodes) => {
            steps.groups.push(Group::new(JOINING, nodes.iter().cloned()));
            steps.push(playbook("playbooks/facts.yml"), &[]).always = true;
            // With the old names kubespray makes its groups at run time, of the hosts that are not left out only.
            let limit = (request.inventory.group_names == GroupNames::Current).then_some(JOINING);
            steps.push(playbook("scale.yml"), &[]).limit = limit;
        }
        InstallVerb::RemoveNodes { nodes, lost } => remove(&mut steps, &playbook, request, nodes, lost),
        InstallVerb::Upgrade { .. } => {
            steps.push(playbook("upgrade-cluster.yml"), &[]);
        }
        InstallVerb::Reset => {
            steps.push(playbook("reset.yml"), &[("reset_confirmation", json!(true))]);
        }
        InstallVerb::RecoverControlPlane { lost } => recover(&mut steps, &playbook, request, lost),
        InstallVerb::RenewCertificates => {
            steps.push(playbook("playbooks/facts.yml"), &[]).always = true;
            steps.push(PathBuf::from(RENEW), &[]);
        }
    }
    Ok(steps)
}

/// Names in a verb are names of the inventory.
fn check_names(request: &InstallRequest) -> Result<(), InstallerError> {
    let named: Vec<&String> = match &request.verb {
        InstallVerb::AddWorkers(nodes) | InstallVerb::AddMasters(nodes) => nodes.iter().collect(),
        InstallVerb::RemoveNodes { nodes, lost } => nodes.iter().chain(lost).collect(),
        InstallVerb::RecoverControlPlane { lost } => lost.iter().collect(),
        _ => return Ok(()),
    };
    if named.is_empty() {
        return Err(invalid("nodes of the run", "(none)", "at least one node of the inventory"));
    }
    let known = |name: &String| request.inventory.nodes.iter().any(|node| node.name == *name);
    match named.into_iter().find(|name| !known(name)) {
        Some(name) => Err(invalid("node of the run", name, "a node of the inventory")),
        None => Ok(()),
    }
}

fn without(inventory: &Inventory, names: &[&String]) -> Inventory {
    let nodes = inventory.nodes.iter().filter(|node| !names.iter().any(|name| **name == node.name));
    Inventory { nodes: nodes.cloned().collect(), ..inventory.clone() }
}

/// Nodes that do not answer go first: with them in the inventory nothing else could be done on all hosts.
fn remove(
    steps: &mut Steps,
    playbook: &dyn Fn(&str) -> PathBuf,
    request: &InstallRequest,
    nodes: &[String],
    lost: &[String],
) {
    let inventory = &request.inventory;
    let answering: Vec<String> = nodes.iter().filter(|node| !lost.contains(node)).cloned().collect();
    let lost: Vec<&String> = lost.iter().collect();
    if !lost.is_empty() {
        steps.groups.push(Group::new(LOST, lost.iter().copied().cloned()));
        steps.push(
            playbook("remove-node.yml"),
            &[
                ("node", json!(LOST)),
                ("skip_confirmation", json!(true)),
                ("reset_nodes", json!(false)),
                ("allow_ungraceful_removal", json!(true)),
            ],
        );
    }
    if !answering.is_empty() {
        let group = Group::new(LEAVING, answering.iter().cloned());
        let present = (!lost.is_empty())
            .then(|| steps.inventory(PRESENT, &without(inventory, &lost), std::slice::from_ref(&group)));
        steps.groups.push(group);
        let variables = [("node", json!(LEAVING)), ("skip_confirmation", json!(true)), ("reset_nodes", json!(true))];
        steps.push(playbook("remove-node.yml"), &variables).inventory = present;
    }
    let gone: Vec<&String> = nodes.iter().chain(lost).collect();
    let staying = without(inventory, &gone);
    let a_master_leaves = masters(&staying).len() < masters(inventory).len();
    // The others still name it as an etcd member and as an API server. With an even number left a further master follows,
    // and the run that adds it does the same.
    if a_master_leaves && masters(&staying).len() % 2 == 1 {
        let staying = steps.inventory(STAYING, &staying, &[]);
        steps.push(playbook("cluster.yml"), &[("etcd_retries", json!(ETCD_RETRIES))]).inventory = Some(staying);
    }
}

/// Lost masters are in no group but those that name them as lost.
fn recover(steps: &mut Steps, playbook: &dyn Fn(&str) -> PathBuf, request: &InstallRequest, lost: &[String]) {
    let mut inventory = request.inventory.clone();
    for node in inventory.nodes.iter_mut().filter(|node| lost.contains(&node.name)) {
        node.roles.clear();
    }
    let left = inventory.nodes.iter().filter(|node| node.roles.contains(&NodeRole::Master)).count();
    let broken = || lost.iter().cloned();
    let groups = [Group::new("broken_etcd", broken()), Group::new("broken_kube_control_plane", broken())];
    let name = steps.inventory(PRESENT, &inventory, &groups);
    let mut variables = vec![("etcd_retries", json!(ETCD_RETRIES))];
    if left.is_multiple_of(2) {
        variables.push(("ignore_assert_errors", json!(true)));
    }
    steps.push(playbook("recover-control-plane.yml"), &variables).inventory = Some(name);
}

/// Playbooks of ours, by path below `work`.
pub(super) fn files() -> Vec<(String, String)> {
    macro_rules! tree {
        ($($path:literal),+) => {
            vec![$((format!("hagane/{}", $path), include_str!(concat!("../../playbooks/kubespray/", $path)).to_owned())),+]
        };
    }
    tree!["preflight.yml", "renew.yml", "library/hagane_reach.py"]
}

/// Names of the masters that a run has to leave alone and of those that join.
pub(super) fn joining(verb: &InstallVerb) -> BTreeMap<String, Value> {
    let nodes = match verb {
        InstallVerb::AddWorkers(nodes) | InstallVerb::AddMasters(nodes) => Some(nodes),
        _ => None,
    };
    nodes.map(|nodes| ("hagane_joining_nodes".to_owned(), json!(nodes))).into_iter().collect()
}
