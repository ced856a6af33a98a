//! What Ansible reads: the inventory, the variables file, the login.
//!
//! Everything here is a pure function from a request to text. Only names, addresses and ports that were checked reach
//! the inventory; everything else a user wrote goes to the variables file as data.

mod render;
mod variables;

use std::collections::BTreeSet;

use hagane_api::names::{dns_label_problem, login_name_problem};
use hagane_ports::installer::{InstallRequest, InstallerError, Inventory, NodeRole};

pub(crate) use render::{Group, file_name};
pub use variables::{check_variable_name, render_variables};

/// Renders the inventory in the format and with the group names that it asks for, nodes in its own order.
///
/// # Errors
/// [`InstallerError::Invalid`] where a name, address or port cannot stand in an inventory, where two nodes share a name
/// or an address, or where there is no master or an even number of them.
pub fn render_inventory(inventory: &Inventory) -> Result<String, InstallerError> {
    check_inventory(inventory)?;
    Ok(render::render(inventory, &[]))
}

/// Renders an inventory with further groups. What it holds was checked as part of a whole one.
pub(crate) fn render_with_groups(inventory: &Inventory, groups: &[Group]) -> String {
    render::render(inventory, groups)
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
        for address in [Some(node.address), node.second_address].into_iter().flatten() {
            if address.is_unspecified() || address.is_loopback() || address.is_multicast() {
                return Err(invalid("inventory node address", address, "an address of the host itself"));
            }
            if !addresses.insert(address) {
                return Err(invalid("inventory node address", address, "each address once"));
            }
        }
        if let Some(second) = node.second_address.filter(|second| second.is_ipv4() || node.address.is_ipv6()) {
            return Err(invalid("second address of inventory node", second, "an IPv6 address beside an IPv4 one"));
        }
        if node.ssh_port == 0 {
            return Err(invalid("inventory node SSH port", node.ssh_port, "1 to 65535"));
        }
        if node.roles.is_empty() {
            return Err(invalid("roles of inventory node", &node.name, "at least one of master, worker"));
        }
    }
    let masters = render::with_role(inventory, NodeRole::Master).len();
    if masters.is_multiple_of(2) {
        return Err(invalid("number of masters", masters, "an odd number, since each is an etcd member"));
    }
    Ok(())
}

fn check_user(user: &str) -> Result<(), InstallerError> {
    login_name_problem(user).map_or(Ok(()), |problem| Err(invalid("ssh.user", user, problem)))
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
