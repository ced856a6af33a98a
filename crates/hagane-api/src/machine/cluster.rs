//! `Cluster` of the old machine API.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reasons::ClusterPhase;
use crate::condition::Condition;
use crate::field::FieldError;
use crate::names::dns_subdomain_problem;

/// Spec of a `Cluster`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Networks of the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_network: Option<ClusterNetwork>,
    /// Settings of the infrastructure provider; none are known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub provider_spec: Option<Value>,
}

/// Networks of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNetwork {
    /// Service addresses.
    #[serde(default)]
    pub services: CidrBlocks,
    /// Pod addresses.
    #[serde(default)]
    pub pods: CidrBlocks,
    /// DNS domain of services.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_domain: Option<String>,
}

/// A list of networks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CidrBlocks {
    /// CIDRs: one, or one of each IP family.
    #[serde(default)]
    pub cidr_blocks: Vec<String>,
}

/// Where a cluster's API answers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiEndpoint {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: i32,
}

/// Status of a `Cluster`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStatus {
    /// Where the cluster is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<ClusterPhase>,
    /// Where its API answers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub api_endpoints: Vec<ApiEndpoint>,
    /// Machines that carry its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machines: Option<i64>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Set while a person must act: `InvalidConfiguration`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_reason: Option<String>,
    /// One line for that person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_message: Option<String>,
    /// What the provider records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::schema::any_object")]
    pub provider_status: Option<Value>,
    /// What holds now, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// Checks what the schema leaves open.
#[must_use]
pub(super) fn validate(new: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let spec = new.get("spec").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    match serde_json::from_value::<ClusterSpec>(spec) {
        Ok(spec) => validate_cluster_spec(&spec),
        Err(error) => vec![FieldError::invalid("spec", "", error.to_string())],
    }
}

/// Checks a parsed spec: CIDRs parse, are network addresses, are at most one a family and do not overlap.
#[must_use]
pub fn validate_cluster_spec(spec: &ClusterSpec) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(network) = &spec.cluster_network else { return errors };
    let mut seen: Vec<(String, IpNet)> = Vec::new();
    for (name, blocks) in [("services", &network.services), ("pods", &network.pods)] {
        for (index, text) in blocks.cidr_blocks.iter().enumerate() {
            let field = format!("spec.clusterNetwork.{name}.cidrBlocks[{index}]");
            match text.parse::<IpNet>() {
                Ok(cidr) if cidr.addr() != cidr.network() => errors.push(FieldError::invalid(
                    field,
                    text,
                    format!("must be a network address, such as {}", cidr.trunc()),
                )),
                Ok(cidr) => {
                    if let Some((other, _)) = seen.iter().find(|(_, known)| overlaps(known, &cidr)) {
                        errors.push(FieldError::invalid(&field, text, format!("must not overlap with {other}")));
                    }
                    seen.push((field, cidr));
                }
                Err(_) => errors.push(FieldError::invalid(field, text, "must be a CIDR such as 10.96.0.0/12")),
            }
        }
        check_families(&mut errors, name, &blocks.cidr_blocks);
    }
    if let Some(domain) = &network.service_domain
        && let Some(problem) = dns_subdomain_problem(domain)
    {
        errors.push(FieldError::invalid("spec.clusterNetwork.serviceDomain", domain, problem));
    }
    errors
}

fn overlaps(left: &IpNet, right: &IpNet) -> bool {
    left.contains(&right.network()) || right.contains(&left.network())
}

fn check_families(errors: &mut Vec<FieldError>, name: &str, blocks: &[String]) {
    let families: Vec<bool> =
        blocks.iter().filter_map(|text| text.parse::<IpNet>().ok()).map(|cidr| cidr.addr().is_ipv4()).collect();
    for family in [true, false] {
        if families.iter().filter(|known| **known == family).count() > 1 {
            errors.push(FieldError::invalid(
                format!("spec.clusterNetwork.{name}.cidrBlocks"),
                blocks,
                "must hold at most one CIDR of each IP family",
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(network: &Value) -> Vec<String> {
        validate(&json!({"spec": {"clusterNetwork": network}}), None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn takes_the_slides_network() {
        let network = json!({
            "services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "serviceDomain": "cluster.local",
        });
        assert_eq!(fields(&network), Vec::<String>::new());
    }

    #[test]
    fn names_the_block_that_is_wrong() {
        let network = json!({"services": {"cidrBlocks": ["10.96.0.0/33"]}, "pods": {"cidrBlocks": ["10.0.0.1/8"]}});
        let errors = fields(&network);
        assert!(
            errors[0].starts_with("spec.clusterNetwork.services.cidrBlocks[0]: Invalid value: \"10.96.0.0/33\""),
            "{errors:?}"
        );
        assert!(errors[1].contains("10.0.0.0/8"), "{errors:?}");
    }

    #[test]
    fn refuses_overlap_and_two_of_a_family() {
        let network = json!({"services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["10.0.0.0/8"]}});
        assert!(fields(&network)[0].contains("overlap"));
        let network = json!({"services": {"cidrBlocks": ["10.96.0.0/16", "10.97.0.0/16"]}});
        assert!(fields(&network)[0].contains("at most one"));
    }
}
