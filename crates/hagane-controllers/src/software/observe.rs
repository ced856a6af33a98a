//! What is known of a Software: reads only.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hagane_api::bpa::provisioning::{ProvisioningSpec, ProvisioningStatus};
use hagane_api::bpa::reasons::RunWord;
use hagane_api::bpa::software::SoftwareSpec;
use hagane_api::bpa::software_status::SoftwareStatus;
use hagane_api::keys::{PROVISIONING_CLUSTER_LABEL, RETRY_ANNOTATION, kubeconfig_secret_name};
use hagane_api::{bpa, metal3};
use hagane_plan::provisioning::Login;
use hagane_plan::software::{ClusterFact, ClusterNode, Facts, Other, unit_prefix};
use hagane_ports::ShellTarget;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use serde::de::DeserializeOwned;

use super::SeenSoftware;
use crate::host::creation_order;
use crate::provisioning::hosts::pinned_keys;
use crate::provisioning::kubeconfig::problem;
use crate::provisioning::login;
use crate::provisioning::observe::cluster_name;
use crate::runtime::{Pass, PassError, Resource};

/// What a pass knows.
pub(super) struct Observed {
    /// What the decision looks at.
    pub(super) facts: Facts,
    /// Where hosts are logged in to, by uid of the host object.
    pub(super) targets: BTreeMap<String, ShellTarget>,
    /// The cluster's kubeconfig, or why there is none.
    pub(super) kubeconfig: Result<Vec<u8>, String>,
    /// How the names of our units begin.
    pub(super) units: String,
}

/// The Provisioning of the cluster, as it is now.
struct Site {
    name: String,
    deleting: bool,
    spec: ProvisioningSpec,
    status: ProvisioningStatus,
}

pub(super) async fn observe(seen: &SeenSoftware, pass: &Pass) -> Result<Observed, PassError> {
    let cluster = seen.label(PROVISIONING_CLUSTER_LABEL).filter(|name| !name.is_empty()).map(str::to_owned);
    let site = cluster.as_deref().and_then(|cluster| site(seen, cluster, pass));
    let (login, key) = match &site {
        Some(site) => login::read(&pass.context.client, &seen.key.namespace, &site.spec).await?,
        None => (Login::Missing { secret: String::new() }, None),
    };
    let mut targets = BTreeMap::new();
    let standing = match &site {
        Some(site) => standing(site, key, &seen.key.namespace, pass, &mut targets),
        None => ClusterFact::Missing,
    };
    let needs_cluster = seen.spec.drain == Some(true)
        || seen.spec.reboot.is_some()
        || seen.status.hosts.iter().any(|host| host.job.is_some());
    let kubeconfig = match &cluster {
        Some(cluster) if needs_cluster => kubeconfig(cluster, seen, pass).await?,
        _ => Err("the cluster's kubeconfig is not needed".to_owned()),
    };
    let facts = Facts {
        uid: seen.uid().to_owned(),
        generation: seen.generation().unwrap_or_default(),
        retry: seen.annotation(RETRY_ANNOTATION).map(str::to_owned),
        deleting: seen
            .meta()
            .deletion_timestamp
            .as_ref()
            .map(|since| Duration::try_from(pass.now.duration_since(since.0)).unwrap_or_default()),
        now: pass.now,
        spec: seen.spec.clone(),
        others: others(seen, cluster.as_deref(), pass).await?,
        cluster,
        standing,
        login,
        status: seen.status.clone(),
        answers: None,
    };
    Ok(Observed { facts, targets, kubeconfig, units: unit_prefix(seen.uid()) })
}

fn part<T: DeserializeOwned + Default>(object: &DynamicObject, name: &str) -> T {
    let value = object.data.get(name).filter(|value| !value.is_null()).cloned();
    value.and_then(|value| serde_json::from_value(value).ok()).unwrap_or_default()
}

/// Of several for one cluster name, that with a cluster: the others are refused the name.
fn site(seen: &SeenSoftware, cluster: &str, pass: &Pass) -> Option<Site> {
    let resource = Resource::of(bpa::GROUP, "provisionings")?;
    let mut found: Vec<Arc<DynamicObject>> = pass.caches.list(resource, &seen.key.namespace);
    found.retain(|object| cluster_name(object) == cluster);
    found.sort_by_key(|object| {
        let stands = object.data.pointer("/status/installed").is_some_and(|installed| !installed.is_null());
        (!stands, creation_order(object))
    });
    let object = found.first()?;
    Some(Site {
        name: object.name_any(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        spec: part(object, "spec"),
        status: part(object, "status"),
    })
}

fn standing(
    site: &Site,
    key: Option<String>,
    namespace: &str,
    pass: &Pass,
    targets: &mut BTreeMap<String, ShellTarget>,
) -> ClusterFact {
    let provisioning = site.name.clone();
    let Some(installed) = &site.status.installed else { return ClusterFact::NotInstalled { provisioning } };
    let hosts = Resource::of(metal3::GROUP, "baremetalhosts");
    let hosts = hosts.map(|resource| pass.caches.list(resource, namespace)).unwrap_or_default();
    let addresses = site.status.plan.iter().flat_map(|plan| &plan.assignments);
    let addresses: BTreeMap<&str, &str> =
        addresses.map(|assignment| (assignment.host.as_str(), assignment.address.as_str())).collect();
    let ssh = site.spec.ssh.clone().unwrap_or_default();
    let nodes = installed.nodes.iter().map(|node| {
        let object = hosts.iter().find(|object| object.uid().as_deref() == Some(&node.host_uid));
        let keys = object.map(|object| pinned_keys(object)).unwrap_or_default();
        let address = addresses.get(node.host.as_str()).filter(|address| !address.is_empty());
        let unaskable = match (object, address) {
            (None, _) => Some(format!("its host object {} is gone", node.host)),
            (_, None) => Some(format!("no address of its host {} is known", node.host)),
            _ if keys.is_empty() => Some(format!("no SSH host key of its host {} is pinned", node.host)),
            _ => None,
        };
        if let (None, Some(address), Some(key)) = (&unaskable, address, &key) {
            let target = ShellTarget {
                host: (*address).to_owned(),
                port: ssh.port.and_then(|port| u16::try_from(port).ok()).unwrap_or(22),
                user: ssh.user.clone().unwrap_or_else(|| "root".to_owned()),
                private_key: key.clone(),
                host_keys: keys,
            };
            targets.insert(node.host_uid.clone(), target);
        }
        let is = |role: &str| node.roles.iter().any(|has| has == role);
        ClusterNode {
            node: node.node.clone(),
            master: is("master"),
            worker: is("worker"),
            host: node.host.clone(),
            host_uid: node.host_uid.clone(),
            unaskable,
        }
    });
    ClusterFact::Stands { nodes: nodes.collect(), provisioning, busy: busy(site) }
}

fn busy(site: &Site) -> Option<String> {
    if site.deleting {
        return Some(format!("Provisioning {} is being deleted", site.name));
    }
    let run = site.status.run.as_ref()?;
    let ended = RunWord::parse(&run.state).is_some_and(RunWord::is_final);
    (!ended).then(|| format!("waits for the run of Provisioning {} ({})", site.name, run.verb))
}

async fn kubeconfig(cluster: &str, seen: &SeenSoftware, pass: &Pass) -> Result<Result<Vec<u8>, String>, PassError> {
    let secrets: Api<Secret> = Api::namespaced(pass.context.client.clone(), &seen.key.namespace);
    let name = kubeconfig_secret_name(cluster);
    let found = secrets.get_opt(&name).await;
    let found = found.map_err(|error| PassError::api("read the Secret with the kubeconfig", error))?;
    let value = found.and_then(|secret| secret.data?.remove("value"));
    Ok(match value {
        None => Err(format!("Secret {name:?} with the cluster's kubeconfig is missing")),
        // Whoever may write Secrets could name programs in it.
        Some(value) => match problem(&value.0) {
            Some(problem) => Err(format!("Secret {name:?}: {problem}")),
            None => Ok(value.0),
        },
    })
}

/// The other Softwares of the cluster. While the turn is ours and nothing has begun they are read anew: the cache may be behind
/// one that took its turn at the same time.
async fn others(seen: &SeenSoftware, cluster: Option<&str>, pass: &Pass) -> Result<Vec<Other>, PassError> {
    let (Some(resource), Some(cluster)) = (Resource::of(bpa::GROUP, "softwares"), cluster) else {
        return Ok(Vec::new());
    };
    let works = |status: &SoftwareStatus| status.hosts.iter().any(|host| host.job.is_some());
    let mut objects = pass.caches.list(resource, &seen.key.namespace);
    if seen.status.turn_since.is_some() && !works(&seen.status) {
        let list = resource.api(&pass.context.client, &seen.key.namespace).list(&ListParams::default()).await;
        objects =
            list.map_err(|error| PassError::api("list the Softwares", error))?.into_iter().map(Arc::new).collect();
    }
    let ours = creation_order(&seen.raw);
    objects.retain(|object| {
        let label = object.labels().get(PROVISIONING_CLUSTER_LABEL).map(String::as_str);
        label == Some(cluster) && object.uid().as_deref() != Some(seen.uid())
    });
    let other = |object: &Arc<DynamicObject>| {
        let status: SoftwareStatus = part(object, "status");
        let owned = status.hosts.iter().flat_map(|host| {
            let ours = host.packages.iter().filter(|package| package.ours);
            ours.map(|package| (host.host_uid.clone(), package.name.clone()))
        });
        Other {
            name: object.name_any(),
            older: creation_order(object) < ours,
            turn: status.turn_since.is_some(),
            works: works(&status),
            deleting: object.metadata.deletion_timestamp.is_some(),
            spec: part::<SoftwareSpec>(object, "spec"),
            owns: owned.collect::<BTreeSet<_>>(),
        }
    };
    Ok(objects.iter().map(other).collect())
}
