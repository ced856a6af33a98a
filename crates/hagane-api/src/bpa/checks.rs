//! Checks of a Provisioning beside its nodes, and of the names that end up in an inventory.

use std::collections::BTreeSet;

use super::provisioning::ProvisioningSpec;
use crate::field::FieldError;
use crate::names::{dns_label_problem, dns_subdomain_problem, login_name_problem, variable_name_problem};

pub(super) fn check(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    check_login(errors, spec);
    check_variables(errors, spec);
    check_add_ons(errors, spec);
    check_subnets(errors, spec);
    check_cluster(errors, spec);
}

/// The parts of a Kubernetes version as `1.36.3` or `v1.36.3`.
#[must_use]
pub fn kubernetes_version(text: &str) -> Option<[u32; 3]> {
    let mut numbers = text.strip_prefix('v').unwrap_or(text).split('.').map(|part| {
        let plain = part.chars().all(|character| character.is_ascii_digit()) && (part == "0" || !part.starts_with('0'));
        part.parse::<u32>().ok().filter(|_| plain)
    });
    let version = [numbers.next()??, numbers.next()??, numbers.next()??];
    numbers.next().is_none().then_some(version)
}

fn check_cluster(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    if let Some(version) = spec.kubernetes_version.as_ref().filter(|version| kubernetes_version(version).is_none()) {
        errors.push(FieldError::invalid("spec.kubernetesVersion", version, "must be a version such as 1.36.3"));
    }
    if let Some((wanted, given)) = spec.kubernetes_version.as_ref().zip(spec.variables.get("kube_version"))
        && given.as_str().is_none_or(|given| kubernetes_version(given) != kubernetes_version(wanted))
    {
        let detail = format!("must not differ from spec.kubernetesVersion, which is {wanted}: leave it out");
        errors.push(FieldError::invalid("spec.variables.kube_version", given.to_string(), detail));
    }
    let Some(endpoint) = &spec.control_plane_endpoint else { return };
    let is_address = endpoint.host.parse::<std::net::IpAddr>().is_ok();
    if let Some(problem) = dns_subdomain_problem(&endpoint.host).filter(|_| !is_address) {
        let detail = format!("is neither an IP address nor a DNS name: {problem}");
        errors.push(FieldError::invalid("spec.controlPlaneEndpoint.host", &endpoint.host, detail));
    }
    if let Some(port) = endpoint.port.filter(|port| !(1..=65535).contains(port)) {
        errors.push(FieldError::invalid("spec.controlPlaneEndpoint.port", port, "must be from 1 to 65535"));
    }
    if spec.variables.contains_key("loadbalancer_apiserver") {
        let detail = "must not be given beside spec.controlPlaneEndpoint";
        errors.push(FieldError::invalid("spec.variables", "loadbalancer_apiserver", detail));
    }
}

fn check_login(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    let Some(ssh) = &spec.ssh else { return };
    if let Some((user, problem)) = ssh.user.as_ref().and_then(|user| Some((user, login_name_problem(user)?))) {
        errors.push(FieldError::invalid("spec.ssh.user", user, problem));
    }
    let secret = ssh.secret_name.as_ref().filter(|name| !name.is_empty());
    if let Some((name, problem)) = secret.and_then(|name| Some((name, dns_subdomain_problem(name)?))) {
        errors.push(FieldError::invalid("spec.ssh.secretName", name, format!("is no name of a Secret: {problem}")));
    }
}

fn check_variables(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    for name in spec.variables.keys() {
        if let Some(problem) = variable_name_problem(name) {
            errors.push(FieldError::invalid("spec.variables", name, format!("is no variable name: {problem}")));
        }
    }
}

fn check_add_ons(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    let mut seen = BTreeSet::new();
    for (index, name) in spec.kud_plugins.iter().enumerate() {
        let field = format!("spec.KUDPlugins[{index}]");
        if let Some(problem) = dns_label_problem(name) {
            errors.push(FieldError::invalid(field, name, format!("is no name of an add-on: {problem}")));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(field, name, "each add-on once"));
        }
    }
}

fn check_subnets(errors: &mut Vec<FieldError>, spec: &ProvisioningSpec) {
    let parsed = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<ipnet::IpNet>().ok());
    let (Some(pods), Some(services)) = (parsed(&spec.pod_subnet), parsed(&spec.service_subnet)) else { return };
    if pods.contains(&services) || services.contains(&pods) {
        let detail = format!("must not overlap spec.PodSubnet, which is {pods}");
        errors.push(FieldError::invalid("spec.serviceSubnet", services.to_string(), detail));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::bpa::provisioning::validate;

    fn errors(spec: &Value) -> Vec<String> {
        validate(&json!({"spec": spec}), None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_what_would_reach_an_inventory() {
        for (spec, start) in [
            (json!({"masters": [{"a": {}}, {"b": {}}]}), "spec.masters: Invalid value: 2: must be an odd number"),
            (json!({"masters": [{"a": {}}], "master": {}}), "spec.masters: Invalid value: 2: must be an odd number"),
            (json!({"masters": [{"localhost": {}}]}), "spec.masters[0]: Invalid value: \"localhost\": is no node name"),
            (json!({"master": {}, "workers": [{"etcd": {}}]}), "spec.workers[0]: Invalid value: \"etcd\""),
            (
                json!({"master": {}, "ssh": {"secretName": "../../kube-system/secrets/x"}}),
                "spec.ssh.secretName: Invalid value: \"../../kube-system/secrets/x\": is no name of a Secret",
            ),
            (json!({"master": {}, "ssh": {"user": "-oProxyCommand=x"}}), "spec.ssh.user: Invalid value"),
            (json!({"master": {}, "ssh": {"user": ""}}), "spec.ssh.user: Invalid value: \"\""),
            (
                json!({"master": {}, "variables": {"ansible_connection": "local"}}),
                "spec.variables: Invalid value: \"ansible_connection\": is no variable name",
            ),
            (json!({"master": {}, "variables": {"{{ x }}": 1}}), "spec.variables: Invalid value: \"{{ x }}\""),
            (json!({"master": {}, "KUDPlugins": ["a b"]}), "spec.KUDPlugins[0]: Invalid value: \"a b\""),
            (json!({"master": {}, "KUDPlugins": ["a", "a"]}), "spec.KUDPlugins[1]: Duplicate value: \"a\""),
            (
                json!({"master": {}, "PodSubnet": "10.0.0.0/8", "serviceSubnet": "10.96.0.0/12"}),
                "spec.serviceSubnet: Invalid value: \"10.96.0.0/12\": must not overlap spec.PodSubnet",
            ),
        ] {
            let found = errors(&spec);
            assert!(found.len() == 1 && found[0].starts_with(start), "{spec}: {found:?}");
        }
    }

    #[test]
    fn takes_three_masters_however_they_are_named() {
        for spec in [
            json!({"masters": [{"a": {}}, {"b": {}}, {"c": {}}]}),
            json!({"masters": [{"a": {}}, {"b": {}}], "master": {}}),
            json!({"master": {"replicas": 3}, "ssh": {"user": "lab", "secretName": ""}, "variables": {"dns_domain": "x"}}),
        ] {
            assert_eq!(errors(&spec), Vec::<String>::new(), "{spec}");
        }
    }
}
