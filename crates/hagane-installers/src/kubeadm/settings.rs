//! The variables that the kubeadm playbooks read. Their names and meanings are kubespray's, so that one Provisioning
//! fits both installers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hagane_api::names::{dns_label_problem, dns_subdomain_problem};
use hagane_ports::installer::{InstallerError, Inventory};
use ipnet::IpNet;
use serde_json::Value;

use crate::inventory::invalid;

/// Pod network where none is asked for.
const PODS_SUBNET: &str = "10.233.64.0/18";
/// Service network where none is asked for.
const SERVICE_ADDRESSES: &str = "10.233.0.0/18";
/// Prefix length of a node's part of the pod network where none is asked for.
const NODE_PREFIX: u64 = 24;

/// The known variables, for messages.
const KNOWN: &str = "one of kube_version, cluster_name, dns_domain, kube_pods_subnet, kube_service_addresses, \
                     kube_network_node_prefix, kube_proxy_mode, upstream_dns_servers, \
                     supplementary_addresses_in_ssl_keys, loadbalancer_apiserver, drain_timeout";

/// Checks every variable by itself and the networks together.
pub(super) fn check(variables: &BTreeMap<String, Value>, inventory: &Inventory) -> Result<(), InstallerError> {
    let (mut pods, mut services, mut prefix) = (PODS_SUBNET.to_owned(), SERVICE_ADDRESSES.to_owned(), NODE_PREFIX);
    for (name, value) in variables {
        match name.as_str() {
            // Which ones there are depends on the payloads; see `verb::version`.
            "kube_version" => drop(string(name, value)?),
            "drain_timeout" => check_seconds(name, value)?,
            "cluster_name" | "dns_domain" => {
                let domain = string(name, value)?;
                if let Some(problem) = dns_subdomain_problem(domain) {
                    return Err(invalid(name, domain, problem));
                }
            }
            "kube_pods_subnet" => string(name, value)?.clone_into(&mut pods),
            "kube_service_addresses" => string(name, value)?.clone_into(&mut services),
            "kube_network_node_prefix" => {
                prefix = value.as_u64().ok_or_else(|| invalid(name, value, "a prefix length, a whole number"))?;
            }
            "kube_proxy_mode" if ["nftables", "iptables"].contains(&string(name, value)?) => {}
            "kube_proxy_mode" => return Err(invalid(name, value, "nftables or iptables")),
            "upstream_dns_servers" => each(name, value, is_address, "a list of addresses")?,
            "supplementary_addresses_in_ssl_keys" => each(name, value, is_host, "a list of addresses and names")?,
            "loadbalancer_apiserver" => check_balancer(name, value)?,
            _ => return Err(invalid("variable", name, KNOWN)),
        }
    }
    check_networks(&pods, &services, prefix, inventory)
}

/// A number of seconds, as kubespray writes it: `360s`.
fn check_seconds(name: &str, value: &Value) -> Result<(), InstallerError> {
    let seconds = string(name, value)?.strip_suffix('s').and_then(|number| number.parse::<u32>().ok());
    match seconds {
        Some(1..=86_400) => Ok(()),
        _ => Err(invalid(name, value, "a number of seconds from 1 to 86400, as in 300s")),
    }
}

fn check_balancer(name: &str, value: &Value) -> Result<(), InstallerError> {
    let address = value.get("address").and_then(Value::as_str).is_some_and(is_host);
    let port = value.get("port").is_none_or(|port| port.as_u64().is_some_and(|port| (1..=65535).contains(&port)));
    if address && port { Ok(()) } else { Err(invalid(name, value, "{address: NAME or ADDRESS, port: 1 to 65535}")) }
}

fn check_networks(pods: &str, services: &str, prefix: u64, inventory: &Inventory) -> Result<(), InstallerError> {
    let network = |name: &str, text: &str| -> Result<IpNet, InstallerError> {
        let parsed: Option<IpNet> = text.parse().ok().filter(|net: &IpNet| net.addr() == net.network());
        parsed.ok_or_else(|| invalid(name, text, "a network as ADDRESS/PREFIX, with no host bits"))
    };
    let (pods, services) = (network("kube_pods_subnet", pods)?, network("kube_service_addresses", services)?);
    if pods.contains(&services) || services.contains(&pods) {
        return Err(invalid("kube_service_addresses", services, format!("a network apart from the pods' {pods}")));
    }
    for node in &inventory.nodes {
        for (name, net) in [("kube_pods_subnet", pods), ("kube_service_addresses", services)] {
            if net.contains(&node.address) {
                return Err(invalid(name, net, format!("a network without the node address {}", node.address)));
            }
        }
    }
    let free_bits = prefix.checked_sub(u64::from(pods.prefix_len()));
    let fits = u64::from(pods.max_prefix_len()) > prefix
        && free_bits.is_some_and(|bits| bits <= 16 && inventory.nodes.len() <= 1 << bits);
    if fits {
        return Ok(());
    }
    Err(invalid(
        "kube_network_node_prefix",
        prefix,
        format!("a prefix that cuts {pods} into at least {} and at most 65536 parts", inventory.nodes.len()),
    ))
}

fn string<'a>(name: &str, value: &'a Value) -> Result<&'a str, InstallerError> {
    value.as_str().ok_or_else(|| invalid(name, value, "a string"))
}

fn each(name: &str, value: &Value, good: fn(&str) -> bool, allowed: &str) -> Result<(), InstallerError> {
    let items = value.as_array().ok_or_else(|| invalid(name, value, allowed))?;
    match items.iter().find(|item| !item.as_str().is_some_and(good)) {
        Some(item) => Err(invalid(name, item, allowed)),
        None => Ok(()),
    }
}

fn is_address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_host(text: &str) -> bool {
    is_address(text) || dns_label_problem(text).is_none() || dns_subdomain_problem(text).is_none()
}

#[cfg(test)]
mod tests {
    use hagane_ports::installer::{InventoryNode, NodeRole};
    use serde_json::json;

    use super::*;

    fn answer(name: &str, value: Value) -> Result<(), InstallerError> {
        let node = InventoryNode {
            name: "m".to_owned(),
            address: IpAddr::from([10, 9, 0, 1]),
            ssh_port: 22,
            roles: vec![NodeRole::Master],
            second_address: None,
        };
        check(&BTreeMap::from([(name.to_owned(), value)]), &Inventory { nodes: vec![node], ..Inventory::default() })
    }

    #[test]
    fn takes_what_it_knows() {
        for (name, value) in [
            ("kube_version", json!("v1.36.3")),
            ("kube_version", json!("1.36.3")),
            ("drain_timeout", json!("360s")),
            ("cluster_name", json!("cluster.local")),
            ("kube_pods_subnet", json!("10.42.0.0/16")),
            ("kube_network_node_prefix", json!(25)),
            ("upstream_dns_servers", json!(["10.0.0.1"])),
            ("loadbalancer_apiserver", json!({"address": "api.example.test", "port": 6443})),
        ] {
            assert_eq!(answer(name, value.clone()).map_err(|error| error.to_string()), Ok(()), "{name} {value}");
        }
    }

    #[test]
    fn names_the_variable_and_what_is_allowed() {
        for (name, value, told) in [
            ("drain_timeout", json!("5m"), "from 1 to 86400"),
            ("drain_timeout", json!("0s"), "from 1 to 86400"),
            ("kube_version", json!(1.36), "a string"),
            ("kube_pods_subnet", json!("10.9.0.0/16"), "without the node address 10.9.0.1"),
            ("kube_pods_subnet", json!("10.42.0.1/16"), "no host bits"),
            ("kube_pods_subnet", json!("10.233.0.0/16"), "apart from the pods'"),
            ("kube_network_node_prefix", json!(12), "cuts 10.233.64.0/18 into"),
            ("kube_proxy_mode", json!("ipvs"), "nftables or iptables"),
            ("upstream_dns_servers", json!(["{{ lookup('pipe', 'x') }}"]), "a list of addresses"),
            ("loadbalancer_apiserver", json!("x"), "{address"),
            ("kube_versoin", json!("1"), "one of kube_version"),
        ] {
            let error = answer(name, value).expect_err(name).to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
