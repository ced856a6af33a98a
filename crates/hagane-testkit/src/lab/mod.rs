//! The lab: a network of its own with libvirt, virtual machines and container hosts, in which the real parts run.
//!
//! A lab changes nothing on the machine it runs on. It lives in a network namespace without uplink and a mount namespace of its
//! own; all its processes are in control groups of its own; everything it makes is in a ledger first, and taking it down needs
//! only that file. Root is needed. This module starts nothing of Hagane itself.

mod cgroup;
mod command;
mod description;
mod etc;
mod host;
mod host_view;
mod image;
mod inotify;
mod kvm;
mod ledger;
mod libvirtd;
mod make;
mod namespace;
mod network;
mod packages;
mod paths;
mod process;
mod progress;
pub mod relay;
mod snapshot;
mod take_down;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

pub use description::{Description, ImageFile, Libvirt, RunnerUser};
pub use host::{Host, HostSpec};
pub use image::Image;
pub use paths::{LabPaths, cache_directory, labs_directory};
pub use process::ProcessId;
pub use progress::Progress;
pub use snapshot::MachineSnapshot;
pub use take_down::{dead, list, take_down, take_down_dead};

use cgroup::Cgroups;
use host::Place;
use ledger::{Entry, Ledger};
use namespace::Namespace;

/// How long a container host may take until it answers by SSH.
const HOST_LIMIT: Duration = Duration::from_secs(120);

/// What a new lab is to be.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// Id, 1 to 12 lower-case letters and digits; made up when absent.
    pub id: Option<String>,
    /// Container hosts to start.
    pub hosts: Vec<HostSpec>,
    /// Whether the lab is dead as soon as this process is. True for tests.
    pub bound_to_maker: bool,
    /// Whether to say what is done.
    pub progress: Progress,
}

impl Default for LabOptions {
    fn default() -> Self {
        Self { id: None, hosts: Vec::new(), bound_to_maker: true, progress: Progress::Silent }
    }
}

/// Installs the Debian packages a lab needs, and builds the images.
///
/// # Errors
/// When a package or an image can not be had.
pub fn prepare(images: &[Image], progress: Progress) -> Result<()> {
    let missing = packages::missing(&packages::PACKAGES)?;
    if !missing.is_empty() {
        progress.phase(&format!("installing {} packages", missing.len()), || packages::install(&packages::PACKAGES))?;
    }
    for image in images {
        image.build(progress)?;
    }
    Ok(())
}

/// Installs further Debian packages, without recommended ones, and starts no service.
///
/// # Errors
/// When a package can not be had.
pub fn install_packages(names: &[&str], progress: Progress) -> Result<()> {
    let missing = packages::missing(names)?;
    if missing.is_empty() {
        return Ok(());
    }
    progress.phase(&format!("installing {}", missing.join(", ")), || packages::install(names))
}

/// A running lab.
#[derive(Debug)]
pub struct Lab {
    paths: LabPaths,
    description: Description,
    namespace: Namespace,
    groups: Cgroups,
    /// Taken down when dropped.
    owned: bool,
}

impl Lab {
    /// A lab that runs. It stays when the value is dropped.
    ///
    /// # Errors
    /// When there is no such lab, or it is not ready or dead.
    pub fn open(id: &str) -> Result<Self> {
        let paths = LabPaths::of(id)?;
        let description = Description::read(&paths)?;
        if !description.holder.is_alive() {
            bail!("lab {id} is dead; `lab down --id {id}` removes what it left");
        }
        let groups = Cgroups::of(id)?;
        let namespace = Namespace::of(description.holder, groups.clone());
        Ok(Self { paths, description, namespace, groups, owned: false })
    }

    /// What there is in the lab.
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// A program to be run inside the lab, in the caller's working directory; standard input is empty unless set otherwise.
    pub fn command<S: Into<OsString>>(&self, argv: impl IntoIterator<Item = S>) -> Command {
        let mut words: Vec<OsString> = Vec::new();
        if let Ok(directory) = std::env::current_dir() {
            words.push("env".into());
            let mut option = OsString::from("--chdir=");
            option.push(directory);
            words.push(option);
        }
        words.extend(argv.into_iter().map(Into::into));
        let mut command = command::program(self.namespace.argv("lab", words));
        command.env("HAGANE_LAB", &self.paths.id);
        command
    }

    /// Runs a program inside the lab to its end.
    ///
    /// # Errors
    /// When it can not be started; its exit status is in the output.
    pub fn exec<S: Into<OsString>>(&self, argv: impl IntoIterator<Item = S>) -> Result<Output> {
        self.command(argv).output().with_context(|| format!("run a program in lab {}", self.paths.id))
    }

    /// Starts a program inside the lab. The child's number is that of the program itself, so signals reach it. Its output goes to
    /// the file.
    ///
    /// # Errors
    /// When it can not be started.
    pub fn spawn<S: Into<OsString>>(&self, argv: impl IntoIterator<Item = S>, output: fs::File) -> Result<Child> {
        let errors = output.try_clone().context("share the output's file")?;
        let mut command = self.command(argv);
        command.stdin(Stdio::null()).stdout(output).stderr(errors);
        command.spawn().with_context(|| format!("start a program in lab {}", self.paths.id))
    }

    /// Directory of the lab, for files that are to go with it.
    pub fn directory(&self) -> &std::path::Path {
        &self.paths.directory
    }

    /// The lab's network namespace, as a file.
    pub fn network_namespace(&self) -> PathBuf {
        self.namespace.network_file()
    }

    /// Writes down a process outside the lab's namespaces that is to end with the lab.
    ///
    /// # Errors
    /// When the ledger can not be written.
    pub fn adopt(&self, process: ProcessId) -> Result<()> {
        Ledger::open(&self.paths.ledger)?.record(&Entry::Process { process })
    }

    /// Stops libvirtd; machines go on.
    ///
    /// # Errors
    /// When it does not end.
    pub fn stop_libvirtd(&self) -> Result<()> {
        libvirtd::stop(&self.namespace)
    }

    /// Starts libvirtd again.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn start_libvirtd(&self) -> Result<()> {
        libvirtd::start(&self.namespace)
    }

    /// Ends a container host at once, as a power cut does.
    ///
    /// # Errors
    /// When there is no such host or it does not end.
    pub fn stop_host(&self, name: &str) -> Result<()> {
        self.place().stop(&self.host(name)?.name)
    }

    /// Boots a stopped container host again and waits until it answers.
    ///
    /// # Errors
    /// When there is no such host or it does not answer.
    pub fn start_host(&self, name: &str) -> Result<()> {
        let host = self.host(name)?;
        self.place().start(host)?;
        self.place().wait(host, &self.description.ssh_config, HOST_LIMIT)
    }

    /// Takes the lab down.
    ///
    /// # Errors
    /// When something of it does not go away.
    pub fn down(mut self) -> Result<()> {
        self.owned = false;
        take_down(&self.paths)
    }

    fn host(&self, name: &str) -> Result<&Host> {
        let found = self.description.hosts.iter().find(|host| host.name == name);
        found.with_context(|| format!("lab {} has no container host {name:?}", self.paths.id))
    }

    fn place(&self) -> Place<'_> {
        Place { lab: &self.paths.directory, id: &self.paths.id, namespace: &self.namespace, groups: &self.groups }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned {
            // Nobody can be told here; what is left is in the ledger, for the next lab.
            let _error = take_down(&self.paths);
        }
    }
}
