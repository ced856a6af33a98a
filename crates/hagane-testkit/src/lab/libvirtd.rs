//! The lab's own libvirt daemon, with one network and one storage pool, both called `default`.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::etc::put;
use super::namespace::{Namespace, layer};
use super::network::{MACHINE_GATEWAY, MACHINE_RANGE, mac};
use super::paths::cache_directory;
use super::process::{ProcessId, wait_until};

/// Socket as seen inside the lab.
pub const SOCKET: &str = "/run/libvirt/libvirt-sock";

const NETWORK: &str = include_str!("../../../../lab/libvirt/network.xml");
const POOL: &str = include_str!("../../../../lab/libvirt/pool.xml");

/// Directory of libvirt's sockets, seen from outside the lab.
pub(crate) fn socket_directory(lab_directory: &Path) -> PathBuf {
    lab_directory.join("run/libvirt")
}

/// Starts the daemons and defines network and pool.
pub(crate) fn create(namespace: &Namespace, lab: &Path, id: &str, hosts: &[(String, Ipv4Addr)]) -> Result<()> {
    let sockets = socket_directory(lab);
    fs::create_dir_all(&sockets).with_context(|| format!("make {}", sockets.display()))?;
    namespace.run(["mount".as_ref(), "--bind".as_ref(), sockets.as_os_str(), "/run/libvirt".as_ref()])?;
    for directory in ["/var/lib/libvirt/images", "/var/log/libvirt/qemu", "/var/cache/libvirt"] {
        namespace.run(["mkdir", "-p", directory])?;
    }
    start(namespace)?;
    // Asked for once, so that the first machine does not wait for it.
    virsh(namespace, ["domcapabilities".to_owned()])?;
    copy_new_files(&probed_capabilities(lab), &kept_capabilities()?)?;
    let network = lab.join("network.xml");
    let pool = lab.join("pool.xml");
    put(&network, &network_xml(id, hosts))?;
    put(&pool, POOL)?;
    for (kind, file) in [("net", network), ("pool", pool)] {
        virsh(namespace, [format!("{kind}-define"), file.display().to_string()])?;
        virsh(namespace, [format!("{kind}-start"), "default".to_owned()])?;
        virsh(namespace, [format!("{kind}-autostart"), "default".to_owned()])?;
    }
    Ok(())
}

/// Puts what libvirt found out about QEMU in an earlier lab into this one, before its layers are laid: finding it out takes
/// seconds. libvirt checks by itself whether an old answer still holds.
pub(crate) fn remember_capabilities(lab: &Path) -> Result<()> {
    copy_new_files(&kept_capabilities()?, &probed_capabilities(lab))
}

fn probed_capabilities(lab: &Path) -> PathBuf {
    layer(lab, "/var/cache").join("libvirt/qemu/capabilities")
}

fn kept_capabilities() -> Result<PathBuf> {
    Ok(cache_directory()?.join("libvirt-capabilities"))
}

fn copy_new_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    let entries = fs::read_dir(from).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "xml")) {
        let (target, unfinished) = (to.join(entry.file_name()), to.join(format!("copy-{}", std::process::id())));
        let copied = fs::copy(entry.path(), &unfinished).and_then(|_| fs::rename(&unfinished, &target));
        copied.with_context(|| format!("copy {} to {}", entry.path().display(), target.display()))?;
    }
    Ok(())
}

/// Starts virtlogd (unless it runs) and libvirtd; when this returns, the socket answers.
pub(crate) fn start(namespace: &Namespace) -> Result<()> {
    if daemon(namespace, "virtlogd").is_none() {
        namespace.run(["virtlogd", "--daemon"])?;
    }
    namespace.run(["libvirtd", "--daemon"])?;
    if !wait_until(Duration::from_secs(20), || virsh(namespace, ["uri".to_owned()]).is_ok()) {
        bail!(
            "libvirtd started but does not answer on {SOCKET} (its log is /var/log/libvirt/libvirtd.log inside the lab)"
        );
    }
    Ok(())
}

/// Stops libvirtd; machines and networks go on.
pub(crate) fn stop(namespace: &Namespace) -> Result<()> {
    let Some(process) = daemon(namespace, "libvirtd") else { return Ok(()) };
    namespace.run(["kill".to_owned(), "-TERM".to_owned(), process.pid.to_string()])?;
    if !wait_until(Duration::from_secs(20), || !process.is_alive()) {
        bail!("libvirtd (process {}) did not stop within 20 seconds", process.pid);
    }
    Ok(())
}

fn daemon(namespace: &Namespace, name: &str) -> Option<ProcessId> {
    let number = namespace.run(["cat".to_owned(), format!("/run/{name}.pid")]).ok()?;
    ProcessId::of(number.trim().parse().ok()?)
}

fn virsh(namespace: &Namespace, words: impl IntoIterator<Item = String>) -> Result<String> {
    let connect = ["virsh", "--quiet", "--connect", "qemu:///system"].map(str::to_owned);
    namespace.run(connect.into_iter().chain(words))
}

fn network_xml(id: &str, hosts: &[(String, Ipv4Addr)]) -> String {
    let name = |(name, address): &(String, Ipv4Addr)| {
        format!("    <host ip='{address}'>\n      <hostname>{name}</hostname>\n    </host>")
    };
    let names: Vec<String> = hosts.iter().map(name).collect();
    NETWORK
        .replace("@MAC@", &mac(id, 0))
        .replace("@HOSTS@", &names.join("\n"))
        .replace("@GATEWAY@", &MACHINE_GATEWAY.to_string())
        .replace("@FIRST@", &MACHINE_RANGE.0.to_string())
        .replace("@LAST@", &MACHINE_RANGE.1.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_names_every_container_host_and_leaves_no_blank_unfilled() {
        let xml = network_xml("a", &[("node1".to_owned(), Ipv4Addr::new(10, 199, 0, 11))]);
        assert!(xml.contains("<host ip='10.199.0.11'>") && xml.contains("<hostname>node1</hostname>"), "{xml}");
        assert!(!xml.contains('@'), "{xml}");
    }
}
