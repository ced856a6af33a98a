//! A kubespray that is not there yet: who asks for a run is told how far it is, and the run begins once it has come.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hagane_installers::kubespray::{Python, Source, Wanted};
use hagane_installers::{EngineOptions, KubesprayInstaller, KubesprayOptions};
use hagane_ports::installer::{ClusterInstaller, InstallerError, RunExit, RunState};
use hagane_testkit::kubespray_tree::KubesprayTree;

use crate::bed::request;

fn installer(directory: &Path, source: Source) -> KubesprayInstaller {
    let shim = env!("CARGO_BIN_EXE_hagane-installers-lab").into();
    let engine = EngineOptions::new(directory.join("runs"), crate::ansible_playbook(), shim);
    let wanted = Wanted { source, python: Python::Given, home: directory.join("home") };
    let options = KubesprayOptions { wanted, skip_checks: ["Hosts".to_owned()].into() };
    KubesprayInstaller::new(engine, options).expect("an installer")
}

fn git(directory: &Path, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(directory).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
    let output = git.output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Asks for the run until the answer is not that kubespray is being prepared; gives that answer and what was told before.
async fn begun(installer: &KubesprayInstaller) -> (Result<(), InstallerError>, Vec<String>) {
    let mut told = Vec::new();
    loop {
        match installer.start(&request()).await {
            Err(error @ InstallerError::Preparing { .. }) => told.push(error.to_string()),
            other => return (other.map(drop), told),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_run_begins_once_the_commit_has_come() {
    let directory = tempfile::tempdir().expect("a directory");
    let repository = directory.path().join("repository");
    let tree = KubesprayTree::write(&repository, "2.31.0", &["1.35.4"]).expect("a tree");
    git(&repository, &["init", "--quiet"]);
    git(&repository, &["add", "."]);
    git(&repository, &["commit", "--quiet", "--message", "a tree"]);
    git(&repository, &["tag", "v2.31.0"]);
    let commit = git(&repository, &["rev-parse", "HEAD"]);
    let source = Source::git(&repository.display().to_string(), "v2.31.0", &commit).expect("a source");
    let installer = installer(directory.path(), source);
    let (begun, told) = begun(&installer).await;
    begun.expect("the run begins");
    assert!(told[0].starts_with("kubespray is being prepared, since 0 s: "), "{told:?}");
    let exit = loop {
        match installer.observe(&request().run_id).await.expect("observable").state {
            RunState::Finished(exit) => break exit,
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    assert_eq!(exit, RunExit::Succeeded);
    assert_eq!(tree.take_calls().expect("calls").len(), 1);
}

#[tokio::test]
async fn what_cannot_be_fetched_is_told_with_its_reason_and_no_run_is_left() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = Source::archive("/nowhere/kubespray.tar.gz", &"a".repeat(64)).expect("a source");
    let installer = installer(directory.path(), source);
    let (begun, _) = begun(&installer).await;
    let error = begun.expect_err("it cannot come").to_string();
    assert!(error.contains("failed to read /nowhere/kubespray.tar.gz: No such file"), "{error}");
    assert_eq!(installer.observe(&request().run_id).await.expect("observable").state, RunState::Absent);
}
