//! What may go wrong with a run, each in turn on the same hosts: it ends, says why and where, and another one is started by
//! the retry annotation alone.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::processes::{self, expect_one_tree};
use super::road::CLUSTER;
use super::site::{ENDED, SAID, Site, line, node_on, ready_message, ready_reason, tasks_started, text};

/// A host that is switched off before anything is installed: it is named and waited for, and no run begins.
pub fn host_off_before_the_run(site: &Site<'_>, host: &str) -> Result<()> {
    let seen = site.wait_reason(CLUSTER, "HostUnreachable", SAID)?;
    ensure!(text(&seen, "/status/phase") == "Waiting" && ready_message(&seen).contains(host), "{}", line(&seen));
    ensure!(
        seen.pointer("/status/run").is_none() && site.run_directories()?.is_empty(),
        "a run began: {}",
        line(&seen)
    );
    Ok(())
}

/// A host loses its power while it is worked on.
pub fn host_off_in_the_run(site: &Site<'_>, host: &str) -> Result<()> {
    wait_running(site, "", 3)?;
    site.lab.stop_host(host)?;
    let seen = expect_failed(site, "InstallFailed", ENDED)?;
    let node = node_on(&seen, host)?;
    ensure!(ready_message(&seen).contains(&format!("on {node} (unreachable)")), "{}", line(&seen));
    let failures = seen.pointer("/status/run/failures").and_then(Value::as_array).cloned().unwrap_or_default();
    let named = |failure: &&Value| failure["host"] == node.as_str() && failure["state"] == "unreachable";
    ensure!(failures.iter().any(|failure| named(&failure)), "failures {failures:?}");
    site.lab.start_host(host)
}

/// A task fails because a program is missing on one host.
pub fn failing_task(site: &Site<'_>, host: &str) -> Result<()> {
    site.on_host(host, &["systemctl", "stop", "containerd"])?;
    site.on_host(host, &["mv", "/usr/bin/containerd", "/usr/bin/containerd.away"])?;
    retry(site, "task")?;
    let seen = expect_failed(site, "InstallFailed", ENDED)?;
    let node = node_on(&seen, host)?;
    let told = ready_message(&seen);
    ensure!(
        told.contains("task \"Run containerd\"") && told.contains(&format!("on {node} (failed)")),
        "{}",
        line(&seen)
    );
    site.on_host(host, &["mv", "/usr/bin/containerd.away", "/usr/bin/containerd"])?;
    Ok(())
}

/// ansible-playbook is killed.
pub fn killed_playbook(site: &Site<'_>) -> Result<()> {
    let id = retry(site, "playbook")?;
    let (_, playbook) = expect_one_tree(&id)?;
    processes::kill(&playbook)?;
    let seen = expect_failed(site, "InstallInterrupted", SAID)?;
    ensure!(ready_message(&seen).contains("killed by signal 9"), "{}", line(&seen));
    expect_no_processes(&id)
}

/// The run's supervisor is killed: what it left running is ended too.
pub fn killed_supervisor(site: &Site<'_>) -> Result<()> {
    let id = retry(site, "supervisor")?;
    let (supervisor, _) = expect_one_tree(&id)?;
    processes::kill(&supervisor)?;
    let seen = expect_failed(site, "RunLost", SAID)?;
    ensure!(text(&seen, "/status/run/state") == "Lost", "{}", line(&seen));
    expect_no_processes(&id)
}

/// Asks for another run and waits until it works on the hosts; gives its id.
pub fn retry(site: &Site<'_>, value: &str) -> Result<String> {
    let before = text(&site.provisioning(CLUSTER)?, "/status/run/id").to_owned();
    let annotation = format!("hagane.dev/retry={value}");
    site.server.kubectl(&["annotate", "--overwrite", "provisioning", CLUSTER, &annotation])?;
    let seen = wait_running(site, &before, 2)?;
    Ok(text(&seen, "/status/run/id").to_owned())
}

/// Waits until a run other than the given one has begun so many tasks.
pub fn wait_running(site: &Site<'_>, other_than: &str, tasks: i64) -> Result<Value> {
    site.wait_provisioning(&format!("a run has begun {tasks} tasks"), CLUSTER, ENDED, |seen| {
        text(seen, "/status/run/id") != other_than
            && text(seen, "/status/run/state") == "Running"
            && tasks_started(seen) >= tasks
    })
}

fn expect_failed(site: &Site<'_>, reason: &str, limit: std::time::Duration) -> Result<Value> {
    let seen = site.wait_provisioning("Failed", CLUSTER, limit, |seen| text(seen, "/status/phase") == "Failed")?;
    ensure!(ready_reason(&seen) == reason, "not {reason}: {}", line(&seen));
    let id = text(&seen, "/status/run/id");
    ensure!(ready_message(&seen).contains(id) && ready_message(&seen).contains("hagane.dev/retry"), "{}", line(&seen));
    let log = std::fs::read_to_string(text(&seen, "/status/run/log")).context("read the log that status names")?;
    ensure!(log.contains("PLAY [Prepare the hosts]"), "the log is {log:?}");
    Ok(seen)
}

fn expect_no_processes(id: &str) -> Result<()> {
    let left = processes::of_run(id);
    ensure!(left.is_empty(), "left of run {id}: {left:?}");
    Ok(())
}
