//! What a pass over a Machine leaves behind: status, provider id, owner, finalizer, events.

use hagane_api::condition::{Condition, ConditionStatus, merge_conditions};
use hagane_api::keys::MACHINE_FINALIZER;
use hagane_api::machine::reasons::{MachineCondition, MachinePhase, MachineReason};
use hagane_api::machine::{LibvirtMachineProviderStatus, MachineAddress, MachineStatus};
use hagane_plan::machine::{Action, Decision, Presence};
use hagane_ports::PowerState;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::link;
use super::observe::{Observed, SeenMachine};
use crate::runtime::{Pass, PassError, Recorder, Severity, transitions};

/// Writes what was decided and found. Nothing is written where nothing differs.
pub(super) async fn record(
    seen: &SeenMachine,
    observed: &Observed,
    decision: &Decision,
    pass: &Pass,
) -> Result<(), PassError> {
    let mut recorder = pass.recorder(seen);
    if let Some(change) = object_change(seen, decision, pass)? {
        recorder.patch(change).await?;
    }
    let status = new_status(seen, observed, decision, &recorder, pass.now);
    recorder.status(&seen.status, &status).await?;
    recorder.events(&events(&seen.status.conditions, &status)).await;
    if decision.actions.contains(&Action::RemoveFinalizer) {
        recorder.remove_finalizer(MACHINE_FINALIZER).await?;
    }
    Ok(())
}

/// What changes in the object's own fields: the provider id, and the Cluster as an owner.
fn object_change(seen: &SeenMachine, decision: &Decision, pass: &Pass) -> Result<Option<Value>, PassError> {
    let mut change = Map::new();
    let provider_id = decision.actions.iter().find_map(|action| match action {
        Action::SetProviderId(id) => Some(id),
        _ => None,
    });
    if let Some(id) = provider_id {
        change.insert("spec".to_owned(), json!({"providerID": id}));
    }
    if !seen.is_deleting() {
        let cluster = link::cluster_of(&pass.caches, seen.key.resource, &seen.raw);
        if let Some(owners) = link::owner_references(&seen.key, &seen.raw, cluster.as_ref()) {
            let owners = serde_json::to_value(owners)
                .map_err(|source| PassError::Encode { what: "owner references", source })?;
            change.insert("metadata".to_owned(), json!({"ownerReferences": owners}));
        }
    }
    Ok((!change.is_empty()).then_some(Value::Object(change)))
}

fn new_status(
    seen: &SeenMachine,
    observed: &Observed,
    decision: &Decision,
    recorder: &Recorder,
    now: Timestamp,
) -> MachineStatus {
    let old = &seen.status;
    let generation = recorder.generation();
    let phase = decision.phase.or(old.phase);
    let conditions = merge_conditions(&old.conditions, &decision.conditions, now, generation);
    let (error_reason, error_message) = error(phase, &conditions);
    let mut status = MachineStatus {
        phase,
        observed_generation: generation,
        addresses: addresses(old, observed),
        conditions,
        provider_status: provider_status(old.provider_status.as_ref(), observed),
        versions: seen.spec.versions.clone(),
        error_reason,
        error_message,
        ..old.clone()
    };
    if status != *old {
        status.last_updated = Some(now.to_string());
    }
    status
}

/// The addresses as the actuator gives them; those known before while it cannot say.
fn addresses(old: &MachineStatus, observed: &Observed) -> Vec<MachineAddress> {
    match (&observed.instance, &observed.facts.presence) {
        (Some(instance), _) => instance
            .addresses
            .iter()
            .map(|address| MachineAddress { r#type: "InternalIP".to_owned(), address: address.to_string() })
            .collect(),
        (None, Presence::Absent | Presence::Leftovers(_)) => Vec::new(),
        (None, Presence::Unknown(_) | Presence::Present(_)) => old.addresses.clone(),
    }
}

fn provider_status(
    old: Option<&LibvirtMachineProviderStatus>,
    observed: &Observed,
) -> Option<LibvirtMachineProviderStatus> {
    let mut status = old.cloned().unwrap_or_default();
    let made = status.instance_id.is_some();
    if let Some(resolved) = observed.resolved().filter(|_| !made || observed.created) {
        status.resolved = Some(resolved.to_status());
    }
    if let Some(image) = observed.image.as_ref().filter(|_| observed.created) {
        status.image_sha256 = Some(image.sha256.clone());
    }
    if let Some(key) = observed.host_key.as_ref().filter(|_| observed.instance.is_some()) {
        status.ssh_host_key = Some(key.clone());
    }
    match (&observed.instance, &observed.facts.presence) {
        (Some(instance), _) => {
            status.instance_id = Some(instance.uuid.clone());
            status.domain = Some(instance.domain.clone());
            status.mac = Some(instance.mac.clone());
            status.instance_state = Some(power_word(instance.power).to_owned());
        }
        (None, Presence::Absent | Presence::Leftovers(_)) => status.instance_state = None,
        (None, Presence::Unknown(_) | Presence::Present(_)) => {}
    }
    (status != LibvirtMachineProviderStatus::default()).then_some(status)
}

fn power_word(power: PowerState) -> &'static str {
    match power {
        PowerState::Running => "Running",
        PowerState::Off => "Off",
        PowerState::Paused => "Paused",
        PowerState::Crashed => "Crashed",
    }
}

/// The pair that the old machine API shows while a person must act, in its words where it has one.
fn error(phase: Option<MachinePhase>, conditions: &[Condition]) -> (Option<String>, Option<String>) {
    let ready = conditions.iter().find(|condition| condition.r#type == MachineCondition::Ready.as_str());
    let Some(ready) = ready.filter(|_| phase == Some(MachinePhase::Failed)) else { return (None, None) };
    let known = MachineReason::ALL.iter().find(|reason| reason.as_str() == ready.reason);
    let word = match known {
        Some(MachineReason::InvalidSpec | MachineReason::ProviderSpecMissing | MachineReason::MachineClassMissing) => {
            "InvalidConfiguration"
        }
        Some(
            MachineReason::ImageFailed
            | MachineReason::SeedFailed
            | MachineReason::NameTaken
            | MachineReason::AddressInUse
            | MachineReason::CreateFailed,
        ) => "CreateError",
        Some(MachineReason::DeleteFailed) => "DeleteError",
        _ => &ready.reason,
    };
    (Some(word.to_owned()), Some(ready.message.clone()))
}

/// Events for moves of the whole, and for the birth of the machine.
fn events(old: &[Condition], status: &MachineStatus) -> Vec<crate::runtime::EventDraft> {
    let failed = status.phase == Some(MachinePhase::Failed);
    let severity = |condition: &Condition| {
        let trouble = [
            MachineReason::HypervisorUnreachable,
            MachineReason::ImageFailed,
            MachineReason::SeedFailed,
            MachineReason::CreateFailed,
            MachineReason::DeleteFailed,
        ];
        let troubled = trouble.iter().any(|reason| condition.reason == reason.as_str());
        if failed || troubled || condition.status == ConditionStatus::Unknown {
            Severity::Warning
        } else {
            Severity::Normal
        }
    };
    let mut drafts = transitions(old, &status.conditions, MachineCondition::Ready.as_str(), severity);
    let born = transitions(old, &status.conditions, MachineCondition::InstanceExists.as_str(), |_| Severity::Normal);
    drafts.extend(born.into_iter().filter(|draft| draft.reason == MachineReason::Created.as_str()));
    drafts
}
