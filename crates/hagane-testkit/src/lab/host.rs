//! Container hosts: servers that already run an operating system and are reached by SSH.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::cgroup::{self, Cgroups};
use super::etc::put;
use super::namespace::Namespace;
use super::network::{self, HOST_BRIDGE, HOST_GATEWAY, MACHINE_GATEWAY};
use super::process::wait_until;
use super::{command, host_view};

/// What systemd-nspawn may not hand to a container host: whatever reaches the machine itself. CAP_SYS_BOOT is not among it: in a
/// process namespace of its own it ends or restarts that host only, and loading another kernel is filtered out.
const DROPPED: &str = "CAP_SYS_TIME,CAP_SYS_MODULE,CAP_MAC_ADMIN,CAP_MAC_OVERRIDE,CAP_SYSLOG,CAP_WAKE_ALARM";

/// Directories of a host that must be on a real file system: the host's root is an overlay, on which no second one can be laid.
const DATA: [&str; 3] = ["containerd", "kubelet", "etcd"];

/// Lays the lab's own temporary directory over /tmp, where systemd-nspawn makes mount points, and runs the program again as long
/// as it ends with 133: so systemd-nspawn says that the host restarts.
const RUN_HOST: &str = r#"mount --bind "$1" /tmp && shift && while "$@"; [ $? = 133 ]; do :; done"#;

/// Declared size of a container host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// Host name.
    pub name: String,
    /// Processors.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
}

impl std::str::FromStr for HostSpec {
    type Err = anyhow::Error;

    /// Reads `name:cpus:memMiB`.
    fn from_str(text: &str) -> Result<Self> {
        let fields: Vec<&str> = text.split(':').collect();
        let [name, cpus, memory] = fields[..] else { bail!("host {text:?}: name:cpus:memMiB is wanted") };
        let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if name.is_empty() || name.len() > 32 || !name.bytes().all(legal) || name.starts_with('-') || name == "lab" {
            bail!("host name {name:?}: 1 to 32 lower-case letters, digits and dashes are allowed, and not \"lab\"");
        }
        let cpus = cpus.parse().ok().filter(|cpus| *cpus > 0);
        let memory_mib = memory.parse().ok().filter(|memory| *memory >= 256);
        Ok(Self {
            name: name.to_owned(),
            cpus: cpus.with_context(|| format!("host {text:?}: cpus is a number from 1"))?,
            memory_mib: memory_mib.with_context(|| format!("host {text:?}: memory is a number of MiB from 256"))?,
        })
    }
}

/// A container host as others find it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Its fixed address.
    pub address: Ipv4Addr,
    /// MAC address of its one interface.
    pub mac: String,
    /// Declared processors.
    pub cpus: u32,
    /// Declared memory in MiB.
    pub memory_mib: u64,
    /// Users the lab's key opens: root, and one with passwordless sudo.
    pub users: Vec<String>,
    /// Its public host key, as in a known_hosts file (type and base64).
    pub ssh_host_key: String,
    /// What it wrote to its console, seen from outside the lab.
    pub console: PathBuf,
}

/// Where hosts are made.
pub(crate) struct Place<'a> {
    pub(crate) lab: &'a Path,
    pub(crate) id: &'a str,
    pub(crate) namespace: &'a Namespace,
    pub(crate) groups: &'a Cgroups,
}

impl Place<'_> {
    fn directory(&self, name: &str) -> PathBuf {
        self.lab.join("hosts").join(name)
    }

    /// Writes everything that makes the host this host, lays it over the image's root and bounds it. Does not start it.
    pub(crate) fn create(&self, index: usize, spec: &HostSpec, image_root: &Path, public_key: &str) -> Result<Host> {
        let directory = self.directory(&spec.name);
        let address = network::host_address(index)?;
        let mac = network::mac(self.id, u8::try_from(index + 1).context("number a host")?);
        let layer = directory.join("layer");
        for made in ["layer", "work", "tmp"].into_iter().chain(DATA) {
            let made = directory.join(made);
            fs::create_dir_all(&made).with_context(|| format!("make {}", made.display()))?;
        }
        put(&layer.join("etc/hostname"), &format!("{}\n", spec.name))?;
        put(&layer.join("etc/machine-id"), &format!("{}\n", machine_id(self.id, &spec.name)))?;
        put(&layer.join("etc/hosts"), &format!("127.0.0.1 localhost\n{address} {}\n", spec.name))?;
        put(&layer.join("etc/resolv.conf"), &format!("nameserver {MACHINE_GATEWAY}\n"))?;
        put(&layer.join("etc/systemd/network/10-lab.network"), &network_unit(address, &mac))?;
        host_view::write(&layer.join("etc/lab/proc"), spec.cpus, spec.memory_mib)?;
        authorize(&layer.join("root"), 0, public_key)?;
        authorize(&layer.join("home/hagane"), 1000, public_key)?;
        let ssh_host_key = make_host_key(&layer.join("etc/ssh"))?;

        let target = self.mount_point(&spec.name);
        self.namespace.run(["mkdir", "-p", &target])?;
        let (upper, work) = (layer.display(), directory.join("work"));
        let options = format!("lowerdir={},upperdir={upper},workdir={}", image_root.display(), work.display());
        self.namespace.run(["mount", "-t", "overlay", "-o", &options, "hagane-lab", &target])?;
        self.groups.create_host(&spec.name, spec.cpus, spec.memory_mib)?;
        let console = directory.join("console.log");
        let users = vec!["root".to_owned(), "hagane".to_owned()];
        let HostSpec { name, cpus, memory_mib } = spec.clone();
        Ok(Host { name, address, mac, cpus, memory_mib, users, ssh_host_key, console })
    }

    /// Boots the host. It answers by SSH a few seconds later.
    pub(crate) fn start(&self, host: &Host) -> Result<()> {
        let directory = self.directory(&host.name);
        let mut words: Vec<String> =
            ["setsid", "unshare", "--mount", "--propagation", "private", "sh", "-c", RUN_HOST, "lab"]
                .map(str::to_owned)
                .into();
        words.push(directory.join("tmp").display().to_string());
        words.extend(["env", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network", "systemd-nspawn"].map(str::to_owned));
        words.extend(["--quiet", "--boot", "--register=no", "--keep-unit", "--console=read-only"].map(str::to_owned));
        words.extend(["--link-journal=no", "--resolv-conf=off", "--timezone=off"].map(str::to_owned));
        words.push(format!("--machine={}", host.name));
        words.push(format!("--directory={}", self.mount_point(&host.name)));
        words.push(format!("--network-bridge={HOST_BRIDGE}"));
        words.extend(["--capability=all".to_owned(), format!("--drop-capability={DROPPED}")]);
        words
            .extend(["@known", "~kexec_load", "~kexec_file_load"].map(|calls| format!("--system-call-filter={calls}")));
        // The lab's directory may itself lie below /tmp: paths are those of the data directories' own mounts.
        for data in DATA {
            let source = format!("/run/lab/hosts/{}/{data}", host.name);
            self.namespace.run(["mkdir", "-p", &source])?;
            let mounted = ["mountpoint", "--quiet", &source];
            if !self.namespace.succeeds(mounted) {
                self.namespace.run(["mount", "--bind", &directory.join(data).display().to_string(), &source])?;
            }
            words.push(format!("--bind={source}:/var/lib/{data}"));
        }
        let console = File::options().create(true).append(true).open(&host.console);
        let console = console.with_context(|| format!("open {}", host.console.display()))?;
        let errors = console.try_clone().context("share the console's file")?;
        let mut nspawn = command::program(self.namespace.argv(&host.name, words));
        nspawn.stdout(console).stderr(errors);
        nspawn.spawn().with_context(|| format!("start container host {}", host.name))?;
        Ok(())
    }

    /// Waits until the host lets the lab's key in.
    pub(crate) fn wait(&self, host: &Host, ssh_config: &Path, limit: Duration) -> Result<()> {
        let probe = ["ssh", "-F", &ssh_config.display().to_string(), &host.name, "true"].map(str::to_owned);
        if !wait_until(limit, || self.namespace.succeeds(probe.clone())) {
            let console = fs::read_to_string(&host.console).unwrap_or_default();
            let lines: Vec<&str> = console.lines().collect();
            let last = lines[lines.len().saturating_sub(5)..].join("; ");
            bail!(
                "container host {} does not answer by SSH after {} s; its console ends with: {last}",
                host.name,
                limit.as_secs()
            );
        }
        Ok(())
    }

    /// Ends the host at once, as a power cut does.
    pub(crate) fn stop(&self, name: &str) -> Result<()> {
        let groups: Vec<PathBuf> =
            self.groups.entry_files(name).iter().filter_map(|file| file.parent()).map(Path::to_owned).collect();
        if !cgroup::kill_all(&groups, Duration::from_secs(20)) {
            bail!("processes of container host {name} do not end");
        }
        Ok(())
    }

    fn mount_point(&self, name: &str) -> String {
        format!("/run/lab/hosts/{name}/root")
    }
}

fn network_unit(address: Ipv4Addr, mac: &str) -> String {
    format!(
        "[Match]\nName=host0\n\n[Link]\nMACAddress={mac}\n\n[Network]\nAddress={address}/24\nGateway={HOST_GATEWAY}\n\
         LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    )
}

fn machine_id(id: &str, host: &str) -> String {
    let digest = Sha256::digest(format!("{id}/{host}"));
    digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn authorize(home: &Path, owner: u32, public_key: &str) -> Result<()> {
    let directory = home.join(".ssh");
    let keys = directory.join("authorized_keys");
    put(&keys, public_key)?;
    for (path, mode) in [(home, 0o700), (&directory, 0o700), (&keys, 0o600)] {
        let closed = fs::set_permissions(path, fs::Permissions::from_mode(mode));
        closed
            .and_then(|()| std::os::unix::fs::chown(path, Some(owner), Some(owner)))
            .with_context(|| format!("hand over {}", path.display()))?;
    }
    Ok(())
}

fn make_host_key(directory: &Path) -> Result<String> {
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    make_key(&directory.join("ssh_host_ed25519_key"), "host")
}

/// Makes an SSH key pair and gives the public key (type and base64).
pub(crate) fn make_key(private: &Path, comment: &str) -> Result<String> {
    let path = private.display().to_string();
    command::run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", &path])?;
    let public = fs::read_to_string(private.with_added_extension("pub")).context("read the public key")?;
    Ok(public.split(' ').take(2).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_from_name_cpus_and_memory() {
        let spec: HostSpec = "node1:2:4096".parse().expect("legal");
        assert_eq!(spec, HostSpec { name: "node1".to_owned(), cpus: 2, memory_mib: 4096 });
    }

    #[test]
    fn refuses_hosts_that_could_not_be_made() {
        for text in
            ["node1", "node1:2", "a:0:4096", "a:2:1", "A:2:4096", "../x:2:4096", "lab:1:512", ":1:512", "a:1:512:x"]
        {
            assert!(text.parse::<HostSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_host_of_every_lab_has_a_machine_id_of_its_own() {
        assert_ne!(machine_id("a", "node1"), machine_id("b", "node1"));
        assert_eq!(machine_id("a", "node1").len(), 32);
    }
}
