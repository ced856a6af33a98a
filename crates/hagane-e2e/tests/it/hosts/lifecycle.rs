//! The years of a cluster's life in one lab: packages, a newer version, a node that leaves, the end. After each step what
//! is gone is looked for where it was.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::outcome::{members, workload};
use super::road::{CLUSTER, NEWER, ask};
use super::site::{INSTALLED, Site, condition, line, text};
use super::software::{expect_version, offer_packages};
use super::transcript::Transcript;

/// Name of the Software.
const TOOLS: &str = "edge-1-tools";

/// Packages on masters and workers, also on the worker that came later.
pub fn software(site: &Site<'_>) -> Result<()> {
    for host in site.hosts() {
        offer_packages(site, &host.name)?;
    }
    let spec = json!({"masterSoftware": [{"jq": {"version": "1.6-2.1"}}], "workerSoftware": ["htop"]});
    site.create(&json!({
        "apiVersion": "bpa.akraino.org/v1alpha1", "kind": "Software",
        "metadata": {"name": TOOLS, "labels": {"cluster": CLUSTER}}, "spec": spec,
    }))?;
    site.server.wait("software", TOOLS, "Ready", 120)?;
    for (node, host) in installed(&site.provisioning(CLUSTER)?) {
        let master = node.contains("-master-");
        expect_version(site, &host, "jq", master.then_some("1.6-2.1"))?;
        expect_version(site, &host, "htop", (!master).then_some("3.2.2-2"))?;
    }
    Ok(())
}

/// Every node comes to the newer version; what stood stands.
pub fn upgrade(site: &Site<'_>) -> Result<()> {
    let transcript = Transcript::start(site, "provisionings")?;
    ask(site, 3, NEWER)?;
    let seen = settled(site, "upgraded")?;
    ensure!(text(&seen, "/status/run/verb") == "Upgrade", "{}", line(&seen));
    ensure!(text(&seen, "/status/installed/kubernetesVersion") == NEWER, "{:#}", seen["status"]["installed"]);
    expect_planned_first(&transcript, "Upgrade")?;
    let workload = workload(site)?;
    let asked = "jsonpath={range .items[*]}{.metadata.name}={.status.nodeInfo.kubeletVersion}{\"\\n\"}{end}";
    let versions = workload.kubectl(&["get", "nodes", "--output", asked])?;
    let newer = format!("=v{NEWER}");
    ensure!(versions.lines().count() == 4 && versions.lines().all(|node| node.ends_with(&newer)), "{versions}");
    let api = workload.kubectl(&["get", "--raw", "/version"])?;
    ensure!(api.contains(&format!("v{NEWER}")), "{api}");
    workload.wait_for_nodes(4)?;
    Ok(())
}

/// A worker leaves: it is gone from the API, from the inventory, from the plan, and its host is blank and free.
pub fn removal(site: &Site<'_>) -> Result<()> {
    let transcript = Transcript::start(site, "provisionings")?;
    let leaving = format!("{CLUSTER}-worker-3");
    let before = installed(&site.provisioning(CLUSTER)?);
    let host = before.iter().find(|(node, _)| *node == leaving).map(|(_, host)| host.clone()).context("its host")?;
    ask(site, 2, NEWER)?;
    let seen = settled(site, "removed")?;
    ensure!(text(&seen, "/status/run/verb") == "RemoveNodes", "{}", line(&seen));
    expect_planned_first(&transcript, "RemoveNodes")?;
    ensure!(
        installed(&seen).len() == 3 && !seen["status"]["plan"].to_string().contains(&leaving),
        "{:#}",
        seen["status"]
    );
    let workload = workload(site)?;
    let nodes = workload.kubectl(&["get", "nodes", "--output=name"])?;
    ensure!(nodes.lines().count() == 3 && !nodes.contains(&leaving), "{nodes}");
    expect_blank(site, &host)?;
    let object = site.object("baremetalhosts", &host)?.context("a host is still there")?;
    ensure!(object.pointer("/spec/consumerRef").is_none(), "{host} is still claimed");
    let ini = std::fs::read_to_string(site.run_directory(&seen).join("work/hosts.ini")).context("read hosts.ini")?;
    ensure!(members(&ini, "kube_node").contains(&leaving.as_str()), "who leaves was not in the inventory:\n{ini}");
    Ok(())
}

/// Deleted, the packages are gone from the hosts, and nothing else is.
pub fn no_software(site: &Site<'_>) -> Result<()> {
    site.delete(&["software", TOOLS])?;
    for (_, host) in installed(&site.provisioning(CLUSTER)?) {
        expect_version(site, &host, "jq", None)?;
        expect_version(site, &host, "htop", None)?;
    }
    Ok(())
}

/// Nothing of Kubernetes is left on a host.
pub fn expect_blank(site: &Site<'_>, host: &str) -> Result<()> {
    let paths = [
        "/etc/kubernetes",
        "/var/lib/kubelet/pki",
        "/var/lib/kubelet/config.yaml",
        "/var/lib/etcd/member",
        "/var/lib/hagane",
        "/etc/cni/net.d/10-hagane.conflist",
    ];
    for path in paths {
        site.on_host(host, &["test", "!", "-e", path]).with_context(|| format!("{path} is left on {host}"))?;
    }
    let units = site.on_host(host, &["systemctl", "list-units", "--no-legend", "--state=active", "kubelet.service"])?;
    ensure!(units.trim().is_empty(), "kubelet runs on {host}: {units}");
    Ok(())
}

/// Node and host of each node that stands.
fn installed(seen: &Value) -> Vec<(String, String)> {
    let nodes = seen.pointer("/status/installed/nodes").and_then(Value::as_array).cloned().unwrap_or_default();
    nodes.iter().map(|node| (text(node, "/node").to_owned(), text(node, "/host").to_owned())).collect()
}

/// Waits until the spec as it is now is carried out; the cluster is ready all the time.
fn settled(site: &Site<'_>, what: &str) -> Result<Value> {
    let mut not_ready = None;
    let seen = site.wait_provisioning(what, CLUSTER, INSTALLED, |seen| {
        let is = |kind: &str| condition(seen, kind).is_some_and(|told| told["status"] == "True");
        not_ready = not_ready.take().or_else(|| (!is("Ready")).then(|| line(seen)));
        let spoken = seen.pointer("/status/observedGeneration") == seen.pointer("/metadata/generation");
        (spoken && is("UpToDate")) || text(seen, "/status/phase") == "Failed"
    })?;
    ensure!(not_ready.is_none(), "the cluster was told not to be ready: {not_ready:?}");
    ensure!(text(&seen, "/status/phase") == "Ready", "{}", line(&seen));
    Ok(seen)
}

/// The run was told of before it was started.
fn expect_planned_first(transcript: &Transcript, verb: &str) -> Result<()> {
    let versions = transcript.versions()?;
    let first = |pointer: &str| versions.iter().position(|version| text(&version.object, pointer) == verb);
    let planned = first("/status/plannedRun/verb").context("no planned run was seen")?;
    let begun = first("/status/run/verb").context("no run was seen")?;
    ensure!(planned < begun, "planned {planned}, begun {begun}");
    let id = text(&versions[planned].object, "/status/plannedRun/id");
    ensure!(text(&versions[begun].object, "/status/run/id") == id, "another run than {id} was started");
    ensure!(
        versions.last().is_some_and(|last| last.object.pointer("/status/plannedRun").is_none()),
        "it is still planned"
    );
    Ok(())
}
