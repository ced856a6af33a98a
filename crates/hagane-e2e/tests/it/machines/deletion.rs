//! Deletion always ends, and never before the machine is gone.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hagane_testkit::road::wait_for;
use serde_json::json;

use super::objects::{Machine, bare_machine, machine};
use super::site::{BOOT, GONE, SAID, Site, in_lab};

/// How long libvirtd is away.
const OUTAGE: Duration = Duration::from_secs(20);

#[test]
fn every_machine_can_be_deleted_and_is_gone_afterwards() -> Result<()> {
    in_lab("machines::deletion", &[], |site| {
        let tiny = site.tiny()?;
        let names = ["lost", "off", "away", "stays"];
        let make = |name: &&str| machine(name, &tiny, json!({}));
        // Only two guests are needed awake: fewer at once boot sooner where they are emulated.
        site.apply(&names[1..3].iter().map(make).collect::<Vec<_>>())?;
        site.step("a Machine without a provider spec says so and goes", expect_bare_goes)?;
        let machines = site.step("four Machines run", |site| {
            site.wait_ready(&names[1..3])?;
            site.apply(&[make(&names[0]), make(&names[3])])?;
            site.wait_running(&names)
        })?;
        site.step("one whose domain was removed by hand", |site| expect_lost_goes(site, &machines[0]))?;
        site.step("one that was shut down", |site| expect_off_goes(site, &machines[1]))?;
        site.step("one that is deleted while libvirtd is away", |site| expect_outage(site, &machines[2]))?;
        site.step("the other one ran on; nothing is left", |site| {
            let stays = site.wait_ready(&["stays"])?.remove(0);
            ensure!(stays.instance() == machines[3].instance(), "it is another machine now: {stays:?}");
            site.expect_one_of_each(&stays)?;
            site.remove(&["stays"])?;
            site.expect_nothing_left()
        })
    })
}

fn expect_bare_goes(site: &mut Site<'_>) -> Result<()> {
    site.apply(&[bare_machine("bare", json!({})), bare_machine("imageless", json!({"providerSpec": {"vcpu": 2}}))])?;
    let bare = site.wait_reason(&["bare"], "ProviderSpecMissing")?.remove(0);
    ensure!(bare.text("/status/errorReason") == "InvalidConfiguration", "{bare:?}");
    ensure!(bare.text("/status/errorMessage").contains("spec.providerSpec"), "{bare:?}");
    let imageless = site.wait_reason(&["imageless"], "ImageMissing")?.remove(0);
    ensure!(imageless.message("Ready").contains("imageURI"), "{}", imageless.line());
    let begin = Instant::now();
    site.remove(&["bare", "imageless"])?;
    ensure!(begin.elapsed() < Duration::from_secs(30), "deletion took {:?}", begin.elapsed());
    Ok(())
}

fn expect_lost_goes(site: &mut Site<'_>, machine: &Machine) -> Result<()> {
    let domain = machine.text("/status/providerStatus/domain");
    site.virsh(&["destroy", domain])?;
    site.virsh(&["undefine", domain])?;
    let lost = site.wait_reason(&["lost"], "DomainGone")?.remove(0);
    ensure!(!lost.message("Ready").is_empty(), "{}", lost.line());
    site.remove(&["lost"])?;
    expect_gone(site, machine)
}

fn expect_off_goes(site: &mut Site<'_>, machine: &Machine) -> Result<()> {
    site.virsh(&["shutdown", machine.text("/status/providerStatus/domain")])?;
    let off = site.wait_machines("it is off", &["off"], BOOT, |machine| machine.reason("Ready") == "PoweredOff")?;
    ensure!(off[0].text("/status/providerStatus/instanceState") == "Off", "{:?}", off[0]);
    site.remove(&["off"])?;
    expect_gone(site, machine)
}

fn expect_outage(site: &mut Site<'_>, machine: &Machine) -> Result<()> {
    site.lab.stop_libvirtd()?;
    let began = Instant::now();
    site.delete(&["away"])?;
    let unreachable = |found: &Machine| found.reason("Ready") == "HypervisorUnreachable";
    let told = site.wait_machines("it says why it stays", &["away"], SAID, unreachable)?;
    ensure!(told[0].phase() == "Deleting", "{}", told[0].line());
    // Others are looked after all the while.
    site.apply(&[bare_machine("meanwhile", json!({}))])?;
    let looked = |found: &Machine| found.phase() != "" && found.reason("SpecValid") == "ProviderSpecMissing";
    site.wait_machines("another is looked after", &["meanwhile"], SAID, looked)?;
    std::thread::sleep(OUTAGE.saturating_sub(began.elapsed()));
    let stays = site.machines(super::objects::RELEASED)?.iter().any(|found| found.name() == "away");
    ensure!(stays, "the Machine was forgotten while nobody could look");
    site.lab.start_libvirtd()?;
    let domain = machine.text("/status/providerStatus/domain");
    wait_for("the deleted Machine is gone", GONE, || {
        // Asked in this order: a Machine that is gone now had no domain before.
        let left = site.machines(super::objects::RELEASED)?.iter().any(|found| found.name() == "away");
        if left {
            return Ok(Err("it is still there".to_owned()));
        }
        let running = site.holdings()?.domains.contains(domain);
        ensure!(!running, "the Machine is gone and its domain is not");
        Ok(Ok(()))
    })?;
    expect_gone(site, machine)?;
    site.remove(&["meanwhile"])
}

/// Nothing that carries the uid, and no lease, is left.
fn expect_gone(site: &Site<'_>, machine: &Machine) -> Result<()> {
    let holdings = site.holdings()?;
    let domain = machine.text("/status/providerStatus/domain");
    let mac = machine.text("/status/providerStatus/mac");
    let left = holdings.domains.iter().filter(|name| *name == domain);
    let left = left.chain(holdings.volumes.iter().filter(|name| name.contains(machine.uid())));
    let left: Vec<_> = left.chain(holdings.addresses.iter().filter(|name| name.ends_with(mac))).collect();
    ensure!(left.is_empty(), "left of {}: {left:?}", machine.name());
    Ok(())
}
