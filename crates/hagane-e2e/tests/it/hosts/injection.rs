//! Templates in what users write: refused, or data to the end. Nothing of it runs, on the management side or on a host.

use anyhow::{Context, Result, ensure};
use hagane_testkit::road::ssh_secret_manifest;
use serde_json::{Value, json};

use super::kubespray::{for_kubespray, injected, small_tree, wait_succeeded};
use super::objects::{by_mac, facts, host};
use super::site::{SAID, Site, in_lab, line, text};

/// A template that leaves a file where it is evaluated.
fn template(site: &Site<'_>, place: &str) -> String {
    format!("{{{{ lookup('ansible.builtin.pipe', 'touch {}/{place}') }}}}", injected(site.lab).display())
}

#[test]
fn what_users_write_is_never_run() -> Result<()> {
    in_lab("hosts::injection", &["server:1:2048"], small_tree, |site| {
        site.step("a host with templates in its facts", |site| host_with_templates(site))?;
        site.step("fields that take no template", |site| refused(site))?;
        site.step("fields that are refused before a run", |site| never_run(site))?;
        site.step("fields that are data in a run", |site| data_in_a_run(site))
    })
}

fn host_with_templates(site: &Site<'_>) -> Result<()> {
    let server = site.hosts()[0].clone();
    site.on_host("server", &["install", "--directory", "--mode=1777", &injected(site.lab).display().to_string()])?;
    let mut facts = facts(server.cpus, server.memory_mib, &server.mac, &server.address.to_string());
    facts["hostname"] = json!(template(site, "hostname"));
    facts["cpu"]["model"] = json!(template(site, "model"));
    facts["nics"][0]["name"] = json!(template(site, "nic"));
    facts["systemVendor"] = json!({"manufacturer": template(site, "maker")});
    let mut object = host("server", &server.mac, &facts);
    object["spec"]["description"] = json!(template(site, "description"));
    site.create(&object)?;
    let secret: Value = serde_json::from_str(&ssh_secret_manifest(&site.ssh_key()?)).context("a Secret")?;
    site.create(&secret)
}

/// A Provisioning of the one host.
fn with(site: &Site<'_>, fields: &Value) -> Value {
    let mut spec = json!({"masters": [by_mac("node-1", &site.hosts()[0].mac)]});
    for (name, value) in fields.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    for_kubespray("text", spec)
}

fn refused(site: &Site<'_>) -> Result<()> {
    let text = template(site, "refused");
    let case = |fields: Value, word: &'static str| (with(site, &fields), vec![word]);
    let mut named = with(site, &json!({}));
    named["metadata"]["name"] = json!(text);
    let mut labelled = with(site, &json!({}));
    labelled["metadata"]["labels"]["cluster"] = json!(text);
    site.expect_refused(&[
        (named, vec!["metadata.name"]),
        (labelled, vec!["metadata.labels"]),
        case(json!({"masters": [{&text: {}}]}), "spec.masters[0]"),
        case(json!({"masters": [{"a": {"mac-address": text}}]}), "mac-address"),
        case(json!({"workers": [{&text: {}}]}), "spec.workers[0]"),
        case(json!({"workers": [{"a": {"cpu": text}}]}), "cpu"),
        case(json!({"master": {"memory": text}}), "spec.master.memory"),
        case(json!({"worker": {"disk": text}, "replicas": 1}), "spec.worker.disk"),
        case(json!({"replicas": text}), "replicas"),
        case(json!({"PodSubnet": text}), "spec.PodSubnet"),
        case(json!({"serviceSubnet": text}), "spec.serviceSubnet"),
        case(json!({"KUDPlugins": [text]}), "spec.KUDPlugins[0]"),
        case(json!({"installer": text}), "installer"),
        case(json!({"ssh": {"port": text}}), "port"),
        case(json!({"timeLimitMinutes": text}), "timeLimitMinutes"),
        case(json!({&text: "x"}), "unknown field"),
    ])
}

/// What the API may take, and the controller does not act on.
fn never_run(site: &Site<'_>) -> Result<()> {
    for fields in [
        json!({"ssh": {"user": template(site, "user")}}),
        json!({"ssh": {"secretName": template(site, "secret")}}),
        json!({"variables": {template(site, "name"): "x"}}),
        json!({"variables": {"deep": {template(site, "key"): "x"}}}),
        json!({"variables": {"ansible_connection": "local"}}),
        json!({"variables": {"artifacts_dir": "/etc"}}),
        json!({"installer": "kubeadm", "variables": {"note": template(site, "kubeadm")}}),
        json!({"installer": "kubeadm", "variables": {"dns_domain": template(site, "domain")}}),
    ] {
        let object = with(site, &fields);
        if !site.try_create(&object)?.status.success() {
            continue;
        }
        let seen = site.wait_provisioning("refused", "text", SAID, |seen| {
            ["InvalidSpec", "SshKeyMissing"].contains(&super::site::ready_reason(seen))
        })?;
        ensure!(site.run_directories()?.is_empty(), "{fields}: {}", line(&seen));
        site.delete(&["provisioning", "text"])?;
    }
    expect_nothing_ran(site, &[])
}

fn data_in_a_run(site: &Site<'_>) -> Result<()> {
    let (note, item) = (template(site, "note"), template(site, "item"));
    let statement =
        format!("{{% set x = lookup('pipe', 'touch {}/statement') %}}{{{{ x }}}}", injected(site.lab).display());
    let deep = json!({"list": [item, {"inner": statement}], "lines": format!("a\n{item}\n")});
    let mut object = with(site, &json!({"variables": {"note": note, "deep": deep}}));
    object["metadata"]["annotations"] =
        json!({"hagane.dev/retry": template(site, "retry"), "note": template(site, "annotation")});
    site.create(&object)?;
    let seen = wait_succeeded(site, "text")?;
    let asked = site.on_host("server", &["cat", "/var/tmp/asked-node-1.json"])?;
    let asked: Value = serde_json::from_str(&asked).context("the playbook leaves JSON")?;
    ensure!(asked["note"] == note.as_str() && asked["deep"] == deep, "{asked}");
    let log = std::fs::read_to_string(text(&seen, "/status/run/log")).context("read the log")?;
    ensure!(
        log.contains(&format!("touch {}/note", injected(site.lab).display())),
        "the text is not shown as it is:\n{log}"
    );
    // The playbook's own template is the proof that one that is evaluated would be found.
    expect_nothing_ran(site, &["control"])?;
    site.delete(&["provisioning", "text"])?;
    expect_nothing_ran(site, &["control"])
}

/// None of the files is there but those that are expected, neither on the host nor where hagane and Ansible run.
fn expect_nothing_ran(site: &Site<'_>, expected: &[&str]) -> Result<()> {
    let folder = injected(site.lab);
    let on_host = site.on_host("server", &["ls", "--almost-all", &folder.display().to_string()])?;
    ensure!(on_host.trim().is_empty(), "on the host: {on_host}");
    let entries = std::fs::read_dir(&folder).context("list what was left")?;
    let found: Vec<_> = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    ensure!(found == expected, "where hagane runs: {found:?}, not {expected:?}");
    Ok(())
}
