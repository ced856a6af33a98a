//! Processes that try to get away from their run.

use std::time::Duration;

use hagane_ports::installer::{ClusterInstaller, InstallRequest, RunExit};

use crate::bed::{Bed, gone, pid_in, request};

/// A process that left session and parent and threw its environment away, and one that stays.
const ESCAPE: &str = "    - name: Write what escapes\n      ansible.builtin.copy:\n        dest: \"{{ directory }}/escape\"\n        mode: \"0755\"\n        \
                      content: |\n          #!/bin/sh\n          echo $$ > {{ directory }}/left\n          exec sleep 300\n    \
                      - name: Escape\n      ansible.builtin.shell: \"env -i setsid {{ directory }}/escape </dev/null >/dev/null 2>&1 &\"\n    \
                      - name: Wait\n      ansible.builtin.wait_for: {path: \"{{ directory }}/left\", timeout: 60, sleep: 1}\n";
const STAY: &str = "    - name: Sleep\n      ansible.builtin.shell: \"touch {{ directory }}/asleep; exec sleep 300\"\n";

/// Whether the process carries nothing of the run in its environment.
fn is_unmarked(pid: i32) -> bool {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).expect("it runs");
    !String::from_utf8_lossy(&environment).contains("HAGANE")
}

#[tokio::test]
async fn what_left_session_parent_and_environment_ends_with_a_cancelled_run() {
    let bed = Bed::with_tasks(&format!("{ESCAPE}{STAY}"));
    bed.start().await;
    bed.wait_for("asleep").await;
    let left = pid_in(&bed.path("left"));
    assert!(is_unmarked(left));
    bed.installer.cancel("run-1").await.expect("cancelled");
    assert_eq!(bed.finish().await.0, RunExit::Cancelled);
    gone(left).await;
}

#[tokio::test]
async fn it_ends_with_a_run_that_ends_by_itself_and_with_one_that_takes_too_long() {
    let bed = Bed::with_tasks(ESCAPE);
    bed.start().await;
    assert_eq!(bed.finish().await.0, RunExit::Succeeded, "{}", bed.log());
    gone(pid_in(&bed.path("left"))).await;

    let bed = Bed::with_tasks(&format!("{ESCAPE}{STAY}"));
    bed.start_with(&InstallRequest { time_limit: Duration::from_secs(15), ..request() }).await;
    assert_eq!(bed.finish().await.0, RunExit::TimedOut);
    gone(pid_in(&bed.path("left"))).await;
}
