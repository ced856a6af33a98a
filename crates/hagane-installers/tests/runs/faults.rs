//! Runs that go wrong: what is told, and that nothing is left running.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use hagane_installers::EngineOptions;
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallerError, RunExit, RunLimits, RunState, TaskFailure,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bed::{Bed, gone, pid_in, request};

/// A command that leaves its session, as ssh's background connections do, and one that stays.
const LINGER: &str = "    - name: Leave the session\n      ansible.builtin.shell: \"setsid sleep 300 >/dev/null 2>&1 </dev/null & echo $! > {{ directory }}/left\"\n\
                      \x20   - name: Sleep\n      ansible.builtin.shell: \"echo $$ > {{ directory }}/asleep; exec sleep 300\"\n";

fn kill(pid: i32) {
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::KILL).expect("signalled");
}

fn supervisor(bed: &Bed) -> i32 {
    let text = fs::read_to_string(bed.run_directory().join("started.json")).expect("a record");
    let record: Value = serde_json::from_str(&text).expect("JSON");
    i32::try_from(record["pid"].as_i64().expect("a pid")).expect("a pid")
}

/// Children of a process, by the kernel's own list.
fn children(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

async fn lingering() -> (Bed, [i32; 2]) {
    let bed = Bed::with_tasks(LINGER);
    bed.start().await;
    bed.wait_for("asleep").await;
    let pids = [pid_in(&bed.path("left")), pid_in(&bed.path("asleep"))];
    (bed, pids)
}

async fn all_gone(pids: [i32; 2]) {
    for pid in pids {
        gone(pid).await;
    }
}

#[tokio::test]
async fn a_failing_task_is_named_with_its_host() {
    let bed = Bed::with_tasks("    - name: Break\n      ansible.builtin.fail: {msg: no such thing}\n");
    bed.start().await;
    let (exit, seen) = bed.finish().await;
    assert_eq!(exit, RunExit::Failed { status: 2 });
    let failure = TaskFailure {
        task: "Break".into(),
        host: "node1".into(),
        state: "failed".into(),
        message: "no such thing".into(),
        output: String::new(),
    };
    assert_eq!(seen.progress.failures, [failure]);
    assert!(!seen.progress.only_unreachable());
    assert_eq!(bed.installer.kubeconfig("run-1").await.expect("readable"), None);
}

#[tokio::test]
async fn an_unreachable_host_is_named() {
    let tasks =
        "    - name: Reach\n      ansible.builtin.ping:\n      vars: {ansible_host: 127.0.0.1, ansible_port: 1}\n";
    let bed = Bed::with_play("connection: ssh", tasks);
    bed.start().await;
    let (exit, seen) = bed.finish().await;
    assert_eq!(exit, RunExit::Failed { status: 4 });
    assert!(seen.progress.only_unreachable(), "{}", bed.log());
    let failure = &seen.progress.failures[0];
    assert_eq!(
        (failure.task.as_str(), failure.host.as_str(), failure.state.as_str()),
        ("Reach", "node1", "unreachable")
    );
    assert!(failure.message.contains("ssh"), "{failure:?}");
}

#[tokio::test]
async fn the_time_limit_ends_the_whole_tree() {
    let bed = Bed::with_tasks(LINGER);
    bed.start_with(&InstallRequest { time_limit: Duration::from_secs(12), ..request() }).await;
    bed.wait_for("asleep").await;
    let pids = [pid_in(&bed.path("left")), pid_in(&bed.path("asleep"))];
    assert_eq!(bed.finish().await.0, RunExit::TimedOut);
    all_gone(pids).await;
}

#[tokio::test]
async fn a_run_without_a_sign_of_life_is_ended_and_its_limit_told() {
    let bed = Bed::with_tasks(LINGER);
    let limits = RunLimits { stall: Some(Duration::from_secs(10)), ..RunLimits::default() };
    bed.start_with(&InstallRequest { limits, ..request() }).await;
    bed.wait_for("asleep").await;
    let pids = [pid_in(&bed.path("left")), pid_in(&bed.path("asleep"))];
    let (exit, seen) = bed.finish().await;
    assert_eq!((exit, seen.progress.task.as_deref()), (RunExit::Stalled { seconds: 10 }, Some("Sleep")));
    all_gone(pids).await;
}

#[tokio::test]
async fn a_play_that_takes_too_long_is_ended_and_named() {
    let bed = Bed::with_tasks(LINGER);
    let limits = RunLimits { play: Some(Duration::from_secs(8)), ..RunLimits::default() };
    bed.start_with(&InstallRequest { limits, ..request() }).await;
    bed.wait_for("asleep").await;
    let pids = [pid_in(&bed.path("left")), pid_in(&bed.path("asleep"))];
    let exit = bed.finish().await.0;
    assert_eq!(exit, RunExit::PlayTimedOut { play: "The only play".to_owned(), seconds: 8 });
    all_gone(pids).await;
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree() {
    let (bed, pids) = lingering().await;
    bed.restarted().cancel("run-1").await.expect("cancelled");
    assert_eq!(bed.finish().await.0, RunExit::Cancelled);
    all_gone(pids).await;
    bed.installer.cancel("run-1").await.expect("harmless when it has ended");
    assert_eq!(bed.finish().await.0, RunExit::Cancelled);
}

#[tokio::test]
async fn a_killed_playbook_is_told_with_its_signal() {
    let (bed, pids) = lingering().await;
    let playbook = children(supervisor(&bed));
    // The others are adopted.
    kill(*playbook.first().expect("the playbook runs"));
    assert_eq!(bed.finish().await.0, RunExit::Killed { signal: 9 });
    all_gone(pids).await;
}

#[tokio::test]
async fn a_killed_supervisor_is_a_lost_run_with_nothing_left_running() {
    let (bed, pids) = lingering().await;
    kill(supervisor(&bed));
    gone(supervisor(&bed)).await;
    assert_eq!(bed.finish().await.0, RunExit::Lost);
    all_gone(pids).await;
    bed.start().await;
    assert_eq!(bed.finish().await.0, RunExit::Lost, "a run is started at most once");
}

#[tokio::test]
async fn output_of_fifty_megabytes_stays_within_the_limit() {
    let bed = Bed::with_tasks(
        "    - name: Write much\n      ansible.builtin.debug: {msg: \"{{ 'x' * 50000000 }}\"}\n    - name: Go on\n      ansible.builtin.debug:\n",
    );
    bed.start().await;
    let (exit, seen) = bed.finish().await;
    assert_eq!(exit, RunExit::Succeeded);
    assert_eq!(seen.progress.tasks_started, 2);
    let (text, left_out) = bed.whole_log();
    assert!(text.len() as u64 <= bed.options.log_limit_bytes && left_out > 40_000_000, "{left_out}");
    assert!(
        text.starts_with("\nPLAY [The only play]") && text.contains("PLAY RECAP"),
        "its begin and its end are kept"
    );
    assert_eq!(bed.log_parts(), bed.options.log_limit_bytes / 4 * 3 + bed.log().len() as u64);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("ansible-playbook");
    let shim = PathBuf::from(env!("CARGO_BIN_EXE_hagane-installers-lab"));
    let options = EngineOptions::new(directory.path().join("runs"), program.clone(), shim);
    let bed = Bed::with_options(directory, options, "connection: local", "    - ansible.builtin.debug:\n");
    let refused = bed.installer.start(&request()).await;
    assert!(matches!(refused, Err(InstallerError::Prerequisite { .. })));
    assert_eq!(bed.observe().await.state, RunState::Absent);

    fs::write(&program, "not executable").expect("a file");
    bed.start().await;
    let (exit, _) = bed.finish().await;
    assert!(matches!(&exit, RunExit::NotStarted { message } if message.contains("ermission denied")), "{exit:?}");
}

#[tokio::test]
async fn a_supervisor_that_is_missing_leaves_nothing_that_looks_started() {
    let mut bed = Bed::with_tasks("    - ansible.builtin.debug:\n");
    let right = bed.options.shim.clone();
    bed.options.shim = PathBuf::from("/nonexistent/hagane");
    let error = bed.restarted().start(&request()).await.expect_err("no supervisor");
    assert!(matches!(error, InstallerError::Failed { .. }));
    assert_eq!(bed.observe().await.state, RunState::Absent);
    bed.options.shim = right;
    bed.start().await;
    assert_eq!(bed.finish().await.0, RunExit::Succeeded, "{}", bed.log());
}

#[tokio::test]
async fn values_that_cannot_be_run_are_refused_before_anything_is_written() {
    let bed = Bed::with_tasks("    - ansible.builtin.debug:\n");
    let refuse = async |change: fn(&mut InstallRequest)| {
        let mut wanted = request();
        change(&mut wanted);
        let error = bed.installer.start(&wanted).await.expect_err("refused");
        assert!(matches!(error, InstallerError::Invalid { .. }), "{error}");
    };
    refuse(|wanted| wanted.run_id = "../run".to_owned()).await;
    refuse(|wanted| wanted.owner_uid = "../x".to_owned()).await;
    refuse(|wanted| wanted.inventory.nodes[0].name = "x y".to_owned()).await;
    refuse(|wanted| wanted.ssh.user = "-x".to_owned()).await;
    refuse(|wanted| wanted.ssh.known_hosts.push("a\nb".to_owned())).await;
    refuse(|wanted| wanted.ssh.private_key = "no key".to_owned()).await;
    refuse(|wanted| drop(wanted.variables.insert("ansible_connection".to_owned(), "local".into()))).await;
    refuse(|wanted| drop(wanted.variables.insert("artifacts_dir".to_owned(), "/etc".into()))).await;
    let left = fs::read_dir(&bed.options.runs)
        .map(|entries| entries.flatten().filter(|entry| entry.file_name() != "facts").count());
    assert_eq!(left.unwrap_or_default(), 0);
}

#[tokio::test]
async fn a_full_disk_does_not_swallow_how_the_run_ended() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("left out: mounting a small file system needs root");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let runs = directory.path().join("runs");
    fs::create_dir(&runs).expect("a directory");
    let mount = |arguments: &[&str]| Command::new(arguments[0]).args(&arguments[1..]).arg(&runs).status();
    let mounted = mount(&["mount", "-t", "tmpfs", "-o", "size=1m,mode=0711", "tmpfs"]).expect("mount starts");
    assert!(mounted.success());
    let options = EngineOptions::new(
        runs.clone(),
        crate::ansible_playbook(),
        PathBuf::from(env!("CARGO_BIN_EXE_hagane-installers-lab")),
    );
    let tasks = "    - name: Fill the disk\n      ansible.builtin.shell: \"cat /dev/zero > {{ directory }}/runs/fill; touch {{ directory }}/full\"\n\
                 \x20   - name: Go on\n      ansible.builtin.debug: {msg: \"{{ 'x' * 100000 }}\"}\n      loop: [1, 2, 3, 4]\n";
    let bed = Bed::with_options(directory, options, "connection: local", tasks);
    bed.start().await;
    let (exit, _) = bed.finish().await;
    let record: Value =
        serde_json::from_slice(&fs::read(bed.run_directory().join("exit.json")).expect("a record")).expect("JSON");
    let full = bed.path("full").exists();
    let unmounted = mount(&["umount", "--lazy"]).expect("umount starts");
    assert!(full && unmounted.success());
    assert!(matches!(exit, RunExit::Succeeded | RunExit::Failed { .. }), "{exit:?}");
    assert!(record["exit"].is_string() || record["exit"].is_object(), "{record}");
}
