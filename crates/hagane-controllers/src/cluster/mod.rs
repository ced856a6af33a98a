//! Clusters of the old generation, in both spellings of their group: valid networks, and deleted after their Machines.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use hagane_api::condition::{ConditionStatus, merge_conditions};
use hagane_api::keys::CLUSTER_FINALIZER;
use hagane_api::machine::reasons::{ClusterCondition, ClusterPhase};
use hagane_api::machine::{ClusterSpec, ClusterStatus, validate_cluster_spec};
use hagane_plan::cluster::{Action, Decision, Facts, decide};
use hagane_plan::decision::Next as Decided;
use kube::api::{DeleteParams, DynamicObject, Preconditions};
use tracing::info;

use crate::machine::link;
use crate::runtime::{
    Caches, Change, Controller, Next, ObjectKey, Pass, PassError, Resource, Seen, Severity, Watch, is_not_found,
    transitions,
};

type SeenCluster = Seen<ClusterSpec, ClusterStatus>;
type Machines = Vec<(ObjectKey, Arc<DynamicObject>)>;

/// The control loop of Clusters.
pub struct ClusterController;

#[async_trait]
impl Controller for ClusterController {
    type Spec = ClusterSpec;
    type Status = ClusterStatus;

    fn name(&self) -> &'static str {
        "cluster"
    }

    fn resources(&self) -> Vec<Resource> {
        link::spellings("clusters")
    }

    fn finalizer(&self) -> Option<&'static str> {
        Some(CLUSTER_FINALIZER)
    }

    fn watches(&self) -> Vec<Watch> {
        // A Cluster of the other spelling may take over Machines, or leave them.
        let twins = link::spellings("clusters").into_iter().map(|resource| Watch::new(resource, twins));
        let machines = link::spellings("machines").into_iter().map(|resource| Watch::new(resource, of_machine));
        twins.chain(machines).collect()
    }

    async fn reconcile(&self, seen: SeenCluster, pass: &Pass) -> Result<Next, PassError> {
        let machines = link::machines_of(&pass.caches, &seen.key);
        let decision = decide(&facts(&seen, &machines));
        if decision.actions.contains(&Action::DeleteMachines) {
            delete_machines(&machines, pass).await?;
        }
        record(&seen, machines.len(), &decision, pass).await?;
        Ok(match decision.next {
            Decided::AwaitChange => Next::AwaitChange,
            Decided::After(wait, _) => Next::After(wait),
            Decided::Now => Next::Stale,
        })
    }
}

fn facts(seen: &SeenCluster, machines: &Machines) -> Facts {
    Facts {
        deleting: seen.is_deleting(),
        finalizer: true,
        paused: false,
        errors: validate_cluster_spec(&seen.spec),
        machines: machines.iter().map(|(key, _)| key.name.clone()).collect(),
    }
}

/// Asks for the deletion of every Machine that is not being deleted yet; their own loop ends them.
async fn delete_machines(machines: &Machines, pass: &Pass) -> Result<(), PassError> {
    for (key, machine) in machines {
        if machine.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let preconditions = Preconditions { uid: machine.metadata.uid.clone(), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let api = key.resource.api(&pass.context.client, &key.namespace);
        match api.delete(&key.name, &params).await {
            Ok(_) => info!(machine = %key, "deleting a machine with its cluster"),
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(PassError::api("delete a Machine of the Cluster", error)),
        }
    }
    Ok(())
}

async fn record(seen: &SeenCluster, machines: usize, decision: &Decision, pass: &Pass) -> Result<(), PassError> {
    let mut recorder = pass.recorder(seen);
    let old = &seen.status;
    let conditions = merge_conditions(&old.conditions, &decision.conditions, pass.now, seen.generation());
    let phase = decision.phase.or(old.phase);
    let ready = conditions.iter().find(|condition| condition.r#type == ClusterCondition::Ready.as_str());
    let failed = ready.filter(|_| phase == Some(ClusterPhase::Failed));
    let status = ClusterStatus {
        phase,
        machines: i64::try_from(machines).ok(),
        observed_generation: seen.generation(),
        error_reason: failed.map(|_| "InvalidConfiguration".to_owned()),
        error_message: failed.map(|condition| condition.message.clone()),
        conditions,
        ..old.clone()
    };
    recorder.status(old, &status).await?;
    let severity = |condition: &hagane_api::condition::Condition| {
        let bad = phase == Some(ClusterPhase::Failed) && condition.status == ConditionStatus::False;
        if bad { Severity::Warning } else { Severity::Normal }
    };
    let moves = transitions(&old.conditions, &status.conditions, ClusterCondition::Ready.as_str(), severity);
    recorder.events(&moves).await;
    if decision.actions.contains(&Action::RemoveFinalizer) {
        recorder.remove_finalizer(CLUSTER_FINALIZER).await?;
    }
    Ok(())
}

/// Clusters that a Machine's label names, now or before. What the Machine says otherwise does not matter here.
fn of_machine(change: &Change<'_>, _: &Caches) -> Vec<ObjectKey> {
    if !change.beyond_status() {
        return Vec::new();
    }
    let mut keys: Vec<_> = [change.old, change.new].into_iter().flatten().flat_map(link::clusters_named_by).collect();
    keys.sort();
    keys.dedup();
    keys
}

/// The Cluster of the same name in the other spelling, when one comes or goes.
fn twins(change: &Change<'_>, _: &Caches) -> Vec<ObjectKey> {
    let comes_or_goes = change.old.is_none() || change.new.is_none();
    let others = link::spellings("clusters").into_iter().filter(|resource| *resource != change.key.resource);
    if !comes_or_goes {
        return Vec::new();
    }
    others.map(|resource| ObjectKey::new(resource, &change.key.namespace, &change.key.name)).collect()
}
