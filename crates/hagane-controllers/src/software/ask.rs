//! Hosts and nodes are asked how they are; many at the same time, each within a time of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use hagane_api::bpa::software_reasons::{PackageManager, SoftwareReason};
use hagane_plan::software::{Answer, Answered, DrainFact, NodeFact, Question, UnitSeen};
use hagane_ports::{Drained, RemoteCommand, RemoteOutput, RemoteShell, ShellError, ShellTarget};

use super::commands;
use super::observe::Observed;
use crate::runtime::{Pass, chain};

/// Time for one question to one host or cluster.
pub(super) const QUESTION_LIMIT: Duration = Duration::from_secs(10);
/// Hosts that are asked at the same time.
const AT_ONCE: usize = 32;
/// Most bytes of a unit's output that are kept.
const OUTPUT_MAX: usize = 2048;

pub(super) async fn ask(questions: &[Question], observed: &Observed, pass: &Pass) -> BTreeMap<String, Answer> {
    let asked: Vec<_> = questions.iter().map(|question| answer(question, observed, pass)).collect();
    futures::stream::iter(asked).buffer_unordered(AT_ONCE).collect().await
}

async fn answer(question: &Question, observed: &Observed, pass: &Pass) -> (String, Answer) {
    let answer = match one(question, observed, pass).await {
        Ok(answered) => Answer::Answered(Box::new(answered)),
        Err((reason, message)) => Answer::Refused(reason, message),
    };
    (question.host.clone(), answer)
}

type Refusal = (SoftwareReason, String);

/// A host that is logged in to, command by command.
pub(super) struct Host<'a> {
    pub(super) shell: &'a dyn RemoteShell,
    pub(super) target: &'a ShellTarget,
}

impl Host<'_> {
    /// Runs a command as the login user.
    async fn run(&self, argv: Vec<String>) -> Result<RemoteOutput, Refusal> {
        let command = RemoteCommand { argv, stdin: Vec::new(), deadline: QUESTION_LIMIT, output_limit: 256 << 10 };
        self.shell.run(self.target, &command).await.map_err(|error| refusal(&error))
    }

    /// Runs a command as root.
    pub(super) async fn as_root(&self, argv: Vec<String>) -> Result<RemoteOutput, Refusal> {
        let mut whole = Vec::new();
        if self.target.user != "root" {
            whole.extend(["sudo".to_owned(), "-n".to_owned()]);
        }
        whole.extend(argv);
        self.run(whole).await
    }
}

fn refusal(error: &ShellError) -> Refusal {
    let reason = match error {
        ShellError::HostKeyChanged { .. } => SoftwareReason::HostKeyChanged,
        ShellError::HostKeyUnknown { .. } => SoftwareReason::HostKeyUnknown,
        ShellError::LoginRefused { .. } => SoftwareReason::LoginRefused,
        ShellError::InvalidKey { .. } => SoftwareReason::SshKeyInvalid,
        _ => SoftwareReason::HostUnreachable,
    };
    (reason, chain(error))
}

async fn one(question: &Question, observed: &Observed, pass: &Pass) -> Result<Answered, Refusal> {
    let mut answered = Answered::default();
    if question.drain {
        answered.drain = drain(&question.node, observed, pass).await;
        return Ok(answered);
    }
    if question.state {
        answered.node = state(&question.node, observed, pass).await;
    }
    if question.packages.is_empty() && question.unit.is_none() && !question.boot && question.state {
        return Ok(answered);
    }
    let gone = || (SoftwareReason::HostKeyUnknown, "nothing is known of its host now".to_owned());
    let target = observed.targets.get(&question.host).ok_or_else(gone)?;
    let host = Host { shell: pass.context.ports.shell.as_ref(), target };
    if question.boot {
        answered.boot = boot(&host).await?;
        return Ok(answered);
    }
    let manager = match question.manager {
        Some(manager) => manager,
        None => detect(&host).await?,
    };
    answered.manager = Some(manager);
    if let Some(unit) = &question.unit {
        look_at(unit, manager, &host, &mut answered).await?;
        if matches!(answered.unit, UnitSeen::Running(_) | UnitSeen::Absent) {
            return Ok(answered);
        }
    }
    answered.packages = Some(if question.packages.is_empty() {
        BTreeMap::new()
    } else {
        // A status other than 0 says that some are not there; what is there is printed all the same.
        let output = host.run(commands::query(manager, &question.packages)).await?;
        commands::installed(manager, &text(&output.stdout))
    });
    Ok(answered)
}

async fn look_at(unit: &str, manager: PackageManager, host: &Host<'_>, answered: &mut Answered) -> Result<(), Refusal> {
    let shown = text(&host.as_root(commands::show(unit)).await?.stdout);
    if matches!(commands::unit_seen(&shown, ""), UnitSeen::Absent) {
        answered.unit = UnitSeen::Absent;
        return Ok(());
    }
    let output = text(&host.as_root(commands::journal(unit)).await?.stdout);
    answered.unit = commands::unit_seen(&shown, &output);
    answered.output = Some(tail(&output));
    if answered.unit == UnitSeen::Succeeded {
        let argv = commands::reboot_required(manager);
        let said = if manager == PackageManager::Apt { host.run(argv).await? } else { host.as_root(argv).await? };
        answered.reboot_required = commands::wants_reboot(manager, said.status, &text(&said.stdout));
        answered.boot = boot(host).await?;
    }
    Ok(())
}

async fn boot(host: &Host<'_>) -> Result<Option<String>, Refusal> {
    let said = text(&host.run(commands::boot()).await?.stdout).trim().to_owned();
    Ok((!said.is_empty()).then_some(said))
}

async fn detect(host: &Host<'_>) -> Result<PackageManager, Refusal> {
    let unsupported = |message: &str| (SoftwareReason::HostUnsupported, message.to_owned());
    for (manager, argv) in commands::probes() {
        if host.run(argv).await?.status == Some(0) {
            let said = host.as_root(commands::systemd()).await?;
            let words = text(&said.stderr);
            if said.status != Some(0) && words.contains("sudo:") {
                let message = format!("its user may not become root without a password: {}", words.trim());
                return Err((SoftwareReason::LoginRefused, message));
            }
            if said.status != Some(0) {
                return Err(unsupported("it has no systemd-run, which package managers are run by"));
            }
            return Ok(manager);
        }
    }
    Err(unsupported("it has neither apt-get nor dnf"))
}

async fn state(node: &str, observed: &Observed, pass: &Pass) -> NodeFact {
    let kubeconfig = match &observed.kubeconfig {
        Ok(kubeconfig) => kubeconfig,
        Err(why) => return NodeFact::NoKubeconfig(why.clone()),
    };
    match pass.context.ports.nodes.state(kubeconfig, node, QUESTION_LIMIT).await {
        Ok(Some(state)) => NodeFact::There { ready: state.ready, unschedulable: state.unschedulable },
        Ok(None) => NodeFact::Absent,
        Err(error) => NodeFact::NoAnswer(chain(&error)),
    }
}

async fn drain(node: &str, observed: &Observed, pass: &Pass) -> DrainFact {
    let kubeconfig = match &observed.kubeconfig {
        Ok(kubeconfig) => kubeconfig,
        Err(why) => return DrainFact::NoAnswer(why.clone()),
    };
    match pass.context.ports.nodes.drain(kubeconfig, node, QUESTION_LIMIT).await {
        Ok(Drained::Empty) => DrainFact::Empty,
        Ok(Drained::Waiting(pods)) => DrainFact::Waiting(pods),
        Err(error) => DrainFact::NoAnswer(chain(&error)),
    }
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The last lines that fit, without what terminals make of them.
fn tail(output: &str) -> String {
    let clean: String =
        output.chars().filter(|character| !character.is_control() || ['\n', '\t'].contains(character)).collect();
    let mut start = clean.len().saturating_sub(OUTPUT_MAX);
    while !clean.is_char_boundary(start) {
        start += 1;
    }
    let kept = &clean[start..];
    if start == 0 { kept.to_owned() } else { kept.split_once('\n').map_or(kept, |(_, rest)| rest).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_whole_last_lines_without_control_characters() {
        assert_eq!(tail("a\u{1b}[0m\r\nb\n"), "a[0m\nb\n");
        let long = format!("{}\nend\n", "é".repeat(3000));
        assert_eq!(tail(&long), "end\n");
    }
}
