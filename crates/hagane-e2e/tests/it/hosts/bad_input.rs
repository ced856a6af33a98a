//! Hosts and demands as people write them: refused with field and value, or understood; others go on.

use anyhow::{Context, Result, ensure};
use hagane_testkit::road::wait_for;
use serde_json::{Value, json};

use super::objects::{by_mac, facts, host, provisioning};
use super::site::{SAID, Site, assignments, in_lab, line, ready_message, ready_reason, text};

#[test]
fn hosts_and_demands_as_people_write_them() -> Result<()> {
    in_lab(
        "hosts::bad_input",
        &[],
        |_| Ok(Vec::new()),
        |site| {
            site.step("MAC addresses of hosts", |site| mac_addresses(site))?;
            site.step("nodes by MAC address find their hosts", |site| nodes_by_mac(site))?;
            site.step("a host's MAC address stays", |site| boot_mac_stays(site))?;
            site.step("two hosts with one management controller", |site| one_controller(site))?;
            site.delete(&["baremetalhosts", "--all"])?;
            site.step("amounts that are refused", |site| refused_amounts(site))?;
            site.step("amounts that are understood", |site| amounts(site))?;
            site.step("hagane plan says what the controller says", |site| same_plan(site))
        },
    )
}

/// Field report on MAC addresses: other spellings, twice the same, and what is no address of a NIC.
fn mac_addresses(site: &Site<'_>) -> Result<()> {
    let with = |name: &str, mac: &str, address: &str| host(name, mac, &facts(4, 4096, mac, address));
    site.create(&with("h-a", "52:54:00:AA:BB:01", "192.0.2.11"))?;
    site.create(&with("h-c", "52-54-00-aa-bb-02", "192.0.2.12"))?;
    site.create(&with("h-d", "5254.00aa.bb03", "192.0.2.13"))?;
    site.create(&host("h-j", "", &json!({"cpu": {"count": 4}, "ramMebibytes": 4096})))?;
    let nics = json!([{"mac": "", "ip": ""}, {"mac": "52:54:00:AA:BB:0B", "ip": "192.0.2.21"}]);
    site.create(&host("h-k", "52:54:00:aa:bb:0c", &json!({"cpu": {"count": 4}, "ramMebibytes": 4096, "nics": nics})))?;
    let bad = |name: &str, mac: &'static str| (host(name, mac, &json!({})), vec!["spec.bootMACAddress", mac]);
    site.expect_refused(&[
        bad("h-e", "52:54:00:aa:bb"),
        bad("h-f", "53:54:00:aa:bb:04"),
        bad("h-g", "52:54:00:ff:fe:aa:bb:05"),
        bad("h-h", "ff:ff:ff:ff:ff:ff"),
        bad("h-i", "00:00:00:00:00:00"),
    ])?;
    let second = site.try_create(&with("h-b", "52:54:00:aa:bb:01", "192.0.2.99"))?;
    if second.status.success() {
        wait_for("h-b is told of h-a", SAID, || {
            let seen = site.object("baremetalhosts", "h-b")?.context("h-b is there")?;
            let told = text(&seen, "/status/errorMessage");
            Ok(if told.contains("h-a") { Ok(()) } else { Err(format!("{:?}", seen.get("status"))) })
        })?;
    }
    Ok(())
}

fn nodes_by_mac(site: &Site<'_>) -> Result<()> {
    let masters = json!([
        by_mac("m-c", "52:54:00:aa:bb:02"),
        by_mac("m-d", "52:54:00:AA:BB:03"),
        by_mac("m-k", "52:54:00:aa:bb:0b")
    ]);
    site.create(&provisioning("macs", &json!({"masters": masters, "workers": [by_mac("w-a", "5254.00aa.bb01")]})))?;
    let seen = wait_planned(site, "macs")?;
    let pairs: Vec<_> = assignments(&seen);
    let pairs: Vec<_> = pairs.iter().map(|(node, host)| (node.as_str(), host.as_str())).collect();
    ensure!(pairs == [("m-c", "h-c"), ("m-d", "h-d"), ("m-k", "h-k"), ("w-a", "h-a")], "{pairs:?}");
    ensure!(text(&seen, "/status/plan/assignments/2/address") == "192.0.2.21", "{}", seen["status"]);
    let twin = site.object("baremetalhosts", "h-b")?;
    ensure!(
        twin.is_none_or(|twin| twin.pointer("/spec/consumerRef").is_none()),
        "the second of two equal hosts is claimed"
    );
    site.delete(&["provisioning", "macs"])
}

fn boot_mac_stays(site: &Site<'_>) -> Result<()> {
    let change = json!({"spec": {"bootMACAddress": "52:54:00:aa:bb:77"}}).to_string();
    let output = site.server.try_kubectl(&["patch", "baremetalhost", "h-a", "--type=merge", "--patch", &change], "")?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success() && said.contains("spec.bootMACAddress"), "{said}");
    Ok(())
}

fn one_controller(site: &Site<'_>) -> Result<()> {
    for (name, address) in [
        ("first", "redfish://192.0.2.50/redfish/v1/Systems/1"),
        ("second", "redfish://192.0.2.50//redfish/v1/Systems/1/"),
    ] {
        let mut object =
            host(name, if name == "first" { "52:54:00:00:50:01" } else { "52:54:00:00:50:02" }, &json!({}));
        object["spec"]["bmc"] = json!({"address": address, "credentialsName": "bmc"});
        site.create(&object)?;
    }
    wait_for("the second host is told of the first", SAID, || {
        let seen = site.object("baremetalhosts", "second")?.context("the second host is there")?;
        let told = text(&seen, "/status/errorMessage").to_owned();
        Ok(if told.contains("host first") && told.contains("spec.bmc.address") { Ok(()) } else { Err(told) })
    })
}

/// A Provisioning of one master of this size.
fn sized(name: &str, cpu: &Value, memory: &Value) -> Value {
    let mut master = json!({"cpu": cpu, "memory": memory});
    if let Some(fields) = master.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    provisioning(name, &json!({"master": master}))
}

fn refused_amounts(site: &Site<'_>) -> Result<()> {
    let memory = ["4GB", "4gi", "4000000K", "-1Gi", "four", "1Gi2", "4 Gi", "1e", ""];
    let mut cases: Vec<(Value, Vec<&str>)> =
        memory.iter().map(|text| (sized("bad", &json!(4), &json!(text)), vec!["spec.master.memory", *text])).collect();
    cases.push((sized("bad", &json!(-2), &Value::Null), vec!["spec.master.cpu", "-2"]));
    let huge = "99999999999999999999Ei";
    cases.push((sized("bad", &json!(4), &json!(huge)), vec!["spec.master.memory", huge]));
    site.expect_refused(&cases)
}

/// Amounts in every legal spelling lead to the host that they fit, and the choice is the same each time.
fn amounts(site: &Site<'_>) -> Result<()> {
    site.create(&host("x", "52:54:00:00:17:01", &facts(4, 4096, "52:54:00:00:17:01", "192.0.2.31")))?;
    site.create(&host("y", "52:54:00:00:17:02", &facts(16, 16384, "52:54:00:00:17:02", "192.0.2.32")))?;
    let four = json!(4);
    let fits_x =
        ["4096Mi", "4Gi", "4194304Ki", "4294967296", "4G", "4e9", "4000000Ki", "4000000k", "4.0Gi", "+4Gi", ".5Gi"];
    for text in fits_x {
        expect_host(site, &sized("sized", &four, &json!(text)), Some("x"))?;
    }
    for text in ["4097Mi", "4194305Ki", "5G", "4.5Gi"] {
        expect_host(site, &sized("sized", &four, &json!(text)), Some("y"))?;
    }
    for text in ["17Gi", "1Ti"] {
        expect_host(site, &sized("sized", &four, &json!(text)), None)?;
    }
    for (cpu, memory, wanted) in [
        (json!(4), json!(4_294_967_296_u64), "x"),
        (json!("4"), Value::Null, "x"),
        (json!(0), json!(0), "x"),
        (json!(4.5), Value::Null, "y"),
    ] {
        let object = sized("sized", &cpu, &memory);
        let output = site.try_create(&object)?;
        // Fractions of a CPU may be refused, with field and value; numbers for text too.
        if output.status.success() {
            site.delete(&["provisioning", "sized"])?;
            expect_host(site, &object, Some(wanted))?;
        } else {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            ensure!(said.contains("spec.master."), "{said}");
        }
    }
    Ok(())
}

/// Creates a Provisioning of one master, expects its host, and removes it again.
fn expect_host(site: &Site<'_>, object: &Value, wanted: Option<&str>) -> Result<()> {
    site.create(object)?;
    let name = text(object, "/metadata/name");
    match wanted {
        Some(host) => {
            let seen = wait_planned(site, name)?;
            ensure!(
                assignments(&seen).iter().all(|(_, on)| on == host),
                "{object}: {:?}, not {host}",
                assignments(&seen)
            );
        }
        None => {
            let seen = site.wait_reason(name, "NoSuitableHosts", SAID)?;
            let told = ready_message(&seen);
            ensure!(told.contains("memory") && told.contains('y'), "{object}: {told}");
        }
    }
    site.delete(&["provisioning", name])
}

/// Waits until every node has a host; without an SSH key it goes no further.
fn wait_planned(site: &Site<'_>, name: &str) -> Result<Value> {
    let seen = site.wait_reason(name, "SshKeyMissing", SAID)?;
    ensure!(ready_reason(&seen) == "SshKeyMissing" && !assignments(&seen).is_empty(), "{}", line(&seen));
    Ok(seen)
}

fn same_plan(site: &Site<'_>) -> Result<()> {
    let object = provisioning(
        "same",
        &json!({"master": {"cpu": 4, "memory": "4Gi"}, "worker": {"memory": "1Gi"}, "replicas": 1}),
    );
    let path = site.lab.directory().join("same.json");
    std::fs::write(&path, object.to_string()).context("write a file")?;
    let output = site.server.hagane(&["plan", "--output=json", "-f", &path.display().to_string()])?;
    let plan: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("no JSON: {output:?}"))?;
    site.create(&object)?;
    let seen = wait_planned(site, "same")?;
    let entries = plan["assignments"].as_array().cloned().unwrap_or_default();
    let stored = seen.pointer("/status/plan/assignments").and_then(Value::as_array).cloned().unwrap_or_default();
    let told = |entries: &[Value]| -> Vec<Value> {
        entries.iter().map(|entry| json!([entry["node"], entry["roles"], entry["host"], entry["reasons"]])).collect()
    };
    ensure!(output.status.code() == Some(0) && told(&entries) == told(&stored), "{plan}\n{}", seen["status"]["plan"]);
    Ok(())
}
