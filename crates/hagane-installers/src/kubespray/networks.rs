//! Pod and service networks: whether they hold the hosts, and how large a node's part is.

use std::net::IpAddr;

use hagane_ports::installer::{InstallRequest, InstallerError};
use ipnet::IpNet;
use serde_json::Value;

use super::memory::Memory;
use super::preflight::no;

/// kubespray's own defaults.
const PODS: &str = "10.233.64.0/18";
const PODS_V6: &str = "fd85:ee78:d8a6:8607::1:0000/112";
const SERVICES: &str = "10.233.0.0/18";
/// Prefix of a node's part where there is room.
const NODE_PREFIX: u8 = 24;
const NODE_PREFIX_V6: u8 = 120;
/// Smallest part: 62 pods.
const NODE_PREFIX_MAX: u8 = 26;
/// Room for growth: so many times the hosts of the first run.
const GROWTH: usize = 2;
/// Pods of a node that kubespray plans with where nothing else is asked for.
const PODS_OF_A_NODE: u64 = 110;

fn variable<'a>(request: &'a InstallRequest, name: &str, default: &'a str) -> &'a str {
    request.variables.get(name).and_then(Value::as_str).unwrap_or(default)
}

fn flag(request: &InstallRequest, name: &str) -> Option<bool> {
    request.variables.get(name).and_then(Value::as_bool)
}

/// The stacks of a request, IPv4 and IPv6.
pub(super) fn stacks(request: &InstallRequest) -> (bool, bool) {
    (flag(request, "ipv4_stack").unwrap_or(true), flag(request, "ipv6_stack").unwrap_or(false))
}

/// The prefix of a node's IPv4 part: what was asked for, else what earlier runs had, else one with room for growth.
pub(super) fn node_prefix(request: &InstallRequest, memory: &Memory) -> Option<u8> {
    let (v4, _) = stacks(request);
    let asked = request.variables.get("kube_network_node_prefix").and_then(Value::as_u64);
    let asked = asked.and_then(|prefix| u8::try_from(prefix).ok());
    asked.or(memory.node_prefix).or_else(|| {
        let pods: IpNet = variable(request, "kube_pods_subnet", PODS).parse().ok().filter(|_| v4)?;
        let nodes = request.inventory.nodes.len();
        let fits = |wanted: usize| (NODE_PREFIX..=NODE_PREFIX_MAX).find(|prefix| holds(&pods, *prefix, wanted));
        fits(nodes * GROWTH).or_else(|| fits(nodes))
    })
}

/// The same for IPv6.
pub(super) fn node_prefix_v6(request: &InstallRequest, memory: &Memory) -> Option<u8> {
    let (_, v6) = stacks(request);
    let asked = request.variables.get("kube_network_node_prefix_ipv6").and_then(Value::as_u64);
    let asked = asked.and_then(|prefix| u8::try_from(prefix).ok());
    asked.or(memory.node_prefix_v6).or_else(|| {
        let pods: IpNet = variable(request, "kube_pods_subnet_ipv6", PODS_V6).parse().ok().filter(|_| v6)?;
        // A /64 for each node where the network is large, and never more than 16 bits of nodes.
        let nodes = request.inventory.nodes.len();
        let large = (pods.prefix_len() <= 56).then_some(64.min(pods.prefix_len() + 16));
        large.or_else(|| (NODE_PREFIX_V6..=NODE_PREFIX_V6 + 4).find(|prefix| holds(&pods, *prefix, nodes * GROWTH)))
    })
}

fn holds(pods: &IpNet, prefix: u8, nodes: usize) -> bool {
    let bits = prefix.checked_sub(pods.prefix_len()).map(u32::from);
    bits.is_some_and(|bits| bits >= usize::BITS || nodes <= 1_usize << bits)
}

/// Checks that the networks are networks, apart from each other and from the hosts, and large enough.
pub(super) fn check(request: &InstallRequest, memory: &Memory) -> Result<(), InstallerError> {
    let (v4, v6) = stacks(request);
    if !v4 && !v6 {
        return Err(no("PodNetworkSize", "neither ipv4_stack nor ipv6_stack is on"));
    }
    let nodes = request.inventory.nodes.len();
    if v4 {
        let pods = network(request, "kube_pods_subnet", PODS, true)?;
        let services = network(request, "kube_service_addresses", SERVICES, true)?;
        apart(request, &pods, &services)?;
        let Some(prefix) = node_prefix(request, memory) else { return Err(too_small(&pods, NODE_PREFIX_MAX, nodes)) };
        if !holds(&pods, prefix, nodes) {
            return Err(too_small(&pods, prefix, nodes));
        }
        let pods_of_a_node =
            request.variables.get("kubelet_max_pods").and_then(Value::as_u64).unwrap_or(PODS_OF_A_NODE);
        let room = (1_u64 << (32 - u32::from(prefix.min(32)))).saturating_sub(2);
        let calico = variable(request, "kube_network_plugin", "calico") == "calico";
        if room < pods_of_a_node && !calico {
            let detail =
                format!("a /{prefix} for each node holds {room} pods, and kubelet_max_pods is {pods_of_a_node}");
            return Err(no("PodNetworkSize", detail));
        }
    }
    if v6 && request.variables.contains_key("kube_pods_subnet_ipv6") {
        let pods = network(request, "kube_pods_subnet_ipv6", PODS_V6, false)?;
        if let Some(prefix) = node_prefix_v6(request, memory).filter(|prefix| !holds(&pods, *prefix, nodes)) {
            return Err(too_small(&pods, prefix, nodes));
        }
    }
    Ok(())
}

fn too_small(pods: &IpNet, prefix: u8, nodes: usize) -> InstallerError {
    no(
        "PodNetworkSize",
        format!(
            "{pods} cut into a /{prefix} for each node holds fewer than {nodes} nodes; ask for a larger spec.PodSubnet"
        ),
    )
}

fn network(request: &InstallRequest, name: &str, default: &str, v4: bool) -> Result<IpNet, InstallerError> {
    let text = variable(request, name, default);
    let parsed: Option<IpNet> = text.parse().ok();
    let good = parsed.filter(|net| net.addr().is_ipv4() == v4 && (!v4 || net.addr() == net.network()));
    let family = if v4 { "IPv4" } else { "IPv6" };
    good.ok_or_else(|| no("PodNetworkSize", format!("{name}: {text:?} is no {family} network such as {default}")))
}

fn apart(request: &InstallRequest, pods: &IpNet, services: &IpNet) -> Result<(), InstallerError> {
    if pods.contains(services) || services.contains(pods) {
        return Err(no("PodNetworkSize", format!("the pods' {pods} and the services' {services} overlap")));
    }
    let inside = |address: &IpAddr| [pods, services].into_iter().find(|net| net.contains(address));
    let found = request.inventory.nodes.iter().find_map(|node| Some((node, inside(&node.address)?)));
    match found {
        Some((node, net)) => {
            Err(no("PodNetworkSize", format!("{net} contains the address {} of node {}", node.address, node.name)))
        }
        None => Ok(()),
    }
}
