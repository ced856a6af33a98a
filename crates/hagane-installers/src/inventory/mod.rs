//! What Ansible reads: `hosts.ini`, the variables file, the login.
//!
//! Everything here is a pure function from a request to text. Only names, addresses and ports that were checked reach
//! `hosts.ini`; everything else a user wrote goes to the variables file as data.

mod variables;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use hagane_api::names::{dns_label_problem, login_name_problem};
use hagane_ports::installer::{InstallRequest, InstallerError, Inventory, InventoryNode, NodeRole};

pub use variables::{check_variable_name, render_variables};

/// Renders `hosts.ini` with kubespray's group names, nodes in the inventory's own order.
///
/// # Errors
/// [`InstallerError::Invalid`] where a name, address or port cannot stand in an inventory, where two nodes share a name
/// or an address, or where there is no master or an even number of them.
pub fn render_hosts_ini(inventory: &Inventory) -> Result<String, InstallerError> {
    check_inventory(inventory)?;
    let mut text = String::from("[all]\n");
    for node in &inventory.nodes {
        let InventoryNode { name, address, ssh_port, roles: _ } = node;
        let _ =
            writeln!(text, "{name} ansible_host={address} ansible_port={ssh_port} ip={address} access_ip={address}");
    }
    let masters = names_with_role(inventory, NodeRole::Master);
    let workers = names_with_role(inventory, NodeRole::Worker);
    for (group, members) in [("kube_control_plane", &masters), ("etcd", &masters), ("kube_node", &workers)] {
        let _ = writeln!(text, "\n[{group}]");
        for member in members {
            let _ = writeln!(text, "{member}");
        }
    }
    text.push_str("\n[k8s_cluster:children]\nkube_control_plane\nkube_node\n");
    Ok(text)
}

/// Checks everything of a request that does not depend on the installer.
///
/// # Errors
/// [`InstallerError::Invalid`] naming the value and what is allowed.
pub fn check_request(request: &InstallRequest) -> Result<(), InstallerError> {
    check_inventory(&request.inventory)?;
    check_user(&request.ssh.user)?;
    if let Some(line) = request.ssh.known_hosts.iter().find(|line| line.chars().any(char::is_control)) {
        return Err(invalid("ssh.knownHosts", line.escape_debug(), "one known_hosts entry a line"));
    }
    if !request.ssh.private_key.contains("PRIVATE KEY-----") {
        // The value is a secret even when it is not a key.
        return Err(invalid("ssh.privateKey", "(not shown)", "a private key in PEM or OpenSSH form"));
    }
    if request.time_limit.is_zero() {
        return Err(invalid("timeLimit", "0", "longer than zero"));
    }
    Ok(())
}

fn check_inventory(inventory: &Inventory) -> Result<(), InstallerError> {
    let mut names = BTreeSet::new();
    let mut addresses = BTreeSet::new();
    for node in &inventory.nodes {
        if let Some(problem) = dns_label_problem(&node.name) {
            return Err(invalid("inventory node name", &node.name, problem));
        }
        // Ansible and kubespray give these names a meaning of their own: groups, the management host, a host to jump over.
        if ["all", "ungrouped", "localhost", "etcd", "bastion"].contains(&node.name.as_str()) {
            return Err(invalid("inventory node name", &node.name, "not a name that Ansible or kubespray reserves"));
        }
        if !names.insert(&node.name) {
            return Err(invalid("inventory node name", &node.name, "each name once"));
        }
        if node.address.is_unspecified() || node.address.is_loopback() || node.address.is_multicast() {
            return Err(invalid("inventory node address", node.address, "an address of the host itself"));
        }
        if !addresses.insert(node.address) {
            return Err(invalid("inventory node address", node.address, "each address once"));
        }
        if node.ssh_port == 0 {
            return Err(invalid("inventory node SSH port", node.ssh_port, "1 to 65535"));
        }
        if node.roles.is_empty() {
            return Err(invalid("roles of inventory node", &node.name, "at least one of master, worker"));
        }
    }
    let masters = names_with_role(inventory, NodeRole::Master).len();
    if masters.is_multiple_of(2) {
        return Err(invalid("number of masters", masters, "an odd number, since each is an etcd member"));
    }
    Ok(())
}

fn check_user(user: &str) -> Result<(), InstallerError> {
    login_name_problem(user).map_or(Ok(()), |problem| Err(invalid("ssh.user", user, problem)))
}

fn names_with_role(inventory: &Inventory, role: NodeRole) -> Vec<&str> {
    inventory.nodes.iter().filter(|node| node.roles.contains(&role)).map(|node| node.name.as_str()).collect()
}

/// An [`InstallerError::Invalid`].
pub(crate) fn invalid(
    field: impl Into<String>,
    value: impl std::fmt::Display,
    allowed: impl Into<String>,
) -> InstallerError {
    InstallerError::Invalid { field: field.into(), value: value.to_string(), allowed: allowed.into() }
}

#[cfg(test)]
mod tests;
