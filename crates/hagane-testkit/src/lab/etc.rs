//! Files of the lab's own /etc: users that exist only inside, names of the hosts, configuration of libvirt.

use std::collections::BTreeSet;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::namespace::layer;
use super::network::MACHINE_GATEWAY;

/// The unprivileged user that runs ansible-playbook and ssh inside the lab.
pub const RUNNER_USER: &str = "hagane-runner";

const QEMU_USER: &str = "libvirt-qemu";
const LIBVIRTD: &str = include_str!("../../../../lab/libvirt/libvirtd.conf");
const VIRTLOGD: &str = include_str!("../../../../lab/libvirt/virtlogd.conf");
const QEMU: &str = include_str!("../../../../lab/libvirt/qemu.conf");

/// The lab's unprivileged user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runner {
    pub(crate) uid: u32,
    pub(crate) home: PathBuf,
}

/// Writes the files into the lab's layer over /etc, before it is laid.
pub(crate) fn write(directory: &Path, hosts: &[(String, Ipv4Addr)]) -> Result<Runner> {
    let etc = layer(directory, "/etc");
    let passwd = fs::read_to_string("/etc/passwd").context("read /etc/passwd")?;
    let group = fs::read_to_string("/etc/group").context("read /etc/group")?;
    let (passwd, qemu) = with_user(&passwd, &group, QEMU_USER, Path::new("/var/lib/libvirt"));
    let group = with_group(&group, QEMU_USER, qemu);
    let home = directory.join("home").join(RUNNER_USER);
    let (passwd, uid) = with_user(&passwd, &group, RUNNER_USER, &home);
    let group = with_group(&group, RUNNER_USER, uid);

    fs::create_dir_all(&home).with_context(|| format!("make {}", home.display()))?;
    std::os::unix::fs::chown(&home, Some(uid), Some(uid)).with_context(|| format!("hand over {}", home.display()))?;
    put(&etc.join("passwd"), &passwd)?;
    put(&etc.join("group"), &group)?;
    let own_name = fs::read_to_string("/proc/sys/kernel/hostname").context("read the machine's name")?;
    put(&etc.join("hosts"), &hosts_file(own_name.trim(), hosts))?;
    put(&etc.join("resolv.conf"), &format!("nameserver {MACHINE_GATEWAY}\noptions timeout:1 attempts:1\n"))?;
    put(&etc.join("libvirt/libvirtd.conf"), LIBVIRTD)?;
    put(&etc.join("libvirt/virtlogd.conf"), VIRTLOGD)?;
    put(&etc.join("libvirt/qemu.conf"), QEMU)?;
    Ok(Runner { uid, home })
}

/// The machine's own name is in it too: libvirt looks it up and would wait for a name server that knows it.
fn hosts_file(own_name: &str, hosts: &[(String, Ipv4Addr)]) -> String {
    let lines = hosts.iter().map(|(name, address)| format!("{address} {name}\n"));
    format!("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {own_name}\n{}", lines.collect::<String>())
}

/// Writes a file, with its directories.
pub(crate) fn put(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(|| format!("make {}", parent.display()))?;
    }
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}

/// Adds a user with a number that no user or group has; one that is there already is taken.
fn with_user(passwd: &str, group: &str, name: &str, home: &Path) -> (String, u32) {
    let number = |line: &str| line.split(':').nth(2).and_then(|field| field.parse::<u32>().ok());
    let known = passwd.lines().find(|line| line.split(':').next() == Some(name)).and_then(number);
    if let Some(known) = known {
        return (passwd.to_owned(), known);
    }
    let taken: BTreeSet<u32> = passwd.lines().chain(group.lines()).filter_map(number).collect();
    let free = (60_400..60_500).find(|number| !taken.contains(number)).unwrap_or(60_499);
    let line = format!("{name}:*:{free}:{free}::{}:/bin/sh\n", home.display());
    (format!("{}\n{line}", passwd.trim_end()), free)
}

fn with_group(group: &str, name: &str, number: u32) -> String {
    if group.lines().any(|line| line.split(':').next() == Some(name)) {
        return group.to_owned();
    }
    format!("{}\n{name}:*:{number}:\n", group.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_user_gets_a_number_that_neither_a_user_nor_a_group_has() {
        let passwd = "root:x:0:0::/root:/bin/sh\na:x:60400:60400::/:/bin/sh\n";
        let (text, uid) = with_user(passwd, "root:x:0:\nb:x:60401:\n", "runner", Path::new("/home/runner"));
        assert_eq!(uid, 60_402);
        assert!(text.ends_with("\nrunner:*:60402:60402::/home/runner:/bin/sh\n"), "{text}");
    }

    #[test]
    fn a_user_that_exists_keeps_its_number() {
        let passwd = "libvirt-qemu:x:64055:104::/:/bin/sh\n";
        assert_eq!(with_user(passwd, "", "libvirt-qemu", Path::new("/")), (passwd.to_owned(), 64_055));
    }
}
