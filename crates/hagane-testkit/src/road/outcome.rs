//! The cluster that came out, tried from inside.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::server::kubectl;
use super::{Tools, wait_for};
use crate::lab::Lab;

/// How long pods may take to run and to answer.
const PODS_LIMIT: Duration = Duration::from_secs(120);

/// A cluster that was installed, by its kubeconfig.
pub struct Workload<'a> {
    /// The lab it is in.
    pub lab: &'a Lab,
    /// Programs.
    pub tools: &'a Tools,
    /// Its kubeconfig.
    pub kubeconfig: PathBuf,
}

/// Name, readiness and taint keys of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeState {
    /// Name.
    pub name: String,
    /// Whether it is Ready.
    pub ready: bool,
    /// Keys of its taints.
    pub taints: Vec<String>,
}

/// Reads nodes from `kubectl get nodes -o json`.
///
/// # Errors
/// When the text is no list of nodes.
pub fn cluster_nodes(text: &str) -> Result<Vec<NodeState>> {
    let list: Value = serde_json::from_str(text).context("failed to read the list of nodes")?;
    let items = list["items"].as_array().context("no items in the list of nodes")?;
    let node = |item: &Value| NodeState {
        name: item["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        ready: item["status"]["conditions"].as_array().is_some_and(|list| {
            list.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        }),
        taints: item["spec"]["taints"]
            .as_array()
            .map(|list| list.iter().filter_map(|taint| taint["key"].as_str()).map(str::to_owned).collect())
            .unwrap_or_default(),
    };
    Ok(items.iter().map(node).collect())
}

impl Workload<'_> {
    /// Runs kubectl against the cluster.
    ///
    /// # Errors
    /// When it fails.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(self.lab, self.tools, &self.kubeconfig, arguments, "")
    }

    /// Waits until so many nodes are Ready, with no taints but the control plane's.
    ///
    /// # Errors
    /// When they are not in time.
    pub fn wait_for_nodes(&self, count: usize) -> Result<Vec<NodeState>> {
        wait_for("nodes Ready", PODS_LIMIT, || {
            let nodes = cluster_nodes(&self.kubectl(&["get", "nodes", "-o", "json"])?)?;
            let plain = |node: &NodeState| {
                node.ready && node.taints.iter().all(|key| key == "node-role.kubernetes.io/control-plane")
            };
            Ok(if nodes.len() == count && nodes.iter().all(plain) { Ok(nodes) } else { Err(format!("{nodes:?}")) })
        })
    }

    /// Starts an echo pod on each of two nodes, a Service and a `NodePort`, and asks one from the other by address and by name.
    /// Returns a line about each question.
    ///
    /// # Errors
    /// When a pod does not run or does not answer.
    pub fn try_pods(&self, first: &str, second: &str) -> Result<Vec<String>> {
        let manifests = echo_manifests(first, second);
        kubectl(self.lab, self.tools, &self.kubeconfig, &["apply", "--filename=-"], &manifests)?;
        let address = wait_for("the echo pods run", PODS_LIMIT, || self.pod_addresses())?.1;
        let mut lines = Vec::new();
        let by_address = self.ask(&format!("http://{address}:8080/by-address"))?;
        lines.push(format!("pod on {first} → pod on {second} by address {address}: {by_address}"));
        let by_name = self.ask("http://echo.default.svc.cluster.local/by-name")?;
        lines.push(format!("pod on {first} → Service echo by DNS name: {by_name}"));
        lines.push(self.ask_node_port(first)?);
        Ok(lines)
    }

    /// Removes what [`Self::try_pods`] made.
    ///
    /// # Errors
    /// When kubectl fails.
    pub fn remove_pods(&self) -> Result<()> {
        let names =
            ["delete", "--ignore-not-found", "--now", "pod/echo-a", "pod/echo-b", "service/echo", "service/echo-node"];
        self.kubectl(&names).map(|_| ())
    }

    fn pod_addresses(&self) -> Result<Result<(String, String), String>> {
        let list: Value = serde_json::from_str(&self.kubectl(&["get", "pods", "-l", "app=echo", "-o", "json"])?)?;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let address = |name: &str| {
            let pod = items.iter().find(|pod| pod["metadata"]["name"] == name)?;
            let running = pod["status"]["phase"] == "Running";
            pod["status"]["podIP"].as_str().filter(|_| running).map(str::to_owned)
        };
        let phases: Vec<_> = items.iter().map(|pod| pod["status"]["phase"].to_string()).collect();
        Ok(address("echo-a").zip(address("echo-b")).ok_or_else(|| format!("phases {}", phases.join(", "))))
    }

    fn ask(&self, url: &str) -> Result<String> {
        let answer = self.kubectl(&["exec", "echo-a", "--", "/echo", "get", url, "60"])?;
        if !answer.contains("host=echo-b") {
            bail!("{url} was not answered by echo-b: {answer}");
        }
        Ok(answer.trim().to_owned())
    }

    fn ask_node_port(&self, node: &str) -> Result<String> {
        let port = self.kubectl(&["get", "service", "echo-node", "-o", "jsonpath={.spec.ports[0].nodePort}"])?;
        let filter = "jsonpath={.status.addresses[?(@.type==\"InternalIP\")].address}";
        let address = self.kubectl(&["get", "node", node, "-o", filter])?;
        let url = format!("http://{address}:{port}/node-port");
        wait_for(&format!("NodePort {url} answers"), PODS_LIMIT, || {
            let output = self.lab.exec(["curl", "--silent", "--show-error", "--max-time", "5", &url])?;
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            Ok(if text.contains("host=echo-b") { Ok(format!("NodePort {url}: {text}")) } else { Err(error + &text) })
        })
    }
}

fn echo_manifests(first: &str, second: &str) -> String {
    let pod = |name: &str, node: &str, answers: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  labels: {{app: echo, answers: \"{answers}\"}}\nspec:\n  nodeName: {node}\n  \
             terminationGracePeriodSeconds: 1\n  containers:\n  - {{name: echo, image: \"hagane.dev/lab/echo:1\", \
             imagePullPolicy: Never, args: [serve]}}\n---\n"
        )
    };
    let service = |name: &str, kind: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  type: {kind}\n  selector: {{app: echo, answers: \"yes\"}}\n  \
             ports: [{{port: 80, targetPort: 8080}}]\n---\n"
        )
    };
    // Only the second pod answers for the Services: so an answer has crossed the nodes.
    pod("echo-a", first, "no")
        + &pod("echo-b", second, "yes")
        + &service("echo", "ClusterIP")
        + &service("echo-node", "NodePort")
}
