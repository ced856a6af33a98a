//! The objects of the hosts road that tests apply.

use serde_json::{Value, json};

/// A Provisioning.
pub fn provisioning(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "bpa.akraino.org/v1alpha1", "kind": "Provisioning",
        "metadata": {"name": name, "labels": {"cluster": name}}, "spec": spec,
    })
}

/// A host that runs an operating system already, with these facts by annotation.
pub fn host(name: &str, boot_mac: &str, facts: &Value) -> Value {
    json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": {"name": name, "annotations": {"inspect.metal3.io/hardwaredetails": facts.to_string()}},
        "spec": {"online": true, "externallyProvisioned": true, "bootMACAddress": boot_mac},
    })
}

/// Facts of a host with one NIC.
pub fn facts(cpus: u32, memory_mib: u64, mac: &str, address: &str) -> Value {
    json!({
        "cpu": {"arch": "x86_64", "count": cpus}, "ramMebibytes": memory_mib,
        "nics": [{"name": "host0", "mac": mac, "ip": address}],
    })
}

/// An entry of `spec.masters` or `spec.workers`: a node by the MAC address of its host.
pub fn by_mac(node: &str, mac: &str) -> Value {
    json!({node: {"mac-address": mac}})
}
