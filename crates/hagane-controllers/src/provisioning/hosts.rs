//! The hosts of a Provisioning: facts, claims, host keys, and what they say of themselves.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hagane_api::keys::{FIELD_MANAGER, SSH_HOST_KEYS_ANNOTATION};
use hagane_api::metal3::{BareMetalHostSpec, BareMetalHostStatus, GROUP};
use hagane_api::quantity::{MemoryMib, MilliCpus};
use hagane_plan::host::{HostInput, consumer_name, host_facts, mark_duplicate_macs};
use hagane_plan::provisioning::{Claim, Host, HostCheck, HostCheckResult, HostRef};
use hagane_plan::roles::HostFacts;
use hagane_ports::{HostKey, RemoteCommand, RemoteShell, ShellError, ShellTarget};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::SeenProvisioning;
use crate::host::creation_order;
use crate::runtime::{Caches, Pass, PassError, Resource, chain};

/// Time for one question to one host. Several are asked at once.
const QUESTION_LIMIT: Duration = Duration::from_secs(15);

/// Host objects of a namespace, in order of creation.
pub(super) fn of_namespace(caches: &Caches, namespace: &str) -> Vec<Arc<DynamicObject>> {
    let Some(resource) = resource() else { return Vec::new() };
    let mut objects = caches.list(resource, namespace);
    objects.sort_by_key(|object| creation_order(object));
    objects
}

/// The same as the API has them now. Caches may be behind a claim that was made a moment ago, and a claim that is not seen
/// when its object is deleted would never be given back.
pub(super) async fn listed(client: &Client, namespace: &str) -> Result<Vec<Arc<DynamicObject>>, PassError> {
    let Some(resource) = resource() else { return Ok(Vec::new()) };
    let list = resource.api(client, namespace).list(&ListParams::default()).await;
    let mut objects: Vec<_> =
        list.map_err(|error| PassError::api("list the hosts", error))?.into_iter().map(Arc::new).collect();
    objects.sort_by_key(|object| creation_order(object));
    Ok(objects)
}

fn resource() -> Option<Resource> {
    Resource::of(GROUP, "baremetalhosts")
}

/// What the planner needs of them. A host that cannot be read is left out: it can never be chosen. `held` are addresses
/// of machines that others work on without a claim.
pub(super) fn facts(objects: &[Arc<DynamicObject>], uid: &str, held: &BTreeMap<IpAddr, String>) -> Vec<Host> {
    let empty = BTreeMap::new();
    let mut known = Vec::new();
    let mut rest = Vec::new();
    for object in objects {
        let part = |name: &str| object.data.get(name).filter(|value| !value.is_null()).cloned();
        let Ok(spec) = serde_json::from_value::<BareMetalHostSpec>(part("spec").unwrap_or_else(|| json!({}))) else {
            continue;
        };
        let status = part("status").and_then(|value| serde_json::from_value::<BareMetalHostStatus>(value).ok());
        let name = object.name_any();
        known.push(host_facts(&HostInput {
            name: &name,
            labels: object.metadata.labels.as_ref().unwrap_or(&empty),
            annotations: object.metadata.annotations.as_ref().unwrap_or(&empty),
            deleting: object.metadata.deletion_timestamp.is_some(),
            spec: &spec,
            status: status.as_ref(),
        }));
        let claim = match &spec.consumer_ref {
            None => Claim::None,
            Some(consumer) if consumer.uid.as_deref() == Some(uid) => Claim::Ours,
            Some(consumer) => Claim::Other(consumer_name(consumer)),
        };
        rest.push((object.uid().unwrap_or_default(), claim, !pinned_keys(object).is_empty()));
    }
    mark_duplicate_macs(&mut known);
    let pairs = known.into_iter().zip(rest);
    let host = |(facts, (uid, claim, pinned)): (HostFacts, (String, Claim, bool))| {
        let holder = facts.nics.iter().flatten().filter_map(|nic| nic.address).find_map(|address| held.get(&address));
        let claim = match (claim, holder) {
            (Claim::None, Some(holder)) => Claim::Other(holder.clone()),
            (claim, _) => claim,
        };
        Host { facts, uid, claim, pinned }
    };
    pairs.map(host).collect()
}

/// SSH host keys that were pinned on a host object.
pub(crate) fn pinned_keys(object: &DynamicObject) -> Vec<HostKey> {
    let text = object.annotations().get(SSH_HOST_KEYS_ANNOTATION).map_or("", String::as_str);
    text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| HostKey(line.to_owned())).collect()
}

fn find<'a>(objects: &'a [Arc<DynamicObject>], host: &HostRef) -> Option<&'a Arc<DynamicObject>> {
    objects.iter().find(|object| object.name_any() == host.name && object.uid().as_deref() == Some(&host.uid))
}

/// Sets `spec.consumerRef`, with the resource version that the decision was made on as a precondition: of two that
/// want the same host one gets a conflict.
pub(super) async fn claim(
    hosts: &[HostRef],
    objects: &[Arc<DynamicObject>],
    seen: &SeenProvisioning,
    pass: &Pass,
) -> Result<(), PassError> {
    let consumer = json!({
        "apiVersion": seen.key.resource.api_version(), "kind": seen.key.resource.kind,
        "namespace": seen.key.namespace, "name": seen.key.name, "uid": seen.uid(),
    });
    for object in hosts.iter().filter_map(|host| find(objects, host)) {
        write(object, json!({"spec": {"consumerRef": consumer}}), pass).await?;
    }
    Ok(())
}

/// Clears `spec.consumerRef` where it is ours.
pub(super) async fn release(
    hosts: &[HostRef],
    objects: &[Arc<DynamicObject>],
    seen: &SeenProvisioning,
    pass: &Pass,
) -> Result<(), PassError> {
    for object in hosts.iter().filter_map(|host| find(objects, host)) {
        let uid = object.data.pointer("/spec/consumerRef/uid").and_then(Value::as_str);
        if uid == Some(seen.uid()) {
            write(object, json!({"spec": {"consumerRef": null}}), pass).await?;
        }
    }
    Ok(())
}

async fn write(object: &DynamicObject, mut change: Value, pass: &Pass) -> Result<DynamicObject, PassError> {
    let Some(resource) = resource() else { return Ok(object.clone()) };
    let metadata = change.get("metadata").cloned().unwrap_or_else(|| json!({}));
    change["metadata"] = metadata;
    change["metadata"]["resourceVersion"] = json!(object.resource_version());
    let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let api = resource.api(&pass.context.client, &object.namespace().unwrap_or_default());
    let written = api.patch(&object.name_any(), &params, &Patch::Merge(change)).await;
    written.map_err(|error| PassError::api("write a host", error))
}

/// Asks each host for its key and stores it on the host object. Gives those that did not answer, and why.
pub(super) async fn pin(
    hosts: &[(HostRef, String, u16)],
    objects: &mut [Arc<DynamicObject>],
    pass: &Pass,
) -> Result<Vec<(String, String)>, PassError> {
    let shell = pass.context.ports.shell.as_ref();
    let asked = hosts
        .iter()
        .map(|(host, address, port)| async move { (host, shell.scan_host_key(address, *port, QUESTION_LIMIT).await) });
    let mut failures = Vec::new();
    for (host, answer) in futures::future::join_all(asked).await {
        let same = |object: &&mut Arc<DynamicObject>| object.uid().as_deref() == Some(&host.uid);
        match (answer, objects.iter_mut().find(same)) {
            (Ok(HostKey(line)), Some(object)) => {
                let change = json!({"metadata": {"annotations": {SSH_HOST_KEYS_ANNOTATION: line}}});
                *object = Arc::new(write(object, change, pass).await?);
            }
            (Ok(_), None) => {}
            (Err(error), _) => failures.push((host.name.clone(), chain(&error))),
        }
    }
    Ok(failures)
}

/// Asks hosts for their CPUs and memory.
pub(super) async fn check(targets: Vec<(String, ShellTarget)>, shell: &dyn RemoteShell) -> Vec<HostCheck> {
    let asked = targets.into_iter().map(|(host, target)| async move {
        let result = ask(&target, shell).await.unwrap_or_else(|error| refused(&error));
        HostCheck { host, result }
    });
    futures::future::join_all(asked).await
}

fn refused(error: &ShellError) -> HostCheckResult {
    let text = chain(error);
    match error {
        ShellError::HostKeyChanged { .. } => HostCheckResult::HostKeyChanged(text),
        ShellError::LoginRefused { .. } | ShellError::InvalidKey { .. } => HostCheckResult::LoginRefused(text),
        _ => HostCheckResult::Unreachable(text),
    }
}

async fn ask(target: &ShellTarget, shell: &dyn RemoteShell) -> Result<HostCheckResult, ShellError> {
    let command = |argv: &[&str]| RemoteCommand {
        argv: argv.iter().map(ToString::to_string).collect(),
        stdin: Vec::new(),
        deadline: QUESTION_LIMIT,
        output_limit: 64 << 10,
    };
    let cpus = shell.run(target, &command(&["nproc"])).await?;
    let memory = shell.run(target, &command(&["cat", "/proc/meminfo"])).await?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(HostCheckResult::Answered {
        cpus: text(&cpus.stdout).trim().parse().ok().map(MilliCpus::from_cpus),
        memory: total_memory(&text(&memory.stdout)),
    })
}

/// `MemTotal` of `/proc/meminfo`, which is in KiB.
fn total_memory(meminfo: &str) -> Option<MemoryMib> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(MemoryMib(kib / 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_total_memory() {
        assert_eq!(total_memory("MemTotal:        8052040 kB\nMemFree: 1 kB\n"), Some(MemoryMib(7863)));
        assert_eq!(total_memory("nothing\n"), None);
    }
}
