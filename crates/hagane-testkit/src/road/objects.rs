//! The objects that the road starts with, as the YAML a user would write.

use std::fmt::Write as _;

use crate::lab::Host;

/// Least sizes of a Provisioning by size.
#[derive(Debug, Clone, Copy)]
pub struct ProvisioningSize {
    /// CPUs and MiB of the master.
    pub master: (u32, u64),
    /// CPUs and MiB of each worker.
    pub worker: (u32, u64),
    /// How many workers.
    pub replicas: u32,
}

/// One `BareMetalHost` for each container host: it runs an operating system already, and its facts come by annotation.
#[must_use]
pub fn host_manifests(hosts: &[Host]) -> String {
    let mut text = String::new();
    for host in hosts {
        let facts = serde_json::json!({
            "cpu": {"arch": "x86_64", "count": host.cpus},
            "ramMebibytes": host.memory_mib,
            "nics": [{"name": "host0", "mac": host.mac, "ip": host.address.to_string()}],
        });
        let _ = write!(
            text,
            "---\napiVersion: metal3.io/v1alpha1\nkind: BareMetalHost\nmetadata:\n  name: {}\n  annotations:\n    \
             inspect.metal3.io/hardwaredetails: '{facts}'\nspec:\n  online: true\n  externallyProvisioned: true\n  \
             bootMACAddress: {}\n",
            host.name, host.mac
        );
    }
    text
}

/// The Secret with the key that the hosts let in.
#[must_use]
pub fn ssh_secret_manifest(private_key: &str) -> String {
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/ssh-auth",
        "metadata": {"name": hagane_api::keys::DEFAULT_SSH_SECRET},
        "stringData": {"ssh-privatekey": private_key},
    });
    secret.to_string()
}

/// A Provisioning by size, in the form of the founding document.
#[must_use]
pub fn provisioning_manifest(name: &str, size: &ProvisioningSize) -> String {
    let ProvisioningSize { master, worker, replicas } = size;
    format!(
        "apiVersion: bpa.akraino.org/v1alpha1\nkind: Provisioning\nmetadata:\n  name: {name}\n  labels:\n    cluster: {name}\n    \
         owner: lab\nspec:\n  master:\n    cpu: {}\n    memory: {}Mi\n  worker:\n    cpu: {}\n    memory: {}Mi\n  replicas: {replicas}\n  \
         PodSubnet: 10.244.64.0/18\n",
        master.0, master.1, worker.0, worker.1
    )
}

/// A Cluster and Machines of the released old API with an inline provider spec.
#[must_use]
pub fn machine_manifests(cluster: &str, machines: &[&str], image: &str) -> String {
    let mut text = format!(
        "apiVersion: cluster.k8s.io/v1alpha1\nkind: Cluster\nmetadata:\n  name: {cluster}\nspec:\n  clusterNetwork:\n    \
         services:\n      cidrBlocks: [\"10.96.0.0/12\"]\n    pods:\n      cidrBlocks: [\"192.168.0.0/16\"]\n    serviceDomain: cluster.local\n"
    );
    for name in machines {
        let _ = write!(
            text,
            "---\napiVersion: cluster.k8s.io/v1alpha1\nkind: Machine\nmetadata:\n  name: {name}\n  labels:\n    \
             cluster.k8s.io/cluster-name: {cluster}\nspec:\n  providerSpec:\n    value:\n      \
             apiVersion: libvirt.cluster.k8s.io/v1alpha1\n      kind: LibvirtMachineProviderSpec\n      vcpu: 1\n      \
             memoryInGB: 1\n      imageURI: {image}\n  versions:\n    kubelet: 1.15.0\n"
        );
    }
    text
}
