//! Machines of the old generation, in both spellings of their group, on an actuator.

mod act;
mod cloud_init;
mod host_key;
pub(crate) mod link;
mod observe;
mod record;
#[cfg(test)]
mod tests;

use async_trait::async_trait;
use futures::future::BoxFuture;
use hagane_api::keys::MACHINE_FINALIZER;
use hagane_api::machine::{MachineSpec, MachineStatus};
use hagane_plan::decision::Next as Decided;
use hagane_plan::machine::{Action, decide};
use kube::ResourceExt as _;
use tokio::sync::broadcast::error::RecvError;
use tracing::warn;

use crate::Context;
use crate::runtime::{Caches, Change, Controller, Next, ObjectKey, Pass, PassError, Resource, Seen, Waker, Watch};

/// A decision asks again at most as often as there are things to find out; more is a bug.
const ROUNDS_MAX: usize = 8;

/// The control loop of Machines.
pub struct MachineController;

#[async_trait]
impl Controller for MachineController {
    type Spec = MachineSpec;
    type Status = MachineStatus;

    fn name(&self) -> &'static str {
        "machine"
    }

    fn resources(&self) -> Vec<Resource> {
        link::spellings("machines")
    }

    fn finalizer(&self) -> Option<&'static str> {
        Some(MACHINE_FINALIZER)
    }

    fn watches(&self) -> Vec<Watch> {
        let clusters = link::spellings("clusters").into_iter().map(|resource| Watch::new(resource, of_cluster));
        let classes = link::spellings("machineclasses").into_iter().map(|resource| Watch::new(resource, of_class));
        clusters.chain(classes).collect()
    }

    fn sources(&self, context: &Context, caches: &Caches, waker: &Waker) -> Vec<BoxFuture<'static, ()>> {
        vec![Box::pin(follow_actuator(context.clone(), caches.clone(), waker.clone()))]
    }

    async fn reconcile(&self, seen: Seen<MachineSpec, MachineStatus>, pass: &Pass) -> Result<Next, PassError> {
        let mut observed = observe::observe(&seen, pass).await?;
        let mut decision = decide(&observed.facts);
        for round in 0.. {
            if !decision.actions.iter().any(Action::asks_again) {
                break;
            }
            if round == ROUNDS_MAX {
                warn!(actions = ?decision.actions, "the decision asks without end");
                break;
            }
            for action in &decision.actions {
                act::act(action, &mut observed, &seen, pass).await?;
            }
            decision = decide(&observed.facts);
        }
        record::record(&seen, &observed, &decision, pass).await?;
        Ok(match decision.next {
            Decided::AwaitChange => Next::AwaitChange,
            Decided::After(wait, _) => Next::After(wait),
            Decided::Now => Next::Stale,
        })
    }
}

/// Machines whose label names the Cluster. A Cluster's coming and going matters, not what it says.
fn of_cluster(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    let uid = |object: Option<&kube::api::DynamicObject>| object.and_then(|object| object.metadata.uid.clone());
    if uid(change.old) == uid(change.new) {
        return Vec::new();
    }
    link::machines_naming(caches, change.key)
}

/// Machines of the class's own group and namespace that name the class.
fn of_class(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    let Some(machines) = Resource::of(change.key.resource.group, "machines") else { return Vec::new() };
    caches
        .list(machines, &change.key.namespace)
        .into_iter()
        .filter(|machine| {
            let class = machine.data.pointer("/spec/providerSpec/valueFrom/machineClass/name");
            class.and_then(serde_json::Value::as_str) == Some(change.key.name.as_str())
        })
        .map(|machine| ObjectKey::of(machines, &machine))
        .collect()
}

/// Wakes Machines whose state at the hypervisor may have changed.
async fn follow_actuator(context: Context, caches: Caches, waker: Waker) {
    let mut changes = context.ports.actuator.changes();
    loop {
        let uid = match changes.recv().await {
            Ok(uid) => uid,
            Err(RecvError::Lagged(_)) => String::new(),
            Err(RecvError::Closed) => return,
        };
        for resource in link::spellings("machines") {
            for machine in caches.list_all(resource) {
                if uid.is_empty() || machine.uid().as_deref() == Some(uid.as_str()) {
                    waker.wake(ObjectKey::of(resource, &machine));
                }
            }
        }
    }
}
