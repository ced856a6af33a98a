//! What our supervision costs a run: `ansible-playbook` under `run-shim` with the progress plugin, beside the bare
//! command with the same inventory, arguments and settings.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hagane_installers::run::files::read_record;
use hagane_installers::run::{Intent, RunLayout, Started};
use hagane_installers::{EngineOptions, KubesprayInstaller, KubesprayOptions, python};
use hagane_ports::installer::{
    ClusterInstaller, InstallRequest, InstallVerb, Inventory, InventoryNode, NodeRole, RunExit, RunState, SshAccess,
};

use super::figure::Figure;
use super::machine::processor_seconds;

const TASKS: usize = 40;
const IDLE_RUNS: usize = 20;
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// As often as a controller asks.
const OBSERVE_EVERY: Duration = Duration::from_secs(1);

/// One run: elapsed time, and processor time in seconds.
struct Sample {
    elapsed: Duration,
    processor: f64,
}

struct Bench {
    directory: tempfile::TempDir,
    installer: KubesprayInstaller,
    runtime: tokio::runtime::Runtime,
}

pub(super) fn run(hagane: &Path, rounds: usize) -> Result<Vec<Figure>> {
    let ansible = match std::env::var_os("HAGANE_ANSIBLE_PLAYBOOK") {
        Some(path) => PathBuf::from(path),
        None => python::ensure_ansible(&python::default_cache(), &mut |step| eprintln!("{step}"))?,
    };
    let idle = idle(hagane)?;
    let bench = Bench::new(hagane, ansible)?;
    // Warms the caches, and leaves the directory that the bare command runs in.
    bench.supervised("warm")?;
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        let id = format!("round-{round}");
        if round % 2 == 0 {
            ours.push(bench.supervised(&id)?);
            bare.push(bench.bare("warm")?);
        } else {
            bare.push(bench.bare("warm")?);
            ours.push(bench.supervised(&id)?);
        }
        if let (Some(ours), Some(bare)) = (ours.last(), bare.last()) {
            eprintln!("  {:.2} s, bare {:.2} s", ours.elapsed.as_secs_f64(), bare.elapsed.as_secs_f64());
        }
    }
    let versions = bench.version()?;
    let name = |what: &str| format!("run, {TASKS} tasks under supervision, {what}");
    let over = |value: &dyn Fn(&Sample) -> f64| -> Vec<f64> {
        ours.iter().zip(&bare).map(|(ours, bare)| (value(ours) / value(bare) - 1.0) * 100.0).collect()
    };
    let quickest = |samples: &[Sample]| samples.iter().map(|sample| sample.elapsed).min().unwrap_or_default();
    let elapsed = |samples: &[Sample]| samples.iter().map(|sample| sample.elapsed).collect();
    let processor = |samples: &[Sample]| samples.iter().map(|sample| sample.processor * 1e3).collect();
    let figures = [
        Figure::median("run, a program that does nothing, elapsed".to_owned(), idle),
        Figure::median(name("elapsed"), elapsed(&ours)).against(elapsed(&bare)),
        Figure::middle(name("elapsed, over"), over(&|sample| sample.elapsed.as_secs_f64()), "%"),
        // What other work on the machine, and on the machine below it, disturbs least.
        Figure::median(name("quickest"), vec![quickest(&ours)]).against(vec![quickest(&bare)]),
        Figure::middle(name("processor"), processor(&ours), "ms").against_numbers(processor(&bare)),
        Figure::middle(name("processor, over"), over(&|sample| sample.processor), "%"),
    ];
    Ok(figures.into_iter().map(|figure| figure.with_versions(Some(&versions))).collect())
}

/// What every run costs, whatever it does: the same road with a program that does nothing. The difference of two long
/// runs is lost in the noise of a shared machine; this is not.
fn idle(hagane: &Path) -> Result<Vec<Duration>> {
    let bench = Bench::new(hagane, PathBuf::from("/bin/true"))?;
    (0..IDLE_RUNS).map(|run| bench.follow(&format!("idle-{run}"))).collect()
}

impl Bench {
    fn new(hagane: &Path, ansible: PathBuf) -> Result<Self> {
        let directory = tempfile::tempdir().context("failed to make a directory")?;
        let checkout = directory.path().join("checkout");
        std::fs::create_dir(&checkout).context("failed to make a directory for the playbook")?;
        std::fs::write(checkout.join("cluster.yml"), playbook()).context("failed to write the playbook")?;
        let options = EngineOptions::new(directory.path().join("runs"), ansible, hagane.to_path_buf());
        let installer =
            KubesprayInstaller::new(options, KubesprayOptions { checkout, skip_checks: ["Hosts".to_owned()].into() })?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { directory, installer, runtime: runtime.context("failed to start a runtime")? })
    }

    fn layout(&self, id: &str) -> Result<RunLayout> {
        Ok(RunLayout::of(&self.directory.path().join("runs"), id)?)
    }

    fn intent(&self, id: &str) -> Result<Intent> {
        let intent = read_record(&self.layout(id)?.intent()).context("failed to read the run's intent")?;
        intent.with_context(|| format!("the run {id} has no intent"))
    }

    fn version(&self) -> Result<String> {
        let output = Command::new(self.intent("warm")?.program).arg("--version").output();
        let output = output.context("failed to ask ansible-playbook for its version")?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
    }

    /// Starts a run and follows it to its exit record as a controller does.
    fn follow(&self, id: &str) -> Result<Duration> {
        let layout = self.layout(id)?;
        let begin = Instant::now();
        self.runtime.block_on(self.installer.start(&request(id)))?;
        let mut observed = Instant::now();
        while !layout.exit().exists() {
            if observed.elapsed() > OBSERVE_EVERY {
                self.runtime.block_on(self.installer.observe(id))?;
                observed = Instant::now();
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(begin.elapsed())
    }

    /// From the request to the exit record.
    fn supervised(&self, id: &str) -> Result<Sample> {
        let layout = self.layout(id)?;
        let processor = processor_seconds()?;
        let elapsed = self.follow(id)?;
        let seen = self.runtime.block_on(self.installer.observe(id))?;
        let log = std::fs::read_to_string(layout.log()).unwrap_or_default();
        ensure!(seen.state == RunState::Finished(RunExit::Succeeded), "the run {id} failed: {log}");
        let tasks = seen.progress.tasks_started;
        ensure!(usize::try_from(tasks).is_ok_and(|tasks| tasks == TASKS), "the plugin told of {tasks} tasks");
        wait_until_gone(&layout)?;
        Ok(Sample { elapsed, processor: processor_seconds()? - processor })
    }

    /// The same command in the directory of another run, without the supervisor and without the progress plugin.
    fn bare(&self, id: &str) -> Result<Sample> {
        let (layout, intent) = (self.layout(id)?, self.intent(id)?);
        let config = std::fs::read_to_string(layout.ansible_config()).context("failed to read ansible.cfg")?;
        let lines: Vec<&str> = config.lines().filter(|line| !line.starts_with("callback")).collect();
        let bare_config = self.directory.path().join("bare.cfg");
        std::fs::write(&bare_config, lines.join("\n")).context("failed to write ansible.cfg")?;
        let mut environment: BTreeMap<String, String> = intent.environment;
        environment.remove("HAGANE_PROGRESS_FILE");
        environment.insert("ANSIBLE_CONFIG".to_owned(), bare_config.display().to_string());
        let log = self.directory.path().join("bare.log");
        let output = File::create(&log).context("failed to make a log")?;
        let errors = output.try_clone().context("failed to make a log")?;
        let mut command = Command::new(&intent.program);
        command.args(&intent.arguments).env_clear().envs(environment).current_dir(&intent.working_directory);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        let (processor, begin) = (processor_seconds()?, Instant::now());
        let status = command.status().context("failed to start ansible-playbook")?;
        let elapsed = begin.elapsed();
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        ensure!(status.success(), "the bare run failed ({status}): {text}");
        Ok(Sample { elapsed, processor: processor_seconds()? - processor })
    }
}

/// The supervisor's processor time counts once it has been waited for.
fn wait_until_gone(layout: &RunLayout) -> Result<()> {
    let started: Option<Started> = read_record(&layout.started()).context("failed to read the run's start")?;
    let pid = started.context("the run has no start record")?.pid;
    let begin = Instant::now();
    while Path::new(&format!("/proc/{pid}")).exists() {
        ensure!(begin.elapsed() < Duration::from_secs(10), "the supervisor stays after its run");
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

fn request(id: &str) -> InstallRequest {
    let node = InventoryNode {
        name: "node1".to_owned(),
        // For documents: nothing connects to it, the play is a local one.
        address: std::net::IpAddr::from([192, 0, 2, 10]),
        ssh_port: 22,
        roles: vec![NodeRole::Master, NodeRole::Worker],
        second_address: None,
    };
    let private_key = "-----BEGIN PRIVATE KEY-----\nnot one: nobody logs in\n-----END PRIVATE KEY-----".to_owned();
    InstallRequest {
        run_id: id.to_owned(),
        owner_uid: format!("bench-{id}"),
        cluster: "bench".to_owned(),
        verb: InstallVerb::Install,
        inventory: Inventory { nodes: vec![node], ..Inventory::default() },
        variables: BTreeMap::new(),
        ssh: SshAccess { user: "root".to_owned(), private_key, known_hosts: Vec::new() },
        time_limit: Duration::from_secs(600),
        limits: hagane_ports::installer::RunLimits::default(),
    }
}

/// Quick tasks, each with a module of its own process, as in a real run.
fn playbook() -> String {
    let mut text = "- name: Quick tasks\n  hosts: all\n  connection: local\n  become: false\n  gather_facts: false\n  \
                    vars:\n    ansible_python_interpreter: \"{{ ansible_playbook_python }}\"\n  tasks:\n"
        .to_owned();
    for task in 1..=TASKS {
        text.push_str(&format!("    - name: Task {task}\n      ansible.builtin.command: \"true\"\n"));
    }
    text
}
