//! A run and the processes around it: supervisor, two sets of control loops on one API, and the commands a person has.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hagane_installers::run::{Intent, RunLayout, now};
use hagane_ports::InstallerKind;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

const HAGANE: &str = env!("CARGO_BIN_EXE_hagane");
const RUN: &str = "u-1";
/// Bytes of output that are kept, and numbers that fill more than one part of them.
const LOG_LIMIT: u64 = 16 << 20;
const TALK: u32 = 800_000;

/// A process that is ended with the test, whatever becomes of that.
struct Process(Child);

impl Process {
    fn start(words: &[&str]) -> Self {
        let mut command = Command::new(HAGANE);
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        Self(command.spawn().expect("the program starts"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Site {
    place: tempfile::TempDir,
    _api: Process,
    objects: Api<DynamicObject>,
}

impl Site {
    async fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let place = tempfile::tempdir().expect("a directory");
        let data = place.path().join("api").display().to_string();
        let mut api = Process::start(&["up", "--listen=127.0.0.1:0", "--controllers=none", "--data-dir", &data]);
        let mut lines = BufReader::new(api.0.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains("ready")), "it has ended early");
        // Somebody has to read what it says, or it stops at a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let kubeconfig = Kubeconfig::read_from(place.path().join("api/admin.kubeconfig")).expect("a kubeconfig");
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let client = kube::Client::try_from(config.expect("a configuration")).expect("a client");
        let kind = GroupVersionKind::gvk("bpa.akraino.org", "v1alpha1", "Provisioning");
        let objects = Api::default_namespaced_with(client, &ApiResource::from_gvk_with_plural(&kind, "provisionings"));
        Self { place, _api: api, objects }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// The control loops of a machine, as another process.
    fn controllers(&self, machine: &str) -> Process {
        std::fs::create_dir_all(self.path(machine)).expect("a directory");
        std::fs::write(self.path(machine).join("holder"), machine).expect("a file");
        let (kubeconfig, data) = (self.text("api/admin.kubeconfig"), self.text(machine));
        Process::start(&[
            "controllers",
            "--kubeconfig",
            &kubeconfig,
            "--data-dir",
            &data,
            "--controllers=provisioning",
            "--log-level=error",
        ])
    }

    /// A command of a person.
    fn hagane(&self, words: &[&str]) -> Output {
        let kubeconfig = self.text("api/admin.kubeconfig");
        Command::new(HAGANE).args(words).args(["--kubeconfig", &kubeconfig]).output().expect("it runs")
    }

    async fn status(&self) -> Value {
        let object = self.objects.get("edge").await.expect("the object");
        object.data["status"].clone()
    }

    async fn until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..600 {
            let status = self.status().await;
            if is_so(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!("not {what}: {:#}", self.status().await)
    }

    async fn until_reason(&self, reason: &str) -> Value {
        self.until(reason, |status| {
            let conditions = status["conditions"].as_array().into_iter().flatten();
            conditions.filter(|one| one["type"] == "Ready").any(|one| one["reason"] == reason)
        })
        .await
    }

    /// An object whose status says that a machine runs its installer.
    async fn record_a_run(&self, holder: &str) {
        let object = json!({
            "apiVersion": "bpa.akraino.org/v1alpha1", "kind": "Provisioning", "metadata": {"name": "edge"},
            "spec": {"masters": [{"master-1": {"mac-address": "00:c6:14:04:61:b2"}}], "workers": []},
        });
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        self.objects.create(&PostParams::default(), &object).await.expect("created");
        let begun = now();
        let ends = begun.checked_add(Duration::from_secs(3600)).expect("a time");
        let run = json!({
            "id": RUN, "installer": "kubeadm", "holder": holder, "startedAt": begun, "deadline": ends,
            "state": "Running", "generation": 1,
        });
        let patch = Patch::Merge(json!({"status": {"run": run}}));
        self.objects.patch_status("edge", &PatchParams::default(), &patch).await.expect("recorded");
    }

    /// A real supervisor with a program that says something, leaves a process behind, says much once it is asked to, and stays.
    fn start_supervisor(&self, machine: &str) -> Process {
        let layout = RunLayout::at(self.path(machine).join("runs").join(RUN));
        std::fs::create_dir_all(layout.work()).expect("a directory");
        let (pid, talk) = (self.text("pid"), self.text("talk"));
        let script = format!(
            "echo the first line; echo '{{\"event\":\"play\",\"play\":\"Nodes\",\"at\":1}}' > progress.jsonl; \
             sleep 300 & echo $! > {pid}.new; mv {pid}.new {pid}; \
             while ! test -e {talk}; do sleep 0.1; done; seq 1 {TALK}; touch {talk}ed; wait"
        );
        let intent = Intent {
            run_id: RUN.to_owned(),
            owner_uid: "u".to_owned(),
            cluster: "edge".to_owned(),
            installer: InstallerKind::Kubeadm,
            created_at: now(),
            program: "/bin/sh".into(),
            before: Vec::new(),
            arguments: vec!["-c".to_owned(), script],
            environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
            working_directory: layout.work(),
            time_limit_seconds: 3600,
            stall_limit_seconds: None,
            play_limit_seconds: None,
            kind: None,
            estimate_seconds: None,
            log_limit_bytes: LOG_LIMIT,
            user: None,
            marker: uuid::Uuid::new_v4().to_string(),
            sockets: PathBuf::new(),
            remove_at_end: Vec::new(),
            stages: Vec::new(),
            same: None,
            resume: None,
            tool: None,
            then: Value::Null,
        };
        std::fs::write(layout.intent(), serde_json::to_vec(&intent).expect("JSON")).expect("a file");
        Process::start(&["run-shim", &layout.directory().display().to_string()])
    }
}

fn words(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn a_run_of_another_process_is_left_alone_and_ends_when_its_own_is_asked() {
    let site = Site::new().await;
    site.record_a_run("machine-b").await;
    let _supervisor = site.start_supervisor("machine-b");
    while !site.path("pid").exists() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let left = std::fs::read_to_string(site.path("pid")).expect("a file").trim().to_owned();
    let first = site.controllers("machine-b");
    site.until("followed", |status| status["run"]["log"].is_string() && status["run"]["play"] == "Nodes").await;
    let told = site.hagane(&["logs", "provisioning", "edge"]);
    assert_eq!(words(&told.stdout), "the first line\n", "{}", words(&told.stderr));
    // The machine of the run goes away; the run itself does not.
    drop(first);
    let second = site.controllers("machine-c");
    site.until_reason("RunHeldElsewhere").await;
    assert!(lives(&left) && !Path::new(&site.text("machine-c/runs")).join(RUN).exists());
    let refused = site.hagane(&["cancel", "provisioning", "edge", "--timeout=1"]);
    let told = words(&refused.stderr);
    assert!(!refused.status.success() && told.contains("machine-b") && told.contains("abandon-run"), "{told}");
    assert!(lives(&left), "only its own machine ends it");
    drop(second);

    let kubeconfig = site.text("api/admin.kubeconfig");
    let mut follows = Command::new(HAGANE);
    follows.args(["logs", "provisioning", "edge", "-f", "--kubeconfig", &kubeconfig]).stdout(Stdio::piped());
    let follows = follows.spawn().expect("it runs");
    std::fs::write(site.path("talk"), "").expect("a file");
    // A pipe that nobody reads would hold the follower up.
    let followed = std::thread::spawn(move || follows.wait_with_output().expect("it ends with the run"));
    while !site.path("talked").exists() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // It comes back, and the wish is still there.
    let _first = site.controllers("machine-b");
    site.until("cancelled", |status| status["run"]["state"] == "Cancelled").await;
    let followed = tokio::task::spawn_blocking(move || followed.join()).await.expect("it ends").expect("it ends");
    let whole: String = ["the first line".to_owned()]
        .into_iter()
        .chain((1..=TALK).map(|number| number.to_string()))
        .map(|line| line + "\n")
        .collect();
    assert!(
        followed.status.success() && words(&followed.stdout) == whole,
        "nothing is lost across the parts of the log"
    );
    assert!(site.path("machine-b/runs/u-1/log.0").exists(), "there was more than one");
    assert!(!lives(&left), "nothing of the run is left");

    let told = words(&site.hagane(&["describe", "provisioning", "edge"]).stdout);
    assert!(told.contains("Cancelled") && told.contains("was cancelled"), "{told}");
    let told = words(&site.hagane(&["logs", "provisioning", "edge", "--timings"]).stdout);
    assert!(told.starts_with("PLAY   SECONDS\nNodes"), "{told}");
    let again = site.hagane(&["cancel", "provisioning", "edge"]);
    assert_eq!((again.status.success(), words(&again.stdout).as_str()), (true, "run u-1 is over already: Cancelled\n"));
}

/// The blocks of commands of a guide.
fn blocks(guide: &str) -> Vec<String> {
    guide.split("```sh\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0.to_owned())).collect()
}

#[tokio::test]
async fn every_command_of_the_guide_works_on_a_run_that_is_stuck() {
    if Command::new("kubectl").args(["version", "--client"]).output().is_err() {
        eprintln!("left out: there is no kubectl on PATH");
        return;
    }
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/debug-a-stuck-run.md");
    let blocks = blocks(&std::fs::read_to_string(guide).expect("the guide"));
    assert!(blocks.len() > 6, "{blocks:?}");
    let site = Site::new().await;
    site.record_a_run("machine-b").await;
    let _supervisor = site.start_supervisor("machine-b");
    let _controllers = site.controllers("machine-b");
    site.until("followed", |status| status["run"]["play"] == "Nodes").await;
    let programs = Path::new(HAGANE).parent().expect("a directory").display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let shell = |block: &str| {
        let mut command = Command::new("sh");
        command.args(["-euc", &block.replace("edge-1", "edge")]);
        command.env("PATH", &path).env("KUBECONFIG", site.path("api/admin.kubeconfig"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs")
    };
    let mut followers = Vec::new();
    let mut told = String::new();
    for block in blocks {
        let child = shell(&block);
        if block.trim_end().ends_with("-f") {
            followers.push(child);
            continue;
        }
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{block}: {}", words(&output.stderr));
        told.push_str(&words(&output.stdout));
    }
    assert_eq!(followers.len(), 1, "one is followed");
    for follower in followers {
        let output = follower.wait_with_output().expect("it ends with the run");
        assert_eq!(words(&output.stdout), "the first line\n", "{}", words(&output.stderr));
    }
    for part in ["State:", "the first line", "PLAY   SECONDS", "run u-1: Cancelled"] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    let object = site.objects.get("edge").await.expect("the object");
    let noted = |key: &str| object.metadata.annotations.as_ref().and_then(|all| all.get(key).cloned());
    assert!(noted("hagane.dev/retry").is_some_and(|value| value.starts_with("from-start-")));
    assert!(noted("hagane.dev/abandon-run").is_some());
    assert_eq!(object.data["spec"]["runPolicy"]["stallMinutes"], 10);
}
