//! Add-ons by name: which of them an installer can bring, and by which variables.

use hagane_api::bpa::provisioning::{Installer, ProvisioningSpec};

/// Add-ons of kubespray: name, and the variables that are set to true for it.
const KUBESPRAY: [(&str, &[&str]); 12] = [
    ("argocd", &["argocd_enabled"]),
    ("cert-manager", &["cert_manager_enabled"]),
    ("gateway-api", &["gateway_api_enabled"]),
    ("helm", &["helm_enabled"]),
    ("local-path-provisioner", &["local_path_provisioner_enabled"]),
    ("local-volume-provisioner", &["local_volume_provisioner_enabled"]),
    ("metallb", &["metallb_enabled", "kube_proxy_strict_arp"]),
    ("metrics-server", &["metrics_server_enabled"]),
    ("multus", &["kube_network_plugin_multus"]),
    ("nfd", &["node_feature_discovery_enabled"]),
    ("node-feature-discovery", &["node_feature_discovery_enabled"]),
    ("registry", &["registry_enabled"]),
];

fn of_kubespray(name: &str) -> Option<&'static [&'static str]> {
    KUBESPRAY.iter().find(|(known, _)| *known == name).map(|(_, variables)| *variables)
}

fn by_kubespray(spec: &ProvisioningSpec) -> bool {
    spec.installer == Some(Installer::Kubespray)
}

/// Variables that the spec's add-ons set to true.
pub(super) fn variables(spec: &ProvisioningSpec) -> Vec<&'static str> {
    let names = spec.kud_plugins.iter().filter(|_| by_kubespray(spec));
    let mut variables: Vec<_> = names.filter_map(|name| of_kubespray(name)).flatten().copied().collect();
    variables.sort_unstable();
    variables.dedup();
    variables
}

/// Add-ons that the spec names and that its installer does not bring, each with where it would come from.
pub(super) fn ignored(spec: &ProvisioningSpec) -> Vec<String> {
    let told = |name: &String| match (of_kubespray(name), by_kubespray(spec)) {
        (Some(_), true) => None,
        (Some(_), false) => Some(format!("{name} (comes with the installer kubespray)")),
        (None, _) => Some(name.clone()),
    };
    spec.kud_plugins.iter().filter_map(told).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(installer: &str) -> ProvisioningSpec {
        let names = ["multus", "onap4k8s", "nfd", "node-feature-discovery", "metallb"];
        serde_json::from_value(json!({"master": {}, "installer": installer, "KUDPlugins": names})).expect("a spec")
    }

    #[test]
    fn kubespray_brings_what_it_has_variables_for() {
        let wanted = [
            "kube_network_plugin_multus",
            "kube_proxy_strict_arp",
            "metallb_enabled",
            "node_feature_discovery_enabled",
        ];
        assert_eq!(
            (variables(&spec("kubespray")), ignored(&spec("kubespray"))),
            (wanted.to_vec(), vec!["onap4k8s".to_owned()])
        );
    }

    #[test]
    fn kubeadm_brings_none_and_says_who_would() {
        let ignored = ignored(&spec("kubeadm"));
        assert_eq!((variables(&spec("kubeadm")).len(), ignored.len()), (0, 5));
        assert_eq!(ignored[..2], ["multus (comes with the installer kubespray)".to_owned(), "onap4k8s".to_owned()]);
    }
}
