//! A real distribution: cloud-init, SSH with the host key that hagane made, a disk that has grown.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hagane_testkit::lab::{Image, Progress};
use hagane_testkit::road::wait_for;
use serde_json::json;

use super::objects::machine;
use super::site::{Site, in_lab};
use crate::support;

const TEST: &str = "machines::debian";
/// A whole Debian boots, emulated, on a machine that has other things to do.
const DEBIAN: Duration = Duration::from_secs(480);

#[test]
fn a_debian_machine_is_reached_by_ssh_with_the_key_that_status_shows() -> Result<()> {
    if support::can_run(TEST) {
        Image::Debian.build(Progress::Shown).context("build the Debian image")?;
    }
    in_lab(TEST, &[], |site| {
        let image = site.image_url(Image::Debian)?;
        let key = site.lab.directory().join("machine-key").display().to_string();
        site.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", &key])?;
        let public = std::fs::read_to_string(format!("{key}.pub")).context("read the public key")?;
        let fields = json!({"diskInGB": 4, "sshAuthorizedKeys": [public.trim()], "vcpu": 2});
        site.step("it runs and has an address", |site| {
            site.apply(&[machine("bookworm", &image, fields)])?;
            site.wait_machines("an address", &["bookworm"], DEBIAN, |machine| !machine.address().is_empty()).map(drop)
        })?;
        site.step("SSH lets the key in and shows the host key of status", |site| expect_ssh(site, &key))?;
        site.step("cloud-init ended well, the disk has grown", |site| expect_guest(site, &key))?;
        site.step("nothing is left", |site| {
            site.remove(&["bookworm"])?;
            site.expect_nothing_left()
        })
    })
}

/// Runs a command line in the guest; the only host key accepted is the one that status shows.
fn ssh(site: &Site<'_>, key: &str, line: &str) -> Result<std::process::Output> {
    let machine =
        site.wait_machines("an address", &["bookworm"], DEBIAN, |machine| !machine.address().is_empty())?.remove(0);
    let host_key = machine.text("/status/providerStatus/sshHostKey");
    ensure!(host_key.starts_with("ssh-ed25519 "), "no host key in status: {machine:?}");
    let known = site.file("machine-known-hosts", format!("{} {host_key}\n", machine.address()))?;
    let known = format!("UserKnownHostsFile={known}");
    let target = format!("debian@{}", machine.address());
    let options =
        ["StrictHostKeyChecking=yes", "BatchMode=yes", "ConnectTimeout=20", "GlobalKnownHostsFile=/dev/null", &known];
    let mut argv = vec!["ssh", "-i", key];
    argv.extend(options.iter().flat_map(|option| ["-o", *option]));
    argv.extend([target.as_str(), line]);
    site.lab.exec(argv)
}

fn expect_ssh(site: &Site<'_>, key: &str) -> Result<()> {
    wait_for("SSH lets us in", DEBIAN, || {
        let output = ssh(site, key, "hostname")?;
        let error = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(!error.contains("HOST IDENTIFICATION HAS CHANGED"), "the machine has another host key: {error}");
        Ok(if output.stdout.starts_with(b"bookworm") { Ok(()) } else { Err(error) })
    })
}

fn expect_guest(site: &Site<'_>, key: &str) -> Result<()> {
    let output = ssh(
        site,
        key,
        "cloud-init status --wait; cloud-init query instance_id; df --output=size --block-size=1M / | tail -n 1",
    )?;
    let text = String::from_utf8_lossy(&output.stdout);
    println!("    {}", text.trim().replace('\n', "; "));
    ensure!(text.contains("status: done"), "{text} {}", String::from_utf8_lossy(&output.stderr));
    let machine = site.wait_running(&["bookworm"])?.remove(0);
    ensure!(text.contains(&format!("i-{}", machine.uid())), "the instance id is not that of the seed: {text}");
    let size: u64 = text.lines().last().unwrap_or_default().trim().parse().context("df prints a size")?;
    ensure!(size > 3500, "the root file system has {size} MiB of 4 GiB");
    Ok(())
}
