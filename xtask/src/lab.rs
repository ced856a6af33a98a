//! `cargo xtask lab`: makes labs, runs programs in them, takes them down.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use hagane_testkit::lab::relay::{self, Forward};
use hagane_testkit::lab::{
    self, Host, HostSpec, Image, Lab, LabOptions, LabPaths, MachineSnapshot, ProcessId, Progress,
};

/// Sizes of the container hosts when none are named: different, so that roles chosen by size can be seen.
const SIZES: [(u32, u64); 3] = [(2, 6144), (2, 4096), (1, 3072)];

/// How long a relay may take to open its sockets.
const RELAY_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Install the Debian packages a lab needs and build its images.
    Prepare(Prepare),
    /// Make a lab; prints where its description (lab.json) is.
    Up(Up),
    /// Take a lab down; one that is not there is fine.
    Down(Id),
    /// Tell which labs there are.
    List,
    /// Open a shell in a lab.
    Shell(Id),
    /// Run a program in a lab, with its exit status.
    Exec(Exec),
    /// Lead from the machine's loopback into a lab, in the background, until the lab ends.
    Relay(Relay),
    /// Cut the power of a container host, or boot it again.
    Host(Power),
    /// Make a lab, take it down, and compare the machine before and after.
    Selfcheck(Selfcheck),
}

#[derive(Debug, Args)]
pub struct Prepare {
    /// Images to build; all when none is named.
    #[arg(long = "image", value_enum)]
    images: Vec<ImageName>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ImageName {
    Tiny,
    Host,
    Debian,
}

impl From<ImageName> for Image {
    fn from(name: ImageName) -> Self {
        match name {
            ImageName::Tiny => Self::Tiny,
            ImageName::Host => Self::Host,
            ImageName::Debian => Self::Debian,
        }
    }
}

#[derive(Debug, Args)]
pub struct Up {
    /// Id of the lab: lower-case letters and digits. Made up when absent.
    #[arg(long)]
    id: Option<String>,
    #[command(flatten)]
    hosts: Hosts,
}

#[derive(Debug, Args)]
pub struct Hosts {
    /// Number of container hosts, node1, node2, …, of different sizes.
    #[arg(long, default_value_t = 3)]
    hosts: usize,
    /// Container hosts by name and size; replaces --hosts.
    #[arg(long, value_name = "NAME:CPUS:MEMORY_MIB", value_delimiter = ',')]
    host_spec: Vec<HostSpec>,
}

impl Hosts {
    fn specs(&self) -> Vec<HostSpec> {
        if !self.host_spec.is_empty() {
            return self.host_spec.clone();
        }
        let machine =
            std::thread::available_parallelism().ok().and_then(|count| u32::try_from(count.get()).ok()).unwrap_or(1);
        let numbered = SIZES.iter().cycle().take(self.hosts).enumerate();
        let spec = |(index, (cpus, memory_mib)): (usize, &(u32, u64))| HostSpec {
            name: format!("node{}", index + 1),
            cpus: (*cpus).min(machine),
            memory_mib: *memory_mib,
        };
        numbered.map(spec).collect()
    }
}

#[derive(Debug, Args)]
pub struct Selfcheck {
    #[command(flatten)]
    hosts: Hosts,
    /// Also make labs whose maker is killed after these milliseconds, and take those down.
    #[arg(long, value_name = "MILLISECONDS", value_delimiter = ',')]
    kill_after: Vec<u64>,
}

#[derive(Debug, Args)]
pub struct Id {
    /// Id of the lab.
    #[arg(long)]
    id: String,
}

#[derive(Debug, Args)]
pub struct Exec {
    #[command(flatten)]
    lab: Id,
    /// Program and arguments, after `--`.
    #[arg(required = true, last = true)]
    argv: Vec<OsString>,
}

#[derive(Debug, Args)]
pub struct Power {
    #[command(flatten)]
    lab: Id,
    /// What to do.
    #[arg(value_enum)]
    action: PowerAction,
    /// Name of the host.
    host: String,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PowerAction {
    Off,
    On,
}

#[derive(Debug, Args)]
pub struct Relay {
    #[command(flatten)]
    lab: Id,
    /// Address on loopback (port 0: any that is free) and address in the lab.
    #[arg(long = "forward", value_name = "LISTEN=TARGET", required = true)]
    forwards: Vec<Forward>,
    /// Be the relay instead of starting one; writes the addresses listened on to this file.
    #[arg(long, hide = true)]
    report: Option<PathBuf>,
}

/// Runs the subcommand.
pub fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Prepare(prepare) => {
            let named: Vec<Image> = prepare.images.into_iter().map(Image::from).collect();
            lab::prepare(if named.is_empty() { &Image::ALL } else { &named }, Progress::Shown)?;
        }
        Command::Up(up) => return up_and_tell(&up),
        Command::Down(id) => {
            Progress::Shown.phase(&format!("taking down {}", id.id), || lab::take_down(&LabPaths::of(&id.id)?))?
        }
        Command::List => list()?,
        Command::Shell(id) => return shell(&id.id),
        Command::Exec(exec) => return run_inside(&exec.lab.id, exec.argv),
        Command::Relay(relay) => return be_or_start_relay(relay),
        Command::Host(power) => match power.action {
            PowerAction::Off => Lab::open(&power.lab.id)?.stop_host(&power.host)?,
            PowerAction::On => Lab::open(&power.lab.id)?.start_host(&power.host)?,
        },
        Command::Selfcheck(check) => return selfcheck(&check),
    }
    Ok(ExitCode::SUCCESS)
}

fn up_and_tell(up: &Up) -> Result<ExitCode> {
    let begin = Instant::now();
    let options =
        LabOptions { id: up.id.clone(), hosts: up.hosts.specs(), bound_to_maker: false, progress: Progress::Shown };
    let lab = Lab::up(&options)?;
    let description = lab.description();
    for host in &description.hosts {
        eprintln!("lab: host {} {} {} cpus {} MiB", host.name, host.address, host.cpus, host.memory_mib);
    }
    eprintln!("lab: {} is up ({:.1} s)", description.id, begin.elapsed().as_secs_f64());
    println!("{}", LabPaths::of(&description.id)?.description().display());
    Ok(ExitCode::SUCCESS)
}

fn list() -> Result<()> {
    for id in lab::list()? {
        let paths = LabPaths::of(&id)?;
        let state = if lab::dead(&paths)? {
            "dead"
        } else if paths.description().exists() {
            "up"
        } else {
            "starting"
        };
        println!("{id}\t{state}\t{}", paths.directory.display());
    }
    Ok(())
}

fn shell(id: &str) -> Result<ExitCode> {
    let lab = Lab::open(id)?;
    let description = lab.description();
    let kubeconfig = lab.directory().join("hagane/admin.kubeconfig");
    eprintln!("A shell in lab {id}; `exit` leaves it. What there is:\n  virsh list");
    if kubeconfig.exists() {
        eprintln!("  kubectl get machines.cluster.k8s.io,baremetalhosts,provisionings");
        eprintln!("  hagane describe provisioning NAME");
    }
    for host in &description.hosts {
        let Host { name, address, cpus, memory_mib, .. } = host;
        let config = description.ssh_config.display();
        eprintln!("  ssh -F {config} {name}     # {address}, CPUs: {cpus}, memory: {memory_mib} MiB");
    }
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/bash".into());
    let mut command = command_inside(&lab, [shell]);
    if kubeconfig.exists() {
        command.env("KUBECONFIG", kubeconfig);
    }
    command.env("PATH", path_with_programs()?);
    Err(command.exec()).context("run the shell in the lab")
}

/// PATH with what was built here put first: hagane beside this program, and kubectl of the payload.
fn path_with_programs() -> Result<OsString> {
    let program = std::env::current_exe().context("find this program")?;
    let payload = hagane_installers::payload::directory(&hagane_installers::python::default_cache());
    let built = program.parent().map(PathBuf::from).into_iter().chain([payload.join("binaries")]);
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(built.chain(std::env::split_paths(&inherited))).context("join PATH")
}

fn run_inside(id: &str, argv: Vec<OsString>) -> Result<ExitCode> {
    inside(&Lab::open(id)?, argv)
}

fn inside(lab: &Lab, argv: impl IntoIterator<Item = OsString>) -> Result<ExitCode> {
    // Replaces this process, so that signals and the exit status are those of the program.
    Err(command_inside(lab, argv).exec()).context("run the program in the lab")
}

fn command_inside(lab: &Lab, argv: impl IntoIterator<Item = OsString>) -> std::process::Command {
    let mut command = lab.command(argv);
    command.stdin(Stdio::inherit()).env("LIBVIRT_DEFAULT_URI", &lab.description().libvirt.uri);
    command
}

fn be_or_start_relay(relay: Relay) -> Result<ExitCode> {
    let lab = Lab::open(&relay.lab.id)?;
    if let Some(report) = relay.report {
        lab.adopt(ProcessId::current())?;
        let listeners = relay::listen(&relay.forwards)?;
        let forwards: Vec<Forward> = listeners.iter().map(|(_, forward)| *forward).collect();
        let unfinished = report.with_extension("unfinished");
        std::fs::write(&unfinished, serde_json::to_vec(&forwards)?).context("report the relay's addresses")?;
        std::fs::rename(&unfinished, &report).context("report the relay's addresses")?;
        relay::serve(listeners, &lab.network_namespace())?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", start_relay(&lab, &relay.forwards)?);
    Ok(ExitCode::SUCCESS)
}

/// Starts a relay that ends with the lab; gives the addresses it listens on, as JSON.
pub fn start_relay(lab: &Lab, forwards: &[Forward]) -> Result<String> {
    let name = format!("relay-{}", std::process::id());
    let report = lab.directory().join(format!("{name}.json"));
    let log = lab.directory().join(format!("{name}.log"));
    let errors = File::create(&log).with_context(|| format!("make {}", log.display()))?;
    let mut command = std::process::Command::new("setsid");
    command.arg(std::env::current_exe().context("find this program")?).args([
        "lab",
        "relay",
        "--id",
        &lab.description().id,
    ]);
    for forward in forwards {
        command.arg("--forward").arg(format!("{}={}", forward.listen, forward.target));
    }
    command.arg("--report").arg(&report).stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let mut child = command.spawn().context("start the relay")?;
    let end = Instant::now() + RELAY_LIMIT;
    while !report.exists() {
        let status = child.try_wait().context("ask after the relay")?;
        if status.is_some() || Instant::now() > end {
            let text = std::fs::read_to_string(&log).unwrap_or_default();
            bail!("the relay did not start ({status:?}): {}", text.trim());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(&report).context("read the relay's addresses")
}

fn selfcheck(check: &Selfcheck) -> Result<ExitCode> {
    lab::prepare(&[Image::Tiny, Image::Host], Progress::Shown)?;
    let before = MachineSnapshot::take();
    let hosts = check.hosts.specs();
    let lab = Lab::up(&LabOptions { hosts: hosts.clone(), progress: Progress::Shown, ..LabOptions::default() })?;
    Progress::Shown.phase("taking down", || lab.down())?;
    for milliseconds in &check.kill_after {
        let name = format!("taking down a lab whose maker was killed after {milliseconds} ms");
        Progress::Shown.phase(&name, || make_and_kill(&hosts, Duration::from_millis(*milliseconds)))?;
    }
    let difference = MachineSnapshot::difference(&before, &MachineSnapshot::take());
    if difference.is_empty() {
        println!("the machine is as it was");
        return Ok(ExitCode::SUCCESS);
    }
    println!("the machine has changed:\n  {}", difference.join("\n  "));
    Ok(ExitCode::FAILURE)
}

/// Lets another process make a lab, kills it, and takes down what it left by the ledger. A maker that was quicker left a whole
/// lab, which is taken down as well.
fn make_and_kill(hosts: &[HostSpec], after: Duration) -> Result<()> {
    let id = format!("kill{}", std::process::id() % 100_000);
    let mut command = std::process::Command::new(std::env::current_exe().context("find this program")?);
    command.args(["lab", "up", "--id", &id, "--hosts", "0"]);
    for host in hosts {
        command.arg("--host-spec").arg(format!("{}:{}:{}", host.name, host.cpus, host.memory_mib));
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut maker = command.spawn().context("start the maker of a lab")?;
    std::thread::sleep(after);
    maker.kill().context("kill the maker of a lab")?;
    maker.wait().context("wait for the maker of a lab")?;
    lab::take_down(&LabPaths::of(&id)?)
}
