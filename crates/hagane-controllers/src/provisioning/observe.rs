//! What is known of a Provisioning: reads only.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hagane_api::bpa::provisioning::{Assignment, Installer, ProvisioningSpec, RunStatus};
use hagane_api::bpa::reasons::RunWord;
use hagane_api::keys::{
    ABANDON_RUN_ANNOTATION, APPROVE_RUN_ANNOTATION, CANCEL_RUN_ANNOTATION, PROVISIONING_CLUSTER_LABEL,
    RENEW_CERTIFICATES_ANNOTATION, RETRY_ANNOTATION,
};
use hagane_plan::provisioning::{Facts, KubeconfigFact, NameOwner, RunEnd, RunRecord, RunSeen, StartFact, time_limit};
use hagane_ports::{ClusterInstaller, InstallerKind, RunExit, RunObservation, RunState};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::DynamicObject;
use tokio::time::Instant;

use super::{SeenProvisioning, hosts, login, secret, watch};
use crate::Context;
use crate::host::creation_order;
use crate::runtime::{Caches, Pass, PassError, chain};

/// What a pass knows, and what it found out while it acted.
pub(super) struct Observed {
    /// What the decision looks at.
    pub(super) facts: Facts,
    /// Host objects of the namespace.
    pub(super) hosts: Vec<Arc<DynamicObject>>,
    /// The SSH private key.
    pub(super) private_key: Option<String>,
    /// The Secret under the kubeconfig's name.
    pub(super) secret: Option<Secret>,
    /// What the installer told of the recorded run.
    pub(super) run: Option<RunObservation>,
    /// The kubeconfig that was fetched and answered to in this pass.
    pub(super) kubeconfig: Option<Vec<u8>>,
}

pub(super) async fn observe(seen: &SeenProvisioning, watched: &Watched, pass: &Pass) -> Result<Observed, PassError> {
    let cluster = cluster_name(&seen.raw);
    let objects = if seen.is_deleting() {
        hosts::listed(&pass.context.client, &seen.key.namespace).await?
    } else {
        hosts::of_namespace(&pass.caches, &seen.key.namespace)
    };
    let (login, private_key) = login::read(&pass.context.client, &seen.key.namespace, &seen.spec).await?;
    let (secret_fact, secret) = secret::read(&pass.context.client, seen, &cluster).await?;
    let recorded = seen.status.run.as_ref();
    let (seen_run, run) = see_run(recorded, &pass.context).await;
    let facts = Facts {
        namespace: seen.key.namespace.clone(),
        name: seen.key.name.clone(),
        uid: seen.uid().to_owned(),
        generation: seen.generation().unwrap_or_default(),
        deleting: seen.is_deleting(),
        finalizer: true,
        paused: false,
        retry: seen.annotation(RETRY_ANNOTATION).map(str::to_owned),
        cancel: seen.annotation(CANCEL_RUN_ANNOTATION).map(str::to_owned),
        abandon: seen.annotation(ABANDON_RUN_ANNOTATION).map(str::to_owned),
        approved: seen.annotation(APPROVE_RUN_ANNOTATION).map(str::to_owned),
        renew: seen.annotation(RENEW_CERTIFICATES_ANNOTATION).map(str::to_owned),
        planned: seen.status.planned_run.clone(),
        cluster_version: None,
        certificates_end: None,
        name_owner: name_owner(seen, &cluster, &pass.caches),
        cluster,
        spec: Ok(seen.spec.clone()),
        hosts: hosts::facts(&objects, seen.uid(), &held_without_claim(seen, &objects, &pass.caches)),
        plan: seen.status.plan.clone(),
        login,
        installer_missing: installer_missing(seen, &pass.context),
        scans: None,
        checks: None,
        run: recorded.map(|recorded| {
            let record = record_of(recorded, run.as_ref(), &seen.spec, pass.now);
            if record.holder == pass.context.settings.holder {
                return record;
            }
            RunRecord { age: record.age.min(watched.since(seen.uid(), &record.id)), ..record }
        }),
        installed: seen.status.installed.clone(),
        seen: seen_run,
        start: StartFact::NotTried,
        kubeconfig: KubeconfigFact::NotFetched,
        secret: secret_fact,
        holder: pass.context.settings.holder.clone(),
    };
    Ok(Observed { facts, hosts: objects, private_key, secret, run, kubeconfig: None })
}

/// Name of a Provisioning's cluster: its label, else its own name. Once a run is recorded the name stays: Secret and
/// nodes carry it.
pub(crate) fn cluster_name(object: &DynamicObject) -> String {
    let status = |path: &str| object.data.pointer(path).filter(|value| !value.is_null());
    let installed = status("/status/run").and_then(|_| status("/status/cluster")?.as_str());
    if let Some(name) = installed.filter(|name| !name.is_empty()) {
        return name.to_owned();
    }
    let label = object.labels().get(PROVISIONING_CLUSTER_LABEL).filter(|name| !name.is_empty());
    label.cloned().unwrap_or_else(|| object.name_any())
}

/// The installer that a recorded run belongs to, where it is set up here.
pub(super) fn installer_of<'a>(run: &RunStatus, context: &'a Context) -> Option<&'a Arc<dyn ClusterInstaller>> {
    context.ports.installers.get(&kind_of(&run.installer)?)
}

/// The installer that the spec asks for.
pub(super) fn wanted_installer(spec: &ProvisioningSpec, context: &Context) -> InstallerKind {
    match spec.installer {
        Some(Installer::Kubeadm) => InstallerKind::Kubeadm,
        Some(Installer::Kubespray) => InstallerKind::Kubespray,
        None => context.settings.default_installer,
    }
}

/// Its spelling in `status.run.installer`.
pub(super) const fn word_of(kind: InstallerKind) -> &'static str {
    match kind {
        InstallerKind::Kubeadm => "kubeadm",
        InstallerKind::Kubespray => "kubespray",
    }
}

fn kind_of(word: &str) -> Option<InstallerKind> {
    [InstallerKind::Kubeadm, InstallerKind::Kubespray].into_iter().find(|kind| word_of(*kind) == word)
}

fn installer_missing(seen: &SeenProvisioning, context: &Context) -> Option<String> {
    let kind = wanted_installer(&seen.spec, context);
    (!context.ports.installers.contains_key(&kind)).then(|| not_set_up(word_of(kind)))
}

/// What is said where an installer is asked for that the operator did not name the programs of.
pub(super) fn not_set_up(installer: &str) -> String {
    format!("the installer {installer:?} is not set up here: the operator names its programs by flags or configuration")
}

/// Another Provisioning that owns the cluster's name: it has a plan for it, or it is older.
fn name_owner(seen: &SeenProvisioning, cluster: &str, caches: &Caches) -> NameOwner {
    let Some(resource) = watch::provisionings() else { return NameOwner::Ours };
    let holds = |object: &DynamicObject| {
        let recorded = object.data.pointer("/status/cluster").and_then(serde_json::Value::as_str);
        object.data.pointer("/status/plan").is_some_and(|plan| !plan.is_null()) && recorded == Some(cluster)
    };
    let rank = |object: &DynamicObject| {
        let (time, name) = creation_order(object);
        (!holds(object), time, object.namespace(), name)
    };
    let own = rank(&seen.raw);
    let others = caches.list_all(resource);
    let mut rivals: Vec<_> = others
        .iter()
        .filter(|other| other.uid().as_deref() != Some(seen.uid()) && cluster_name(other) == cluster)
        .filter(|other| rank(other) < own)
        .collect();
    rivals.sort_by_key(|other| rank(other));
    rivals.first().map_or(NameOwner::Ours, |other| {
        let namespace = other.namespace().unwrap_or_default();
        NameOwner::Taken(format!("Provisioning {namespace}/{}", other.name_any()))
    })
}

/// Addresses of machines that other Provisionings of the namespace have begun a run on and whose host objects are gone: a
/// claim goes with its object, and a new object for the same machine must not make it free.
fn held_without_claim(
    seen: &SeenProvisioning,
    hosts: &[Arc<DynamicObject>],
    caches: &Caches,
) -> BTreeMap<IpAddr, String> {
    let mut held = BTreeMap::new();
    let Some(resource) = watch::provisionings() else { return held };
    let part = |object: &DynamicObject, path: &str| object.data.pointer(path).filter(|part| !part.is_null()).cloned();
    for other in caches.list(resource, &seen.key.namespace) {
        let begun = part(&other, "/status/run").is_some() && other.uid().as_deref() != Some(seen.uid());
        let Some(plan) = part(&other, "/status/plan/assignments").filter(|_| begun) else { continue };
        for assignment in serde_json::from_value::<Vec<Assignment>>(plan).unwrap_or_default() {
            let stands = hosts.iter().any(|host| host.uid().as_deref() == Some(&assignment.host_uid));
            if let (false, Ok(address)) = (stands, assignment.address.parse()) {
                let owner = format!("Provisioning {}/{}", seen.key.namespace, other.name_any());
                held.insert(address, format!("{owner}, through a host object that is gone"));
            }
        }
    }
    held
}

/// How long this process has known runs of other holders, by a clock that nobody can set. What a wall clock says of their
/// age is worth nothing after it was set: a living run would look dead.
#[derive(Debug, Default)]
pub(super) struct Watched(Mutex<HashMap<String, (String, Instant)>>);

impl Watched {
    fn since(&self, owner_uid: &str, run: &str) -> Duration {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, since) = known.entry(owner_uid.to_owned()).or_insert_with(|| (run.to_owned(), Instant::now()));
        if of != run {
            (*of, *since) = (run.to_owned(), Instant::now());
        }
        since.elapsed()
    }
}

fn record_of(
    run: &RunStatus,
    observation: Option<&RunObservation>,
    spec: &ProvisioningSpec,
    now: Timestamp,
) -> RunRecord {
    let age = now.duration_since(run.started_at);
    let finished_at = observation.and_then(|observation| observation.finished_at).or(run.finished_at);
    // An end in the future tells of a clock that was set back: nothing is to be waited for then.
    let ended = finished_at.map(|end| Duration::try_from(now.duration_since(end)).unwrap_or(Duration::MAX));
    let limit = run.deadline.and_then(|deadline| Duration::try_from(deadline.duration_since(run.started_at)).ok());
    RunRecord {
        id: run.id.clone(),
        generation: run.generation,
        retry: run.retry.clone(),
        verb: run.verb,
        nodes: run.nodes.clone(),
        lost: run.lost.clone(),
        version: run.kubernetes_version.clone(),
        renews: run.renews.clone(),
        settings: run.settings.clone(),
        holder: run.holder.clone(),
        state: RunWord::parse(&run.state).unwrap_or(RunWord::Running),
        message: run.message.clone(),
        attempt: u32::try_from(run.attempt).unwrap_or(1).max(1),
        ended,
        age: Duration::try_from(age).unwrap_or_default(),
        limit: limit.unwrap_or_else(|| time_limit(spec)),
    }
}

async fn see_run(recorded: Option<&RunStatus>, context: &Context) -> (RunSeen, Option<RunObservation>) {
    let Some(run) = recorded.filter(|run| run.holder == context.settings.holder) else {
        return (RunSeen::Absent, None);
    };
    let Some(installer) = installer_of(run, context) else {
        return (RunSeen::Unreadable(not_set_up(&run.installer)), None);
    };
    match installer.observe(&run.id).await {
        Ok(observation) => (seen_of(&observation), Some(observation)),
        Err(error) => (RunSeen::Unreadable(chain(&error)), None),
    }
}

/// What an observation means for the decision.
pub(super) fn seen_of(observation: &RunObservation) -> RunSeen {
    match &observation.state {
        RunState::Absent => RunSeen::Absent,
        RunState::Running => RunSeen::Running { progress: progress_line(observation) },
        RunState::Finished(exit) => RunSeen::Finished(end_of(exit, observation)),
    }
}

fn progress_line(observation: &RunObservation) -> String {
    let progress = &observation.progress;
    let total = progress.tasks_total.map(|total| format!(" of {total}")).unwrap_or_default();
    let task = progress.task.as_deref().unwrap_or("starting");
    format!("task {}{total}: {task}", progress.tasks_started)
}

fn end_of(exit: &RunExit, observation: &RunObservation) -> RunEnd {
    match exit {
        RunExit::Succeeded => RunEnd::Succeeded,
        RunExit::Failed { status } => {
            let failure = observation.progress.failures.first();
            RunEnd::Failed {
                status: *status,
                task: failure.map(|failure| (failure.task.clone(), format!("{} ({})", failure.host, failure.state))),
                message: failure.map(|failure| failure.message.clone()).unwrap_or_default(),
                unreachable: observation.progress.only_unreachable(),
            }
        }
        RunExit::Killed { signal } => RunEnd::Killed { signal: *signal },
        RunExit::TimedOut => RunEnd::TimedOut,
        RunExit::Stalled { seconds } => {
            RunEnd::Stalled { limit: Duration::from_secs(*seconds), task: observation.progress.task.clone() }
        }
        RunExit::PlayTimedOut { play, seconds } => {
            RunEnd::PlayTimedOut { play: play.clone(), limit: Duration::from_secs(*seconds) }
        }
        RunExit::Cancelled => RunEnd::Cancelled,
        RunExit::Lost => RunEnd::Interrupted,
        RunExit::NotStarted { message } => RunEnd::NotStarted { message: message.clone() },
    }
}
