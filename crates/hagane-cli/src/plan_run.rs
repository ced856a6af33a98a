//! The run that a change of a Provisioning needs, for people and for `hagane plan`.

use hagane_api::bpa::provisioning::PlannedRun;
use serde::Serialize;

use crate::output;

/// What a Provisioning whose cluster stands would need first.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NextRun {
    /// Name of the Provisioning.
    pub(crate) provisioning: String,
    /// What the run is for; absent where none would come.
    #[serde(skip_serializing_if = "Option::is_none")]
    verb: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    nodes: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lost: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to_version: Option<String>,
    /// Why, or why none would come.
    reason: String,
    needs_approval: bool,
}

impl NextRun {
    /// Of what was decided; `None` where nothing would be run and nothing is refused.
    pub(crate) fn of(provisioning: &str, decided: Result<Option<PlannedRun>, String>) -> Option<Self> {
        let refused = decided.is_err();
        let run = decided.unwrap_or_else(|reason| Some(PlannedRun { reason, ..PlannedRun::default() }))?;
        Some(Self {
            provisioning: provisioning.to_owned(),
            verb: (!refused).then(|| run.verb.as_str()),
            nodes: run.nodes,
            lost: run.lost,
            from_version: run.from_version,
            to_version: run.to_version,
            reason: run.reason,
            needs_approval: run.needs_approval,
        })
    }
}

/// A table of them; empty where there is none.
pub(crate) fn table(runs: &[NextRun]) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let names = ["PROVISIONING", "RUN", "NODES", "APPROVAL", "WHY"];
    let mut rows = vec![names.iter().map(ToString::to_string).collect::<Vec<_>>()];
    rows.extend(runs.iter().map(|run| {
        vec![
            run.provisioning.clone(),
            run.verb.unwrap_or("none").to_owned(),
            run.nodes.join(","),
            if run.needs_approval { "needed" } else { "-" }.to_owned(),
            run.reason.clone(),
        ]
    }));
    output::table(&rows)
}

/// What a run does, one line.
pub(crate) fn sentence(run: &PlannedRun) -> String {
    let of = if run.nodes.is_empty() { String::new() } else { format!(" of {}", run.nodes.join(", ")) };
    let lost = if run.lost.is_empty() { String::new() } else { format!(", without asking {}", run.lost.join(", ")) };
    format!("{}{of}{lost} ({})", run.verb.as_str(), run.reason)
}
