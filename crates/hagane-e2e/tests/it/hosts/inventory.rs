//! hosts.ini as Ansible itself reads it, for every form in which roles are asked for. One container host stands for five: it has
//! five addresses.

use anyhow::{Context, Result, ensure};
use hagane_testkit::lab::Lab;
use hagane_testkit::road::ssh_secret_manifest;
use serde_json::{Value, json};

use super::kubespray::{for_kubespray, replay, small_tree, wait_succeeded};
use super::objects::{by_mac, facts, host};
use super::outcome::members;
use super::site::{SAID, Site, in_lab, line, ready_message, text};

/// Last octets of the MAC addresses and of the addresses of the hosts.
const HOSTS: [u8; 5] = [0x01, 0x02, 0x03, 0x0a, 0x0b];

fn mac(host: u8) -> String {
    format!("52:54:00:00:10:{host:02x}")
}

#[test]
fn the_inventory_has_every_node_once_in_its_groups() -> Result<()> {
    in_lab("hosts::inventory", &["server:2:2048"], small_tree, |site| {
        site.server.kubectl(&["create", "namespace", "site"])?;
        site.namespace = "site";
        site.step("five hosts", five_hosts)?;
        site.step("an even number of masters is refused before anything runs", |site| even_masters(site))?;
        site.step("five nodes", |site| five_nodes(site))?;
        site.step("no workers: the masters work too", |site| without_workers(site))?;
        site.step("one node in both roles", |site| both_roles(site))?;
        site.step("lists that make no sense", |site| senseless(site))
    })
}

fn five_hosts(site: &mut Site<'_>) -> Result<()> {
    for number in HOSTS {
        let address = address(site.lab, number)?;
        site.on_host("server", &["ip", "address", "add", &format!("{address}/24"), "dev", "host0"])?;
        let mac = mac(number);
        site.create(&host(&format!("host-{number}"), &mac, &facts(2, 2048, &mac, &address)))?;
    }
    let secret: Value = serde_json::from_str(&ssh_secret_manifest(&site.ssh_key()?)).context("a Secret")?;
    site.create(&secret)
}

/// An address of the hosts' network that the lab does not use.
fn address(lab: &Lab, number: u8) -> Result<String> {
    let host = lab.description().hosts.first().context("a host")?.address;
    let [a, b, c, _] = host.octets();
    Ok(format!("{a}.{b}.{c}.{}", 200 + number))
}

fn named(prefix: &str, numbers: &[(&str, u8)]) -> Value {
    numbers.iter().map(|(label, host)| by_mac(&format!("{prefix}-{label}"), &mac(*host))).collect()
}

fn even_masters(site: &Site<'_>) -> Result<()> {
    let masters = named("master", &[("1", 0x01), ("2", 0x02)]);
    let object = for_kubespray("alpha", json!({"masters": masters, "workers": named("worker", &[("10", 0x0a)])}));
    let output = site.try_create(&object)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(said.contains("spec.masters"), "{said}");
        return Ok(());
    }
    let seen = site.wait_reason("alpha", "InvalidSpec", SAID)?;
    ensure!(ready_message(&seen).contains("masters") && ready_message(&seen).contains("odd"), "{}", line(&seen));
    ensure!(site.run_directories()?.is_empty(), "runs {:?}", site.run_directories()?);
    site.delete(&["provisioning", "alpha"])
}

/// worker-1 comes after worker-10: a label that is part of another is a label of its own.
fn five_nodes(site: &Site<'_>) -> Result<()> {
    let spec = json!({
        "masters": named("master", &[("1", 0x01), ("2", 0x02), ("3", 0x03)]),
        "workers": named("worker", &[("10", 0x0a), ("1", 0x0b)]),
        "PodSubnet": "",
    });
    let masters = ["master-1", "master-2", "master-3"];
    expect_groups(site, &for_kubespray("alpha", spec), &masters, &["worker-10", "worker-1"])
}

fn without_workers(site: &Site<'_>) -> Result<()> {
    let masters = named("master", &[("1", 0x01)]);
    expect_groups(site, &for_kubespray("none", json!({"masters": masters})), &["master-1"], &["master-1"])?;
    let mut empty = for_kubespray("empty", json!({"masters": masters, "workers": []}));
    // Without the label the cluster is named as the object.
    empty["metadata"]["labels"] = json!({});
    expect_groups(site, &empty, &["master-1"], &["master-1"])
}

fn both_roles(site: &Site<'_>) -> Result<()> {
    let spec = json!({"masters": named("node", &[("1", 0x01)]), "workers": named("node", &[("1", 0x01), ("2", 0x02)])});
    expect_groups(site, &for_kubespray("both", spec), &["node-1"], &["node-1", "node-2"])
}

/// Installs, and compares hosts.ini, what `ansible-inventory` makes of it, and what the playbook saw.
fn expect_groups(site: &Site<'_>, object: &Value, masters: &[&str], workers: &[&str]) -> Result<()> {
    site.create(object)?;
    let name = text(object, "/metadata/name").to_owned();
    let seen = wait_succeeded(site, &name)?;
    ensure!(text(&seen, "/status/cluster") == name, "{}", seen["status"]);
    let run = site.run_directory(&seen);
    let ini = std::fs::read_to_string(run.join("work/hosts.ini")).context("read hosts.ini")?;
    let mut all: Vec<&str> = masters.to_vec();
    all.extend(workers.iter().filter(|worker| !masters.contains(*worker)));
    let lines = members(&ini, "all");
    ensure!(lines.len() == all.len(), "{ini}");
    let addresses: std::collections::BTreeSet<_> =
        lines.iter().filter_map(|line| line.split_whitespace().nth(1)).collect();
    ensure!(addresses.len() == all.len(), "{ini}");
    for (group, wanted) in [("kube_control_plane", masters), ("etcd", masters), ("kube_node", workers)] {
        let mut found = members(&ini, group);
        found.sort_unstable();
        let mut wanted = wanted.to_vec();
        wanted.sort_unstable();
        ensure!(found == wanted, "[{group}] is {found:?}, not {wanted:?}:\n{ini}");
    }
    let asked = site.on_host("server", &["cat", &format!("/var/tmp/asked-{}.json", all[0])])?;
    let asked: Value = serde_json::from_str(&asked).context("the playbook leaves JSON")?;
    let mut cluster: Vec<_> =
        asked["groups"]["k8s_cluster"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    cluster.sort_unstable();
    all.sort_unstable();
    ensure!(cluster == all, "Ansible sees {asked}");
    ensure!(replay(site, &run, &["--syntax-check"])?.contains("playbook:"), "no playbook was checked");
    ensure!(replay(site, &run, &["--list-tasks"])?.contains("Keep what was asked for"), "tasks are not listed");
    site.delete(&["provisioning", &name])?;
    ensure!(site.run_directories()?.is_empty(), "runs are left");
    Ok(())
}

fn senseless(site: &Site<'_>) -> Result<()> {
    let case = |spec: Value, words: &[&'static str]| (for_kubespray("bad", spec), words.to_vec());
    let twice = json!([{"a": {"mac-address": mac(1)}, "b": {"mac-address": mac(2)}}]);
    site.expect_refused(&[
        case(json!({"masters": []}), &["spec.masters"]),
        case(json!({"masters": twice}), &["spec.masters[0]", "a", "b"]),
        case(
            json!({"masters": [by_mac("a", &mac(1))], "workers": [by_mac("b", "52-54-00-00-10-01")]}),
            &["spec.workers[0].b.mac-address"],
        ),
        case(json!({"masters": [by_mac("a", &mac(1))], "workers": [by_mac("a", &mac(2))]}), &["spec.workers[0].a"]),
        case(
            json!({"masters": [by_mac("a", &mac(1))], "PodSubnet": "10.0.0.0/99"}),
            &["spec.PodSubnet", "10.0.0.0/99"],
        ),
    ])
}
