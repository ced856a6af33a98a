//! What is told of a run: what failed and what it said, how long things took, and never a secret.

use std::fs;

use hagane_ports::installer::{InstallRequest, RunExit, TaskFailure};
use serde_json::{Value, json};

use crate::bed::{Bed, request, request_with};

/// Fails a playbook of this one task and gives the failure.
async fn failure(task: &str) -> (Bed, TaskFailure) {
    failure_of(task, &request()).await
}

async fn failure_of(task: &str, request: &InstallRequest) -> (Bed, TaskFailure) {
    let bed = Bed::with_tasks(task);
    bed.start_with(request).await;
    let (exit, seen) = bed.finish().await;
    assert!(matches!(exit, RunExit::Failed { .. }), "{exit:?}: {}", bed.log());
    let failure = seen.progress.failures.first().cloned();
    let failure = failure.unwrap_or_else(|| unreachable!("nothing failed: {}", bed.log()));
    (bed, failure)
}

#[tokio::test]
async fn the_last_lines_of_the_output_are_told_without_what_acts_on_a_terminal() {
    let task = "    - name: Count\n      ansible.builtin.shell: \"printf '\\\\033[31mred\\\\033[0m\\\\n'; seq 1 100; echo wrong >&2; exit 3\"\n";
    let (_, failure) = failure(task).await;
    assert_eq!(failure.message, "non-zero return code");
    let lines: Vec<&str> = failure.output.lines().collect();
    assert_eq!((lines.len(), lines[0], lines[18], lines[19]), (20, "82", "100", "wrong"));
    let task = "    - name: Colour\n      ansible.builtin.shell: \"printf '\\\\033[31mred\\\\033[0m\\\\033]0;title\\\\007\\\\n'; exit 3\"\n";
    let (_, failure) = self::failure(task).await;
    assert_eq!(failure.output, "red");
}

#[tokio::test]
async fn of_a_task_that_keeps_its_log_secret_nothing_is_told() {
    let secret = "    - name: Keep still\n      ansible.builtin.shell: \"echo hunter-2; exit 1\"\n      no_log: true\n";
    let (bed, failure) = failure(secret).await;
    assert_eq!(
        (failure.message.as_str(), failure.output.as_str()),
        ("the task keeps what it says secret (no_log)", "")
    );
    let looped = "    - name: Keep still\n      ansible.builtin.shell: \"echo {{ item }}; exit 1\"\n      no_log: true\n      loop: [hunter-2, hunter-3]\n";
    let (other, failure) = self::failure(looped).await;
    assert_eq!(failure.output, "");
    for bed in [bed, other] {
        for name in ["log", "work/progress.jsonl"] {
            let text = fs::read_to_string(bed.run_directory().join(name)).expect("a file");
            assert!(!text.contains("hunter-"), "{name}: {text}");
        }
    }
}

#[tokio::test]
async fn secrets_of_the_run_are_hidden_wherever_a_task_says_them() {
    let task = "    - name: Blab\n      ansible.builtin.shell: \"cat {{ artifacts_dir }}/../ssh/id; echo it is {{ registry_password }}; echo token abcdef.0123456789abcdef; exit 1\"\n";
    let mut wanted = request_with("registry_password", json!("hunter-2"));
    wanted.ssh.private_key =
        "-----BEGIN OPENSSH PRIVATE KEY-----\nTHE-KEY-LINE\n-----END OPENSSH PRIVATE KEY-----".to_owned();
    let (_, failure) = failure_of(task, &wanted).await;
    let told = format!("{} {}", failure.message, failure.output);
    for secret in ["hunter-2", "THE-KEY-LINE", "abcdef.0123456789abcdef", "PRIVATE KEY"] {
        assert!(!told.contains(secret), "{told}");
    }
    assert!(told.contains("it is [hidden]") && told.contains("token [hidden]"), "{told}");
}

#[tokio::test]
async fn of_a_loop_the_item_that_failed_is_told() {
    let task = "    - name: Try each\n      ansible.builtin.shell: \"echo at {{ item }}; test {{ item }} != two\"\n      loop: [one, two, three]\n";
    let (_, failure) = failure(task).await;
    assert_eq!((failure.message.as_str(), failure.output.as_str()), ("non-zero return code", "at two"));
}

#[tokio::test]
async fn a_task_that_was_rescued_or_ignored_is_no_failure() {
    let tasks = "    - name: Rescued\n      block:\n        - name: Break\n          ansible.builtin.fail: {msg: first}\n      rescue:\n        \
                 - name: Mend\n          ansible.builtin.debug:\n    - name: Ignored\n      ansible.builtin.fail: {msg: second}\n      ignore_errors: true\n";
    let bed = Bed::with_tasks(tasks);
    bed.start().await;
    let (exit, seen) = bed.finish().await;
    assert_eq!((exit, seen.progress.failures), (RunExit::Succeeded, Vec::new()), "{}", bed.log());
    let (_, failure) = failure(&format!("{tasks}    - name: Stop\n      ansible.builtin.fail: {{msg: third}}\n")).await;
    assert_eq!((failure.task.as_str(), failure.message.as_str()), ("Stop", "third"));
}

#[tokio::test]
async fn odd_characters_in_names_and_messages_do_no_harm() {
    let odd = "a\\u001b[2Jb\\u202ec \\U0001F600 \\\\ud800 \\u2028 'q' #";
    let task = format!("    - name: \"{odd}\"\n      ansible.builtin.fail: {{msg: \"{odd} \\0\"}}\n");
    let (bed, failure) = failure(&task).await;
    let dangerous = |character: char| character.is_control() || character == '\u{202e}';
    assert!(failure.task.starts_with('a') && !failure.task.contains(dangerous), "{failure:?}");
    assert!(failure.message.contains('\u{1f600}') && !failure.message.contains(dangerous), "{failure:?}");
    assert!(bed.whole_log().0.contains("PLAY RECAP"));
}

#[tokio::test]
async fn times_of_plays_tasks_and_hosts_are_told_and_lead_to_an_estimate() {
    let bed = Bed::with_tasks(
        "    - name: Sleep\n      ansible.builtin.command: sleep 2\n    - name: Quick\n      ansible.builtin.command: \"true\"\n",
    );
    bed.start().await;
    let (exit, seen) = bed.finish().await;
    assert_eq!((exit, seen.estimate), (RunExit::Succeeded, None), "nothing leads to expect anything yet");
    let progress = seen.progress;
    assert_eq!((progress.slowest[0].task.as_str(), progress.slowest[0].host.as_str()), ("Sleep", "node1"));
    assert!(progress.slowest[0].milliseconds >= 2000, "{:?}", progress.slowest);
    assert_eq!(progress.plays[0].play, "The only play");
    assert!(progress.plays[0].milliseconds.is_some_and(|length| length >= 2000), "{:?}", progress.plays);
    let text = fs::read(bed.run_directory().join("timings.json")).expect("a file");
    let timings: Value = serde_json::from_slice(&text).expect("JSON");
    let tasks = timings["plays"][0]["tasks"].as_array().expect("tasks");
    let names: Vec<&str> = tasks.iter().filter_map(|task| task["task"].as_str()).collect();
    assert_eq!(names, ["Sleep", "Quick"]);
    assert!(tasks[0]["hosts"]["node1"].as_f64() >= Some(2.0) && timings["hosts"]["node1"].as_f64() >= Some(2.0));

    bed.start_with(&InstallRequest { run_id: "run-2".to_owned(), ..request() }).await;
    let seen = hagane_ports::installer::ClusterInstaller::observe(&bed.installer, "run-2").await.expect("observable");
    assert!(seen.estimate.is_some_and(|length| length.as_secs() >= 2), "{:?}", seen.estimate);
    let verb = hagane_ports::installer::InstallVerb::AddWorkers(vec!["node1".to_owned()]);
    bed.start_with(&InstallRequest { run_id: "run-3".to_owned(), verb, ..request() }).await;
    let seen = hagane_ports::installer::ClusterInstaller::observe(&bed.installer, "run-3").await.expect("observable");
    assert_eq!(seen.estimate, None, "another verb");
}
