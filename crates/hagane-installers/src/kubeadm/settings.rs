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
                     supplementary_addresses_in_ssl_keys, loadbalancer_apiserver, kube_vip_enabled, kube_vip_address, \
                     kube_vip_interface, drain_timeout, kube_kubeadm_apiserver_extra_args, \
                     kube_kubeadm_controller_extra_args, kube_kubeadm_scheduler_extra_args, kubelet_config_extra_args, \
                     containerd_registries_mirrors";

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
            name if name.starts_with("kube_vip_") => check_virtual_address(name, value)?,
            "kube_kubeadm_apiserver_extra_args"
            | "kube_kubeadm_controller_extra_args"
            | "kube_kubeadm_scheduler_extra_args" => check_arguments(name, value)?,
            "kubelet_config_extra_args" if value.is_object() => {}
            "kubelet_config_extra_args" => return Err(invalid(name, value, "a map of fields of KubeletConfiguration")),
            "containerd_registries_mirrors" => check_mirrors(name, value)?,
            _ => return Err(invalid("variable", name, KNOWN)),
        }
    }
    check_networks(&pods, &services, prefix, inventory)?;
    check_endpoint(variables, inventory)
}

/// kubespray's names for a virtual address that the masters hold in turn.
fn check_virtual_address(name: &str, value: &Value) -> Result<(), InstallerError> {
    let text = value.as_str().unwrap_or_default();
    let is_name = |character: char| character.is_ascii_alphanumeric() || "_.-".contains(character);
    match name {
        "kube_vip_enabled" if value.is_boolean() => Ok(()),
        "kube_vip_enabled" => Err(invalid(name, value, "true or false")),
        // What our own way does anyway; kubespray wants it said.
        "kube_vip_arp_enabled" | "kube_vip_controlplane_enabled" if value.as_bool() == Some(true) => Ok(()),
        "kube_vip_arp_enabled" | "kube_vip_controlplane_enabled" => Err(invalid(name, value, "true")),
        "kube_vip_address" if text.parse::<std::net::Ipv4Addr>().is_ok() => Ok(()),
        "kube_vip_address" => Err(invalid(name, value, "an IPv4 address in the masters' network")),
        "kube_vip_interface" if (1..=15).contains(&text.len()) && text.chars().all(is_name) => Ok(()),
        "kube_vip_interface" => Err(invalid(name, value, "the name of an interface of every master")),
        _ => Err(invalid("variable", name, KNOWN)),
    }
}

/// The cluster's address together with the hosts'.
fn check_endpoint(variables: &BTreeMap<String, Value>, inventory: &Inventory) -> Result<(), InstallerError> {
    let enabled = variables.get("kube_vip_enabled").and_then(Value::as_bool).unwrap_or_default();
    let Some(address) = variables.get("kube_vip_address").and_then(Value::as_str) else {
        let missing = || Err(invalid("kube_vip_address", "(none)", "an address where kube_vip_enabled is true"));
        return if enabled { missing() } else { Ok(()) };
    };
    if !enabled {
        return Err(invalid("kube_vip_enabled", "false", "true where kube_vip_address is given"));
    }
    if variables.contains_key("loadbalancer_apiserver") {
        return Err(invalid("kube_vip_address", address, "given only without loadbalancer_apiserver"));
    }
    match inventory.nodes.iter().find(|node| node.address.to_string() == address) {
        Some(node) => Err(invalid("kube_vip_address", address, format!("not the address of {}", node.name))),
        None => Ok(()),
    }
}

/// Command line flags without their dashes.
fn check_arguments(name: &str, value: &Value) -> Result<(), InstallerError> {
    let allowed = "a map of flags without dashes to a string, number or boolean";
    let entries = value.as_object().ok_or_else(|| invalid(name, value, allowed))?;
    let is_flag =
        |flag: &str| !flag.is_empty() && flag.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    let good = |(flag, value): &(&String, &Value)| {
        is_flag(flag) && !flag.starts_with('-') && (value.is_string() || value.is_number() || value.is_boolean())
    };
    match entries.iter().find(|entry| !good(entry)) {
        Some((flag, value)) => Err(invalid(format!("{name}.{flag}"), value, allowed)),
        None => Ok(()),
    }
}

/// kubespray's list of mirrors of registries.
fn check_mirrors(name: &str, value: &Value) -> Result<(), InstallerError> {
    let allowed = "a list of {prefix: REGISTRY[:PORT], mirrors: [{host: https://HOST[:PORT][/PATH], capabilities: \
                   [pull, resolve, push], skip_verify: false}]}";
    let is_place = |text: &str| {
        !text.is_empty()
            && !text.starts_with('.')
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || ".-:_".contains(letter))
    };
    let good_mirror = |mirror: &Value| {
        let host = mirror.get("host").and_then(Value::as_str).unwrap_or_default();
        let rest = host.strip_prefix("https://").or_else(|| host.strip_prefix("http://")).unwrap_or_default();
        let known = |item: &Value| item.as_str().is_some_and(|item| ["pull", "resolve", "push"].contains(&item));
        let capabilities =
            mirror.get("capabilities").is_none_or(|list| list.as_array().is_some_and(|list| list.iter().all(known)));
        !rest.is_empty()
            && rest.split('/').next().is_some_and(is_place)
            && host.chars().all(|letter| letter.is_ascii_graphic() && letter != '"' && letter != '\\')
            && capabilities
            && mirror.get("skip_verify").is_none_or(Value::is_boolean)
    };
    let good = |entry: &Value| {
        entry.get("prefix").and_then(Value::as_str).is_some_and(is_place)
            && entry
                .get("mirrors")
                .and_then(Value::as_array)
                .is_some_and(|list| !list.is_empty() && list.iter().all(good_mirror))
    };
    let entries = value.as_array().ok_or_else(|| invalid(name, value, allowed))?;
    match entries.iter().find(|entry| !good(entry)) {
        Some(entry) => Err(invalid(name, entry, allowed)),
        None => Ok(()),
    }
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
            ("kube_kubeadm_apiserver_extra_args", json!({"audit-log-maxage": 3, "profiling": false})),
            ("kubelet_config_extra_args", json!({"maxPods": 50})),
            ("kube_vip_arp_enabled", json!(true)),
            (
                "containerd_registries_mirrors",
                json!([{"prefix": "docker.io", "mirrors": [{"host": "https://mirror.test:5000", "capabilities": ["pull"]}]}]),
            ),
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
            ("kube_vip_enabled", json!(true), "an address where kube_vip_enabled is true"),
            ("kube_vip_address", json!("10.9.0.1"), "true where kube_vip_address is given"),
            ("kube_vip_address", json!("fd00::1"), "an IPv4 address"),
            ("kube_vip_interface", json!("eth0; reboot"), "the name of an interface"),
            ("kube_vip_services_enabled", json!(true), "one of kube_version"),
            ("kube_kubeadm_apiserver_extra_args", json!({"--audit": "x"}), "flags without dashes"),
            ("kube_kubeadm_scheduler_extra_args", json!({"v": ["x"]}), "kube_kubeadm_scheduler_extra_args.v"),
            ("kubelet_config_extra_args", json!([]), "KubeletConfiguration"),
            ("containerd_registries_mirrors", json!([{"prefix": "../x", "mirrors": []}]), "a list of {prefix"),
            (
                "containerd_registries_mirrors",
                json!([{"prefix": "docker.io", "mirrors": [{"host": "mirror.test"}]}]),
                "https://HOST",
            ),
            ("kube_versoin", json!("1"), "one of kube_version"),
        ] {
            let error = answer(name, value).expect_err(name).to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
