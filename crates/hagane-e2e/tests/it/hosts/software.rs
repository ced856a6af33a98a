//! Packages on container hosts by their real package manager, over real SSH: installed, changed, drifted, removed.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hagane_testkit::road::{host_manifests, ssh_secret_manifest, wait_for};
use serde_json::{Value, json};

use super::kubespray::{for_kubespray, small_tree, wait_succeeded};
use super::objects::by_mac;
use super::site::{ENDED, SAID, Site, condition, in_lab, text};
use crate::support;

/// Name of the cluster, and of the Software in the form of the founding document.
const CLUSTER: &str = "edge-2";
const NAME: &str = "edge-2-tools";
/// The hosts of the lab: a master with the memory that checks before a run ask for, and two workers.
const HOSTS: [&str; 3] = ["one:1:2048", "two:1:1280", "three:1:1280"];

/// Makes a repository of small packages on a host, and lets its package manager know of no other one.
const REPOSITORY: &str = r#"set -eu
top=/srv/lab-packages
rm -rf "$top"; mkdir -p "$top"; cd "$top"
make() { # name version dependencies postinst
    root=$(mktemp -d)
    mkdir -p "$root/DEBIAN" "$root/usr/share/lab-packages"
    echo "$2" >"$root/usr/share/lab-packages/$1"
    printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Lab <lab@example.invalid>\nDescription: for tests\n' "$1" "$2" >"$root/DEBIAN/control"
    [ -z "$3" ] || echo "Depends: $3" >>"$root/DEBIAN/control"
    if [ -n "$4" ]; then printf '#!/bin/sh\n%s\n' "$4" >"$root/DEBIAN/postinst"; chmod 755 "$root/DEBIAN/postinst"; fi
    dpkg-deb --root-owner-group --build "$root" "$1_$2.deb" >/dev/null
    dpkg-deb --field "$1_$2.deb" >>Packages
    printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$1_$2.deb" "$(stat -c %s "$1_$2.deb")" "$(sha256sum "$1_$2.deb" | cut -d' ' -f1)" >>Packages
    rm -rf "$root"
}
: >Packages
make jq 1.6-2.1 '' ''
make jq 1.7-1 '' ''
make htop 3.2.2-2 '' ''
make lab-user 1 jq ''
make lab-slow 1 '' 'sleep 8; echo run >>/var/tmp/lab-slow-runs'
make lab-kernel 1 '' 'touch /run/reboot-required'
chmod -R a+rX "$top"
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/lab-packages ./' >/etc/apt/sources.list.d/lab.list
"#;

#[test]
fn packages_come_change_drift_and_go() -> Result<()> {
    if support::slow() && !support::long() {
        support::left_out("hosts::software", "it takes minutes in a lab of its own: HAGANE_SLOW_TESTS is not long");
        return Ok(());
    }
    in_lab("hosts::software", &HOSTS, small_tree, |site| {
        site.step("two hosts of a cluster that was installed", |site| standing(site))?;
        site.step("names and versions that are none are refused", |site| refused(site))?;
        site.step("the founding file", |site| founding(site))?;
        site.step("another version", |site| other_version(site))?;
        site.step("a package that was removed by hand is told, and comes back when told to", |site| drift(site))?;
        site.step("one that others need stays, and is told", |site| needed(site))?;
        site.step("hagane is killed while a package manager works", |site| crash(site))?;
        site.step("a package that nobody offers", |site| unknown(site))?;
        site.step("a reboot where one is required", |site| reboot(site))?;
        site.step("a dead host does not hold up the end", |site| dead_host(site))?;
        site.step("the guide; then what came is gone, what was there stays", |site| deletion(site))
    })
}

/// Runs a script on a host; what it prints.
fn script(site: &Site<'_>, host: &str, script: &str) -> Result<String> {
    let config = site.lab.description().ssh_config.display().to_string();
    let mut command = site.lab.command(["ssh", "-F", &config, host, "sh", "-s"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("start ssh")?;
    child.stdin.take().context("a pipe")?.write_all(script.as_bytes()).context("hand the script over")?;
    let output = child.wait_with_output().context("wait for the script")?;
    if !output.status.success() {
        bail!("a script on {host} failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Makes the repository of the lab's packages on a host.
pub fn offer_packages(site: &Site<'_>, host: &str) -> Result<()> {
    script(site, host, REPOSITORY).map(drop)
}

/// The installed version of a package on a host, as dpkg says; nothing where it is not installed.
fn version(site: &Site<'_>, host: &str, package: &str) -> Result<Option<String>> {
    let asked = format!(
        "dpkg-query --show --showformat='${{db:Status-Abbrev}} ${{Version}}\\n' {package} 2>/dev/null || true\n"
    );
    let said = script(site, host, &asked)?;
    let installed = said.lines().find_map(|line| line.strip_prefix("ii ")).map(|version| version.trim().to_owned());
    Ok(installed)
}

/// A package has this version on a host, or is not there.
pub fn expect_version(site: &Site<'_>, host: &str, package: &str, wanted: Option<&str>) -> Result<()> {
    let found = version(site, host, package)?;
    ensure!(found.as_deref() == wanted, "{package} on {host} is {found:?}, not {wanted:?}");
    Ok(())
}

fn standing(site: &Site<'_>) -> Result<()> {
    site.server.apply(&host_manifests(site.hosts()))?;
    site.server.apply(&ssh_secret_manifest(&site.ssh_key()?))?;
    for host in site.hosts() {
        offer_packages(site, &host.name)?;
    }
    let mac = |index: usize| site.hosts()[index].mac.clone();
    let spec = json!({"masters": [by_mac("head", &mac(0))], "workers": [by_mac("hand-1", &mac(1)), by_mac("hand-2", &mac(2))]});
    site.create(&for_kubespray(CLUSTER, spec))?;
    wait_succeeded(site, CLUSTER)?;
    wait_for("the ConfigMap of addresses", SAID, || {
        let found = site.object("configmaps", &format!("{CLUSTER}-configmap"))?;
        let address = site.hosts()[0].address.to_string();
        let named = |found: &Value| {
            text(found, "/data/MASTER_head") == address && found["data"].as_object().is_some_and(|data| data.len() == 3)
        };
        Ok(if found.as_ref().is_some_and(named) { Ok(()) } else { Err(format!("{found:?}")) })
    })
}

fn software(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "bpa.akraino.org/v1alpha1", "kind": "Software",
        "metadata": {"name": name, "labels": {"cluster": CLUSTER, "owner": "lab"}}, "spec": spec,
    })
}

fn refused(site: &Site<'_>) -> Result<()> {
    let case =
        |list: Value, words: &[&'static str]| (software("bad", &json!({"workerSoftware": list})), words.to_vec());
    site.expect_refused(&[
        case(json!(["-o APT::x=y"]), &["spec.workerSoftware[0]", "-o APT::x=y", "letters, digits"]),
        case(json!(["$(touch x)"]), &["spec.workerSoftware[0]", "$(touch x)", "letters, digits"]),
        case(json!(["jq-"]), &["spec.workerSoftware[0]", "jq-"]),
        case(json!([{"jq": {"version": "1 -o x"}}]), &["spec.workerSoftware[0].jq.version", "1 -o x"]),
        case(json!(["jq", "jq"]), &["spec.workerSoftware[1]", "jq"]),
    ])
}

/// Waits by the command that a person would use.
fn wait_ready(site: &Site<'_>, name: &str) -> Result<Value> {
    site.server.wait("software", name, "Ready", 120)?;
    seen(site, name)
}

fn seen(site: &Site<'_>, name: &str) -> Result<Value> {
    site.object("softwares.bpa.akraino.org", name)?.with_context(|| format!("no Software {name}"))
}

/// Waits until a condition has this reason.
fn wait_says(site: &Site<'_>, name: &str, kind: &str, reason: &str, limit: Duration) -> Result<Value> {
    wait_for(&format!("{name}: {kind} says {reason}"), limit, || {
        let seen = seen(site, name)?;
        let found = condition(&seen, kind).is_some_and(|found| found["reason"] == reason);
        Ok(if found { Ok(seen) } else { Err(format!("{:#}", seen["status"])) })
    })
}

fn told<'v>(object: &'v Value, kind: &str) -> &'v str {
    condition(object, kind).map_or("", |condition| text(condition, "/message"))
}

fn patch(site: &Site<'_>, change: &Value) -> Result<()> {
    site.server.kubectl(&["patch", "software", NAME, "--type=merge", "--patch", &change.to_string()]).map(drop)
}

fn retry(site: &Site<'_>, value: &str) -> Result<()> {
    site.server.kubectl(&["annotate", "--overwrite", "software", NAME, &format!("hagane.dev/retry={value}")]).map(drop)
}

fn founding(site: &Site<'_>) -> Result<()> {
    let before = version(site, "one", "curl")?.context("hosts of the lab have curl")?;
    let file = include_str!("../../fixtures/founding/software.yaml");
    let file = file.replace("site-b-tools", NAME).replace("site-b", CLUSTER);
    site.server.apply(&file)?;
    let seen = wait_ready(site, NAME)?;
    ensure!(text(&seen, "/status/done") == "3/3", "{:#}", seen["status"]);
    expect_version(site, "one", "jq", Some("1.6-2.1"))?;
    expect_version(site, "one", "curl", Some(&before))?;
    expect_version(site, "one", "htop", None)?;
    for host in ["two", "three"] {
        expect_version(site, host, "htop", Some("3.2.2-2"))?;
        expect_version(site, host, "jq", None)?;
    }
    let output = site.server.hagane(&["logs", "software", NAME])?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && said.contains("head: ") && said.contains("Setting up jq (1.6-2.1)"), "{said}");
    let output = site.server.hagane(&["describe", "software", NAME])?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success() && said.contains("jq 1.6-2.1") && said.contains("hand-2"), "{said}");
    site.server.kubectl(&["get", "softwares"]).map(|table| println!("{table}"))
}

fn other_version(site: &Site<'_>) -> Result<()> {
    patch(site, &json!({"spec": {"masterSoftware": ["curl", {"jq": {"version": "1.7-1"}}], "checkMinutes": 1}}))?;
    wait_ready(site, NAME)?;
    expect_version(site, "one", "jq", Some("1.7-1"))?;
    // And back: an older version is a wish like any other.
    patch(site, &json!({"spec": {"masterSoftware": ["curl", {"jq": {"version": "1.6-2.1"}}]}}))?;
    wait_ready(site, NAME)?;
    expect_version(site, "one", "jq", Some("1.6-2.1"))
}

fn drift(site: &Site<'_>) -> Result<()> {
    site.on_host("two", &["dpkg", "--remove", "htop"])?;
    let drifted = wait_says(site, NAME, "UpToDate", "Drifted", Duration::from_secs(100))?;
    ensure!(told(&drifted, "UpToDate") == "hand-1: htop is missing", "{:#}", drifted["status"]);
    expect_version(site, "two", "htop", None)?;
    retry(site, "drift")?;
    wait_says(site, NAME, "UpToDate", "UpToDate", SAID)?;
    expect_version(site, "two", "htop", Some("3.2.2-2"))
}

fn needed(site: &Site<'_>) -> Result<()> {
    script(site, "one", "apt-get -q update && apt-get -q -y install lab-user\n")?;
    patch(site, &json!({"spec": {"masterSoftware": ["curl"]}}))?;
    let failed = wait_says(site, NAME, "Ready", "RemovalFailed", SAID)?;
    ensure!(told(&failed, "Ready").contains("jq"), "{:#}", failed["status"]);
    expect_version(site, "one", "lab-user", Some("1"))?;
    expect_version(site, "one", "jq", Some("1.6-2.1"))?;
    script(site, "one", "dpkg --remove lab-user\n")?;
    retry(site, "needed")?;
    wait_ready(site, NAME)?;
    expect_version(site, "one", "jq", None)
}

fn crash(site: &mut Site<'_>) -> Result<()> {
    patch(site, &json!({"spec": {"masterSoftware": ["curl", "lab-slow", {"jq": {"version": "1.7-1"}}]}}))?;
    wait_for("the package manager works", SAID, || {
        let seen = seen(site, NAME)?;
        let begun = seen.pointer("/status/hosts/0/job/begun") == Some(&json!(true));
        Ok(if begun { Ok(()) } else { Err(format!("{:#}", seen["status"])) })
    })?;
    site.server.crash_and_restart()?;
    wait_ready(site, NAME)?;
    expect_version(site, "one", "lab-slow", Some("1"))?;
    let runs = site.on_host("one", &["cat", "/var/tmp/lab-slow-runs"])?;
    ensure!(runs.lines().count() == 1, "it was installed {} times", runs.lines().count());
    let units = site.on_host("one", &["systemctl", "list-units", "--all", "--no-legend", "hagane-software-*"])?;
    ensure!(units.trim().is_empty(), "units are left: {units}");
    Ok(())
}

fn unknown(site: &Site<'_>) -> Result<()> {
    site.create(&software("second", &json!({"workerSoftware": ["no-such-package"]})))?;
    let failed = wait_says(site, "second", "Ready", "InstallFailed", SAID)?;
    ensure!(told(&failed, "Ready").contains("Unable to locate package no-such-package"), "{:#}", failed["status"]);
    let clash = json!({"masterSoftware": [{"jq": {"version": "1.6-2.1"}}]});
    site.create(&software("third", &clash))?;
    let conflict = wait_says(site, "third", "Ready", "PackageConflict", SAID)?;
    let names = ["\"jq\"", "head", "1.6-2.1", "1.7-1", NAME];
    ensure!(names.iter().all(|name| told(&conflict, "Ready").contains(name)), "{}", told(&conflict, "Ready"));
    site.delete(&["software", "second", "third"])
}

fn reboot(site: &Site<'_>) -> Result<()> {
    let boot = |host: &str| site.on_host(host, &["cat", "/proc/sys/kernel/random/boot_id"]);
    let (before, other) = (boot("two")?, boot("one")?);
    let spec = json!({"workerSoftware": ["lab-kernel"], "reboot": "IfRequired"});
    site.create(&software("kernel", &spec))?;
    site.server.wait("software", "kernel", "Ready", 240)?;
    ensure!(
        boot("two")? != before && boot("one")? == other,
        "worker before {before}, now {}; master {other}",
        boot("two")?
    );
    expect_version(site, "three", "lab-kernel", Some("1"))?;
    site.delete(&["software", "kernel"])?;
    expect_version(site, "three", "lab-kernel", None)
}

fn dead_host(site: &Site<'_>) -> Result<()> {
    site.create(&software("short-lived", &json!({"workerSoftware": ["lab-user"]})))?;
    wait_ready(site, "short-lived")?;
    site.lab.stop_host("three")?;
    let arguments = ["delete", "software", "short-lived", "--wait=true", "--timeout=300s"];
    site.server.kubectl(&arguments)?;
    expect_version(site, "two", "lab-user", None)?;
    let events = site.server.kubectl(&["get", "events", "--output=json"])?;
    let events: Value = serde_json::from_str(&events).context("events")?;
    let left = events["items"].as_array().into_iter().flatten().find(|event| event["reason"] == "PackagesLeft");
    let message = left.map(|event| text(event, "/message").to_owned()).context("no event PackagesLeft")?;
    ensure!(message.contains("hand-2: lab-user"), "{message}");
    site.lab.start_host("three")?;
    wait_for("the host is back", ENDED, || {
        Ok(version(site, "three", "htop").map_err(|error| error.to_string()).map(drop))
    })
}

/// Runs every command of the guide, in order; the last one deletes the object.
fn guide(site: &Site<'_>) -> Result<()> {
    let guide = include_str!("../../../../../docs/guides/software.md");
    let fenced = |language: &str| {
        let opened = format!("```{language}\n");
        let parts: Vec<&str> = guide.split(&opened).skip(1).collect();
        parts.into_iter().filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect::<Vec<_>>()
    };
    let file = site.server.kubeconfig().with_file_name("tools.yaml");
    let manifest = fenced("yaml").into_iter().next().context("the guide has a manifest")?;
    std::fs::write(&file, manifest).context("save the manifest")?;
    let file = file.display().to_string();
    let directory = |program: &std::path::Path| program.parent().map(|path| path.display().to_string());
    let programs = [directory(&site.tools.hagane), directory(&site.tools.kubectl), std::env::var("PATH").ok()];
    let path = programs.into_iter().flatten().collect::<Vec<_>>().join(":");
    let blocks = fenced("sh");
    ensure!(blocks.len() >= 5, "the guide has {} blocks of commands", blocks.len());
    let mut said = String::new();
    for block in &blocks {
        let command = block.replace("tools.yaml", &file);
        let mut shell = site.lab.command(["sh", "-euc", &command]);
        shell.env("PATH", &path).env("KUBECONFIG", site.server.kubeconfig()).stdin(Stdio::null());
        let output = shell.output().context("run a block of the guide")?;
        let words = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "{block}: {words}{}", String::from_utf8_lossy(&output.stderr));
        said.push_str(&words);
    }
    for part in ["jq 1.6-2.1", "Setting up jq (1.6-2.1)", "MASTER_head", "deleted"] {
        ensure!(said.contains(part), "{part:?} is not in {said}");
    }
    Ok(())
}

fn deletion(site: &Site<'_>) -> Result<()> {
    guide(site)?;
    for (host, package) in [("one", "jq"), ("one", "lab-slow"), ("two", "htop"), ("three", "htop")] {
        expect_version(site, host, package, None)?;
    }
    ensure!(version(site, "one", "curl")?.is_some(), "curl was there before and is gone");
    let units = site.on_host("one", &["systemctl", "list-units", "--all", "--no-legend", "hagane-software-*"])?;
    ensure!(units.trim().is_empty(), "units are left: {units}");
    site.delete(&["provisioning", CLUSTER])
}
