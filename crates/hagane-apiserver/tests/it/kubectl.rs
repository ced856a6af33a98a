//! A real kubectl over TLS: the system's, or the one that `KUBECTL` names. Left out where there is none.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use hagane_apiserver::{ApiServer, Options, ensure_pki};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn program() -> String {
    std::env::var("KUBECTL").unwrap_or_else(|_| "/usr/bin/kubectl".to_owned())
}

struct Cluster {
    directory: tempfile::TempDir,
    shutdown: CancellationToken,
    running: tokio::task::JoinHandle<()>,
}

impl Cluster {
    /// Serves on a loopback port; none without kubectl.
    async fn start() -> Option<Self> {
        if !Path::new(&program()).exists() {
            eprintln!("left out: there is no {}", program());
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let server = ApiServer::open(directory.path().join("data"), Options::default()).await.expect("opened");
        let pki = ensure_pki(&directory.path().join("pki"), &[]).expect("certificates");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a loopback port");
        let url = format!("https://{}", listener.local_addr().expect("an address"));
        pki.write_admin_kubeconfig(&directory.path().join("kubeconfig"), &url).expect("written");
        let tls = pki.server_config().expect("usable certificates");
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let running = tokio::spawn(async move {
            server.serve(listener, tls, stop).await;
            server.stop().await;
        });
        Some(Self { directory, shutdown, running })
    }

    async fn end(self) {
        self.shutdown.cancel();
        self.running.await.expect("no panic");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(program());
        command
            .env("KUBECONFIG", self.path("kubeconfig"))
            .env("HOME", self.directory.path())
            .args(arguments.split_whitespace())
            .stdin(Stdio::null());
        command
    }

    async fn output(&self, arguments: &str) -> Output {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || command.output()).await.expect("no panic").expect("kubectl runs")
    }

    /// Runs kubectl, which must succeed; answers what it printed.
    async fn ok(&self, arguments: &str) -> String {
        let output = self.output(arguments).await;
        assert!(output.status.success(), "kubectl {arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs kubectl, which must fail; answers its complaint.
    async fn fails(&self, arguments: &str) -> String {
        let output = self.output(arguments).await;
        assert!(!output.status.success(), "kubectl {arguments}: {}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("a plain path").to_owned()
    }
}

const PROVISIONING: &str = "apiVersion: bpa.akraino.org/v1alpha1\nkind: Provisioning\nmetadata:\n  name: edge-1\n  \
                            labels: {cluster: edge-1}\nspec:\n  master: {cpu: 10, memory: 4Gi}\n  worker: {cpu: 20, memory: 8Gi}\n  \
                            replicas: 2\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_life_of_an_object() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.ok("create namespace lab").await;
    let file = cluster.file("p.yaml", PROVISIONING);
    assert!(cluster.ok(&format!("-n lab create -f {file} --save-config")).await.contains("created"));
    assert!(cluster.fails(&format!("-n lab create -f {file}")).await.contains("AlreadyExists"));
    assert!(cluster.ok(&format!("-n lab apply -f {file}")).await.contains("unchanged"));
    let changed = cluster.file("p2.yaml", &PROVISIONING.replace("replicas: 2", "replicas: 3"));
    assert!(cluster.ok(&format!("-n lab diff -f {file}")).await.is_empty());
    assert!(cluster.ok(&format!("-n lab apply -f {changed}")).await.contains("configured"));
    let wrong = cluster.file("p3.yaml", &PROVISIONING.replace("replicas:", "replicsa:"));
    assert!(cluster.fails(&format!("-n lab apply -f {wrong}")).await.contains("unknown field \"spec.replicsa\""));
    let table = cluster.ok("-n lab get provisionings").await;
    assert!(table.starts_with("NAME") && table.contains("edge-1"), "{table}");
    cluster.ok("-n lab label bpa edge-1 a=b").await;
    cluster.ok("-n lab annotate bpa edge-1 c=d").await;
    cluster.ok("-n lab patch bpa edge-1 --type=merge -p {\"spec\":{\"replicas\":4}}").await;
    cluster.ok("-n lab wait --for=jsonpath={.spec.replicas}=4 bpa/edge-1 --timeout=20s").await;
    let editor = cluster.file("editor.sh", "#!/bin/sh\nsed -i 's/replicas: 4/replicas: 5/' \"$1\"\n");
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut edit = cluster.command("-n lab edit bpa edge-1");
    edit.env("EDITOR", &editor);
    let edited = tokio::task::spawn_blocking(move || edit.output()).await.expect("no panic").expect("kubectl runs");
    assert!(edited.status.success(), "{}", String::from_utf8_lossy(&edited.stderr));
    assert_eq!(cluster.ok("-n lab get bpa edge-1 -o jsonpath={.spec.replicas}/{.metadata.generation}").await, "5/4");
    assert!(cluster.ok("-n lab describe bpa edge-1").await.contains("Replicas:  5"));
    assert!(cluster.ok("-n lab delete bpa edge-1").await.contains("deleted"));
    assert!(cluster.fails("-n lab get bpa edge-1").await.contains("NotFound"));
    cluster.ok("delete namespace lab --timeout=20s").await;
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_served_can_be_explored() {
    let Some(cluster) = Cluster::start().await else { return };
    let resources = cluster.ok("api-resources").await;
    for name in ["configmaps", "provisionings", "baremetalhosts", "customresourcedefinitions", "leases"] {
        assert!(resources.contains(name), "{name}");
    }
    assert!(cluster.ok("api-versions").await.contains("apiextensions.k8s.io/v1beta1"));
    let explained = cluster.ok("explain provisioning.spec.replicas").await;
    assert!(explained.contains("<integer>"), "{explained}");
    assert!(cluster.ok("explain configmap.data").await.contains("map[string]string"));
    assert_eq!(cluster.ok("get --raw /readyz").await, "ok");
    assert!(cluster.ok("version").await.contains("Server Version"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_kinds_are_made_by_generators() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.ok("create configmap c --from-literal=a=b").await;
    cluster.ok("create secret generic s --from-literal=p=q").await;
    cluster.ok("create serviceaccount robot").await;
    assert_eq!(cluster.ok("get cm,secret,sa -o name").await.lines().count(), 3);
    cluster.ok("patch cm c -p {\"data\":{\"z\":\"1\"}}").await;
    cluster.ok("patch cm c --type=json -p [{\"op\":\"remove\",\"path\":\"/data/a\"}]").await;
    assert_eq!(cluster.ok("get cm c -o jsonpath={.data}").await, "{\"z\":\"1\"}");
    assert_eq!(cluster.ok("get secret s -o jsonpath={.data.p}").await, "cQ==");
    cluster.ok("get events").await;
    assert!(cluster.ok("delete cm --all").await.contains("deleted"));
    cluster.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_prints_changes_and_ends_with_the_server() {
    let Some(cluster) = Cluster::start().await else { return };
    let mut command = cluster.command("get cm -w --no-headers");
    let watch = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl runs");
    cluster.ok("create configmap first --from-literal=a=b").await;
    cluster.ok("label cm first x=y").await;
    cluster.ok("delete cm first").await;
    // What was committed before the end is still sent.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    cluster.end().await;
    let output = tokio::task::spawn_blocking(move || watch.wait_with_output()).await.expect("no panic").expect("ended");
    assert!(String::from_utf8_lossy(&output.stdout).contains("first"));
}
