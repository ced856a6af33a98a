//! `hagane cancel`: asks for the end of an installer run and waits for it.

use std::process::ExitCode;
use std::time::Duration;

use hagane_api::keys::{ABANDON_RUN_ANNOTATION, CANCEL_RUN_ANNOTATION};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

use crate::args::CancelArgs;
use crate::resource::{api, api_error, find};
use crate::{CliError, connect, output};

pub(crate) async fn run(args: &CancelArgs) -> Result<ExitCode, CliError> {
    let client = connect::client(&args.api.kubeconfig).await?;
    let (kind, object) = find(&client, args.subject.into(), &args.api.namespace, &args.name).await?;
    let (id, state) = match standing(&object.data) {
        Standing::None => {
            return Err(CliError::NotYet(format!("{:?} has no installer run: there is nothing to cancel", args.name)));
        }
        Standing::Ended(id, state) => {
            output::write(&format!("run {id} is over already: {state}\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        Standing::Going(id, state) => (id, state),
    };
    let patch = json!({"metadata": {"annotations": {CANCEL_RUN_ANNOTATION: id}}});
    let objects = api(&client, kind, &args.api.namespace);
    let patched: Result<DynamicObject, _> =
        objects.patch(&args.name, &PatchParams::default(), &Patch::Merge(&patch)).await;
    patched.map_err(|source| api_error(format!("ask for the end of run {id}"), source))?;
    eprintln!("asked for the end of run {id} ({state})");
    let ends = async {
        loop {
            let (_, object) = find(&client, args.subject.into(), &args.api.namespace, &args.name).await?;
            match standing(&object.data) {
                // Another run is there: the one that was meant is over.
                Standing::Going(other, _) | Standing::Ended(other, _) if other != id => return Ok("over".to_owned()),
                Standing::Ended(_, state) => return Ok(state),
                Standing::None => return Ok("gone".to_owned()),
                Standing::Going(..) => tokio::time::sleep(Duration::from_millis(250)).await,
            }
        }
    };
    let Ok(ended) = tokio::time::timeout(Duration::from_secs(args.timeout), ends).await else {
        return Err(CliError::NotYet(format!(
            "run {id} has not ended within {} s; if the machine that holds it ({}) is gone for good, the annotation \
             {ABANDON_RUN_ANNOTATION}={id} says so",
            args.timeout,
            object.data.pointer("/status/run/holder").and_then(Value::as_str).unwrap_or("unknown")
        )));
    };
    let state: String = ended.map_err(|error: CliError| error)?;
    output::write(&format!("run {id}: {state}\n"))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    /// There was never a run.
    None,
    /// Id and state of one that is over, and that is not tried again.
    Ended(String, String),
    /// Id and state of one that is begun, goes on or is tried again.
    Going(String, String),
}

fn standing(object: &Value) -> Standing {
    let text = |name: &str| {
        let value = object.pointer(&format!("/status/run/{name}")).and_then(Value::as_str);
        value.filter(|text| !text.is_empty()).map(ToOwned::to_owned)
    };
    let Some(id) = text("id") else { return Standing::None };
    let state = text("state").unwrap_or_default();
    // The wish is what keeps one that has ended from being tried again.
    let wish = object.pointer("/metadata/annotations").and_then(|all| all.get(CANCEL_RUN_ANNOTATION));
    let is_wished = wish.and_then(Value::as_str) == Some(id.as_str());
    let goes_on = matches!(state.as_str(), "Running" | "Starting");
    if goes_on || (text("retryAt").is_some() && !is_wished) {
        return Standing::Going(id, state);
    }
    Standing::Ended(id, state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_on_or_is_tried_again_is_cancelled() {
        let of = |run: Value| standing(&json!({"status": {"run": run}}));
        let pair = |state: &str| ("u-1".to_owned(), state.to_owned());
        let going = |state: &str| Standing::Going(pair(state).0, pair(state).1);
        assert_eq!(standing(&json!({})), Standing::None);
        assert_eq!(of(json!({"id": "u-1", "state": "Running"})), going("Running"));
        assert_eq!(of(json!({"id": "u-1", "state": "Starting"})), going("Starting"));
        assert_eq!(of(json!({"id": "u-1", "state": "Failed", "retryAt": "t"})), going("Failed"));
        assert_eq!(of(json!({"id": "u-1", "state": "Failed"})), Standing::Ended(pair("").0, "Failed".to_owned()));
    }
}
