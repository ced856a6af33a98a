//! Step 0 of every pass: find the object, read it, see to pause and finalizer, and keep faults to the one object.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use hagane_api::condition::{Condition, ConditionDraft, ConditionStatus, merge_conditions};
use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;
use tokio::time::Instant;
use tracing::{Instrument as _, debug, error, info_span, warn};

use super::cache::Caches;
use super::controller::{Controller, Pass, pause_annotation};
use super::error::{PassError, chain};
use super::meter::PassEnd;
use super::object::Seen;
use super::record::Recorder;
use super::resource::ObjectKey;
use super::schedule::Next;
use crate::Context;

/// Condition type under which faults are recorded.
const READY: &str = "Ready";
/// Condition type of paused objects.
const PAUSED: &str = "Paused";

/// What went wrong with an object beyond its controller's own judgement.
enum Fault {
    Unreadable(String),
    Panicked(String),
    TimedOut,
}

impl Fault {
    fn condition(&self, context: &Context) -> ConditionDraft {
        let (reason, message) = match self {
            Self::Unreadable(message) => ("InvalidConfiguration", format!("the spec cannot be read: {message}")),
            Self::Panicked(message) => ("InternalError", format!("a bug in the controller: {message}")),
            Self::TimedOut => {
                ("DeadlineExceeded", format!("a pass took longer than {} s", context.settings.pass_deadline.as_secs()))
            }
        };
        ConditionDraft { r#type: READY, status: ConditionStatus::False, reason, message }
    }

    fn end(&self) -> PassEnd {
        match self {
            Self::Unreadable(_) => PassEnd::Unreadable,
            Self::Panicked(_) => PassEnd::Panicked,
            Self::TimedOut => PassEnd::TimedOut,
        }
    }
}

/// Runs one pass over `key` and says when to look again. Never fails, whatever the object holds.
pub(crate) async fn run_pass<C: Controller>(
    controller: &C,
    context: &Context,
    caches: &Caches,
    key: &ObjectKey,
    failures: u32,
) -> Next {
    let Some(raw) = caches.get(key) else { return Next::Forget };
    let span = info_span!(
        "pass",
        controller = controller.name(),
        namespace = key.namespace,
        name = key.name,
        group = key.resource.group,
        generation = raw.metadata.generation,
    );
    let started = Instant::now();
    let pass = Pass {
        context: context.clone(),
        caches: caches.clone(),
        now: whole_seconds(context.ports.clock.now()),
        failures,
    };
    let (next, end) = guarded(controller, &pass, key, raw).instrument(span).await;
    context.meter.pass(controller.name(), end, started.elapsed());
    next
}

async fn guarded<C: Controller>(
    controller: &C,
    pass: &Pass,
    key: &ObjectKey,
    raw: Arc<DynamicObject>,
) -> (Next, PassEnd) {
    let seen = match Seen::<C::Spec, C::Status>::read(key.clone(), Arc::clone(&raw)) {
        Ok(seen) => seen,
        Err(error) => {
            let fault = Fault::Unreadable(error.to_string());
            record_fault(controller, pass, key, &raw, &fault).await;
            return (Next::AwaitChange, fault.end());
        }
    };
    let body = AssertUnwindSafe(step(controller, pass, seen)).catch_unwind();
    let fault = match tokio::time::timeout(pass.context.settings.pass_deadline, body).await {
        Ok(Ok(Ok(next))) => return (next, if next == Next::Retry { PassEnd::Retry } else { PassEnd::Done }),
        Ok(Ok(Err(error))) => {
            return match error {
                PassError::Conflict => {
                    debug!("the object moved on; looking again");
                    (error.next(), PassEnd::Stale)
                }
                other => {
                    warn!(error = chain(&other), "pass failed");
                    (other.next(), PassEnd::Retry)
                }
            };
        }
        Ok(Err(panic)) => Fault::Panicked(panic_message(panic.as_ref())),
        Err(_) => Fault::TimedOut,
    };
    error!(end = ?fault.end(), "pass broken off");
    record_fault(controller, pass, key, &raw, &fault).await;
    (Next::Retry, fault.end())
}

async fn step<C: Controller>(controller: &C, pass: &Pass, seen: Seen<C::Spec, C::Status>) -> Result<Next, PassError> {
    if let Some(next) = see_to_pause(controller, pass, &seen).await? {
        return Ok(next);
    }
    if let Some(finalizer) = controller.finalizer() {
        let has = seen.meta().finalizers.as_ref().is_some_and(|list| list.iter().any(|known| known == finalizer));
        match (has, seen.is_deleting()) {
            (false, true) => return Ok(Next::AwaitChange),
            (false, false) => {
                pass.recorder(&seen).add_finalizer(finalizer).await?;
                return Ok(Next::AwaitChange);
            }
            (true, _) => {}
        }
    }
    controller.reconcile(seen, pass).await
}

/// Records that an object is paused, or no longer is. Nothing where the pass goes on.
async fn see_to_pause<C: Controller>(
    controller: &C,
    pass: &Pass,
    seen: &Seen<C::Spec, C::Status>,
) -> Result<Option<Next>, PassError> {
    let annotation = pause_annotation(controller, &seen.raw);
    if !controller.has_conditions() {
        return Ok(annotation.map(|_| Next::AwaitChange));
    }
    let recorded = stored_conditions(seen.raw_status())
        .iter()
        .any(|condition| condition.r#type == PAUSED && condition.status == ConditionStatus::True);
    let draft = |status, reason, message| ConditionDraft { r#type: PAUSED, status, reason, message };
    let draft = match annotation {
        Some(name) => {
            let doing = if seen.is_deleting() { "deletion waits" } else { "nothing is done" };
            draft(ConditionStatus::True, "Paused", format!("{doing} while the annotation {name} is there"))
        }
        None if recorded => draft(ConditionStatus::False, "NotPaused", String::new()),
        None => return Ok(None),
    };
    let mut recorder = pass.recorder(seen);
    write_condition(&mut recorder, &seen.raw, draft, pass).await?;
    Ok(Some(if annotation.is_some() { Next::AwaitChange } else { Next::Stale }))
}

async fn record_fault<C: Controller>(controller: &C, pass: &Pass, key: &ObjectKey, raw: &DynamicObject, fault: &Fault) {
    if !controller.has_conditions() {
        return;
    }
    let mut recorder = Recorder::of_raw(&pass.context.client, key.clone(), raw.clone(), pass.now);
    let written = write_condition(&mut recorder, raw, fault.condition(&pass.context), pass).await;
    if let Err(error) = written {
        warn!(error = chain(&error), "the fault could not be recorded");
    }
}

async fn write_condition(
    recorder: &mut Recorder,
    raw: &DynamicObject,
    draft: ConditionDraft,
    pass: &Pass,
) -> Result<bool, PassError> {
    let old = raw.data.get("status").cloned().unwrap_or_else(|| Value::Object(serde_json::Map::new()));
    let merged = merge_conditions(&stored_conditions(&old), &[draft], pass.now, raw.metadata.generation);
    let mut new = if old.is_object() { old.clone() } else { Value::Object(serde_json::Map::new()) };
    new["conditions"] =
        serde_json::to_value(merged).map_err(|source| PassError::Encode { what: "conditions", source })?;
    recorder.raw_status(&old, &new).await
}

/// Times in objects have no fractions, as everywhere in Kubernetes.
fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

fn stored_conditions(status: &Value) -> Vec<Condition> {
    let list = status.get("conditions").cloned().unwrap_or_default();
    serde_json::from_value(list).unwrap_or_default()
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
