//! lab.json: what others need to know of a lab.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::host::Host;
use super::image::Image;
use super::process::ProcessId;
use super::{etc, libvirtd, network, paths::LabPaths};

/// Everything others need to know of a lab.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Description {
    /// Id of the lab.
    pub id: String,
    /// Directory of the lab.
    pub directory: PathBuf,
    /// The process that holds the namespaces: enter by `nsenter --target PID --net --mount`.
    pub holder: ProcessId,
    /// Address of the lab on libvirt's network; machines fetch images from here.
    pub machine_gateway: Ipv4Addr,
    /// Address of the lab on the container hosts' bridge.
    pub host_gateway: Ipv4Addr,
    /// libvirt.
    pub libvirt: Libvirt,
    /// Private key that container hosts let in.
    pub ssh_private_key: PathBuf,
    /// Host keys of the container hosts.
    pub ssh_known_hosts: PathBuf,
    /// `ssh -F FILE HOST` reaches a host from inside.
    pub ssh_config: PathBuf,
    /// The unprivileged user of the lab.
    pub runner: RunnerUser,
    /// Container hosts.
    pub hosts: Vec<Host>,
    /// Images that have been built.
    pub images: Vec<ImageFile>,
}

/// The lab's libvirt.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Libvirt {
    /// Connection URI, inside the lab.
    pub uri: String,
    /// Socket, inside the lab.
    pub socket: PathBuf,
    /// The same socket, seen from outside.
    pub outside_socket: PathBuf,
    /// Name of the network.
    pub network: String,
    /// Name of the storage pool.
    pub pool: String,
    /// Whether machines are accelerated; else they are emulated.
    pub kvm: bool,
}

/// The user that runs ansible-playbook and ssh.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunnerUser {
    /// Name.
    pub name: String,
    /// User and group number.
    pub uid: u32,
    /// Home directory.
    pub home: PathBuf,
}

/// A built image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImageFile {
    /// Which.
    pub image: Image,
    /// Its file (or directory, for container hosts).
    pub path: PathBuf,
    /// The same as a URL.
    pub url: String,
}

impl ImageFile {
    pub(crate) fn new(image: Image, path: PathBuf) -> Self {
        let url = format!("file://{}", path.display());
        Self { image, path, url }
    }
}

impl Libvirt {
    pub(crate) fn new(directory: &Path, kvm: bool) -> Self {
        Self {
            uri: "qemu:///system".to_owned(),
            socket: libvirtd::SOCKET.into(),
            outside_socket: libvirtd::socket_directory(directory).join("libvirt-sock"),
            network: "default".to_owned(),
            pool: "default".to_owned(),
            kvm,
        }
    }
}

impl RunnerUser {
    pub(crate) fn new(runner: etc::Runner) -> Self {
        Self { name: etc::RUNNER_USER.to_owned(), uid: runner.uid, home: runner.home }
    }
}

impl Description {
    /// Reads the description of a lab.
    ///
    /// # Errors
    /// When there is no such lab, or it is not ready.
    pub fn read(paths: &LabPaths) -> Result<Self> {
        let text = fs::read(paths.description()).with_context(|| format!("no lab {:?} is ready", paths.id))?;
        serde_json::from_slice(&text).with_context(|| format!("read {}", paths.description().display()))
    }

    pub(crate) fn write(&self, paths: &LabPaths) -> Result<()> {
        let text = serde_json::to_string_pretty(self).context("write the lab's description as JSON")?;
        let unfinished = paths.directory.join("lab.json.unfinished");
        etc::put(&unfinished, &text)?;
        fs::rename(&unfinished, paths.description()).context("put the lab's description in its place")
    }
}

/// The addresses that are the same in every lab.
pub(crate) fn gateways() -> (Ipv4Addr, Ipv4Addr) {
    (network::MACHINE_GATEWAY, network::HOST_GATEWAY)
}
