//! hagane as a systemd unit on a server of its own: a run outlives a restart of the unit, and is found again.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hagane_testkit::lab::{Host, Lab};
use hagane_testkit::road::{Tools, Workload, host_manifests, ssh_secret_manifest, wait_for};
use serde_json::{Value, json};

use super::objects::{by_mac, provisioning};
use super::processes::expect_one_tree;
use super::site::{INSTALLED, lab_with, line, ready_reason, tasks_started, text};
use crate::support;

/// Port of the API on the server.
const PORT: u16 = 6440;
/// Until the unit's API answers.
const UP: Duration = Duration::from_secs(60);

/// The server that hagane is installed on.
struct Manager<'a> {
    lab: &'a Lab,
    tools: &'a Tools,
    host: &'a Host,
    workload: Workload<'a>,
}

#[test]
fn a_run_survives_a_restart_of_the_unit() -> Result<()> {
    let test = "hosts::unit";
    if !support::can_run(test) {
        return Ok(());
    }
    let begin = std::time::Instant::now();
    let tools = support::tools()?;
    let lab = lab_with(&["manager:2:3072", "node:2:4096"])?;
    let [host, node] = &lab.description().hosts[..] else { anyhow::bail!("two hosts were asked for") };
    let kubeconfig = format!("{}/var/lib/hagane/admin.kubeconfig", root(host)).into();
    let workload = Workload { lab: &lab, tools: &tools, kubeconfig };
    let manager = Manager { lab: &lab, tools: &tools, host, workload };
    let outcome = manager.survive(node).with_context(|| manager.journal());
    println!(
        "{test}: {} after {:.1} s",
        if outcome.is_ok() { "good" } else { "FAILED" },
        begin.elapsed().as_secs_f64()
    );
    lab.down()?;
    outcome
}

/// Where the server's files are, seen from the lab.
fn root(host: &Host) -> String {
    format!("/run/lab/hosts/{}/root", host.name)
}

impl Manager<'_> {
    fn survive(&self, node: &Host) -> Result<()> {
        self.install()?;
        let user = self.on_server(&["id", "--user", "--name", "hagane-run"])?;
        ensure!(user.trim() == "hagane-run", "{user}");
        self.wait_up()?;
        self.apply(&host_manifests(std::slice::from_ref(node)))?;
        let key = std::fs::read_to_string(&self.lab.description().ssh_private_key).context("read the lab's SSH key")?;
        self.apply(&ssh_secret_manifest(&key))?;
        self.apply(&provisioning("solo", &json!({"masters": [by_mac("solo-1", &node.mac)]})).to_string())?;
        let seen =
            self.wait("8 tasks", |seen| text(seen, "/status/run/state") == "Running" && tasks_started(seen) >= 8)?;
        let id = text(&seen, "/status/run/id").to_owned();
        let before = expect_one_tree(&id)?;
        let scope = self.scope(&id)?;
        let service = self.on_server(&["systemctl", "show", "--property=MainPID", "--value", "hagane"])?;

        self.on_server(&["systemctl", "restart", "hagane"])?;
        self.wait_up()?;
        let after = self.on_server(&["systemctl", "show", "--property=MainPID", "--value", "hagane"])?;
        ensure!(service != after, "the unit was not restarted: {service}");
        ensure!(self.scope(&id)? == scope, "the run has another scope than {scope}");
        let tasks = tasks_started(&seen);
        self.wait("goes on", |seen| tasks_started(seen) > tasks)?;
        let now = expect_one_tree(&id)?;
        ensure!((before.0.pid, before.1.pid) == (now.0.pid, now.1.pid), "{before:?} became {now:?}");
        let seen = self.wait("Ready", |seen| ["Ready", "Failed"].contains(&text(seen, "/status/phase")))?;
        ensure!(ready_reason(&seen) == "Ready" && text(&seen, "/status/run/id") == id, "{}", line(&seen));

        self.workload.kubectl(&["delete", "provisioning", "solo", "--timeout=60s"])?;
        let left = self.on_server(&["find", "/var/lib/hagane/runs", "-name", "intent.json"])?;
        ensure!(left.trim().is_empty(), "runs are left: {left}");
        let scopes =
            self.on_server(&["systemctl", "list-units", "--type=scope", "--plain", "--no-legend", "hagane-run-*"])?;
        ensure!(scopes.trim().is_empty(), "scopes are left: {scopes}");
        self.uninstall()
    }

    /// Puts binary, payload and Ansible onto the server and starts the unit.
    fn install(&self) -> Result<()> {
        let root = root(self.host);
        let venv = self.tools.ansible_playbook.ancestors().nth(2).context("ansible-playbook is in an environment")?;
        // An environment works only under the path that it was made for.
        for directory in [venv, self.tools.payload.as_path()] {
            let parent = directory.parent().context("a directory has a parent")?.display().to_string();
            self.inside(&["mkdir", "--parents", &format!("{root}{parent}")])?;
            self.inside(&["cp", "--archive", &directory.display().to_string(), &format!("{root}{parent}/")])?;
            // Ansible's user passes through.
            for above in directory.ancestors().skip(1) {
                self.inside(&["chmod", "go+x", &format!("{root}{}", above.display())])?;
            }
        }
        self.inside(&["cp", &self.tools.hagane.display().to_string(), &format!("{root}/usr/local/bin/hagane")])?;
        let config = format!(
            "data-dir: /var/lib/hagane\nrun-as: hagane-run\nlisten: {}:{PORT}\nansible-playbook: {}\npayload-dir: {}\n",
            self.host.address,
            self.tools.ansible_playbook.display(),
            self.tools.payload.display()
        );
        self.put(&config, "/etc/hagane/hagane.yaml")?;
        // The caches that the test copied lie where they were made: in a home directory.
        self.put("[Service]\nProtectHome=read-only\n", "/etc/systemd/system/hagane.service.d/home.conf")?;
        let told = self.on_server(&["hagane", "service", "install", "--now"])?;
        ensure!(told.contains("was there and stays"), "{told}");
        Ok(())
    }

    /// Takes the service off the server: nothing of it may be left but what an operator must not lose.
    fn uninstall(&self) -> Result<()> {
        self.on_server(&["hagane", "service", "uninstall"])?;
        self.on_server(&["test", "-s", "/var/lib/hagane/admin.kubeconfig"])?;
        self.on_server(&["hagane", "service", "uninstall", "--purge"])?;
        let paths =
            ["/etc/systemd/system/hagane.service", "/etc/sysusers.d/hagane.conf", "/etc/hagane", "/var/lib/hagane"];
        for path in paths {
            self.on_server(&["test", "!", "-e", path]).with_context(|| format!("{path} is left"))?;
        }
        let users = self.on_server(&["getent", "passwd"])?;
        ensure!(!users.lines().any(|user| user.starts_with("hagane-run:")), "the user is left:\n{users}");
        Ok(())
    }

    /// Writes a file on the server.
    fn put(&self, text: &str, path: &str) -> Result<()> {
        let beside = self.lab.directory().join("put");
        std::fs::write(&beside, text).context("write a file for the server")?;
        let target = format!("{}{path}", root(self.host));
        self.inside(&["install", "-D", "--mode=0644", &beside.display().to_string(), &target]).map(drop)
    }

    fn wait_up(&self) -> Result<()> {
        let url = format!("https://{}:{PORT}/readyz", self.host.address);
        wait_for("the unit's API answers", UP, || {
            let output = self.lab.exec(["curl", "--silent", "--show-error", "--insecure", "--max-time", "5", &url])?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            Ok(if output.status.success() && said.starts_with("ok") { Ok(()) } else { Err(said) })
        })
    }

    /// The scope that the run's supervisor is in, and in no other.
    fn scope(&self, id: &str) -> Result<String> {
        let pattern = format!("hagane-run-{id}-*");
        let list = ["systemctl", "list-units", "--type=scope", "--state=running", "--plain", "--no-legend", &pattern];
        let scopes = self.on_server(&list)?;
        ensure!(scopes.lines().count() == 1, "scopes of run {id}: {scopes:?}");
        Ok(scopes.split_whitespace().next().unwrap_or_default().to_owned())
    }

    fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Result<Value> {
        wait_for(&format!("solo: {what}"), INSTALLED, || {
            let text = self.workload.kubectl(&["get", "provisioning", "solo", "--output=json"])?;
            let seen: Value = serde_json::from_str(&text).context("kubectl prints JSON")?;
            Ok(if wanted(&seen) { Ok(seen) } else { Err(line(&seen)) })
        })
    }

    fn apply(&self, manifests: &str) -> Result<()> {
        let path = self.lab.directory().join("apply.yaml");
        std::fs::write(&path, manifests).context("write manifests")?;
        self.workload.kubectl(&["apply", "-f", &path.display().to_string()]).map(drop)
    }

    fn inside(&self, words: &[&str]) -> Result<String> {
        let output = self.lab.exec(words.iter().copied())?;
        ensure!(output.status.success(), "{} failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn on_server(&self, words: &[&str]) -> Result<String> {
        let config = self.lab.description().ssh_config.display().to_string();
        let mut argv = vec!["ssh", "-F", &config, &self.host.name];
        argv.extend(words);
        self.inside(&argv)
    }

    fn journal(&self) -> String {
        let journal = self.on_server(&["journalctl", "--unit=hagane", "--lines=40", "--no-pager", "--output=cat"]);
        format!("the unit's log ends with:\n{}", journal.unwrap_or_default())
    }
}
