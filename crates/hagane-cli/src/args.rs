//! Arguments of every command. The help texts are the reference page.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

mod service;

pub use service::{ServiceCommand, ServiceInstallArgs, ServiceMode, ServiceUninstallArgs, ServiceUnitArgs};

/// Turn bare metal and hypervisors into Kubernetes clusters, declaratively.
#[derive(Debug, Parser)]
#[command(name = "hagane", version, max_term_width = 110, args_override_self = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the whole system: API, controllers and image server in one process.
    Up(Box<UpArgs>),
    /// Run the controllers alone, against any Kubernetes API.
    Controllers(Box<ControllersArgs>),
    /// Print the CustomResourceDefinitions (apiextensions.k8s.io/v1), to be applied to a real Kubernetes.
    Crds(CrdsArgs),
    /// Show which host would play which role, and the run that a cluster that stands would need. Exit code 0 when every demand is met, 2 when not, 1 on an error.
    Plan(PlanArgs),
    /// Show an object in full: phase, conditions, plan, progress, events.
    Describe(DescribeArgs),
    /// Fetch something that the system keeps.
    #[command(subcommand)]
    Get(GetCommand),
    /// Print the log of an installer run, or how long its tasks took.
    Logs(LogsArgs),
    /// End an installer run, with everything that it started, and wait until it has ended.
    Cancel(CancelArgs),
    /// Let a planned run begin that waits because it may lose data, and say what it does.
    Approve(ApproveArgs),
    /// Wait for an object to reach a phase or condition, and say what it waits for.
    Wait(WaitArgs),
    /// Check that what the system needs is there and answers.
    Doctor(DoctorArgs),
    /// Build, check or list the payload: the Kubernetes binaries and images that are installed.
    #[command(subcommand)]
    Payload(PayloadCommand),
    /// Run the system as a systemd service: unit, user, directories, configuration file.
    #[command(subcommand)]
    Service(ServiceCommand),
    /// Print the version.
    Version(VersionArgs),
    /// Run and guard one installer run (started by the system itself).
    #[command(hide = true)]
    RunShim(RunShimArgs),
}

/// How the API is reached.
#[derive(Clone, Debug, Args)]
pub struct ApiArgs {
    /// kubeconfig of the API.
    #[arg(long, env = "KUBECONFIG", default_value = "/var/lib/hagane/admin.kubeconfig", hide_env_values = true)]
    pub kubeconfig: PathBuf,
    /// Namespace.
    #[arg(short, long, default_value = "default")]
    pub namespace: String,
}

/// Output format of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One line for people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Arguments of `up`.
#[derive(Clone, Debug, Args)]
pub struct UpArgs {
    /// Where everything is kept: database, keys, images, runs.
    #[arg(long, default_value = "/var/lib/hagane")]
    pub data_dir: PathBuf,
    /// Address and port of the API.
    #[arg(long, default_value = "127.0.0.1:6440")]
    pub listen: SocketAddr,
    /// Further host name or address for the API's certificate. May be given several times.
    #[arg(long = "tls-name", value_name = "NAME")]
    pub tls_names: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub operator: OperatorArgs,
}

/// Arguments of `controllers`.
#[derive(Clone, Debug, Args)]
pub struct ControllersArgs {
    /// kubeconfig of the API.
    #[arg(long, env = "KUBECONFIG", hide_env_values = true)]
    pub kubeconfig: PathBuf,
    /// Where images and runs are kept.
    #[arg(long, default_value = "/var/lib/hagane")]
    pub data_dir: PathBuf,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub operator: OperatorArgs,
}

/// What the operator decides, shared by `up` and `controllers`.
#[derive(Clone, Debug, Args)]
pub struct OperatorArgs {
    /// libvirt connection URI.
    #[arg(long, default_value = "qemu:///system")]
    pub libvirt_uri: String,
    /// Address and port where machines fetch images from; nothing is served when not given. Needs --image-dir.
    #[arg(long, requires = "image_dir")]
    pub serve_address: Option<SocketAddr>,
    /// Which controllers run: all, none, or names joined by commas.
    #[arg(long, default_value = "all")]
    pub controllers: String,
    /// YAML file with any of these flags, by name; flags win.
    #[arg(long)]
    pub config: Option<PathBuf>,
    /// Log format.
    #[arg(long, value_enum, default_value = "text")]
    pub log_format: LogFormat,
    /// Log level, or filter directives such as hagane_libvirt=debug.
    #[arg(long, default_value = "info")]
    pub log_level: String,
    /// Directory below which `file:` images may lie, and which --serve-address serves.
    #[arg(long)]
    pub image_dir: Option<PathBuf>,
    /// Image of Machines that name none.
    #[arg(long)]
    pub default_image: Option<String>,
    /// Largest image that is fetched, in GiB.
    #[arg(long, default_value_t = 64)]
    pub image_size_max_gib: u64,
    /// Allow image URLs that lead to loopback addresses.
    #[arg(long)]
    pub allow_loopback_images: bool,
    /// Allow image URLs that lead to link-local addresses.
    #[arg(long)]
    pub allow_link_local_images: bool,
    /// PEM file with further authorities for https image URLs.
    #[arg(long)]
    pub image_ca_file: Option<PathBuf>,
    /// ansible-playbook program of the kubeadm installer: a path, or a name that is looked for on PATH.
    #[arg(long, default_value = "ansible-playbook")]
    pub ansible_playbook: PathBuf,
    /// Payload that the kubeadm installer installs from, or a directory with several directly below it, one a version of
    /// Kubernetes; may be given several times. Those in the cache (`$HAGANE_CACHE` or ~/.cache/hagane) when not given.
    #[arg(long)]
    pub payload_dir: Vec<PathBuf>,
    /// Checkout of kubespray; without it that installer is not offered.
    #[arg(long)]
    pub kubespray_dir: Option<PathBuf>,
    /// ansible-playbook program that fits the kubespray checkout.
    #[arg(long)]
    pub kubespray_ansible_playbook: Option<PathBuf>,
    /// Checks before a run of kubespray to leave out, by name, separated by commas; `Hosts` leaves out all that are made on
    /// the hosts.
    #[arg(long, value_delimiter = ',', value_name = "CHECK")]
    pub kubespray_skip_check: Vec<String>,
    /// Unprivileged user that runs ansible-playbook when hagane runs as root.
    #[arg(long)]
    pub run_as: Option<String>,
}

/// Arguments of `crds`.
#[derive(Clone, Debug, Args)]
pub struct CrdsArgs {
    /// Include the other spelling of the old machine API's group too: cluster-api.k8s.io.
    #[arg(long)]
    pub slides_group: bool,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: Format,
}

/// Arguments of `plan`.
#[derive(Clone, Debug, Args)]
pub struct PlanArgs {
    /// YAML or JSON files with Provisionings and BareMetalHosts; `-` is standard input.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    pub filenames: Vec<PathBuf>,
    /// kubeconfig of an API: its hosts are used too, nodes that it has stay where they are, and objects of the files are
    /// taken as they would be once they were applied.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default")]
    pub namespace: String,
    /// Output format; a table when not given.
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
}

/// What `describe` and `wait` know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// A Cluster of either spelling of the old group.
    Cluster,
    /// A Machine of either spelling of the old group.
    Machine,
    /// A Provisioning.
    Provisioning,
    /// A BareMetalHost.
    Host,
    /// A Software.
    Software,
}

/// Arguments of `describe`.
#[derive(Clone, Debug, Args)]
pub struct DescribeArgs {
    /// What it is.
    pub subject: Subject,
    /// Its name.
    pub name: String,
    /// Output format; a page for people when not given.
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub api: ApiArgs,
}

/// Arguments of `wait`.
#[derive(Clone, Debug, Args)]
pub struct WaitArgs {
    /// What it is.
    pub subject: Subject,
    /// Its name.
    pub name: String,
    /// What to wait for: a phase (`Running`), a condition that becomes true (`Ready`), or `deleted`.
    #[arg(long = "for", default_value = "Ready")]
    pub target: String,
    /// Seconds to wait at most.
    #[arg(long, default_value_t = 3600)]
    pub timeout: u64,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub api: ApiArgs,
}

/// Commands under `get`.
#[derive(Clone, Debug, Subcommand)]
pub enum GetCommand {
    /// Print or merge the kubeconfig of a cluster that was installed.
    Kubeconfig(KubeconfigArgs),
}

/// Arguments of `get kubeconfig`.
#[derive(Clone, Debug, Args)]
pub struct KubeconfigArgs {
    /// Name of the cluster.
    pub name: String,
    /// Merge it into this file instead of printing it; every other entry stays as it is.
    #[arg(long, value_name = "FILE")]
    pub merge: Option<PathBuf>,
    /// Output format.
    #[arg(short, long, value_enum, default_value = "yaml")]
    pub output: Format,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub api: ApiArgs,
}

/// What `logs` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RunSubject {
    /// A Provisioning: the log of its installer run.
    Provisioning,
    /// A Software: the last lines that each host's package manager printed.
    Software,
}

impl From<RunSubject> for Subject {
    fn from(subject: RunSubject) -> Self {
        match subject {
            RunSubject::Provisioning => Self::Provisioning,
            RunSubject::Software => Self::Software,
        }
    }
}

/// Arguments of `logs`.
#[derive(Clone, Debug, Args)]
pub struct LogsArgs {
    /// What it is.
    pub subject: RunSubject,
    /// Its name.
    pub name: String,
    /// Go on until the run ends, also over its further tries.
    #[arg(short, long)]
    pub follow: bool,
    /// Print how long plays, tasks and hosts took, slowest first.
    #[arg(long, conflicts_with = "follow")]
    pub timings: bool,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub api: ApiArgs,
}

/// What `cancel` and `approve` know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CancelSubject {
    /// A Provisioning.
    Provisioning,
}

impl From<CancelSubject> for Subject {
    fn from(CancelSubject::Provisioning: CancelSubject) -> Self {
        Self::Provisioning
    }
}

/// Arguments of `cancel`.
#[derive(Clone, Debug, Args)]
pub struct CancelArgs {
    /// What the installer runs for.
    pub subject: CancelSubject,
    /// Its name.
    pub name: String,
    /// Seconds to wait for the end at most.
    #[arg(long, default_value_t = 60)]
    pub timeout: u64,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub api: ApiArgs,
}

/// Arguments of `approve`.
#[derive(Clone, Debug, Args)]
pub struct ApproveArgs {
    /// What the run is planned for.
    pub subject: CancelSubject,
    /// Its name.
    pub name: String,
    /// Id of the run that is meant, as `status.plannedRun.id` and `describe` show it: refused where another one is planned by now.
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub api: ApiArgs,
}

/// Arguments of `doctor`.
#[derive(Clone, Debug, Args)]
pub struct DoctorArgs {
    /// libvirt connection URI to look for.
    #[arg(long, default_value = "qemu:///system")]
    pub libvirt_uri: String,
    /// ansible-playbook program to look for.
    #[arg(long, default_value = "ansible-playbook")]
    pub ansible_playbook: PathBuf,
    /// Payload to look for; the one in the cache (`$HAGANE_CACHE` or ~/.cache/hagane) when not given.
    #[arg(long)]
    pub payload_dir: Option<PathBuf>,
    /// Output format; a list for people when not given.
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub api: ApiArgs,
}

/// Commands under `payload`.
#[derive(Clone, Debug, Subcommand)]
pub enum PayloadCommand {
    /// Build the payload from source, by the Go module proxy. Needs Go.
    Build(PayloadBuildArgs),
    /// Check every file against its digest.
    Verify(PayloadArgs),
    /// List what the payload holds.
    List(PayloadArgs),
    /// Make the Python environment with the ansible-core that the playbooks are tested with; prints its ansible-playbook.
    Ansible,
}

/// Arguments of `payload build`.
#[derive(Clone, Debug, Args)]
pub struct PayloadBuildArgs {
    /// Directory of the cache; `$HAGANE_CACHE` or ~/.cache/hagane when not given.
    #[arg(long)]
    pub payload_dir: Option<PathBuf>,
    /// Version of Kubernetes; the usual one when not given. One that cannot be built is refused with those that can.
    #[arg(long)]
    pub kubernetes_version: Option<String>,
}

/// Arguments of the `payload` commands.
#[derive(Clone, Debug, Args)]
pub struct PayloadArgs {
    /// Directory of the payload; the cache (`$HAGANE_CACHE` or ~/.cache/hagane) when not given.
    #[arg(long)]
    pub payload_dir: Option<PathBuf>,
    /// Output format; a table when not given.
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
}

/// Arguments of `version`.
#[derive(Clone, Debug, Args)]
pub struct VersionArgs {
    /// Output format; one line when not given.
    #[arg(short, long, value_enum)]
    pub output: Option<Format>,
}

/// Arguments of the hidden `run-shim`.
#[derive(Clone, Debug, Args)]
pub struct RunShimArgs {
    /// The run's directory.
    pub directory: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn logs_are_offered_for_what_an_installer_runs_for() {
        let parse = |subject: &str| Cli::try_parse_from(["hagane", "logs", subject, "edge-1"]);
        assert!(parse("provisioning").is_ok() && parse("software").is_ok());
        let refusal = parse("host").expect_err("a host has no run").to_string();
        assert!(refusal.contains("[possible values: provisioning, software]"), "{refusal}");
    }
}
