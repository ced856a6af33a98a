//! `hagane approve`: lets a planned run begin that may lose data.

use std::process::ExitCode;

use hagane_api::bpa::provisioning::PlannedRun;
use hagane_api::keys::APPROVE_RUN_ANNOTATION;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::args::ApproveArgs;
use crate::resource::{api, api_error, find};
use crate::{CliError, connect, output, plan_run};

pub(crate) async fn run(args: &ApproveArgs) -> Result<ExitCode, CliError> {
    let client = connect::client(&args.api.kubeconfig).await?;
    let (kind, object) = find(&client, args.subject.into(), &args.api.namespace, &args.name).await?;
    let planned = waiting(&object.data, &args.name, args.run.as_deref()).map_err(CliError::NotYet)?;
    let told = plan_run::sentence(&planned);
    if !planned.needs_approval {
        output::write(&format!("run {} needs no approval: {told}\n", planned.id))?;
        return Ok(ExitCode::SUCCESS);
    }
    let patch = json!({"metadata": {"annotations": {APPROVE_RUN_ANNOTATION: planned.id}}});
    let objects = api(&client, kind, &args.api.namespace);
    let patched: Result<DynamicObject, _> =
        objects.patch(&args.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.map_err(|source| api_error(format!("approve run {}", planned.id), source))?;
    output::write(&format!("run {} may begin: {told}\n", planned.id))?;
    Ok(ExitCode::SUCCESS)
}

/// The run that is planned; an error, one line, where there is none or another one than was meant.
fn waiting(object: &Value, name: &str, meant: Option<&str>) -> Result<PlannedRun, String> {
    let planned = object.pointer("/status/plannedRun").filter(|planned| planned.is_object()).cloned();
    let planned: Option<PlannedRun> = planned.and_then(|planned| serde_json::from_value(planned).ok());
    let Some(planned) = planned.filter(|planned| !planned.id.is_empty()) else {
        return Err(format!("no run is planned for {name:?}: there is nothing to approve"));
    };
    match meant.filter(|meant| *meant != planned.id) {
        Some(meant) => Err(format!(
            "run {meant} is not planned any more; planned is {}: {}",
            planned.id,
            plan_run::sentence(&planned)
        )),
        None => Ok(planned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_run_that_is_planned_and_meant_is_approved() {
        let object = json!({"status": {"plannedRun": {
            "id": "u-2-ab", "verb": "RemoveNodes", "nodes": ["edge-master-3"], "reason": "no longer asked for", "needsApproval": true,
        }}});
        let id = |meant| waiting(&object, "edge", meant).map(|planned| planned.id);
        assert_eq!(id(None), Ok("u-2-ab".to_owned()));
        assert_eq!(id(Some("u-2-ab")), Ok("u-2-ab".to_owned()));
        let refused = id(Some("u-2-cd")).expect_err("another one is planned");
        assert!(refused.contains("u-2-cd") && refused.contains("RemoveNodes of edge-master-3"), "{refused}");
        let none = waiting(&json!({"status": {}}), "edge", None).expect_err("none is planned");
        assert_eq!(none, "no run is planned for \"edge\": there is nothing to approve");
    }
}
