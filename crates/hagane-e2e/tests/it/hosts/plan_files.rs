//! `hagane plan` on files: exit code, shape of the JSON, and what it says of a bad file.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::objects::{facts, host, provisioning};
use crate::support;

#[test]
fn plan_on_files_tells_by_code_and_json() -> Result<()> {
    if !support::can_run("hosts::plan_on_files") {
        return Ok(());
    }
    let hagane = support::tools()?.hagane;
    let folder = tempfile::tempdir().context("make a folder")?;
    let hosts = json!({"apiVersion": "v1", "kind": "List", "items": [
        host("big", "52:54:00:00:20:01", &facts(16, 16384, "52:54:00:00:20:01", "192.0.2.1")),
        host("small", "52:54:00:00:20:02", &facts(4, 4096, "52:54:00:00:20:02", "192.0.2.2")),
    ]});
    let hosts = file(folder.path(), "hosts.yaml", &hosts.to_string())?;
    let size = |memory: &str| json!({"master": {"cpu": 4, "memory": memory}, "worker": {"cpu": 2, "memory": "1Gi"}, "replicas": 1});

    let met = file(folder.path(), "met.yaml", &provisioning("edge-1", &size("8Gi")).to_string())?;
    let (code, plan) = planned(&run_plan(&hagane, &[&hosts, &met])?)?;
    ensure!(code == Some(0), "code {code:?}: {plan}");
    expect_shape(&plan)?;
    let pairs: Vec<_> =
        list(&plan, "assignments").iter().map(|entry| (entry["node"].clone(), entry["host"].clone())).collect();
    ensure!(pairs == [(json!("edge-1-master-1"), json!("big")), (json!("edge-1-worker-1"), json!("small"))], "{plan}");
    ensure!(list(&plan, "unsatisfied").is_empty(), "{plan}");

    let unmet = file(folder.path(), "unmet.yaml", &provisioning("edge-2", &size("17Gi")).to_string())?;
    let (code, plan_unmet) = planned(&run_plan(&hagane, &[&hosts, &unmet])?)?;
    ensure!(code == Some(2), "code {code:?}: {plan_unmet}");
    expect_shape(&plan_unmet)?;
    let short = list(&plan_unmet, "unsatisfied");
    ensure!(short.len() == 1 && short[0]["demand"] == "edge-2-master-1", "{plan_unmet}");
    ensure!(
        short[0]["short"].as_str().is_some_and(|text| text.contains("big")),
        "the nearest host is not named: {plan_unmet}"
    );

    for (name, content, told) in [
        ("broken.yaml", "a: [", "broken.yaml"),
        ("nothing.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", "no Provisioning"),
        ("bad.yaml", &provisioning("edge-3", &size("4GB")).to_string(), "spec.master.memory: Invalid value: \"4GB\""),
    ] {
        let bad = file(folder.path(), name, content)?;
        expect_error(&run_plan(&hagane, &[&hosts, &bad])?, told)?;
    }
    expect_error(&run_plan(&hagane, &["/nonexistent/x.yaml"])?, "/nonexistent/x.yaml")
}

fn file(folder: &Path, name: &str, content: &str) -> Result<String> {
    let path = folder.join(name);
    std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
    Ok(path.display().to_string())
}

fn run_plan(hagane: &Path, files: &[&str]) -> Result<Output> {
    let mut command = Command::new(hagane);
    command.args(["plan", "--output=json"]);
    files.iter().for_each(|file| {
        command.args(["-f", file]);
    });
    command.env_remove("KUBECONFIG").output().context("start hagane plan")
}

fn planned(output: &Output) -> Result<(Option<i32>, Value)> {
    let plan = serde_json::from_slice(&output.stdout);
    let plan = plan.with_context(|| format!("no JSON: {output:?}"))?;
    Ok((output.status.code(), plan))
}

fn list<'v>(plan: &'v Value, name: &str) -> &'v [Value] {
    plan.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Exactly the documented fields, everywhere.
fn expect_shape(plan: &Value) -> Result<()> {
    let keys = |value: &Value| value.as_object().map(|map| map.keys().cloned().collect::<BTreeSet<_>>());
    let wanted = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<BTreeSet<_>>());
    let sections: [(&str, &[&str]); 3] = [
        ("assignments", &["node", "roles", "host", "reasons"]),
        ("rejected", &["host", "reasons"]),
        ("unsatisfied", &["demand", "short", "change"]),
    ];
    ensure!(keys(plan) == wanted(&["assignments", "rejected", "unsatisfied", "spare"]), "{plan}");
    ensure!(keys(&plan["spare"]) == wanted(&["hosts", "cpu", "memory", "disk", "unknown"]), "{plan}");
    for (name, fields) in sections {
        for entry in list(plan, name) {
            ensure!(keys(entry) == wanted(fields), "{name}: {entry}");
            let words = |field: &str| {
                entry[field].as_array().is_none_or(|list| !list.is_empty() && list.iter().all(Value::is_string))
            };
            ensure!(words("roles") && words("reasons"), "{name}: {entry}");
        }
    }
    Ok(())
}

fn expect_error(output: &Output, told: &str) -> Result<()> {
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "status {:?}: {error}", output.status);
    ensure!(output.stdout.is_empty() && error.contains(told), "{told:?} is not in {error:?}");
    Ok(())
}
