//! An inventory as text: the same groups and members in both formats.

use std::fmt::Write as _;

use hagane_ports::installer::{GroupNames, Inventory, InventoryFormat, InventoryNode, NodeRole};

/// A group of a run beside the usual ones.
pub(crate) struct Group {
    /// Its name.
    pub name: &'static str,
    /// Its members, in order.
    pub members: Vec<String>,
}

impl Group {
    pub(crate) fn new(name: &'static str, members: impl IntoIterator<Item = String>) -> Self {
        Self { name, members: members.into_iter().collect() }
    }
}

/// Name of the inventory's file.
pub(crate) fn file_name(format: InventoryFormat) -> &'static str {
    match format {
        InventoryFormat::Ini => "hosts.ini",
        InventoryFormat::Yaml => "hosts.yaml",
    }
}

/// Renders a checked inventory and further groups.
pub(super) fn render(inventory: &Inventory, further: &[Group]) -> String {
    let groups = groups(inventory);
    let further = further.iter().map(|group| (group.name, group.members.iter().map(String::as_str).collect()));
    let groups: Vec<(&str, Vec<&str>)> = groups.into_iter().chain(further).collect();
    let children = match inventory.group_names {
        GroupNames::Current => ("k8s_cluster", ["kube_control_plane", "kube_node"]),
        GroupNames::Legacy => ("k8s-cluster", ["kube-node", "kube-master"]),
    };
    match inventory.format {
        InventoryFormat::Ini => ini(inventory, &groups, children),
        InventoryFormat::Yaml => yaml(inventory, &groups, children),
    }
}

fn groups(inventory: &Inventory) -> Vec<(&'static str, Vec<&str>)> {
    let (masters, workers) = (with_role(inventory, NodeRole::Master), with_role(inventory, NodeRole::Worker));
    match inventory.group_names {
        GroupNames::Current => vec![("kube_control_plane", masters.clone()), ("etcd", masters), ("kube_node", workers)],
        GroupNames::Legacy => vec![
            ("kube-master", masters.clone()),
            ("kube-node", workers.clone()),
            ("etcd", masters.clone()),
            ("ovn-central", masters),
            ("ovn-controller", workers.clone()),
            ("virtlet", workers),
        ],
    }
}

pub(super) fn with_role(inventory: &Inventory, role: NodeRole) -> Vec<&str> {
    inventory.nodes.iter().filter(|node| node.roles.contains(&role)).map(|node| node.name.as_str()).collect()
}

/// Variables of a host, in order. A master's name in etcd is its own for ever: kubespray would count the masters.
fn variables(node: &InventoryNode, names: GroupNames) -> Vec<(&'static str, String)> {
    let InventoryNode { name, address, ssh_port, roles, second_address } = node;
    let (host, port) = match names {
        GroupNames::Current => ("ansible_host", "ansible_port"),
        GroupNames::Legacy => ("ansible_ssh_host", "ansible_ssh_port"),
    };
    let mut variables = vec![(host, address.to_string()), (port, ssh_port.to_string())];
    for (names, address) in [(("ip", "access_ip"), Some(address)), (("ip6", "access_ip6"), second_address.as_ref())] {
        if let Some(address) = address {
            variables.extend([(names.0, address.to_string()), (names.1, address.to_string())]);
        }
    }
    if roles.contains(&NodeRole::Master) {
        variables.push(("etcd_member_name", format!("etcd-{name}")));
    }
    variables
}

fn ini(inventory: &Inventory, groups: &[(&str, Vec<&str>)], children: (&str, [&str; 2])) -> String {
    let mut text = String::from("[all]\n");
    for node in &inventory.nodes {
        text.push_str(&node.name);
        for (name, value) in variables(node, inventory.group_names) {
            let _ = write!(text, " {name}={value}");
        }
        text.push('\n');
    }
    for (group, members) in groups {
        let _ = writeln!(text, "\n[{group}]");
        for member in members {
            let _ = writeln!(text, "{member}");
        }
    }
    let (parent, [first, second]) = children;
    let _ = writeln!(text, "\n[{parent}:children]\n{first}\n{second}");
    text
}

/// Every scalar but the port is quoted: `null`, `yes` and `1e3` are good names for hosts.
fn yaml(inventory: &Inventory, groups: &[(&str, Vec<&str>)], children: (&str, [&str; 2])) -> String {
    let mut text = String::from("---\nall:\n  hosts:\n");
    for node in &inventory.nodes {
        let _ = writeln!(text, "    \"{}\":", node.name);
        for (name, value) in variables(node, inventory.group_names) {
            let quote = if name.ends_with("_port") { "" } else { "\"" };
            let _ = writeln!(text, "      {name}: {quote}{value}{quote}");
        }
    }
    text.push_str("  children:\n");
    for (group, members) in groups {
        if members.is_empty() {
            let _ = writeln!(text, "    {group}: {{}}");
            continue;
        }
        let _ = writeln!(text, "    {group}:\n      hosts:");
        for member in members {
            let _ = writeln!(text, "        \"{member}\": {{}}");
        }
    }
    let (parent, [first, second]) = children;
    let _ = writeln!(text, "    {parent}:\n      children:\n        {first}: {{}}\n        {second}: {{}}");
    text
}
