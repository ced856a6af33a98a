//! `make demo`: the whole road in a lab that stays until `make demo-down`.

mod interrupt;
mod show;

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use hagane_testkit::lab::relay::Forward;
use hagane_testkit::lab::{self, HostSpec, Image, Lab, LabOptions, LabPaths, Progress};
use hagane_testkit::road::{
    ProvisioningSize, Server, ServerOptions, Tools, Workload, host_manifests, machine_manifests, provisioning_manifest,
    ssh_secret_manifest,
};

use crate::command::root;
use show::Show;

/// Id of the demo's lab.
const LAB: &str = "demo";
/// Name of the cluster on the hosts road.
const CLUSTER: &str = "edge-1";
/// Port of the management API, inside the lab and on the machine's loopback.
const API_PORT: u16 = 6440;
/// Port of the image server inside the lab.
const IMAGE_PORT: u16 = 8081;
/// Port of the new cluster's API on the machine's loopback.
const WORKLOAD_PORT: u16 = 16443;
/// Nodes of the cluster: one master and two workers.
const NODES: usize = 3;

/// What to do with the demo.
#[derive(Subcommand)]
pub enum Command {
    /// Make the lab and go the whole road.
    Up,
    /// Take everything down again.
    Down {
        /// Say that the demo was interrupted, and end as an interrupted program does.
        #[arg(long, hide = true)]
        interrupted: bool,
    },
}

/// Runs the subcommand.
pub fn run(command: &Command) -> Result<ExitCode> {
    match command {
        Command::Up => up()?,
        Command::Down { interrupted } => return down(*interrupted),
    }
    Ok(ExitCode::SUCCESS)
}

fn down(interrupted: bool) -> Result<ExitCode> {
    let show = Show::new();
    let name = if interrupted { "interrupted: take the demo's lab down" } else { "take the demo's lab down" };
    show.phase(name, || lab::take_down(&LabPaths::of(LAB)?))?;
    Ok(if interrupted { ExitCode::from(interrupt::EXIT_CODE) } else { ExitCode::SUCCESS })
}

fn up() -> Result<()> {
    let show = Show::new();
    show.phase("packages and guest images", || lab::prepare(&[Image::Host, Image::Tiny], Progress::Shown))?;
    let tools = show.phase("hagane, the Kubernetes payload and Ansible", || Tools::prepare(&root()))?;
    // From here on there is something that an interruption would leave behind.
    interrupt::take_down_then()?;
    let paths = LabPaths::of(LAB)?;
    if paths.ledger.exists() {
        show.phase("an earlier demo is there: take it down, to begin anew", || lab::take_down(&paths))?;
    }
    let outcome = road(&show, &tools);
    if outcome.is_err() && paths.ledger.exists() {
        show.text(&format!(
            "The demo failed, and its lab stays to be looked at: {}, `make lab-shell`. `make demo-down` removes it.",
            paths.directory.join("hagane.log").display()
        ));
    }
    outcome
}

/// The road itself, in a lab of its own.
fn road(show: &Show, tools: &Tools) -> Result<()> {
    let hosts = ["small:1:3072", "medium:2:4096", "large:2:6144"].map(str::parse::<HostSpec>);
    let hosts = hosts.into_iter().collect::<Result<Vec<_>>>()?;
    let options = LabOptions { id: Some(LAB.to_owned()), hosts, bound_to_maker: false, progress: Progress::Shown };
    let lab = show.phase("the lab: network, libvirtd and three hosts", || Lab::up(&options))?;
    let mut server = show.phase("start hagane up", || Server::start(&lab, tools, server_options(&lab)))?;
    show.note(&format!("management API: {}", server.kubeconfig().display()));
    machines_road(show, &lab, &server)?;
    hosts_road(show, &lab, &server)?;
    show.phase("restart hagane on the same data", || server.restart())?;
    let workload = Workload { lab: &lab, tools, kubeconfig: lab.directory().join("edge-1.kubeconfig") };
    try_cluster(show, &server, &workload)?;
    lead_in(show, &lab, &server, &workload)?;
    server.leave();
    Ok(())
}

fn server_options(lab: &Lab) -> ServerOptions {
    let serve = format!("{}:{IMAGE_PORT}", lab.description().machine_gateway);
    ServerOptions { listen: format!("127.0.0.1:{API_PORT}"), serve, flags: Vec::new(), stays: true }
}

fn machines_road(show: &Show, lab: &Lab, server: &Server<'_>) -> Result<()> {
    let image = format!("http://{}:{IMAGE_PORT}/{}", lab.description().machine_gateway, image_name(lab)?);
    show.phase("machines road: apply a Cluster and two Machines", || {
        server.apply(&machine_manifests("fujisan", &["kube-cp", "kube-worker-1"], &image))
    })?;
    for machine in ["kube-cp", "kube-worker-1"] {
        show.phase(&format!("machine {machine} runs"), || server.wait("machine", machine, "Running", 300))?;
    }
    show.phase("the machines boot and take addresses", || {
        hagane_testkit::road::wait_for("addresses", std::time::Duration::from_secs(180), || {
            let text = server.kubectl(&[
                "get",
                "machines.cluster.k8s.io",
                "-o",
                "jsonpath={.items[*].status.addresses[0].address}",
            ])?;
            Ok(if text.split_whitespace().count() == 2 { Ok(text) } else { Err(format!("addresses {text:?}")) })
        })
    })?;
    show.text(&server.kubectl(&["get", "clusters.cluster.k8s.io,machines.cluster.k8s.io"])?);
    Ok(())
}

fn image_name(lab: &Lab) -> Result<String> {
    let tiny =
        lab.description().images.iter().find(|image| image.image == Image::Tiny).context("the tiny image is built")?;
    let name = tiny.path.file_name().context("an image has a name")?;
    Ok(name.to_string_lossy().into_owned())
}

fn hosts_road(show: &Show, lab: &Lab, server: &Server<'_>) -> Result<()> {
    let description = lab.description();
    let key = std::fs::read_to_string(&description.ssh_private_key).context("failed to read the lab's SSH key")?;
    show.phase("hosts road: apply BareMetalHosts, the SSH key and a Provisioning by size", || {
        server.apply(&host_manifests(&description.hosts))?;
        server.apply(&ssh_secret_manifest(&key))?;
        let size = ProvisioningSize { master: (2, 4096), worker: (1, 2048), replicas: 2 };
        server.apply(&provisioning_manifest(CLUSTER, &size))
    })?;
    show.phase("roles chosen, Kubernetes installed", || server.wait("provisioning", CLUSTER, "Ready", 900))?;
    let page = server.hagane(&["describe", "provisioning", CLUSTER])?;
    show.text(&String::from_utf8_lossy(&page.stdout));
    Ok(())
}

fn try_cluster(show: &Show, server: &Server<'_>, workload: &Workload<'_>) -> Result<()> {
    let output = server.hagane(&["get", "kubeconfig", CLUSTER])?;
    write_private(&workload.kubeconfig, &output.stdout)?;
    let nodes = show.phase("nodes Ready", || workload.wait_for_nodes(NODES))?;
    show.text(&workload.kubectl(&["get", "nodes", "-o", "wide"])?);
    let workers: Vec<_> = nodes.iter().filter(|node| node.taints.is_empty()).collect();
    let [first, second] = workers[..] else { anyhow::bail!("two workers are wanted: {nodes:?}") };
    let lines = show.phase("pods talk across nodes", || workload.try_pods(&first.name, &second.name))?;
    lines.iter().for_each(|line| show.note(line));
    Ok(())
}

fn write_private(path: &Path, bytes: &[u8]) -> Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    let file = options.create(true).truncate(true).write(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(bytes)).with_context(|| format!("failed to write {}", path.display()))
}

/// Leads from the machine's loopback to both APIs, and tells how to look around.
fn lead_in(show: &Show, lab: &Lab, server: &Server<'_>, workload: &Workload<'_>) -> Result<()> {
    let text = std::fs::read_to_string(&workload.kubeconfig).context("failed to read the cluster's kubeconfig")?;
    let server_line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("server: https://"))
        .context("no server in the kubeconfig")?;
    let target: SocketAddr = server_line.trim_matches(['"', '\'']).parse().context("the server is ADDRESS:PORT")?;
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    show.phase("lead from this machine's loopback into the lab", || {
        let forwards = [(API_PORT, local(API_PORT)), (WORKLOAD_PORT, target)];
        crate::lab::start_relay(lab, &forwards.map(|(port, target)| Forward { listen: local(port), target }))
    })?;
    let outside = lab.directory().join("edge-1-outside.kubeconfig");
    write_private(&outside, text.replace(&target.to_string(), &local(WORKLOAD_PORT).to_string()).as_bytes())?;
    show.text(&next_steps(workload.tools, &server.kubeconfig(), &outside, lab));
    Ok(())
}

fn next_steps(tools: &Tools, management: &Path, workload: &Path, lab: &Lab) -> String {
    let (hagane, kubectl) = (tools.hagane.display(), tools.kubectl.display());
    let (management, workload) = (management.display(), workload.display());
    let log = lab.directory().join("hagane.log");
    format!(
        "The demo runs. From this machine:\n\
         \x20 export KUBECONFIG={management}     # the management API\n\
         \x20 {kubectl} get clusters.cluster.k8s.io,machines.cluster.k8s.io,baremetalhosts,provisionings\n\
         \x20 {hagane} describe provisioning {CLUSTER}\n\
         \x20 {hagane} logs provisioning {CLUSTER}\n\
         \x20 {kubectl} --kubeconfig={workload} get nodes,pods -A     # the new cluster\n\
         What to try next:\n\
         \x20 {kubectl} explain provisioning.spec\n\
         \x20 {kubectl} delete machines.cluster.k8s.io kube-worker-1     # domain, disk, seed and lease go\n\
         \x20 make lab-shell     # a shell in the lab, with hagane, kubectl, virsh and the way to the hosts by ssh\n\
         \x20 less {}     # hagane's own log\n\
         \x20 make demo-down     # leaves nothing behind\n",
        log.display()
    )
}
