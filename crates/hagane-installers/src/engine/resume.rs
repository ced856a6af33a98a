//! Going on where an earlier run of the same ended, instead of doing everything again.

use std::time::Duration;

use hagane_ports::installer::{InstallRequest, RunExit, RunState};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::{Engine, KUBECONFIG_BYTES_MAX, RunPlan, read_intent, state_of};
use crate::inventory::render_with_groups;
use crate::payload::hexadecimal;
use crate::run::files::{read_record, read_untrusted};
use crate::run::layout::KUBECONFIG;
use crate::run::{Resume, RunLayout, Stage, StepsDone, now};

/// Age of a run beyond which nobody relies on what it did.
const AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a run takes over of an earlier one.
pub(super) struct Earlier {
    pub resume: Resume,
    /// The kubeconfig that it left.
    pub kubeconfig: Option<Vec<u8>>,
}

impl Engine {
    /// The run of the owner before this one, where it did the same, ended without success, and finished a step. Anything that
    /// cannot be read leads to a run from the start.
    pub(super) fn resumable(&self, request: &InstallRequest, plan: &RunPlan, next: &RunLayout) -> Option<Earlier> {
        if request.limits.from_start || plan.steps.len() < 2 {
            return None;
        }
        let runs = self.owned(&request.owner_uid).ok()?.into_iter().filter(|(layout, _)| layout != next);
        let (layout, intent) = runs
            .filter_map(|(layout, _)| Some((read_intent(&layout).ok()??, layout)))
            .max_by_key(|(intent, _)| intent.created_at)
            .map(|(intent, layout)| (layout, intent))?;
        let (state, ended) = state_of(&layout, layout.started().exists()).ok()?;
        let RunState::Finished(exit) = state else { return None };
        let age = Duration::try_from(now().duration_since(ended?)).ok()?;
        if exit == RunExit::Succeeded || age > AGE_MAX || intent.same.as_ref() != Some(&digest(request, plan)) {
            return None;
        }
        let own: Option<StepsDone> = read_record(&layout.steps_done()).ok()?;
        // One that ended before it finished a step itself hands on what it was handed.
        let done = own.map_or(0, |own| own.done).max(intent.resume.as_ref().map_or(0, |resume| resume.done));
        let gains = plan.steps.iter().take(done).any(|step| !step.always);
        if !gains || done >= plan.steps.len() {
            return None;
        }
        let kubeconfig = read_untrusted(&layout.work(), KUBECONFIG, KUBECONFIG_BYTES_MAX).ok()?;
        Some(Earlier { resume: Resume { run_id: intent.run_id, done }, kubeconfig })
    }
}

/// The steps of a plan.
pub(super) fn stages(plan: &RunPlan) -> Vec<Stage> {
    let name = |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    plan.steps.iter().map(|step| Stage { name: name(&step.playbook), always: step.always }).collect()
}

/// Digest of what a run does: for whom, by which playbooks, with which variables, on which hosts.
pub(super) fn digest(request: &InstallRequest, plan: &RunPlan) -> String {
    let steps: Vec<_> = plan
        .steps
        .iter()
        .map(|step| json!([step.playbook, step.limit, step.inventory, step.variables, step.always]))
        .collect();
    let inventory = render_with_groups(&request.inventory, &plan.groups);
    let whole = json!([
        request.owner_uid,
        request.cluster,
        plan.version,
        format!("{:?}", request.verb),
        steps,
        plan.files,
        inventory,
        request.variables,
        request.ssh.user,
    ]);
    hexadecimal(&Sha256::digest(whole.to_string()))
}
