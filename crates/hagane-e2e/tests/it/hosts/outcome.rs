//! The cluster that came out, and what the CLI tells of it.

use anyhow::{Context, Result, ensure};
use hagane_testkit::road::Workload;
use serde_json::Value;

use super::road::CLUSTER;
use super::site::{Site, assignments, line, text};

/// What status must tell once the cluster stands.
pub fn expect_full_status(site: &Site<'_>) -> Result<()> {
    let seen = site.provisioning(CLUSTER)?;
    let run = |field: &str| seen.pointer(&format!("/status/run/{field}")).cloned().unwrap_or_default();
    let number = |field: &str| run(field).as_i64().unwrap_or_default();
    ensure!(run("state") == "Succeeded" && run("installer") == "kubeadm", "{}", line(&seen));
    ensure!(number("tasksStarted") > 20 && number("seconds") > 0, "{}", line(&seen));
    ensure!(run("finishedAt").is_string() && run("deadline").is_string(), "{}", line(&seen));
    let nodes = assignments(&seen);
    for (node, _) in &nodes {
        let counts = run("hosts").get(node).cloned().unwrap_or_default();
        ensure!(counts["ok"].as_i64() > Some(5) && counts["failed"] == 0, "counts of {node}: {counts}");
    }
    let log = std::fs::metadata(text(&seen, "/status/run/log")).context("look at the log that status names")?;
    ensure!(log.len() > 0, "the log is empty");
    ensure!(text(&seen, "/status/kubeconfigSecret") == format!("{CLUSTER}-kubeconfig"), "{}", line(&seen));
    ensure!(nodes.len() == 3, "nodes {nodes:?}");
    Ok(())
}

/// The groups and members of hosts.ini.
pub fn expect_hosts_ini(site: &Site<'_>) -> Result<()> {
    let seen = site.provisioning(CLUSTER)?;
    let path = site.run_directory(&seen).join("work/hosts.ini");
    let ini = std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    for (node, host) in assignments(&seen) {
        let address = site.hosts().iter().find(|known| known.name == host).context("a host of the lab")?.address;
        let wanted = format!("{node} ansible_host={address} ansible_port=22 ip={address} access_ip={address}");
        ensure!(
            ini.lines().filter(|line| *line == wanted || line.starts_with(&format!("{wanted} "))).count() == 1,
            "{wanted:?} is not once in:\n{ini}"
        );
    }
    let master = format!("{CLUSTER}-master-1");
    let workers = [1, 2].map(|index| format!("{CLUSTER}-worker-{index}"));
    ensure!(members(&ini, "kube_control_plane") == [master.as_str()], "{ini}");
    ensure!(members(&ini, "etcd") == [master.as_str()], "{ini}");
    ensure!(members(&ini, "kube_node") == workers, "{ini}");
    ensure!(members(&ini, "k8s_cluster:children") == ["kube_control_plane", "kube_node"], "{ini}");
    ensure!(members(&ini, "all").len() == 3, "{ini}");
    Ok(())
}

/// Lines of a section of an inventory.
pub fn members<'i>(ini: &'i str, group: &str) -> Vec<&'i str> {
    let header = format!("[{group}]");
    let after = ini.lines().skip_while(move |line| *line != header).skip(1);
    after.take_while(|line| !line.starts_with('[')).filter(|line| !line.is_empty()).collect()
}

/// The cluster, by the kubeconfig that `hagane get kubeconfig` prints.
pub fn workload<'a>(site: &Site<'a>) -> Result<Workload<'a>> {
    let output = site.server.hagane(&["get", "kubeconfig", CLUSTER])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kubeconfig = site.lab.directory().join("workload.kubeconfig");
    std::fs::write(&kubeconfig, &output.stdout).context("keep the kubeconfig")?;
    Ok(Workload { lab: site.lab, tools: site.tools, kubeconfig })
}

/// Nodes and pods.
pub fn try_cluster(site: &Site<'_>) -> Result<()> {
    let workload = workload(site)?;
    let nodes = workload.wait_for_nodes(3)?;
    let tainted: Vec<_> = nodes.iter().filter(|node| !node.taints.is_empty()).map(|node| node.name.as_str()).collect();
    ensure!(tainted == [format!("{CLUSTER}-master-1")], "nodes {nodes:?}");
    let workers: Vec<_> = nodes.iter().filter(|node| node.taints.is_empty()).collect();
    let [first, second] = workers[..] else { anyhow::bail!("two workers are wanted: {nodes:?}") };
    workload.try_pods(&first.name, &second.name)?.iter().for_each(|line| println!("        {line}"));
    Ok(())
}

/// `hagane get kubeconfig --merge` keeps what is there and adds a context that works.
pub fn merge_kubeconfig(site: &Site<'_>) -> Result<()> {
    let path = site.lab.directory().join("merged.kubeconfig");
    let before = "apiVersion: v1\nkind: Config\ncurrent-context: work\nclusters: [{name: work, cluster: {server: \"https://192.0.2.1\"}}]\n\
                  users: [{name: work, user: {}}]\ncontexts: [{name: work, context: {cluster: work, user: work}}]\n";
    std::fs::write(&path, before).context("write a kubeconfig")?;
    for _ in 0..2 {
        let output = site.server.hagane(&["get", "kubeconfig", CLUSTER, "--merge", &path.display().to_string()])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let workload = Workload { lab: site.lab, tools: site.tools, kubeconfig: path };
    let contexts = workload.kubectl(&["config", "get-contexts", "--output=name"])?;
    let contexts: Vec<_> = contexts.lines().collect();
    ensure!(contexts == [format!("default-{CLUSTER}").as_str(), "work"], "contexts {contexts:?}");
    ensure!(workload.kubectl(&["config", "current-context"])?.trim() == "work", "the current context changed");
    let version = workload.kubectl(&["--context", &format!("default-{CLUSTER}"), "get", "--raw", "/version"])?;
    ensure!(version.contains("gitVersion"), "the cluster says {version}");
    Ok(())
}

/// `hagane describe` names every node with its host and reasons.
pub fn describe(site: &Site<'_>) -> Result<()> {
    let output = site.server.hagane(&["describe", "provisioning", CLUSTER])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let seen = site.provisioning(CLUSTER)?;
    for (node, host) in assignments(&seen) {
        ensure!(page.contains(&node) && page.contains(&host), "{node} on {host} is not in:\n{page}");
    }
    for word in ["Ready", "FactsDiffer", "Succeeded", text(&seen, "/status/run/log")] {
        ensure!(page.contains(word), "{word} is not in:\n{page}");
    }
    Ok(())
}

/// Every host of the plan has a reason.
pub fn has_reasons(plan: &Value) -> bool {
    let entries = plan.get("assignments").and_then(Value::as_array).cloned().unwrap_or_default();
    let told = |entry: &Value| entry["reasons"].as_array().is_some_and(|reasons| !reasons.is_empty());
    !entries.is_empty() && entries.iter().all(told)
}
