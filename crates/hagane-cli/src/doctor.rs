//! `hagane doctor`: whether what the system needs is there and answers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde::Serialize;

use crate::args::DoctorArgs;
use crate::{CliError, connect, output};

/// Result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Good,
    Missing,
}

/// One line of the list.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'static str>,
}

impl Check {
    fn new(name: &'static str, result: Result<String, String>, hint: &'static str) -> Self {
        match result {
            Ok(detail) => Self { name, verdict: Verdict::Good, detail, hint: None },
            Err(detail) => Self { name, verdict: Verdict::Missing, detail, hint: Some(hint) },
        }
    }
}

pub(crate) async fn run(args: &DoctorArgs) -> Result<ExitCode, CliError> {
    let checks = vec![
        Check::new(
            "api",
            api(args).await,
            "start it with `hagane up`, and give <data-dir>/admin.kubeconfig by --kubeconfig or KUBECONFIG",
        ),
        Check::new(
            "libvirt",
            libvirt(&args.libvirt_uri).await,
            "install and start libvirt; without it Machines wait, all else works",
        ),
        Check::new("kvm", kvm(), "without KVM machines run under slow emulation"),
        Check::new(
            "ansible",
            program(&args.ansible_playbook, "--version").await,
            "`hagane payload ansible` makes one and prints its path: give that by --ansible-playbook, here and to `up`",
        ),
        Check::new("ssh", program(Path::new("ssh"), "-V").await, "install openssh-client: ansible logs in with it"),
        Check::new(
            "payload",
            payload(args.payload_dir.as_deref()),
            "`hagane payload build` makes it; one that lies elsewhere is named by --payload-dir, here and to `up`",
        ),
    ];
    let good = checks.iter().all(|check| check.verdict == Verdict::Good);
    let text = match args.output {
        Some(format) => output::render(&checks, format)?,
        None => checks.iter().map(line).collect(),
    };
    output::write(&text)?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

fn line(check: &Check) -> String {
    let word = if check.verdict == Verdict::Good { "good   " } else { "missing" };
    let hint = check.hint.map(|hint| format!("         hint: {hint}\n")).unwrap_or_default();
    format!("{word}  {}: {}\n{hint}", check.name, check.detail)
}

async fn api(args: &DoctorArgs) -> Result<String, String> {
    let client = connect::client(&args.api.kubeconfig).await.map_err(|error| one_line(&error))?;
    let version = tokio::time::timeout(Duration::from_secs(10), client.apiserver_version()).await;
    let version = version.map_err(|_| "no answer within 10 s".to_owned())?.map_err(|error| one_line(&error))?;
    Ok(format!("answers, version {}", version.git_version))
}

fn one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    if let Some(source) = error.source() {
        text.push_str(": ");
        text.push_str(&source.to_string());
    }
    text
}

async fn libvirt(uri: &str) -> Result<String, String> {
    let path = uri
        .split_once("socket=")
        .map_or("/run/libvirt/libvirt-sock", |(_, rest)| rest.split('&').next().unwrap_or(rest));
    let connect = tokio::net::UnixStream::connect(path);
    match tokio::time::timeout(Duration::from_secs(5), connect).await {
        Ok(Ok(_)) => Ok(format!("{path} answers")),
        Ok(Err(error)) => Err(format!("{path}: {error}")),
        Err(_) => Err(format!("{path}: no answer within 5 s")),
    }
}

fn kvm() -> Result<String, String> {
    let open = std::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm");
    open.map(|_| "/dev/kvm can be opened".to_owned()).map_err(|error| format!("/dev/kvm: {error}"))
}

async fn program(path: &Path, argument: &str) -> Result<String, String> {
    let mut command = tokio::process::Command::new(path);
    let run = command.arg(argument).kill_on_drop(true).output();
    match tokio::time::timeout(Duration::from_secs(20), run).await {
        Ok(Ok(output)) => {
            let text = if output.stdout.is_empty() { output.stderr } else { output.stdout };
            Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or("answers").to_owned())
        }
        Ok(Err(error)) => Err(format!("{}: {error}", path.display())),
        Err(_) => Err(format!("{}: no answer within 20 s", path.display())),
    }
}

fn payload(directory: Option<&Path>) -> Result<String, String> {
    let Some(directory) = directory else { return Err("no --payload-dir given".to_owned()) };
    let list: PathBuf = directory.join("payload.yaml");
    let below = || std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let list = if list.exists() {
        list
    } else {
        below().map(|path| path.join("payload.yaml")).find(|path| path.exists()).unwrap_or(list)
    };
    std::fs::metadata(&list).map(|_| list.display().to_string()).map_err(|error| format!("{}: {error}", list.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_thing_comes_with_a_hint() {
        let good = line(&Check::new("kvm", Ok("there".into()), "h"));
        let missing = line(&Check::new("kvm", Err("not there".into()), "h"));
        assert_eq!(
            (good.as_str(), missing.as_str()),
            ("good     kvm: there\n", "missing  kvm: not there\n         hint: h\n")
        );
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let answer = program(Path::new("/nonexistent/ansible-playbook"), "--version").await;
        assert!(answer.is_err_and(|text| text.starts_with("/nonexistent/ansible-playbook: ")));
    }
}
