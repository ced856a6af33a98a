//! What a pass over a Provisioning leaves behind: status and events.

use std::time::Duration;

use hagane_api::bpa::provisioning::{FailedTask, HostCounts, ProvisioningSpec, ProvisioningStatus, RunStatus};
use hagane_api::bpa::reasons::{
    ProvisioningCondition, ProvisioningPhase, ProvisioningReason, ProvisioningWait, RunWord,
};
use hagane_api::bpa::run::{PlayTime, TaskTime};
use hagane_api::condition::{Condition, merge_conditions};
use hagane_api::keys::kubeconfig_secret_name;
use hagane_plan::decision::Next;
use hagane_plan::provisioning::{
    Action, Decision, RunEnd, RunSeen, SecretFact, installed, retry_pause, time_limit, told,
};
use hagane_ports::{HostStats, RunExit, RunObservation, RunState, TaskFailure};

use super::SeenProvisioning;
use super::observe::{Observed, seen_of, wanted_installer, word_of};
use crate::runtime::{Pass, PassError, Recorder, Severity, transitions};

/// Writes what was decided and found; nothing where nothing differs. Gives the writer, for what comes after the act.
pub(super) async fn record(
    seen: &SeenProvisioning,
    observed: &Observed,
    decision: &Decision,
    pass: &Pass,
) -> Result<Recorder, PassError> {
    let mut recorder = pass.recorder(seen);
    let status = new_status(seen, observed, decision, pass);
    recorder.status(&seen.status, &status).await?;
    let failed = status.phase == Some(ProvisioningPhase::Failed);
    let severity = |ready: &Condition| if failed { Severity::Warning } else { severity_of(&ready.reason) };
    let ready = ProvisioningCondition::Ready.as_str();
    let mut drafts = transitions(&seen.status.conditions, &status.conditions, ready, severity);
    let differ = ProvisioningCondition::FactsDiffer.as_str();
    let told = transitions(&seen.status.conditions, &status.conditions, differ, |_| Severity::Warning);
    drafts.extend(told.into_iter().filter(|draft| draft.reason == differ));
    if seen.status.installed.is_some() {
        // A cluster that stands stays ready: what is done about it is told by another condition.
        let up_to_date = ProvisioningCondition::UpToDate.as_str();
        drafts.extend(transitions(&seen.status.conditions, &status.conditions, up_to_date, severity));
    }
    recorder.events(&drafts).await;
    Ok(recorder)
}

/// What goes on by itself is the normal course; what a person must put right is not.
fn severity_of(reason: &str) -> Severity {
    let troubles = [
        ProvisioningReason::NoSuitableHosts,
        ProvisioningReason::SshKeyMissing,
        ProvisioningReason::SshKeyInvalid,
        ProvisioningReason::HostUnreachable,
        ProvisioningReason::HostKeyChanged,
        ProvisioningReason::LoginRefused,
        ProvisioningReason::HostLost,
        ProvisioningReason::WaitingForApproval,
        ProvisioningReason::VersionNotReachable,
        ProvisioningReason::ResetFailed,
        ProvisioningReason::InstallerNotReady,
        ProvisioningReason::RetryingRun,
        ProvisioningReason::KubeconfigNotAnswering,
    ];
    if troubles.iter().any(|trouble| trouble.as_str() == reason) { Severity::Warning } else { Severity::Normal }
}

fn new_status(seen: &SeenProvisioning, observed: &Observed, decision: &Decision, pass: &Pass) -> ProvisioningStatus {
    let old = &seen.status;
    let generation = seen.generation();
    let mut status = ProvisioningStatus {
        phase: decision.phase.or(old.phase),
        cluster: Some(observed.facts.cluster.clone()),
        observed_generation: generation,
        conditions: merge_conditions(&old.conditions, &decision.conditions, pass.now, generation),
        plan: old.plan.clone(),
        planned_run: old.planned_run.clone(),
        run: old.run.as_ref().map(|run| followed(run, observed.run.as_ref())),
        installed: installed(&observed.facts),
        kubeconfig_secret: match observed.facts.secret {
            SecretFact::Ours { .. } => Some(kubeconfig_secret_name(&observed.facts.cluster)),
            SecretFact::Absent | SecretFact::Foreign(_) => None,
        },
    };
    if let (Some(run), Next::After(_, ProvisioningWait::Retry)) = (&mut status.run, decision.next) {
        let attempt = u32::try_from(run.attempt).unwrap_or(1);
        run.retry_at = run.finished_at.and_then(|end| end.checked_add(retry_pause(attempt)).ok());
    }
    for action in &decision.actions {
        match action {
            Action::RecordPlan(plan) => status.plan = Some(plan.as_ref().clone()),
            Action::RecordPlannedRun(planned) => status.planned_run = planned.as_deref().cloned(),
            Action::RecordRunIntent { id, generation, retry, verb, nodes, lost, version, renews, settings } => {
                status.planned_run = None;
                let run = RunStatus {
                    nodes: nodes.clone(),
                    lost: lost.clone(),
                    kubernetes_version: version.clone(),
                    renews: renews.clone(),
                    installer: word_of(wanted_installer(&seen.spec, &pass.context)).to_owned(),
                    generation: *generation,
                    retry: retry.clone(),
                    verb: *verb,
                    settings: settings.clone(),
                    ..RunStatus::default()
                };
                status.run = Some(intended(run, id, 1, &seen.spec, pass));
            }
            Action::RetryRun { id, attempt } => {
                status.run = old.run.as_ref().map(|run| intended(run.anew(), id, *attempt, &seen.spec, pass));
            }
            _ => {}
        }
    }
    status
}

/// A run that is about to start here.
fn intended(run: RunStatus, id: &str, attempt: u32, spec: &ProvisioningSpec, pass: &Pass) -> RunStatus {
    RunStatus {
        id: id.to_owned(),
        attempt: attempt.into(),
        holder: pass.context.settings.holder.clone(),
        started_at: pass.now,
        deadline: pass.now.checked_add(time_limit(spec)).ok(),
        state: RunWord::Starting.as_str().to_owned(),
        ..run
    }
}

/// The recorded run with what its own record tells now. One that was seen and is not there any more is lost.
fn followed(run: &RunStatus, observation: Option<&RunObservation>) -> RunStatus {
    let mut run = run.clone();
    let Some(observation) = observation else { return run };
    run.state = match &observation.state {
        RunState::Absent if run.state == RunWord::Running.as_str() => {
            RunWord::Lost.as_str().clone_into(&mut run.state);
            return run;
        }
        RunState::Absent => return run,
        RunState::Running => RunWord::Running,
        RunState::Finished(exit) => end_word(exit),
    }
    .as_str()
    .to_owned();
    let progress = &observation.progress;
    run.resumed.clone_from(&progress.resumed);
    run.play.clone_from(&progress.play);
    run.task.clone_from(&progress.task);
    run.tasks_started = progress.tasks_started.into();
    run.tasks_total = progress.tasks_total.map(i64::from);
    run.hosts = progress.hosts.iter().map(|(name, stats)| (name.clone(), counts(stats))).collect();
    let failure = |failure: &TaskFailure| FailedTask {
        task: failure.task.clone(),
        host: failure.host.clone(),
        state: failure.state.clone(),
        message: failure.message.clone(),
        output: failure.output.clone(),
    };
    run.message = match seen_of(observation) {
        RunSeen::Finished(end) if end != RunEnd::Succeeded => Some(told(&end)),
        _ => None,
    };
    run.retry_at = None;
    run.plays = progress.plays.iter().map(play_time).collect();
    run.slowest = progress.slowest.iter().map(task_time).collect();
    run.estimated_seconds = observation.estimate.map(|length| whole_seconds(length.as_secs()));
    run.failures = progress.failures.iter().map(failure).collect();
    run.log = Some(observation.log.display().to_string());
    run.finished_at = observation.finished_at;
    let began = observation.started_at.unwrap_or(run.started_at);
    run.seconds = observation
        .finished_at
        .map(|end| whole_seconds(Duration::try_from(end.duration_since(began)).unwrap_or_default().as_secs()));
    run
}

fn whole_seconds(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

fn play_time(time: &hagane_ports::PlayTime) -> PlayTime {
    PlayTime { play: time.play.clone(), seconds: time.milliseconds.map(|length| whole_seconds(length / 1000)) }
}

fn task_time(time: &hagane_ports::TaskTime) -> TaskTime {
    TaskTime { task: time.task.clone(), host: time.host.clone(), seconds: whole_seconds(time.milliseconds / 1000) }
}

fn end_word(exit: &RunExit) -> RunWord {
    match exit {
        RunExit::Succeeded => RunWord::Succeeded,
        RunExit::Failed { .. } => RunWord::Failed,
        RunExit::Killed { .. } => RunWord::Killed,
        RunExit::TimedOut | RunExit::Stalled { .. } | RunExit::PlayTimedOut { .. } => RunWord::TimedOut,
        RunExit::Cancelled => RunWord::Cancelled,
        RunExit::Lost => RunWord::Lost,
        RunExit::NotStarted { .. } => RunWord::NotStarted,
    }
}

fn counts(stats: &HostStats) -> HostCounts {
    HostCounts {
        ok: stats.ok.into(),
        changed: stats.changed.into(),
        failed: stats.failed.into(),
        unreachable: stats.unreachable.into(),
        skipped: stats.skipped.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_must_put_right_is_a_warning() {
        let of = |reason: ProvisioningReason| severity_of(reason.as_str());
        assert_eq!(of(ProvisioningReason::NoSuitableHosts), Severity::Warning);
        assert_eq!(of(ProvisioningReason::InstallerNotReady), Severity::Warning);
        assert_eq!(of(ProvisioningReason::ClaimingHosts), Severity::Normal);
        assert_eq!(of(ProvisioningReason::Installing), Severity::Normal);
    }
}
