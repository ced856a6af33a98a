//! What a pass over a Software leaves behind: status and events.

use hagane_api::bpa::software_reasons::{SoftwareCondition, SoftwarePhase, SoftwareReason};
use hagane_api::bpa::software_status::SoftwareStatus;
use hagane_api::condition::{Condition, merge_conditions};
use hagane_api::keys::PROVISIONING_CLUSTER_LABEL;
use hagane_plan::software::{Outcome, done};

use super::SeenSoftware;
use crate::runtime::{EventDraft, Pass, PassError, Recorder, Severity, transitions};

/// Writes what was decided and found; nothing where nothing differs. Gives the writer, for what comes after the act.
pub(super) async fn record(seen: &SeenSoftware, outcome: &Outcome, pass: &Pass) -> Result<Recorder, PassError> {
    let mut recorder = pass.recorder(seen);
    let generation = seen.generation();
    let status = SoftwareStatus {
        phase: outcome.decision.phase.or(seen.status.phase),
        cluster: seen.label(PROVISIONING_CLUSTER_LABEL).map(str::to_owned),
        observed_generation: generation,
        conditions: merge_conditions(&seen.status.conditions, &outcome.decision.conditions, pass.now, generation),
        done: (!outcome.hosts.is_empty()).then(|| done(&outcome.hosts)),
        turn_since: outcome.turn_since,
        hosts: outcome.hosts.clone(),
    };
    recorder.status(&seen.status, &status).await?;
    recorder.events(&told(seen, &status, outcome)).await;
    Ok(recorder)
}

fn told(seen: &SeenSoftware, status: &SoftwareStatus, outcome: &Outcome) -> Vec<EventDraft> {
    let failed = status.phase == Some(SoftwarePhase::Failed);
    let severity =
        |ready: &Condition| if failed || is_trouble(&ready.reason) { Severity::Warning } else { Severity::Normal };
    let of =
        |kind: SoftwareCondition| transitions(&seen.status.conditions, &status.conditions, kind.as_str(), severity);
    let mut drafts = of(SoftwareCondition::Ready);
    let drifted = SoftwareReason::Drifted.as_str();
    drafts.extend(of(SoftwareCondition::UpToDate).into_iter().filter(|draft| draft.reason == drifted));
    if let Some(message) = &outcome.left {
        let reason = SoftwareReason::PackagesLeft.as_str().to_owned();
        drafts.retain(|draft| draft.reason != reason);
        drafts.push(EventDraft { severity: Severity::Warning, reason, message: message.clone() });
    }
    drafts
}

/// What a person must put right, although work may go on by itself then.
fn is_trouble(reason: &str) -> bool {
    let troubles = [
        SoftwareReason::SshKeyMissing,
        SoftwareReason::SshKeyInvalid,
        SoftwareReason::HostKeyUnknown,
        SoftwareReason::HostUnreachable,
        SoftwareReason::HostKeyChanged,
        SoftwareReason::LoginRefused,
        SoftwareReason::HostUnsupported,
        SoftwareReason::ClusterNotAnswering,
        SoftwareReason::Drifted,
    ];
    troubles.iter().any(|trouble| trouble.as_str() == reason)
}
