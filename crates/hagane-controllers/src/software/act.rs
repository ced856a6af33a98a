//! The effects of a pass over a Software. Each is repeated by a later pass where it fails, until its step's deadline.

use hagane_plan::software::Action;

use super::ask::{Host, QUESTION_LIMIT, text};
use super::commands;
use super::observe::Observed;
use crate::runtime::{EventDraft, Pass, Severity, chain};

/// Does what was decided. Gives what is to be told of what did not go well.
pub(super) async fn act(actions: &[Action], observed: &Observed, pass: &Pass) -> Vec<EventDraft> {
    let done = futures::future::join_all(actions.iter().map(|action| one(action, observed, pass))).await;
    let trouble = |message| EventDraft { severity: Severity::Warning, reason: "HostCommandFailed".to_owned(), message };
    done.into_iter().flatten().map(trouble).collect()
}

async fn one(action: &Action, observed: &Observed, pass: &Pass) -> Option<String> {
    match action {
        Action::Start { host, unit, manager, work, seconds } => {
            on(host, vec![commands::start(unit, *manager, work, *seconds)], observed, pass).await
        }
        Action::ForgetUnits { host } => {
            // A unit that is gone already, or did not fail, is no trouble.
            let _ = on(host, commands::forget(&observed.units).to_vec(), observed, pass).await;
            None
        }
        Action::Reboot { host } => {
            // The connection may break before the answer is there.
            let _ = on(host, vec![commands::reboot()], observed, pass).await;
            None
        }
        Action::Uncordon { node } => {
            let kubeconfig = observed.kubeconfig.as_ref().ok()?;
            let done = pass.context.ports.nodes.uncordon(kubeconfig, node, QUESTION_LIMIT).await;
            done.err().map(|error| format!("node {node} could not be made schedulable: {}", chain(&error)))
        }
        // Answered before, or done last of all.
        Action::Ask(_) | Action::RemoveFinalizer => None,
    }
}

/// Runs commands on a host as root, one after the other; says what the first trouble was.
async fn on(host: &str, commands: Vec<Vec<String>>, observed: &Observed, pass: &Pass) -> Option<String> {
    let target = observed.targets.get(host)?;
    let host = Host { shell: pass.context.ports.shell.as_ref(), target };
    let mut trouble = None;
    for argv in commands {
        let program = argv.first().cloned().unwrap_or_default();
        let said = match host.as_root(argv).await {
            Ok(output) if output.status == Some(0) => continue,
            Ok(output) => text(&output.stderr).trim().to_owned(),
            Err((_, why)) => why,
        };
        // One that was started in an earlier pass is the one that is wanted.
        if !(said.contains("already loaded") || said.contains("already exists")) {
            trouble = trouble.or(Some(format!("{program} on {target:?}: {said}")));
        }
    }
    trouble
}
