//! What is somebody else's stays as it is; a broken emulator is waited for.

use anyhow::{Context, Result, ensure};
use hagane_libvirt::names;
use hagane_ports::MachineKey;
use serde_json::json;

use super::objects::{Machine, machine};
use super::site::{Site, in_lab};

const POOL: &str = "default";
const EMULATOR: &str = "/usr/bin/qemu-system-x86_64";

#[test]
fn domains_and_volumes_of_others_are_never_touched() -> Result<()> {
    in_lab("machines::strangers", &[], |site| {
        site.step("plain names that others have taken do not matter", expect_plain_names_free)?;
        site.step("names that are ours by their uid, taken by others", expect_names_taken)?;
        site.step("an emulator that does not work, and works again", expect_repair_of_emulator)?;
        site.step("nothing of ours is left", |site| {
            site.remove(&["m1", "m2", "broken"])?;
            for stranger in ["m2", "by-uuid"] {
                site.virsh(&["destroy", stranger])?;
                site.virsh(&["undefine", stranger])?;
            }
            site.virsh(&["vol-delete", "--pool", POOL, "m1.qcow2"])?;
            site.expect_nothing_left()
        })
    })
}

fn expect_plain_names_free(site: &mut Site<'_>) -> Result<()> {
    let before = stranger_volume(site, "m1.qcow2")?;
    let uuid = stranger_domain(site, "m2", "5d5dd1c5-1f5a-4c0b-9e55-0a9a3e7c0a01")?;
    let tiny = site.tiny()?;
    site.apply(&[machine("m1", &tiny, json!({})), machine("m2", &tiny, json!({}))])?;
    let machines = site.wait_running(&["m1", "m2"])?;
    machines.iter().try_for_each(|machine| site.expect_one_of_each(machine))?;
    let xml = site.virsh(&["dumpxml", machines[0].text("/status/providerStatus/domain")])?;
    ensure!(!xml.contains("m1.qcow2"), "a stranger's volume is attached: {xml}");
    ensure!(before == content(site, "m1.qcow2")?, "the stranger's volume was changed");
    expect_running(site, "m2", &uuid)
}

/// The uids are known while the Machines wait for a network; then their names are taken.
fn expect_names_taken(site: &mut Site<'_>) -> Result<()> {
    let tiny = site.tiny()?;
    let waiting = ["by-name", "by-uuid", "by-root", "by-seed"];
    let objects = waiting.map(|name| machine(name, &tiny, json!({"networkName": "late"})));
    site.apply(&objects)?;
    let machines = site.wait_reason(&waiting, "NetworkNotAvailable")?;
    let domain = names::domain(&key(&machines[0]));
    let uuids = [
        stranger_domain(site, &domain, "5d5dd1c5-1f5a-4c0b-9e55-0a9a3e7c0a02")?,
        stranger_domain(site, "by-uuid", machines[1].uid())?,
    ];
    let (root, seed) = (names::root_volume(machines[2].uid()), names::seed_volume(machines[3].uid()));
    let contents = [stranger_volume(site, &root)?, stranger_volume(site, &seed)?];
    site.define_network("late", 140, true)?;

    let taken = site.wait_reason(&waiting, "NameTaken")?;
    for (machine, name) in taken.iter().zip([&domain, "by-uuid", &root, &seed]) {
        ensure!(machine.message("Ready").contains(name), "{name} is not named: {}", machine.line());
    }
    // A Machine goes, also where all that has its name is somebody else's.
    site.remove(&["by-uuid"])?;
    expect_running(site, &domain, &uuids[0])?;
    expect_running(site, "by-uuid", &uuids[1])?;
    ensure!(contents == [content(site, &root)?, content(site, &seed)?], "a stranger's volume was changed");

    site.virsh(&["destroy", &domain])?;
    site.virsh(&["undefine", &domain])?;
    for volume in [&root, &seed] {
        site.virsh(&["vol-delete", "--pool", POOL, volume])?;
    }
    let rest = ["by-name", "by-root", "by-seed"];
    site.wait_running(&rest)?.iter().try_for_each(|machine| site.expect_one_of_each(machine))?;
    site.remove(&rest)
}

fn expect_repair_of_emulator(site: &mut Site<'_>) -> Result<()> {
    site.run(["mount", "--bind", "/bin/false", EMULATOR])?;
    site.apply(&[machine("broken", &site.tiny()?, json!({}))])?;
    let said = site.wait_reason(&["broken"], "CreateFailed");
    let unmounted = site.run(["umount", EMULATOR]);
    let said = said?;
    unmounted?;
    ensure!(!said[0].message("Ready").is_empty(), "no message: {}", said[0].line());
    let repaired = site.wait_running(&["broken"])?;
    site.expect_one_of_each(&repaired[0])
}

fn key(machine: &Machine) -> MachineKey {
    let text = |pointer| machine.text(pointer).to_owned();
    MachineKey { namespace: text("/metadata/namespace"), name: text("/metadata/name"), uid: text("/metadata/uid") }
}

/// A running domain with no disk.
fn stranger_domain(site: &Site<'_>, name: &str, uuid: &str) -> Result<String> {
    let xml = format!(
        "<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>32</memory><vcpu>1</vcpu>\
         <os><type arch='x86_64'>hvm</type></os><devices><emulator>{EMULATOR}</emulator></devices></domain>"
    );
    let file = site.file("stranger.xml", xml)?;
    site.virsh(&["define", &file])?;
    site.virsh(&["start", name])?;
    Ok(uuid.to_owned())
}

fn expect_running(site: &Site<'_>, name: &str, uuid: &str) -> Result<()> {
    let found = (site.virsh(&["domuuid", name])?, site.virsh(&["domstate", name])?);
    ensure!((found.0.trim(), found.1.trim()) == (uuid, "running"), "the stranger {name} is {found:?}");
    Ok(())
}

/// A volume of a size that is read through, with bytes that are not ours.
fn stranger_volume(site: &Site<'_>, name: &str) -> Result<Vec<u8>> {
    let bytes: Vec<u8> = (0..1_u32 << 20).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let file = site.file("stranger.bytes", &bytes)?;
    site.virsh(&["vol-create-as", POOL, name, "1M", "--format", "raw"])?;
    site.virsh(&["vol-upload", "--pool", POOL, name, &file])?;
    let stored = content(site, name)?;
    ensure!(stored == bytes, "the stranger's volume was not filled");
    Ok(stored)
}

fn content(site: &Site<'_>, volume: &str) -> Result<Vec<u8>> {
    let path = site.outside("/var/lib/libvirt/images").join(volume);
    std::fs::read(&path).with_context(|| format!("read {}", path.display()))
}
