//! The whole road in one lab, with one Kubernetes: everything that goes wrong first, then the cluster, then its end.

use std::fs::File;
use std::process::Child;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hagane_testkit::lab::{self, Image, MachineSnapshot, Progress};
use hagane_testkit::road::{ProvisioningSize, host_manifests, provisioning_manifest, ssh_secret_manifest, wait_for};
use serde_json::Value;

use super::processes::expect_one_tree;
use super::site::{INSTALLED, SAID, Site, condition, lab_with, line, tasks_started, text};
use super::transcript::Transcript;
use super::{faults, growth, lifecycle, outcome};
use crate::support;

/// Name of the cluster.
pub const CLUSTER: &str = "edge-1";
/// Sizes of the hosts. The first one's memory is declared twice as large; the last one is for later.
const HOSTS: [&str; 4] = ["small:1:3072", "medium:2:4096", "large:2:6144", "spare:1:2048"];
/// The version that is installed, and a newer one.
const OLDER: &str = "1.36.1";
pub const NEWER: &str = "1.36.3";
/// How many of them are there from the beginning.
pub const AT_FIRST: usize = 3;

#[test]
fn the_whole_road() -> Result<()> {
    let test = "hosts::the_whole_road";
    if !support::can_run(test) {
        return Ok(());
    }
    let begin = Instant::now();
    let tools = support::tools()?;
    lab::prepare(&[Image::Host, Image::Tiny], Progress::Silent)?;
    lab::take_down_dead()?;
    let alone = lab::list()?.is_empty();
    let before = MachineSnapshot::take();
    let lab = lab_with(&HOSTS)?;
    let id = lab.description().id.clone();
    println!("{test}: lab {id} after {:.1} s", begin.elapsed().as_secs_f64());
    let older = format!("--payload-dir={}", tools.payload_of(OLDER)?.display());
    let mut site = Site::with_flags(&lab, &tools, &[older], begin)?;
    let outcome = site.explained(|site| {
        until_it_runs(site)?;
        through_faults(site)?;
        to_a_cluster(site)?;
        through_life(site)?;
        to_nothing(site)
    });
    drop(site);
    lab.down()?;
    println!(
        "{test}: {} after {:.1} s",
        if outcome.is_ok() { "good" } else { "FAILED" },
        begin.elapsed().as_secs_f64()
    );
    outcome?;
    expect_unchanged(&before, &id, alone)
}

fn until_it_runs(site: &mut Site<'_>) -> Result<()> {
    let provisionings = Transcript::start(site, "provisionings")?;
    let hosts = Transcript::start(site, "baremetalhosts")?;
    site.step("a host is off before the run", |site| {
        site.lab.stop_host("medium")?;
        apply(site)?;
        faults::host_off_before_the_run(site, "medium")?;
        site.lab.start_host("medium")
    })?;
    site.step("the run begins: plan before claims, intent before start", |site| {
        let seen = faults::wait_running(site, "", 2)?;
        expect_order(site, &seen, &provisionings, &hosts)?;
        expect_facts_differ(&seen)
    })
}

fn apply(site: &Site<'_>) -> Result<()> {
    let mut hosts = site.hosts()[..AT_FIRST].to_vec();
    hosts[0].memory_mib *= 2;
    site.server.apply(&host_manifests(&hosts))?;
    site.server.apply(&ssh_secret_manifest(&site.ssh_key()?))?;
    ask_for_workers(site, 2)
}

/// The Provisioning before its upgrade, as a person edits it.
pub fn ask_for_workers(site: &Site<'_>, replicas: u32) -> Result<()> {
    ask(site, replicas, OLDER)
}

/// The Provisioning, as a person edits it.
pub fn ask(site: &Site<'_>, replicas: u32, version: &str) -> Result<()> {
    let size = ProvisioningSize { master: (2, 4096), worker: (1, 2048), replicas };
    let manifest = provisioning_manifest(CLUSTER, &size);
    // Each fault is looked at where it happens: no run is tried again unasked.
    let life = format!("  kubernetesVersion: {version}\n  deletionPolicy: Reset\n  runPolicy: {{retries: 0}}\n");
    site.server.apply(&(manifest + &life)).map(drop)
}

/// The plan is stored before any host is claimed, and the run is recorded before it is started.
fn expect_order(site: &Site<'_>, seen: &Value, provisionings: &Transcript, hosts: &Transcript) -> Result<()> {
    let (versions, hosts) = (provisionings.versions()?, hosts.versions()?);
    let first = |wanted: &dyn Fn(&Value) -> bool| {
        versions.iter().find(|version| wanted(&version.object)).map(|version| version.revision)
    };
    let planned = first(&|object| object.pointer("/status/plan").is_some()).context("no plan was seen")?;
    let claims = hosts.iter().filter(|version| version.object.pointer("/spec/consumerRef").is_some());
    let claimed = claims.map(|version| version.revision).min().context("no claim was seen")?;
    let state = |word: &'static str| first(&move |object| text(object, "/status/run/state") == word);
    let intended = state("Starting").context("no intent of the run was seen")?;
    let running = state("Running").context("no running run was seen")?;
    ensure!(planned < claimed && claimed < intended && intended < running, "{planned} {claimed} {intended} {running}");
    let plans = versions.iter().filter_map(|version| version.object.pointer("/status/plan"));
    ensure!(plans.clone().all(outcome::has_reasons), "a stored plan has a host without a reason");
    ensure!(plans.clone().all(|plan| Some(plan) == plans.clone().next()), "the plan changed");
    let record = site.run_directory(seen).join("started.json");
    let record: Value = serde_json::from_slice(&std::fs::read(&record).context("read the run's start record")?)?;
    // RFC 3339 in UTC sorts as text up to the second.
    let (intent, start) = (text(seen, "/status/run/startedAt"), text(&record, "/startedAt"));
    ensure!(intent.get(..19) <= start.get(..19), "intended at {intent}, started at {start}");
    Ok(())
}

fn expect_facts_differ(seen: &Value) -> Result<()> {
    let differ = condition(seen, "FactsDiffer").context("no condition FactsDiffer")?;
    let told = text(differ, "/message");
    let named = ["small", "6144 MiB", "3072 MiB"].iter().all(|word| told.contains(word));
    ensure!(differ["status"] == "True" && named && !told.contains("large"), "{differ}");
    Ok(())
}

fn through_faults(site: &mut Site<'_>) -> Result<()> {
    site.step("a host is cut off in the run", |site| faults::host_off_in_the_run(site, "small"))?;
    site.step("a task fails", |site| faults::failing_task(site, "large"))?;
    site.step("ansible-playbook is killed", |site| faults::killed_playbook(site))?;
    site.step("the supervisor is killed", |site| faults::killed_supervisor(site))
}

fn to_a_cluster(site: &mut Site<'_>) -> Result<()> {
    let id = site.step("another run begins", |site| {
        let id = faults::retry(site, "good")?;
        outcome::expect_hosts_ini(site)?;
        Ok(id)
    })?;
    site.step("hagane is killed in the run and started again", |site| crash_in_the_run(site, &id))?;
    let mut logs = follow_logs(site)?;
    site.step("Kubernetes is installed by the same run", |site| {
        let mut tasks = 0;
        let mut fewer = None;
        let seen = site.wait_provisioning("Ready", CLUSTER, INSTALLED, |seen| {
            let now = tasks_started(seen);
            fewer = fewer.or((now < tasks).then_some((tasks, now)));
            tasks = tasks.max(now);
            ["Ready", "Failed"].contains(&text(seen, "/status/phase"))
        })?;
        ensure!(text(&seen, "/status/phase") == "Ready" && text(&seen, "/status/run/id") == id, "{}", line(&seen));
        ensure!(fewer.is_none(), "tasks were counted down: {fewer:?}");
        ensure!(site.run_directories()?.len() == 5, "runs {:?}", site.run_directories()?);
        outcome::expect_full_status(site)
    })?;
    site.step("hagane logs -f ends with the run", |site| expect_logs(site, &mut logs))?;
    site.step("nodes and pods", |site| outcome::try_cluster(site))?;
    site.step("hagane get kubeconfig --merge", |site| outcome::merge_kubeconfig(site))?;
    site.step("hagane describe", |site| outcome::describe(site))?;
    site.step("a further worker joins", |site| growth::a_further_worker(site))
}

fn through_life(site: &mut Site<'_>) -> Result<()> {
    site.step("packages for masters and workers", |site| lifecycle::software(site))?;
    site.step("every node comes to a newer version", |site| lifecycle::upgrade(site))?;
    site.step("a worker leaves", |site| lifecycle::removal(site))?;
    site.step("the packages are taken off", |site| lifecycle::no_software(site))
}

fn crash_in_the_run(site: &mut Site<'_>, id: &str) -> Result<()> {
    let seen = site.wait_provisioning("8 tasks", CLUSTER, SAID, |seen| tasks_started(seen) >= 8)?;
    ensure!(text(&seen, "/status/run/state") == "Running", "{}", line(&seen));
    let before = expect_one_tree(id)?;
    site.server.crash_and_restart()?;
    let tasks = tasks_started(&seen);
    site.wait_provisioning("goes on", CLUSTER, SAID, |seen| {
        text(seen, "/status/run/state") == "Running" && tasks_started(seen) > tasks
    })?;
    let after = expect_one_tree(id)?;
    ensure!((before.0.pid, before.1.pid) == (after.0.pid, after.1.pid), "{before:?} became {after:?}");
    ensure!(text(&site.provisioning(CLUSTER)?, "/status/run/id") == id, "the run has another id");
    ensure!(site.run_directories()?.len() == 5, "runs {:?}", site.run_directories()?);
    Ok(())
}

fn follow_logs(site: &Site<'_>) -> Result<Child> {
    let output = File::create(site.lab.directory().join("followed.log")).context("make a file")?;
    let kubeconfig = format!("--kubeconfig={}", site.server.kubeconfig().display());
    let hagane = site.tools.hagane.display().to_string();
    site.lab.spawn([hagane.as_str(), "logs", "provisioning", CLUSTER, "-f", &kubeconfig], output)
}

fn expect_logs(site: &Site<'_>, child: &mut Child) -> Result<()> {
    let status = wait_for("hagane logs -f ends", SAID, || {
        Ok(child.try_wait().context("ask after hagane logs")?.ok_or_else(|| "it goes on".to_owned()))
    })?;
    let text = std::fs::read_to_string(site.lab.directory().join("followed.log")).context("read what it printed")?;
    ensure!(status.success() && text.contains("PLAY [Finish]") && text.contains("PLAY RECAP"), "{status}: {text}");
    Ok(())
}

fn to_nothing(site: &mut Site<'_>) -> Result<()> {
    site.step("the Provisioning is deleted, and its hosts are reset", |site| {
        let uid = text(&site.provisioning(CLUSTER)?, "/metadata/uid").to_owned();
        let delete = ["delete", "provisioning", CLUSTER, "--wait=true", "--timeout=240s"];
        site.server.kubectl(&delete)?;
        site.hosts().iter().try_for_each(|host| lifecycle::expect_blank(site, &host.name))?;
        for host in site.hosts() {
            let object = site.object("baremetalhosts", &host.name)?.context("a host is still there")?;
            ensure!(object.pointer("/spec/consumerRef").is_none(), "{} is still claimed", host.name);
        }
        ensure!(site.run_directories()?.is_empty(), "runs are left: {:?}", site.run_directories()?);
        ensure!(!site.server.data.join("runs/facts").join(uid).exists(), "cached facts are left");
        // The collector of owned objects may be a moment behind.
        wait_for("the Secret is gone", SAID, || {
            let secret = site.object("secrets", &format!("{CLUSTER}-kubeconfig"))?;
            Ok(if secret.is_none() { Ok(()) } else { Err("it is still there".to_owned()) })
        })
    })?;
    site.step("hagane stops", |site| site.server.stop())
}

/// The machine is as it was. While others have labs on it, only what names this lab can be told from theirs.
fn expect_unchanged(before: &MachineSnapshot, id: &str, alone_before: bool) -> Result<()> {
    let alone = alone_before && lab::list()?.is_empty();
    if !alone {
        support::left_out("hosts::the_whole_road: the whole machine as it was", "another lab was up");
    }
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let mut difference = MachineSnapshot::difference(before, &MachineSnapshot::take());
        difference.retain(|line| alone || line.contains(id));
        if difference.is_empty() {
            return Ok(());
        }
        if Instant::now() > end {
            bail!("the lab left:\n{}", difference.join("\n"));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}
