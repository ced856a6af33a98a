//! A lab with container hosts and hagane in it, and the questions that tests ask of both.

use std::path::PathBuf;
use std::process::Output;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hagane_testkit::lab::{Host, HostSpec, Lab, LabOptions, Progress};
use hagane_testkit::road::{Server, ServerOptions, Tools, wait_for};
use serde_json::Value;

use crate::support;

/// Until a Provisioning says what is wrong with it.
pub const SAID: Duration = Duration::from_secs(60);
/// Until a run that meets a fault has ended: ssh gives up late on a machine that busy.
pub const ENDED: Duration = Duration::from_secs(180);
/// Until Kubernetes is installed.
pub const INSTALLED: Duration = Duration::from_secs(420);
/// Port of hagane's image server.
const IMAGE_PORT: u16 = 8081;

/// A lab with hagane in it.
pub struct Site<'a> {
    pub lab: &'a Lab,
    pub tools: &'a Tools,
    pub server: Server<'a>,
    /// Namespace of the objects asked for.
    pub namespace: &'static str,
    begin: Instant,
}

/// Runs a test in a lab of its own with hagane started. Where it fails, the error ends with what hagane logged last.
pub fn in_lab(
    test: &str,
    hosts: &[&str],
    flags: impl FnOnce(&Lab) -> Result<Vec<String>>,
    work: impl FnOnce(&mut Site<'_>) -> Result<()>,
) -> Result<()> {
    if !support::can_run(test) {
        return Ok(());
    }
    let begin = Instant::now();
    let tools = support::tools()?;
    let lab = lab_with(hosts)?;
    println!("{test}: lab {} after {:.1} s", lab.description().id, begin.elapsed().as_secs_f64());
    let server = start(&lab, &tools, &flags(&lab)?)?;
    let mut site = Site { lab: &lab, tools: &tools, server, namespace: "default", begin };
    let outcome = site.explained(work);
    println!(
        "{test}: {} after {:.1} s",
        if outcome.is_ok() { "good" } else { "FAILED" },
        begin.elapsed().as_secs_f64()
    );
    drop(site);
    lab.down()?;
    outcome
}

/// A lab with container hosts, each `name:cpus:memMiB`.
pub fn lab_with(hosts: &[&str]) -> Result<Lab> {
    let hosts = hosts.iter().map(|host| host.parse::<HostSpec>()).collect::<Result<Vec<_>>>()?;
    Lab::up(&LabOptions { hosts, progress: Progress::Silent, ..LabOptions::default() })
}

/// hagane in a lab.
pub fn start<'a>(lab: &'a Lab, tools: &'a Tools, flags: &[String]) -> Result<Server<'a>> {
    let serve = format!("{}:{IMAGE_PORT}", lab.description().machine_gateway);
    let options = ServerOptions { listen: "127.0.0.1:6440".to_owned(), serve, flags: flags.to_vec(), stays: false };
    Server::start(lab, tools, options)
}

impl<'a> Site<'a> {
    pub fn with_flags(lab: &'a Lab, tools: &'a Tools, flags: &[String], begin: Instant) -> Result<Self> {
        Ok(Self { lab, tools, server: start(lab, tools, flags)?, namespace: "default", begin })
    }

    /// Runs a step and says so.
    pub fn step<T>(&mut self, name: &str, work: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let begin = Instant::now();
        let outcome = work(self).with_context(|| format!("step: {name}"));
        let word = if outcome.is_ok() { "" } else { ": FAILED" };
        let (took, whole) = (begin.elapsed().as_secs_f64(), self.begin.elapsed().as_secs());
        println!("  [{whole:>3} s] {name}{word} ({took:.1} s)");
        outcome
    }

    pub fn hosts(&self) -> &'a [Host] {
        &self.lab.description().hosts
    }

    /// The private key that the hosts let in.
    pub fn ssh_key(&self) -> Result<String> {
        std::fs::read_to_string(&self.lab.description().ssh_private_key).context("read the lab's SSH key")
    }

    /// Runs a program on a host that must end well.
    pub fn on_host(&self, host: &str, words: &[&str]) -> Result<String> {
        let config = self.lab.description().ssh_config.display().to_string();
        let argv = ["ssh", "-F", &config, host].into_iter().chain(words.iter().copied());
        let output = self.lab.exec(argv)?;
        if !output.status.success() {
            bail!("{} on {host} failed: {}", words.join(" "), String::from_utf8_lossy(&output.stderr));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// An object as the API has it; nothing where it is not there.
    pub fn object(&self, kind: &str, name: &str) -> Result<Option<Value>> {
        let arguments = ["get", kind, name, "--namespace", self.namespace, "--ignore-not-found", "--output=json"];
        let text = self.server.kubectl(&arguments)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&text).context("kubectl prints JSON").map(Some)
    }

    pub fn provisioning(&self, name: &str) -> Result<Value> {
        self.object("provisionings.bpa.akraino.org", name)?.with_context(|| format!("no Provisioning {name}"))
    }

    /// Waits until a Provisioning is as wanted, and gives it.
    pub fn wait_provisioning(
        &self,
        what: &str,
        name: &str,
        limit: Duration,
        mut wanted: impl FnMut(&Value) -> bool,
    ) -> Result<Value> {
        wait_for(&format!("{name}: {what}"), limit, || {
            let seen = self.provisioning(name)?;
            Ok(if wanted(&seen) { Ok(seen) } else { Err(line(&seen)) })
        })
    }

    /// Waits until the condition Ready of a Provisioning has this reason.
    pub fn wait_reason(&self, name: &str, reason: &str, limit: Duration) -> Result<Value> {
        self.wait_provisioning(&format!("Ready says {reason}"), name, limit, |seen| ready_reason(seen) == reason)
    }

    /// Creates one object, which is taken.
    pub fn create(&self, object: &Value) -> Result<()> {
        let output = self.try_create(object)?;
        ensure!(output.status.success(), "{object}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Creates one object; gives kubectl's outcome whatever it is.
    pub fn try_create(&self, object: &Value) -> Result<Output> {
        let arguments = ["create", "--namespace", self.namespace, "--validate=strict", "--filename=-"];
        self.server.try_kubectl(&arguments, &object.to_string())
    }

    /// Every one of these objects is refused, with these words among what kubectl is told.
    pub fn expect_refused(&self, cases: &[(Value, Vec<&str>)]) -> Result<()> {
        let mut wrong = Vec::new();
        for (object, words) in cases {
            let output = self.try_create(object)?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let missing: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
            if output.status.success() {
                wrong.push(format!("taken: {object}"));
            } else if !missing.is_empty() {
                wrong.push(format!("{missing:?} is not in {said:?}"));
            }
        }
        ensure!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
        Ok(())
    }

    /// Deletes objects and waits until they are gone.
    pub fn delete(&self, names: &[&str]) -> Result<()> {
        let mut arguments = vec!["delete", "--namespace", self.namespace, "--wait=true", "--timeout=60s"];
        arguments.extend(names);
        self.server.kubectl(&arguments).map(drop)
    }

    /// Directories of runs, by id.
    pub fn run_directories(&self) -> Result<Vec<PathBuf>> {
        let entries = match std::fs::read_dir(self.server.data.join("runs")) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.context("list the run directories")?,
        };
        let directories = entries.flatten().map(|entry| entry.path());
        let mut found: Vec<_> = directories.filter(|path| path.join("intent.json").exists()).collect();
        found.sort();
        Ok(found)
    }

    /// Directory of the run that a Provisioning has recorded.
    pub fn run_directory(&self, provisioning: &Value) -> PathBuf {
        self.server.data.join("runs").join(text(provisioning, "/status/run/id"))
    }

    fn last_words(&self) -> String {
        let log = std::fs::read_to_string(self.server.log()).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(40).collect();
        let lines: Vec<_> = lines.into_iter().rev().collect();
        format!("hagane's log ends with:\n{}\n", lines.join("\n"))
    }

    /// Runs the work; its error ends with what hagane logged last.
    pub fn explained(&mut self, work: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        work(self).with_context(|| self.last_words())
    }
}

/// The text at a JSON pointer, empty where there is none.
pub fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A condition of an object.
pub fn condition<'v>(object: &'v Value, r#type: &str) -> Option<&'v Value> {
    object.pointer("/status/conditions")?.as_array()?.iter().find(|condition| condition["type"] == r#type)
}

pub fn ready_reason(object: &Value) -> &str {
    condition(object, "Ready").map_or("", |ready| text(ready, "/reason"))
}

pub fn ready_message(object: &Value) -> &str {
    condition(object, "Ready").map_or("", |ready| text(ready, "/message"))
}

/// What a Provisioning says of itself, on one line.
pub fn line(object: &Value) -> String {
    let run =
        |field: &str| object.pointer(&format!("/status/run/{field}")).map(ToString::to_string).unwrap_or_default();
    format!(
        "phase {:?}, {}: {}; run {} {}, task {} of {}, failures {}",
        text(object, "/status/phase"),
        ready_reason(object),
        ready_message(object),
        run("id"),
        run("state"),
        run("tasksStarted"),
        run("tasksTotal"),
        run("failures"),
    )
}

/// Number of tasks that the recorded run has begun.
pub fn tasks_started(object: &Value) -> i64 {
    object.pointer("/status/run/tasksStarted").and_then(Value::as_i64).unwrap_or_default()
}

/// Node name and host of each assignment of the stored plan.
pub fn assignments(object: &Value) -> Vec<(String, String)> {
    let entries = object.pointer("/status/plan/assignments").and_then(Value::as_array).cloned().unwrap_or_default();
    entries.iter().map(|entry| (text(entry, "/node").to_owned(), text(entry, "/host").to_owned())).collect()
}

/// The name of the node that a host became.
pub fn node_on(object: &Value, host: &str) -> Result<String> {
    let found = assignments(object).into_iter().find(|(_, on)| on == host);
    found.map(|(node, _)| node).with_context(|| format!("no node on host {host}: {}", line(object)))
}
