//! Whether hardware acceleration really boots a kernel here. Some machines have /dev/kvm and hang in it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};

use super::namespace::Namespace;
use super::paths::cache_directory;
use super::process::{ProcessId, wait_until};
use super::{command, etc::put};

/// A kernel that boots does so well within this.
const LIMIT: Duration = Duration::from_secs(10);

/// Boots the tiny image's kernel under KVM. The answer is kept until the machine boots again.
///
/// # Errors
/// When QEMU can not be started.
pub(crate) fn works(tiny: &Path) -> Result<bool> {
    if !Path::new("/dev/kvm").exists() {
        return Ok(false);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("read the boot id")?;
    let kept = cache_directory()?.join("kvm-probe");
    if let Some((at, answer)) = fs::read_to_string(&kept).ok().as_deref().and_then(|text| text.split_once(' '))
        && at == boot.trim()
    {
        return Ok(answer == "works");
    }
    let works = boots(tiny)?;
    put(&kept, &format!("{} {}", boot.trim(), if works { "works" } else { "hangs" }))?;
    Ok(works)
}

fn boots(tiny: &Path) -> Result<bool> {
    let (kernel, initramfs) = (tiny.join("vmlinuz"), tiny.join("initrd.img"));
    let (kernel, initramfs) = (kernel.display().to_string(), initramfs.display().to_string());
    let machine = ["qemu-system-x86_64", "-accel", "kvm", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"];
    let boot = ["-kernel", &kernel, "-initrd", &initramfs, "-append", "quiet probe"];
    let mut probe = command::program(machine.iter().chain(&boot));
    let child = probe.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.context("start qemu-system-x86_64 to see whether KVM works")?;
    let process = ProcessId::of(child.id());
    let ended = wait_until(LIMIT, || !process.is_some_and(|process| process.is_alive()));
    if !ended {
        child.kill().context("end the KVM probe")?;
    }
    let status = child.wait().context("wait for the KVM probe")?;
    Ok(ended && status.success())
}

/// Hides /dev/kvm inside the lab, so that libvirt offers emulation only: a file that libvirt's user may not open lies over it.
///
/// # Errors
/// When the mount fails.
pub(crate) fn hide(namespace: &Namespace, lab: &Path) -> Result<()> {
    if Path::new("/dev/kvm").exists() {
        let closed = lab.join("no-kvm");
        put(&closed, "")?;
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o000))
            .context("close the file that hides /dev/kvm")?;
        namespace.run(["mount".as_ref(), "--bind".as_ref(), closed.as_os_str(), "/dev/kvm".as_ref()])?;
    }
    Ok(())
}
