//! Runs that go as they should, and those who ask about them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use hagane_ports::installer::{
    ClusterInstaller, HostStats, InstallRequest, InstallVerb, InstallerError, RunExit, RunState,
};
use serde_json::json;

use crate::bed::{Bed, request, request_with};

const COUNT: &str = "    - name: Count the runs\n      ansible.builtin.lineinfile: {path: \"{{ directory }}/count\", \
                     line: \"{{ 99999 | random }}\", create: true, mode: '0600'}\n";

#[tokio::test]
async fn a_run_is_started_once_and_tells_how_it_went() {
    let bed = Bed::with_tasks(&format!(
        "{COUNT}    - name: Leave a kubeconfig\n      ansible.builtin.copy: {{content: 'kind: Config', dest: \"{{{{ artifacts_dir \
         }}}}/admin.conf\", mode: '0600'}}\n    - name: Skip this\n      ansible.builtin.debug:\n      when: false\n"
    ));
    assert_eq!(bed.observe().await.state, RunState::Absent);
    bed.start().await;
    let (exit, seen) = bed.finish().await;
    assert_eq!(exit, RunExit::Succeeded, "{}", bed.log());
    let progress = &seen.progress;
    assert_eq!((progress.play.as_deref(), progress.task.as_deref()), (Some("The only play"), Some("Skip this")));
    assert_eq!((progress.tasks_started, progress.tasks_total), (3, Some(3)));
    assert_eq!(progress.hosts["node1"], HostStats { ok: 2, changed: 2, skipped: 1, ..HostStats::default() });
    assert!(seen.started_at < seen.finished_at && seen.log.exists());
    let kubeconfig = bed.installer.kubeconfig("run-1").await.expect("readable");
    assert_eq!(kubeconfig.as_deref(), Some(&b"kind: Config"[..]));

    bed.start().await;
    assert_eq!(bed.finish().await.0, RunExit::Succeeded);
    assert_eq!(fs::read_to_string(bed.path("count")).expect("a file").lines().count(), 1);

    bed.installer.forget("run-1").await.expect("removed");
    assert_eq!(bed.observe().await.state, RunState::Absent);
    bed.installer.cancel("run-1").await.expect("nothing to cancel");
}

#[tokio::test]
async fn further_workers_are_joined_by_the_playbook_for_them() {
    let bed = Bed::with_tasks(COUNT);
    let verb = InstallVerb::AddWorkers(vec!["node1".to_owned()]);
    bed.start_with(&InstallRequest { verb, ..request() }).await;
    let (exit, seen) = bed.finish().await;
    assert_eq!((exit, seen.progress.play.as_deref()), (RunExit::Succeeded, Some("The play for further workers")));
}

#[tokio::test]
async fn many_starts_at_once_make_one_run() {
    let bed = Bed::with_tasks(COUNT);
    let wanted = request();
    let starts = (0..4).map(|_| bed.installer.start(&wanted));
    for result in futures::future::join_all(starts).await {
        result.expect("the run starts or is found");
    }
    assert_eq!(bed.finish().await.0, RunExit::Succeeded, "{}", bed.log());
    assert_eq!(fs::read_to_string(bed.path("count")).expect("a file").lines().count(), 1);
}

#[tokio::test]
async fn what_users_write_is_never_evaluated() {
    let bed = Bed::with_tasks(
        "    - name: Write the value\n      ansible.builtin.copy: {content: \"{{ wish | to_json }}\", dest: \"{{ directory \
         }}/value\", mode: '0600'}\n    - name: Use the value\n      ansible.builtin.debug: {msg: \"{{ wish.list[0] }} {{ wish }}\"}\n",
    );
    let trap = format!("{{{{ lookup('pipe', 'touch {}') }}}}", bed.path("trap").display());
    let wish = json!({"list": [trap, "\u{7f}\u{2028}\"'\\\n#: {%", 1, 1.5e300, true, null], "deep": {"er": trap}});
    bed.start_with(&request_with("wish", wish.clone())).await;
    assert_eq!(bed.finish().await.0, RunExit::Succeeded, "{}", bed.log());
    assert!(!bed.path("trap").exists());
    let written = fs::read_to_string(bed.path("value")).expect("a file");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&written).expect("JSON"), wish);
}

#[tokio::test]
async fn a_run_is_found_again_after_a_restart() {
    let bed = Bed::with_tasks(
        "    - name: Say that it runs\n      ansible.builtin.file: {path: \"{{ directory }}/runs-now\", state: touch, mode: '0600'}\n\
         \x20   - name: Wait\n      ansible.builtin.wait_for: {path: \"{{ directory }}/go-on\", timeout: 60, sleep: 1}\n",
    );
    bed.start().await;
    bed.wait_for("runs-now").await;
    let other = bed.restarted();
    let seen = other.observe("run-1").await.expect("observable");
    assert_eq!(seen.state, RunState::Running);
    other.start(&request()).await.expect("found");
    assert!(matches!(other.forget("run-1").await, Err(InstallerError::HeldElsewhere { .. })));
    fs::write(bed.path("go-on"), "").expect("a file");
    assert_eq!(bed.finish().await.0, RunExit::Succeeded, "{}", bed.log());
    let progress = other.observe("run-1").await.expect("observable").progress;
    assert_eq!(progress.tasks_started, 2);
}

#[tokio::test]
async fn secrets_are_in_private_files_only() {
    let bed = Bed::with_tasks(COUNT);
    let mut wanted = request_with("password", json!("hunter-2"));
    wanted.ssh.private_key = "-----BEGIN OPENSSH PRIVATE KEY-----\nTHE-KEY\n-----END".to_owned();
    bed.start_with(&wanted).await;
    assert_eq!(bed.finish().await.0, RunExit::Succeeded, "{}", bed.log());
    let work = bed.run_directory().join("work");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!((mode(&work), mode(&work.join("ssh/id")), mode(&work.join("variables.yaml"))), (0o700, 0o600, 0o600));
    for name in ["intent.json", "log", "work/progress.jsonl", "work/hosts.ini", "work/ansible.cfg"] {
        let text = fs::read_to_string(bed.run_directory().join(name)).expect("a file");
        assert!(!text.contains("hunter-2") && !text.contains("THE-KEY"), "{name}");
    }
}

#[test]
fn a_callback_that_cannot_write_does_not_fail_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("hagane_progress.py"), hagane_installers::progress::CALLBACK_PLUGIN).expect("a file");
    fs::write(path("p.yml"), "- hosts: localhost\n  gather_facts: false\n  tasks:\n    - ansible.builtin.debug:\n")
        .expect("a file");
    let output = Command::new(crate::ansible_playbook())
        .args(["-i", "localhost,"])
        .arg(path("p.yml"))
        .env("ANSIBLE_CALLBACK_PLUGINS", directory.path())
        .env("ANSIBLE_CALLBACKS_ENABLED", "hagane_progress")
        .env("HAGANE_PROGRESS_FILE", path("not-there/progress"))
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !errors.contains("hagane_progress"), "{errors}");
}
