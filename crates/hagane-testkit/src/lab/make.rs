//! Making a lab, step by step, each written down before it is done.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use super::cgroup::Cgroups;
use super::description::{self, Description, ImageFile, Libvirt, RunnerUser};
use super::host::{self, Host, HostSpec, Place};
use super::image::Image;
use super::ledger::{Entry, Ledger};
use super::namespace::Namespace;
use super::paths::{LabPaths, labs_directory};
use super::process::ProcessId;
use super::progress::Progress;
use super::take_down::{take_down, take_down_dead};
use super::{HOST_LIMIT, Lab, LabOptions, etc, inotify, kvm, libvirtd, network, prepare};

impl Lab {
    /// Makes a lab, after taking down dead ones. What is missing (packages, the images needed) is installed and built first.
    /// A lab bound to its maker is taken down when the value is dropped.
    ///
    /// # Errors
    /// When a part does not start; what was made until then is taken down again.
    pub fn up(options: &LabOptions) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            bail!("a lab needs root: it makes namespaces, mounts and control groups of its own");
        }
        let progress = options.progress;
        let images: &[Image] = if options.hosts.is_empty() { &[Image::Tiny] } else { &[Image::Tiny, Image::Host] };
        prepare(images, progress)?;
        for id in take_down_dead()? {
            progress.line(&format!("lab: took down the dead lab {id}"));
        }
        inotify::check(options.hosts.len())?;
        let id = options.id.clone().unwrap_or_else(|| uuid::Uuid::new_v4().simple().to_string()[..6].to_owned());
        let paths = LabPaths::of(&id)?;
        let (ledger, groups) = start_ledger(options, &paths)?;
        let made = Self::make(options, &paths, ledger, groups);
        if made.is_err() {
            // The first error is the one to show; a lab that is left half made is dead and goes when the next one starts.
            let _second_error = take_down(&paths);
        }
        made
    }

    fn make(options: &LabOptions, paths: &LabPaths, mut ledger: Ledger, groups: Cgroups) -> Result<Self> {
        let progress = options.progress;
        let names = options.hosts.iter().enumerate();
        let names = names.map(|(index, spec)| Ok((spec.name.clone(), network::host_address(index)?)));
        let names = names.collect::<Result<Vec<(String, Ipv4Addr)>>>()?;

        let runner = etc::write(&paths.directory, &names)?;
        libvirtd::remember_capabilities(&paths.directory)?;
        let namespace = progress.phase("namespaces and bridge", || {
            let namespace = Namespace::create(paths, &groups, &mut ledger)?;
            network::create(&namespace, &paths.id)?;
            Ok(namespace)
        })?;
        let tiny = Image::Tiny.directory()?;
        let kvm = progress.phase("seeing whether KVM boots a kernel", || kvm::works(&tiny))?;
        if !kvm {
            kvm::hide(&namespace, &paths.directory)?;
        }
        let (ssh_private_key, public_key) = make_ssh_files(paths)?;
        let place = Place { lab: &paths.directory, id: &paths.id, namespace: &namespace, groups: &groups };
        let hosts = start_hosts(&place, &options.hosts, &public_key, progress)?;
        progress.phase("libvirt daemon, network and pool", || {
            libvirtd::create(&namespace, &paths.directory, &paths.id, &names)
        })?;

        let (machine_gateway, host_gateway) = description::gateways();
        let description = Description {
            id: paths.id.clone(),
            directory: paths.directory.clone(),
            holder: namespace.holder,
            machine_gateway,
            host_gateway,
            libvirt: Libvirt::new(&paths.directory, kvm),
            ssh_private_key,
            ssh_known_hosts: paths.directory.join("known_hosts"),
            ssh_config: paths.directory.join("ssh_config"),
            runner: RunnerUser::new(runner),
            hosts,
            images: built_images()?,
        };
        let lab = Self { paths: paths.clone(), description, namespace, groups, owned: options.bound_to_maker };
        lab.write_ssh_config()?;
        lab.wait_for_hosts(progress)?;
        lab.description.write(paths)?;
        ledger.record(&Entry::Ready)?;
        Ok(lab)
    }

    fn write_ssh_config(&self) -> Result<()> {
        let description = &self.description;
        let key = |host: &Host| format!("{},{} {}\n", host.name, host.address, host.ssh_host_key);
        etc::put(&description.ssh_known_hosts, &description.hosts.iter().map(key).collect::<String>())?;
        let entry = |host: &Host| format!("Host {0}\n  HostName {1}\n  HostKeyAlias {0}\n\n", host.name, host.address);
        let entries: String = description.hosts.iter().map(entry).collect();
        let (identity, known) = (description.ssh_private_key.display(), description.ssh_known_hosts.display());
        let common = format!(
            "Host *\n  User root\n  IdentityFile {identity}\n  IdentitiesOnly yes\n  UserKnownHostsFile {known}\n  \
             StrictHostKeyChecking yes\n  BatchMode yes\n  ConnectTimeout 5\n"
        );
        etc::put(&description.ssh_config, &format!("{entries}{common}"))
    }

    fn wait_for_hosts(&self, progress: Progress) -> Result<()> {
        if self.description.hosts.is_empty() {
            return Ok(());
        }
        progress.phase("waiting for the container hosts' SSH", || {
            let place = self.place();
            self.description
                .hosts
                .iter()
                .try_for_each(|host| place.wait(host, &self.description.ssh_config, HOST_LIMIT))
        })
    }
}

fn start_ledger(options: &LabOptions, paths: &LabPaths) -> Result<(Ledger, Cgroups)> {
    let labs = labs_directory()?;
    fs::create_dir_all(&labs).with_context(|| format!("make {}", labs.display()))?;
    let first = Entry::Started { maker: ProcessId::current(), bound_to_maker: options.bound_to_maker };
    let mut ledger = Ledger::create(&paths.ledger, &first)?;
    ledger.record(&Entry::Directory { path: paths.directory.clone() })?;
    fs::create_dir(&paths.directory).with_context(|| format!("make {}", paths.directory.display()))?;
    // Users of the lab pass through; they list nothing.
    let passing = fs::Permissions::from_mode(0o711);
    fs::set_permissions(&paths.directory, passing).context("set the mode of the lab's directory")?;
    let groups = Cgroups::create(&paths.id, &mut ledger)?;
    Ok((ledger, groups))
}

fn make_ssh_files(paths: &LabPaths) -> Result<(PathBuf, String)> {
    let key = paths.directory.join("id_ed25519");
    let public = host::make_key(&key, "lab")?;
    Ok((key, format!("{public} lab\n")))
}

fn start_hosts(place: &Place<'_>, specs: &[HostSpec], public_key: &str, progress: Progress) -> Result<Vec<Host>> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    let root = Image::Host.build(progress)?;
    progress.phase(&format!("starting {} container hosts", specs.len()), || {
        let start = |(index, spec): (usize, &HostSpec)| {
            let host = place.create(index, spec, &root, public_key)?;
            place.start(&host)?;
            Ok(host)
        };
        specs.iter().enumerate().map(start).collect()
    })
}

fn built_images() -> Result<Vec<ImageFile>> {
    let built = Image::ALL.iter().map(|image| Ok(image.built()?.map(|path| ImageFile::new(*image, path))));
    let built: Result<Vec<Option<ImageFile>>> = built.collect();
    Ok(built?.into_iter().flatten().collect())
}
