//! Pools and networks that are missing or stopped, and an address that two want.

use anyhow::{Result, ensure};
use serde_json::json;

use super::objects::machine;
use super::site::{Holdings, Site, in_lab};

/// Name, field, and what the Machine must say.
const WAITING: [(&str, &str, &str, &str, &str); 4] = [
    ("pool-missing", "poolName", "nosuch", "PoolNotAvailable", "missing"),
    ("pool-off", "poolName", "off", "PoolNotAvailable", "inactive"),
    ("net-missing", "networkName", "nosuch", "NetworkNotAvailable", "missing"),
    ("net-off", "networkName", "off", "NetworkNotAvailable", "inactive"),
];

/// Where the pools lie, inside the lab.
const DATA: &str = "/var/lib/lab";

#[test]
fn missing_pools_and_networks_are_waited_for_and_an_address_has_one_holder() -> Result<()> {
    in_lab("machines::resources", &[], |site| {
        let names = WAITING.map(|(name, ..)| name);
        site.step("each Machine says what is missing or inactive, and makes nothing", |site| {
            expect_waiting(site, &names)
        })?;
        site.step("repaired, all run without an edit", |site| expect_repaired(site, &names))?;
        site.step("two Machines and one address", expect_one_holder)?;
        site.step("a Machine whose pool is stopped goes once the pool is back", expect_hidden_volumes)?;
        site.step("nothing is left", |site| {
            site.remove(&["net-missing", "net-off", "pool-missing"])?;
            site.expect_nothing_left()
        })
    })
}

fn expect_waiting(site: &mut Site<'_>, names: &[&str]) -> Result<()> {
    site.define_network("off", 141, false)?;
    site.virsh(&["pool-define-as", "off", "dir", "--target", &format!("{DATA}/off")])?;
    let tiny = site.tiny()?;
    let objects = WAITING.map(|(name, field, value, ..)| machine(name, &tiny, json!({field: value})));
    site.apply(&objects)?;
    for (name, _, resource, reason, state) in WAITING {
        let found = site.wait_reason(&[name], reason)?.remove(0);
        let message = found.message("Ready");
        ensure!(
            message.contains(resource) && message.contains(state),
            "{name}: {message:?} names not {resource} {state}"
        );
    }
    let holdings = site.holdings()?;
    ensure!(holdings == Holdings::default(), "made while it waits: {holdings:?}");
    ensure!(site.machines(super::objects::RELEASED)?.len() == names.len(), "a Machine is missing");
    Ok(())
}

fn expect_repaired(site: &mut Site<'_>, names: &[&str]) -> Result<()> {
    site.virsh(&["pool-define-as", "nosuch", "dir", "--target", &format!("{DATA}/pool")])?;
    for pool in ["nosuch", "off"] {
        site.virsh(&["pool-build", pool])?;
        site.virsh(&["pool-start", pool])?;
    }
    site.define_network("nosuch", 142, true)?;
    site.virsh(&["net-start", "off"])?;
    let machines = site.wait_running(names)?;
    machines.iter().try_for_each(|machine| site.expect_one_of_each(machine))?;
    // The volumes are where the pool's target is.
    let xml = site.virsh(&["dumpxml", "--inactive", machines[0].text("/status/providerStatus/domain")])?;
    let disks = xml.matches("<source file='").count();
    ensure!(disks == 2 && xml.matches(&format!("<source file='{DATA}/pool/hagane-")).count() == 2, "{xml}");
    ensure!(site.outside(&format!("{DATA}/pool")).is_dir(), "the pool's directory is there");
    Ok(())
}

fn expect_one_holder(site: &mut Site<'_>) -> Result<()> {
    let tiny = site.tiny()?;
    let address = "192.168.122.50";
    let with_address = |name| machine(name, &tiny, json!({"networkAddress": address}));
    site.apply(&[with_address("first")])?;
    site.wait_machines("the first has the address", &["first"], super::site::BOOT, |machine| {
        machine.address() == address
    })?;
    site.apply(&[with_address("second")])?;
    let second = site.wait_reason(&["second"], "AddressInUse")?.remove(0);
    ensure!(second.message("Ready").contains(address), "{}", second.line());
    let holders = site.holdings()?.domains.iter().filter(|name| name.starts_with("second-")).count();
    ensure!(holders == 0, "a second domain was made");
    // Outside the network: no waiting helps.
    for (name, address) in [("astray", "203.0.113.9"), ("astray-6", "2001:db8::12")] {
        site.apply(&[machine(name, &tiny, json!({"networkAddress": address}))])?;
        let astray = site.wait_reason(&[name], "InvalidSpec")?.remove(0);
        ensure!(astray.message("Ready").contains(address), "{}", astray.line());
    }
    site.remove(&["first", "astray", "astray-6"])?;
    let holds = |machine: &super::objects::Machine| machine.address() == address;
    site.wait_machines("the second gets it", &["second"], super::site::BOOT, holds)?;
    site.remove(&["second"])
}

fn expect_hidden_volumes(site: &mut Site<'_>) -> Result<()> {
    site.virsh(&["pool-destroy", "off"])?;
    site.delete(&["pool-off"])?;
    let waits = |machine: &super::objects::Machine| machine.message("Ready").contains("\"off\"");
    let told = site.wait_machines("the Machine names the pool", &["pool-off"], super::site::SAID, waits)?;
    ensure!(told[0].message("Ready").contains("inactive"), "{}", told[0].line());
    site.virsh(&["pool-start", "off"])?;
    site.wait_gone(&["pool-off"], super::site::GONE)?;
    let left = site.virsh(&["vol-list", "off"])?;
    ensure!(!left.contains(told[0].uid()), "left in the pool: {left}");
    Ok(())
}
