//! A Machine from its birth to its end, on the tiny image.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::console;
use super::objects::{Machine, SLIDES, in_slides_group, machine};
use super::site::{BOOT, Site, in_lab};
use crate::support;

const TEST: &str = "machines::lifecycle";

#[test]
fn a_machine_boots_with_its_own_seed_and_leaves_nothing() -> Result<()> {
    in_lab(TEST, &[], |site| {
        let tiny = site.tiny()?;
        let first = site.step("two Machines run; ids agree with libvirt", |site| {
            site.apply(&[machine("m1", &tiny, json!({"diskInGB": 1})), machine("1234", &tiny, json!({}))])?;
            let machines = site.wait_ready(&["m1", "1234"])?;
            machines.iter().try_for_each(|machine| site.expect_one_of_each(machine))?;
            Ok(machines)
        })?;
        site.step("the guests know their instance id and host name", |site| {
            first.iter().try_for_each(|machine| expect_seed(site, machine))
        })?;
        site.step("the root disk has the size asked for", |site| expect_size(site, &first[0], 1 << 30))?;
        site.step("a changed spec is told of and changes nothing", |site| expect_changed_spec(site, &tiny))?;
        site.step("an equal name in the slides' group is another machine", |site| expect_twin(site, &tiny))?;
        let again =
            site.step("m1 is deleted and made again at once", |site| expect_new_life(site, &first[0], &tiny))?;
        ensure!(again.address() != "" && again.instance() != first[0].instance(), "{again:?}");
        site.step("deleted Machines leave nothing", |site| {
            site.remove(&["m1", "1234"])?;
            site.expect_nothing_left()
        })
    })
}

/// What cloud-init would read is what the guest has read.
fn expect_seed(site: &Site<'_>, machine: &Machine) -> Result<()> {
    let domain = machine.text("/status/providerStatus/domain");
    let seen = console::run(site, domain, "hostname; cat /mnt/meta-data; ls /mnt")?;
    let (name, id) = (machine.name(), format!("instance-id: i-{}", machine.uid()));
    ensure!(seen.lines().any(|line| line.trim() == name), "host name {name} is not in {seen:?}");
    ensure!(seen.contains(&id), "{id:?} is not in {seen:?}");
    // Text, also where it looks like a number.
    ensure!(seen.contains(&format!("local-hostname: \"{name}\"")), "{seen:?}");
    let iso = site.outside(&format!("/var/lib/libvirt/images/hagane-{}-seed.iso", machine.uid()));
    expect_readable_iso(&iso)
}

/// Other readers of ISO 9660 find label and files, and miss nothing.
fn expect_readable_iso(iso: &Path) -> Result<()> {
    let size = std::fs::metadata(iso).with_context(|| format!("{} is there", iso.display()))?.len();
    ensure!(size % 2048 == 0, "{} has {size} bytes", iso.display());
    let ask = |words: &[&str]| Command::new("isoinfo").args(words).arg(iso).output();
    let Ok(described) = ask(&["-d", "-i"]) else {
        support::left_out(TEST, "isoinfo is not installed; the seed was read by the guest only");
        return Ok(());
    };
    let text = String::from_utf8_lossy(&described.stdout).to_lowercase();
    ensure!(text.contains("volume id: cidata"), "{text}");
    let files = ask(&["-J", "-f", "-i"]).context("isoinfo runs")?;
    let text = String::from_utf8_lossy(&files.stdout);
    ensure!(["/user-data", "/meta-data"].iter().all(|name| text.lines().any(|line| line == *name)), "{text}");
    ensure!(described.stderr.is_empty() && files.stderr.is_empty(), "{described:?} {files:?}");
    Ok(())
}

fn expect_size(site: &Site<'_>, machine: &Machine, bytes: u64) -> Result<()> {
    let volume = format!("hagane-{}-root.qcow2", machine.uid());
    let info = site.virsh(&["vol-info", "--bytes", "--pool", "default", &volume])?;
    let found = info.lines().find_map(|line| line.strip_prefix("Capacity:")).unwrap_or_default();
    ensure!(found.split_whitespace().next() == Some(&bytes.to_string()), "{info}");
    Ok(())
}

fn expect_changed_spec(site: &Site<'_>, tiny: &str) -> Result<()> {
    let before = site.virsh(&["dumpxml", "--inactive", &domain_of(site, "1234")?])?;
    site.apply(&[machine("1234", tiny, json!({"memoryInGB": 2}))])?;
    let what = "the Machine says that its spec changed";
    let told = site.wait_machines(what, &["1234"], BOOT, |machine| machine.reason("UpToDate") == "SpecChanged")?;
    ensure!(told[0].message("UpToDate").contains("memoryInGB"), "{}", told[0].message("UpToDate"));
    ensure!(before == site.virsh(&["dumpxml", "--inactive", &domain_of(site, "1234")?])?, "the domain was changed");
    Ok(())
}

fn domain_of(site: &Site<'_>, name: &str) -> Result<String> {
    let found = site.wait_machines("a domain", &[name], BOOT, |machine| !machine.instance().is_empty())?;
    Ok(found[0].text("/status/providerStatus/domain").to_owned())
}

fn expect_twin(site: &Site<'_>, tiny: &str) -> Result<()> {
    site.apply(&[in_slides_group(machine("m1", tiny, json!({})))])?;
    let running = |machine: &Machine| machine.phase() == "Running";
    let twin = site.wait_machines_in(SLIDES, "the twin runs", &["m1"], BOOT, running)?;
    let own = site.wait_running(&["m1"])?;
    ensure!(twin[0].instance() != own[0].instance(), "one domain for two Machines");
    site.expect_one_of_each(&twin[0])?;
    site.expect_one_of_each(&own[0])?;
    site.server.kubectl(&["delete", &format!("machines.{SLIDES}"), "m1", "--timeout=60s"])?;
    site.expect_one_of_each(&site.wait_running(&["m1"])?[0])
}

fn expect_new_life(site: &Site<'_>, first: &Machine, tiny: &str) -> Result<Machine> {
    let domain = first.text("/status/providerStatus/domain");
    // The tiny image keeps nothing by itself: a mark on the disk shows whether the new one is fresh.
    let write = "echo old-life | dd of=/dev/vda bs=512 seek=2000000 conv=notrunc 2>/dev/null; sync; echo written";
    ensure!(console::run(site, domain, write)?.contains("written"), "the mark was not written");
    site.server.kubectl(&["delete", "machines.cluster.k8s.io", "m1", "--timeout=60s"])?;
    site.apply(&[machine("m1", tiny, json!({"diskInGB": 1}))])?;
    let again = site.wait_ready(&["m1"])?.remove(0);
    site.expect_one_of_each(&again)?;
    ensure!(again.uid() != first.uid(), "the same uid");
    let domain = again.text("/status/providerStatus/domain");
    let read = "dd if=/dev/vda bs=512 skip=2000000 count=1 2>/dev/null | grep -c old-life";
    ensure!(console::run(site, domain, read)?.trim() == "0", "the new machine has the old disk");
    expect_seed(site, &again)?;
    Ok(again)
}
