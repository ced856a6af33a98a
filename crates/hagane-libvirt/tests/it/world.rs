//! A hypervisor of the test's own, driven from the side with virsh.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use async_trait::async_trait;
use hagane_api::quantity::ByteSize;
use hagane_libvirt::{Acceleration, ConnectionUri, LibvirtActuator, LibvirtOptions};
use hagane_ports::{Actuator, DiskFormat, LocalImage, MachineFacts};
use hagane_testkit::contract::actuator::World;
use sha2::{Digest, Sha256};

/// A hypervisor behind a connection URI, with the pool and network to use.
pub(crate) struct VirshWorld {
    pub(crate) uri: String,
    pub(crate) pool: String,
    pub(crate) network: String,
    pub(crate) address: IpAddr,
    pub(crate) image: LocalImage,
    directory: tempfile::TempDir,
}

/// A disk image file of these bytes.
pub(crate) fn image_of(directory: &Path, name: &str, bytes: &[u8], format: DiskFormat, size: u64) -> LocalImage {
    let path = directory.join(name);
    std::fs::write(&path, bytes).expect("an image file");
    let sha256 = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    LocalImage { path, sha256, format, virtual_size: ByteSize(size), file_size: ByteSize(bytes.len() as u64) }
}

impl VirshWorld {
    pub(crate) fn new(uri: &str, pool: &str, network: &str, address: IpAddr) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        // Unique bytes, so that no base volume of an earlier run is taken for it.
        let mut bytes = vec![0; 3 << 20];
        bytes[..36].copy_from_slice(uuid::Uuid::new_v4().to_string().as_bytes());
        let size = bytes.len() as u64;
        let image = image_of(directory.path(), "disk.raw", &bytes, DiskFormat::Raw, size);
        Self { uri: uri.to_owned(), pool: pool.to_owned(), network: network.to_owned(), address, image, directory }
    }

    pub(crate) fn options() -> LibvirtOptions {
        LibvirtOptions { acceleration: Acceleration::Emulation, ..LibvirtOptions::default() }
    }

    /// Writes a file for virsh to read.
    pub(crate) fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    /// Runs virsh and returns what it printed, or its complaint.
    pub(crate) fn try_virsh(&self, arguments: &[&str]) -> Result<String, String> {
        let uri = ConnectionUri::parse(&self.uri).expect("a good URI");
        let (driver, path) = uri.hypervisor.split_once("://").expect("a scheme");
        let uri = format!("{driver}+unix://{path}?socket={}", uri.socket.display());
        let output = Command::new("virsh").args(["-q", "-c", &uri]).args(arguments).output().expect("virsh runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    pub(crate) fn virsh(&self, arguments: &[&str]) -> String {
        self.try_virsh(arguments).expect("virsh does what it is told")
    }

    /// Names of volumes, base volumes included.
    pub(crate) fn volumes(&self) -> Vec<String> {
        let list = self.virsh(&["vol-list", &self.pool]);
        list.lines().filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
    }
}

#[async_trait]
impl World for VirshWorld {
    async fn actuator(&self) -> Arc<dyn Actuator> {
        Arc::new(LibvirtActuator::new(&self.uri, Self::options()).expect("a good URI"))
    }

    fn image(&self) -> LocalImage {
        self.image.clone()
    }

    fn pool(&self) -> String {
        self.pool.clone()
    }

    fn network(&self) -> String {
        self.network.clone()
    }

    fn free_address(&self) -> Option<IpAddr> {
        Some(self.address)
    }

    async fn resources(&self) -> Vec<String> {
        let domains = self.virsh(&["list", "--all", "--name"]);
        let network = self.virsh(&["net-dumpxml", &self.network]);
        let mut all: Vec<String> = domains.split_whitespace().map(|name| format!("domain {name}")).collect();
        let volumes = self.volumes();
        all.extend(
            volumes.iter().filter(|name| !name.starts_with("hagane-base-")).map(|name| format!("volume {name}")),
        );
        all.extend(network.lines().filter(|line| line.contains("<host ")).map(|line| line.trim().to_owned()));
        all.sort();
        all
    }

    async fn add_stranger(&self, domain: &str) {
        let kind = if self.uri.starts_with("test") { "test" } else { "qemu" };
        let xml = format!(
            "<domain type='{kind}'><name>{domain}</name><memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>"
        );
        let file = self.file("stranger.xml", &xml);
        self.virsh(&["define", &file.display().to_string()]);
    }

    async fn remove_stranger(&self, domain: &str) -> bool {
        self.try_virsh(&["undefine", domain]).is_ok()
    }

    async fn lose_domain(&self, facts: &MachineFacts) {
        self.virsh(&["destroy", &facts.uuid]);
        self.virsh(&["undefine", &facts.uuid]);
    }

    async fn set_network_active(&self, active: bool) {
        self.virsh(&[if active { "net-start" } else { "net-destroy" }, &self.network]);
    }

    async fn set_pool_active(&self, active: bool) {
        self.virsh(&[if active { "pool-start" } else { "pool-destroy" }, &self.pool]);
    }
}
