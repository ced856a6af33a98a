//! Adapters on their ports, as the operator's flags say.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use hagane_api::quantity::ByteSize;
use hagane_cli::args::OperatorArgs;
use hagane_controllers::{Ports, Settings};
use hagane_images::{ImageOptions, ImageStore};
use hagane_installers::{EngineOptions, KubeadmInstaller, KubeadmOptions, KubesprayInstaller, KubesprayOptions};
use hagane_installers::{payload, python};
use hagane_libvirt::{LibvirtActuator, LibvirtOptions};
use hagane_ports::{Clock, ClusterInstaller, InstallerKind, SystemClock};
use hagane_ssh::{KeyMaker, SshOptions, SshShell};

use crate::nodes::KubeNodes;
use crate::probe::KubeProbe;

/// Every port with its adapter. None of them contacts anything yet.
pub async fn ports(data_dir: &Path, holder: &str, args: &OperatorArgs) -> Result<Ports> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let libvirt = LibvirtOptions { holder: holder.to_owned(), ..LibvirtOptions::default() };
    let actuator = LibvirtActuator::new(&args.libvirt_uri, libvirt)
        .with_context(|| format!("--libvirt-uri: {:?} is not possible", args.libvirt_uri))?;
    let images = ImageStore::open(image_options(data_dir, args)?, Arc::clone(&clock)).await?;
    Ok(Ports {
        actuator: Arc::new(actuator),
        images: Arc::new(images),
        shell: Arc::new(SshShell::new(SshOptions::default())),
        installers: installers(data_dir, args)?,
        probe: Arc::new(KubeProbe),
        nodes: Arc::new(KubeNodes),
        clock,
        host_keys: Arc::new(KeyMaker),
    })
}

/// The settings of the control loops.
pub fn settings(holder: &str, args: &OperatorArgs) -> Settings {
    Settings { default_image: args.default_image.clone(), holder: holder.to_owned(), ..Settings::default() }
}

fn image_options(data_dir: &Path, args: &OperatorArgs) -> Result<ImageOptions> {
    let size = ByteSize::from_gib(args.image_size_max_gib)
        .with_context(|| format!("--image-size-max-gib: {} is not possible: at most 2^33", args.image_size_max_gib))?;
    let mut options = ImageOptions::new(data_dir.join("images"));
    options.image_dir.clone_from(&args.image_dir);
    options.max_size = size;
    options.allow_loopback = args.allow_loopback_images;
    options.allow_link_local = args.allow_link_local_images;
    options.extra_ca.clone_from(&args.image_ca_file);
    Ok(options)
}

fn installers(data_dir: &Path, args: &OperatorArgs) -> Result<BTreeMap<InstallerKind, Arc<dyn ClusterInstaller>>> {
    let this = std::env::current_exe().context("failed to find this program")?;
    let engine = |playbook: &Path| {
        let mut options = EngineOptions::new(data_dir.join("runs"), playbook.to_owned(), this.clone());
        options.run_as.clone_from(&args.run_as);
        options
    };
    let mut installers: BTreeMap<InstallerKind, Arc<dyn ClusterInstaller>> = BTreeMap::new();
    let payloads = if args.payload_dir.is_empty() { cached_payloads() } else { args.payload_dir.clone() };
    let kubeadm = KubeadmInstaller::new(engine(&args.ansible_playbook), KubeadmOptions { payloads })?;
    installers.insert(InstallerKind::Kubeadm, Arc::new(kubeadm));
    if let Some(checkout) = &args.kubespray_dir {
        let playbook = args.kubespray_ansible_playbook.as_ref().unwrap_or(&args.ansible_playbook);
        let skip_checks = args.kubespray_skip_check.iter().cloned().collect();
        let options = KubesprayOptions { checkout: checkout.clone(), skip_checks };
        let kubespray = KubesprayInstaller::new(engine(playbook), options)?;
        installers.insert(InstallerKind::Kubespray, Arc::new(kubespray));
    }
    Ok(installers)
}

/// The payloads that `hagane payload build` has made; where it would put the usual one when it has made none.
fn cached_payloads() -> Vec<PathBuf> {
    let cache = python::default_cache();
    let places = payload::versions().into_iter().filter_map(|version| payload::directory_of(&cache, version).ok());
    let made: Vec<PathBuf> = places.filter(|place| place.join(payload::MANIFEST).exists()).collect();
    if made.is_empty() { vec![default_payload()] } else { made }
}

/// Where `hagane payload build` puts the usual payload.
pub fn default_payload() -> PathBuf {
    payload::directory(&python::default_cache())
}
