//! The effects of a pass over a Provisioning.

use std::time::Duration;

use hagane_api::bpa::reasons::RunVerb;
use hagane_plan::provisioning::{Action, HostRef, InstallOrder, KubeconfigFact, RunSeen, StartFact, StartFailure};
use hagane_plan::roles::NodeRole as PlannedRole;
use hagane_ports::{
    InstallRequest, InstallVerb, InstallerError, Inventory, InventoryNode, NodeRole, ProbeError, RunHandle, RunLimits,
    RunState, ShellTarget, SshAccess,
};
use kube::ResourceExt as _;

use super::observe::{Observed, installer_of, not_set_up, seen_of};
use super::{SeenProvisioning, hosts, kubeconfig, secret};
use crate::runtime::{Pass, PassError, chain};

/// How often a deletion tries to remove run directories: with the back-off of the queue some minutes.
const FORGET_TRIES: u32 = 9;
/// Time for a new cluster to answer once.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// Does what finds something out; the answers go into the facts.
pub(super) async fn find_out(
    action: &Action,
    observed: &mut Observed,
    seen: &SeenProvisioning,
    pass: &Pass,
) -> Result<(), PassError> {
    match action {
        Action::PinHostKeys(hosts) => pin(hosts, observed, seen, pass).await?,
        Action::CheckFacts(hosts) => {
            let targets = hosts.iter().filter_map(|host| Some((host.name.clone(), target(host, observed, seen)?)));
            let checks = hosts::check(targets.collect(), pass.context.ports.shell.as_ref()).await;
            observed.facts.checks = Some(checks);
        }
        Action::StartInstall(order) => start(order, observed, seen, pass).await,
        Action::FetchKubeconfig { run } => fetch(run, observed, seen, pass).await,
        _ => {}
    }
    Ok(())
}

/// Does the rest, in order. Says whether all of it was done.
pub(super) async fn act(
    actions: &[Action],
    observed: &Observed,
    seen: &SeenProvisioning,
    pass: &Pass,
) -> Result<bool, PassError> {
    for action in actions {
        match action {
            Action::ClaimHosts(hosts) => hosts::claim(hosts, &observed.hosts, seen, pass).await?,
            Action::ReleaseHosts(hosts) => hosts::release(hosts, &observed.hosts, seen, pass).await?,
            Action::CancelRun { id } => {
                if !cancel(id, seen, pass).await {
                    return Ok(false);
                }
            }
            Action::ForgetRuns => {
                if !forget(seen, pass).await {
                    return Ok(false);
                }
            }
            Action::StoreKubeconfig { run } => {
                let Some(kubeconfig) = &observed.kubeconfig else { return Ok(false) };
                let (client, cluster) = (&pass.context.client, &observed.facts.cluster);
                secret::store(client, seen, cluster, run, kubeconfig, observed.secret.as_ref()).await?;
            }
            Action::DeleteKubeconfigSecret => {
                if let Some(kept) = &observed.secret {
                    secret::delete(&pass.context.client, seen, kept).await?;
                }
            }
            // Written by the record, or done before by `find_out`.
            Action::AddFinalizer
            | Action::RecordPlan(_)
            | Action::RecordPlannedRun(_)
            | Action::RecordRunIntent { .. }
            | Action::RetryRun { .. }
            | Action::PinHostKeys(_)
            | Action::CheckFacts(_)
            | Action::StartInstall(_)
            | Action::FetchKubeconfig { .. }
            | Action::RemoveFinalizer => {}
        }
    }
    Ok(true)
}

/// Where a host of the plan is logged in to.
fn target(host: &HostRef, observed: &Observed, seen: &SeenProvisioning) -> Option<ShellTarget> {
    let (address, port) = address(host, observed, seen)?;
    let object = observed.hosts.iter().find(|object| object.name_any() == host.name)?;
    Some(ShellTarget {
        host: address,
        port,
        user: seen.spec.ssh.as_ref().and_then(|ssh| ssh.user.clone()).unwrap_or_else(|| "root".to_owned()),
        private_key: observed.private_key.clone()?,
        host_keys: hosts::pinned_keys(object),
    })
}

fn address(host: &HostRef, observed: &Observed, seen: &SeenProvisioning) -> Option<(String, u16)> {
    let plan = observed.facts.plan.as_ref()?;
    let assignment = plan.assignments.iter().find(|assignment| assignment.host == host.name)?;
    let port = seen.spec.ssh.as_ref().and_then(|ssh| ssh.port).and_then(|port| u16::try_from(port).ok());
    Some((assignment.address.clone(), port.unwrap_or(22)))
}

async fn pin(
    hosts: &[HostRef],
    observed: &mut Observed,
    seen: &SeenProvisioning,
    pass: &Pass,
) -> Result<(), PassError> {
    let with_address = hosts.iter().filter_map(|host| {
        let (address, port) = address(host, observed, seen)?;
        Some((host.clone(), address, port))
    });
    let with_address: Vec<_> = with_address.collect();
    let failures = hosts::pin(&with_address, &mut observed.hosts, pass).await?;
    for host in &mut observed.facts.hosts {
        let object = observed.hosts.iter().find(|object| object.name_any() == host.facts.name);
        host.pinned = object.is_some_and(|object| !hosts::pinned_keys(object).is_empty());
    }
    observed.facts.scans = Some(failures);
    Ok(())
}

async fn start(order: &InstallOrder, observed: &mut Observed, seen: &SeenProvisioning, pass: &Pass) {
    let recorded = seen.status.run.as_ref();
    let Some(installer) = recorded.and_then(|run| installer_of(run, &pass.context)) else {
        let problem = not_set_up(recorded.map_or("", |run| run.installer.as_str()));
        observed.facts.start = StartFact::Failed(StartFailure::Prerequisite(problem));
        return;
    };
    let asked = recorded.filter(|run| run.attempt <= 1).and_then(|run| run.retry.as_deref());
    let from_start = asked.is_some_and(|value| value.starts_with(hagane_api::keys::RETRY_FROM_START));
    let request = request(order, observed, from_start);
    match installer.start(&request).await {
        Ok(RunHandle { id, .. }) => match installer.observe(&id).await {
            // Its own record is not there yet: the next pass finds it.
            Ok(observation) if observation.state == RunState::Absent => {
                observed.facts.seen = RunSeen::Running { progress: "started".to_owned() };
            }
            Ok(observation) => {
                observed.facts.seen = seen_of(&observation);
                observed.run = Some(observation);
            }
            Err(error) => observed.facts.start = StartFact::Failed(StartFailure::Other(chain(&error))),
        },
        Err(error) => observed.facts.start = StartFact::Failed(start_failure(&error)),
    }
}

fn start_failure(error: &InstallerError) -> StartFailure {
    let text = chain(error);
    match error {
        InstallerError::Prerequisite { .. } | InstallerError::Preflight { .. } => StartFailure::Prerequisite(text),
        InstallerError::Invalid { .. } => StartFailure::Invalid(text),
        InstallerError::HeldElsewhere { .. } => StartFailure::HeldElsewhere,
        InstallerError::Directory { .. } | InstallerError::Failed { .. } => StartFailure::Other(text),
    }
}

fn request(order: &InstallOrder, observed: &Observed, from_start: bool) -> InstallRequest {
    let role = |role: &PlannedRole| match role {
        PlannedRole::Master => NodeRole::Master,
        PlannedRole::Worker => NodeRole::Worker,
    };
    let mut known_hosts = Vec::new();
    let mut nodes = Vec::new();
    for node in &order.nodes {
        let object = observed.hosts.iter().find(|object| object.name_any() == node.host);
        let pattern = if node.ssh_port == 22 {
            node.address.to_string()
        } else {
            format!("[{}]:{}", node.address, node.ssh_port)
        };
        let keys = object.map(|object| hosts::pinned_keys(object)).unwrap_or_default();
        known_hosts.extend(keys.into_iter().map(|key| format!("{pattern} {}", key.0)));
        nodes.push(InventoryNode {
            name: node.name.clone(),
            address: node.address,
            ssh_port: node.ssh_port,
            roles: node.roles.iter().map(role).collect(),
            second_address: None,
        });
    }
    InstallRequest {
        run_id: order.run.clone(),
        owner_uid: observed.facts.uid.clone(),
        cluster: order.cluster.clone(),
        verb: verb_of(order),
        inventory: Inventory { nodes, ..Inventory::default() },
        variables: order.variables.clone(),
        ssh: SshAccess {
            user: order.user.clone(),
            private_key: observed.private_key.clone().unwrap_or_default(),
            known_hosts,
        },
        time_limit: order.time_limit,
        limits: RunLimits { stall: Some(order.stall_limit), play: order.play_limit, from_start },
    }
}

fn verb_of(order: &InstallOrder) -> InstallVerb {
    let (concerned, lost) = (order.concerned.clone(), order.lost.clone());
    match order.verb {
        RunVerb::Install => InstallVerb::Install,
        RunVerb::AddWorkers => InstallVerb::AddWorkers(concerned),
        RunVerb::AddMasters => InstallVerb::AddMasters(concerned),
        RunVerb::RemoveNodes => InstallVerb::RemoveNodes { nodes: concerned, lost },
        RunVerb::Upgrade => InstallVerb::Upgrade { version: order.version.clone().unwrap_or_default() },
        RunVerb::Reconfigure => InstallVerb::Reconfigure,
        RunVerb::RenewCertificates => InstallVerb::RenewCertificates,
        RunVerb::Reset => InstallVerb::Reset,
        RunVerb::RecoverControlPlane => InstallVerb::RecoverControlPlane { lost },
    }
}

async fn fetch(id: &str, observed: &mut Observed, seen: &SeenProvisioning, pass: &Pass) {
    match fetched(id, seen, pass).await {
        Ok((kubeconfig, version)) => {
            observed.facts.kubeconfig = KubeconfigFact::Answers;
            observed.facts.cluster_version = Some(version.trim_start_matches('v').to_owned());
            observed.kubeconfig = Some(kubeconfig);
        }
        Err(fact) => {
            observed.facts.kubeconfig = fact;
            observed.kubeconfig = None;
        }
    }
}

/// The kubeconfig of a run, once it is harmless and its cluster answers, and the version that it answers with.
async fn fetched(id: &str, seen: &SeenProvisioning, pass: &Pass) -> Result<(Vec<u8>, String), KubeconfigFact> {
    let Some(run) = &seen.status.run else { return Err(KubeconfigFact::NotFetched) };
    if run.holder != pass.context.settings.holder {
        return Err(KubeconfigFact::NotAnswering(format!("the kubeconfig is with {}, which ran it", run.holder)));
    }
    let Some(installer) = installer_of(run, &pass.context) else {
        return Err(KubeconfigFact::NotAnswering(not_set_up(&run.installer)));
    };
    let found = installer.kubeconfig(id).await.map_err(|error| KubeconfigFact::NotAnswering(chain(&error)))?;
    let found = found.ok_or_else(|| KubeconfigFact::Invalid("the run left none, or an empty one".to_owned()))?;
    if let Some(problem) = kubeconfig::problem(&found) {
        return Err(KubeconfigFact::Invalid(problem));
    }
    match pass.context.ports.probe.version(&found, PROBE_LIMIT).await {
        Ok(version) => Ok((found, version)),
        Err(error @ ProbeError::Unusable(_)) => Err(KubeconfigFact::Invalid(chain(&error))),
        Err(error @ ProbeError::NoAnswer(_)) => Err(KubeconfigFact::NotAnswering(chain(&error))),
    }
}

async fn cancel(id: &str, seen: &SeenProvisioning, pass: &Pass) -> bool {
    let Some(installer) = seen.status.run.as_ref().and_then(|run| installer_of(run, &pass.context)) else {
        return true;
    };
    match installer.cancel(id).await {
        Ok(()) => true,
        Err(error) => {
            tracing::warn!(run = id, error = chain(&error), "the run could not be ended yet");
            false
        }
    }
}

/// Removes what is left of all runs. A directory that cannot be removed holds the deletion up for some tries only.
async fn forget(seen: &SeenProvisioning, pass: &Pass) -> bool {
    let mut done = true;
    for installer in pass.context.ports.installers.values() {
        if let Err(error) = installer.forget_owned(seen.uid()).await {
            tracing::warn!(error = chain(&error), "run directories could not be removed");
            done = false;
        }
    }
    done || pass.failures >= FORGET_TRIES
}
