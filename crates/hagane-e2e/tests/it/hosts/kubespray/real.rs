//! The operator's checkout of kubespray on hosts of the lab, offline: every playbook is parsed, then those that install, add and
//! remove are run for as far as they go. The first task that cannot pass is named.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hagane_testkit::lab::Lab;
use hagane_testkit::road::{Workload, host_manifests, ssh_secret_manifest};
use serde_json::{Map, Value, json};

use super::super::objects::{by_mac, provisioning};
use super::super::site::{ENDED, Site, in_lab, line, tasks_started, text};
use super::mirror;
use crate::support;

const TEST: &str = "hosts::kubespray::real";
const CLUSTER: &str = "real";
/// Most time for one verb on two small hosts: the waits of kubespray's own are longer than the work.
const VERB: Duration = Duration::from_secs(45 * 60);
/// Those that kubespray names in its documents.
const PLAYBOOKS: [&str; 7] = [
    "cluster.yml",
    "scale.yml",
    "remove-node.yml",
    "upgrade-cluster.yml",
    "reset.yml",
    "recover-control-plane.yml",
    "playbooks/facts.yml",
];
/// A network for pods as an operator brings it along with `kube_network_plugin: cni`.
const POD_NETWORK: &str = r#"{"cniVersion": "0.4.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": true,
  "ipam": {"type": "host-local", "ranges": [[{"subnet": "SUBNET"}]], "routes": [{"dst": "0.0.0.0/0"}]}}, {"type": "portmap",
  "capabilities": {"portMappings": true}}]}"#;

/// The checkout that the operator of the tests names.
fn checkout() -> Option<PathBuf> {
    std::env::var_os("HAGANE_KUBESPRAY").filter(|value| !value.is_empty()).map(PathBuf::from)
}

#[test]
fn the_operators_kubespray_installs_adds_and_removes() -> Result<()> {
    let Some(checkout) = checkout() else {
        support::left_out(TEST, "HAGANE_KUBESPRAY names no checkout of kubespray, v2.31.0 or newer");
        return Ok(());
    };
    let flags = |_: &Lab| {
        let playbook = std::env::var("HAGANE_KUBESPRAY_ANSIBLE_PLAYBOOK");
        let playbook = playbook.map(|playbook| format!("--kubespray-ansible-playbook={playbook}"));
        Ok([format!("--kubespray-dir={}", checkout.display())].into_iter().chain(playbook).collect())
    };
    in_lab(TEST, &["node-1:2:3072", "node-2:2:2048"], flags, |site| {
        let mirror = site
            .step("a mirror of what kubespray fetches", |site| mirror::make(site.lab, "node-1", &site.tools.payload))?;
        site.step("hosts as an offline operator has them", |site| prepare_hosts(site, &mirror.source))?;
        let object = ask(site, &mirror.variables);
        site.step("the Provisioning is taken", |site| begin(site, &object))?;
        let run = site.step("a run begins", |site| {
            let seen = site.wait_provisioning("a task has begun", CLUSTER, ENDED, |seen| tasks_started(seen) > 0)?;
            Ok(site.run_directory(&seen))
        })?;
        for playbook in PLAYBOOKS {
            site.step(&format!("{playbook}: syntax and tasks with our inventory"), |site| {
                let playbook = checkout.join(playbook);
                ensure!(play(site, &run, &playbook, &["--syntax-check"])?.contains("playbook:"), "nothing was checked");
                let tasks = play(site, &run, &playbook, &["--list-tasks"])?;
                println!("        {} tasks", tasks.lines().filter(|line| line.contains("TAGS:")).count());
                Ok(())
            })?;
        }
        site.step("facts.yml and what kubespray asserts of inventory and variables", |site| {
            let all = play(site, &run, &checkout.join("playbooks/facts.yml"), &[])?;
            ensure!(!all.contains("failed=1"), "{all}");
            Ok(())
        })?;
        if !site.step("cluster.yml", |site| verb(site, "Install"))? {
            return Ok(());
        }
        site.step("the cluster answers", |site| nodes(site, 1))?;
        site.step("a worker is asked for", |site| {
            let mac = site.hosts()[1].mac.clone();
            let patch = json!({"spec": {"workers": [by_mac("node-1", &site.hosts()[0].mac), by_mac("node-2", &mac)]}});
            let patch = patch.to_string();
            let words = ["patch", "provisionings.bpa.akraino.org", CLUSTER, "--type=merge", "--patch", &patch];
            site.server.kubectl(&words).map(drop)
        })?;
        if !site.step("scale.yml", |site| verb(site, "AddWorkers"))? {
            return Ok(());
        }
        site.step("the cluster has two nodes", |site| nodes(site, 2))?;
        site.step("remove-node.yml", |site| remove(site, &checkout))?;
        site.step("the cluster has one node", |site| nodes(site, 1))
    })
}

/// What a Provisioning for container hosts says beside the mirror's variables.
fn ask(site: &Site<'_>, mirror: &Map<String, Value>) -> Value {
    let mut variables = json!({
        // kubespray looks its version up by that of Kubernetes, which may be newer than it knows.
        "snapshot_controller_image_tag": "none",
        // Images of network plugins, of the DNS helpers and of the local proxy are not in the payload.
        "kube_network_plugin": "cni",
        "enable_nodelocaldns": false,
        "enable_dns_autoscaler": false,
        "loadbalancer_apiserver_localhost": false,
        "kube_proxy_mode": "iptables",
        "resolvconf_mode": "none",
        "retry_stagger": 1,
        // What a container may not change, and shows of the machine around it.
        "kubelet_fail_swap_on": false,
        "kubelet_swap_behavior": "NoSwap",
        "kubelet_protect_kernel_defaults": false,
        "sysctl_minimum_values": {},
        "containerd_use_systemd_cgroup": false,
        "kubelet_fail_cgroup_v1": false,
        "kubelet_cgroup_driver": "cgroupfs",
        "kubelet_kubelet_cgroups": "\"\"",
        "kubelet_runtime_cgroups": "\"\"",
        "kubelet_feature_gates": ["KubeletInUserNamespace=true"],
        "kubelet_config_extra_args": {"localStorageCapacityIsolation": false},
        "eviction_hard": {"memory.available": "0%", "nodefs.available": "0%", "imagefs.available": "0%"},
        "kubelet_image_gc_high_threshold": 100,
        "kubeadm_ignore_preflight_errors": ["SystemVerification", "Swap", "NumCPU", "Mem",
            "FileContent--proc-sys-net-bridge-bridge-nf-call-iptables"],
        // The one unquoted number of containerd's settings, followed by a line that kubespray has no variable for: a container
        // may lack the right to lower its OOM score.
        "containerd_max_container_log_line_size": "16384\n    restrict_oom_score_adj = true",
    });
    if let Some(variables) = variables.as_object_mut() {
        variables.extend(mirror.clone());
    }
    let mac = &site.hosts()[0].mac;
    let spec = json!({
        "installer": "kubespray", "masters": [by_mac("node-1", mac)], "workers": [by_mac("node-1", mac)],
        "PodSubnet": "10.233.64.0/18", "timeLimitMinutes": VERB.as_secs() / 60, "variables": variables,
    });
    provisioning(CLUSTER, &spec)
}

fn begin(site: &Site<'_>, object: &Value) -> Result<()> {
    site.server.apply(&host_manifests(site.hosts()))?;
    site.server.apply(&ssh_secret_manifest(&site.ssh_key()?))?;
    site.create(object)
}

/// The mirror as the only source of packages, a network for pods, and the CPUs that the container has.
fn prepare_hosts(site: &Site<'_>, source: &str) -> Result<()> {
    for (number, host) in site.hosts().iter().enumerate() {
        let network = POD_NETWORK.replace("SUBNET", &format!("10.233.{}.0/24", 64 + number)).replace('\n', " ");
        let script = format!(
            "set -e; rm -f /etc/apt/sources.list.d/*; echo '{source}' > /etc/apt/sources.list; \
             echo 'APT::Install-Recommends \"false\";' > /etc/apt/apt.conf.d/90-mirror; \
             mkdir -p /etc/cni/net.d; echo '{network}' > /etc/cni/net.d/10-pods.conflist; \
             apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install kmod procps python3-apt >/dev/null; \
             grep -oP '^Cpus_allowed_list:\\s*\\K[0-9,-]+' /proc/1/status > /etc/lab/cpus; \
             mount --bind /etc/lab/cpus /sys/devices/system/cpu/online"
        );
        site.on_host(&host.name, &[&script])?;
    }
    Ok(())
}

/// Runs a playbook of the checkout with inventory, variables and login of a run; gives what it prints.
fn play(site: &Site<'_>, run: &Path, playbook: &Path, further: &[&str]) -> Result<String> {
    let intent = std::fs::read(run.join("intent.json")).context("read the run's intent")?;
    let mut intent: Value = serde_json::from_slice(&intent).context("the intent is JSON")?;
    let arguments = intent["arguments"].as_array_mut().context("arguments")?;
    arguments.pop();
    arguments.push(json!(playbook));
    super::replay_intent(site, &intent, further)
}

/// Waits for the end of a run of that verb and tells how it went; where it failed, names the first task that cannot pass.
fn verb(site: &Site<'_>, name: &str) -> Result<bool> {
    let begin = Instant::now();
    let mut told = 0;
    let seen = site.wait_provisioning(&format!("the end of {name}"), CLUSTER, VERB, |seen| {
        if tasks_started(seen) / 100 > told {
            told = tasks_started(seen) / 100;
            println!("        {:>4} s: {}", begin.elapsed().as_secs(), line(seen));
        }
        text(seen, "/status/run/verb") == name && ["Succeeded", "Failed"].contains(&text(seen, "/status/run/state"))
    })?;
    let run = site.run_directory(&seen);
    println!("        {name}: {} after {} tasks", text(&seen, "/status/run/state"), tasks_started(&seen));
    let good = text(&seen, "/status/run/state") == "Succeeded";
    if !good {
        println!("        the first task that cannot pass: {}", seen["status"]["run"]["failures"]);
        println!("        {}", line(&seen));
        let log = std::fs::read_to_string(run.join("output.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().rev().take(60).collect();
        lines.iter().rev().for_each(|line| println!("        | {line}"));
    }
    Ok(good)
}

/// Waits until the cluster has so many nodes, all Ready.
fn nodes(site: &Site<'_>, count: usize) -> Result<()> {
    site.wait_provisioning("the kubeconfig is kept", CLUSTER, ENDED, |seen| {
        !text(seen, "/status/kubeconfigSecret").is_empty()
    })?;
    let output = site.server.hagane(&["get", "kubeconfig", CLUSTER])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let kubeconfig = site.lab.directory().join("real.kubeconfig");
    std::fs::write(&kubeconfig, &output.stdout).context("keep the kubeconfig")?;
    let workload = Workload { lab: site.lab, tools: site.tools, kubeconfig };
    println!("{}", workload.kubectl(&["get", "nodes,pods", "--all-namespaces", "--output=wide"])?);
    workload.wait_for_nodes(count).map(drop)
}

/// The second node leaves; what is asked of kubespray is what the installer asks of it.
fn remove(site: &Site<'_>, checkout: &Path) -> Result<()> {
    let run = site.run_directory(&site.provisioning(CLUSTER)?);
    let variables = json!({"node": "node-2", "skip_confirmation": true, "reset_nodes": true}).to_string();
    let told = play(site, &run, &checkout.join("remove-node.yml"), &["--extra-vars", &variables]);
    if let Err(error) = &told {
        let lines: Vec<String> =
            format!("{error:#}").lines().filter(|line| line.contains("fatal:")).map(str::to_owned).collect();
        println!("        the first task that cannot pass: {lines:?}");
    }
    told.map(drop)
}
