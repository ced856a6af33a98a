//! Files in the form of the founding documents: accepted as they are, by a kubectl of today.

use std::process::Output;

use anyhow::{Context, Result, ensure};

use super::site::{Site, in_lab};

/// Kind of file, its text, and the objects it makes.
const FILES: [(&str, &str, &[&str]); 5] = [
    (
        "Provisioning by size",
        include_str!("../../fixtures/founding/provisioning_by_size.yaml"),
        &["provisioning.bpa.akraino.org/site-a"],
    ),
    (
        "Provisioning by MAC",
        include_str!("../../fixtures/founding/provisioning_by_mac.yaml"),
        &["provisioning.bpa.akraino.org/site-b"],
    ),
    ("Cluster", include_str!("../../fixtures/founding/cluster.yaml"), &["cluster.cluster-api.k8s.io/yatsugatake"]),
    (
        "Machines",
        include_str!("../../fixtures/founding/machines.yaml"),
        &["machine.cluster-api.k8s.io/head", "machine.cluster.k8s.io/hand"],
    ),
    ("Software", include_str!("../../fixtures/founding/software.yaml"), &["software.bpa.akraino.org/site-b-tools"]),
];
const DEFINITION: &str = include_str!("../../fixtures/founding/provisioning_definition_v1beta1.yaml");
const DEFINITION_NAME: &str = "customresourcedefinition.apiextensions.k8s.io/provisionings.bpa.akraino.org";

#[test]
fn founding_files_are_created_applied_and_deleted_as_they_are() -> Result<()> {
    in_lab("machines::founding_files", &[], |site| {
        site.step("the definition of old form", |site| expect_definition(site))?;
        for (what, text, names) in FILES {
            site.step(&format!("{what}: create, create again"), |site| expect_created_once(site, text, names))?;
            site.step(&format!("{what}: apply, apply again"), |site| expect_applied(site, text, names))?;
        }
        site.step("the objects say what they wait for", |site| expect_said(site))?;
        site.step("deleting the definition loses no object and narrows nothing", |site| expect_definition_kept(site))?;
        for (what, text, names) in FILES {
            site.step(&format!("{what}: delete"), |site| {
                let output = kubectl(site, &["delete", "--filename=-", "--timeout=60s"], text)?;
                names.iter().try_for_each(|name| {
                    let again = kubectl(site, &["get", name], "")?;
                    ensure!(!again.status.success(), "{name} is still there after {output:?}");
                    Ok(())
                })
            })?;
        }
        site.step("nothing is left", |site| site.expect_nothing_left())
    })
}

fn kubectl(site: &Site<'_>, arguments: &[&str], input: &str) -> Result<Output> {
    site.server.try_kubectl(arguments, input)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn expect_lines(output: &Output, names: &[&str], words: &[&str]) -> Result<()> {
    ensure!(output.status.success(), "{}", stderr(output));
    let text = stdout(output);
    for name in names {
        let told = text.lines().any(|line| words.iter().any(|word| line == format!("{name} {word}")));
        ensure!(told, "{name} is not {words:?} in {text:?}");
    }
    Ok(())
}

fn expect_created_once(site: &Site<'_>, text: &str, names: &[&str]) -> Result<()> {
    let create = ["create", "--filename=-"];
    expect_lines(&kubectl(site, &create, text)?, names, &["created"])?;
    let again = kubectl(site, &create, text)?;
    let error = stderr(&again);
    ensure!(!again.status.success() && error.matches("(AlreadyExists)").count() == names.len(), "{error}");
    Ok(())
}

fn expect_applied(site: &Site<'_>, text: &str, names: &[&str]) -> Result<()> {
    let apply = ["apply", "--filename=-"];
    // The first apply after a create writes down what was applied.
    expect_lines(&kubectl(site, &apply, text)?, names, &["configured", "unchanged"])?;
    let before = versions(site, names)?;
    expect_lines(&kubectl(site, &apply, text)?, names, &["unchanged"])?;
    ensure!(before == versions(site, names)?, "an apply without a change raised the generation");
    Ok(())
}

fn versions(site: &Site<'_>, names: &[&str]) -> Result<Vec<String>> {
    let generation = |name: &&str| site.server.kubectl(&["get", name, "--output=jsonpath={.metadata.generation}"]);
    names.iter().map(generation).collect()
}

/// The kind is served from the start: the definition is taken, with a warning, and makes it no poorer.
fn expect_definition(site: &Site<'_>) -> Result<()> {
    let fields = || site.server.kubectl(&["explain", "provisioning.spec", "--output=plaintext-openapiv2"]);
    let explain = || site.server.kubectl(&["explain", "provisioning.spec"]).or_else(|_| fields());
    let before = explain()?;
    ensure!(before.contains("masters") && before.contains("replicas"), "{before}");
    let created = kubectl(site, &["create", "--filename=-"], DEFINITION)?;
    expect_lines(&created, &[DEFINITION_NAME], &["created"])?;
    ensure!(stderr(&created).contains("Warning:"), "no warning: {:?}", stderr(&created));
    let again = kubectl(site, &["create", "--filename=-"], DEFINITION)?;
    ensure!(!again.status.success() && stderr(&again).contains("(AlreadyExists)"), "{}", stderr(&again));
    for _twice in 0..2 {
        expect_lines(
            &kubectl(site, &["apply", "--filename=-"], DEFINITION)?,
            &[DEFINITION_NAME],
            &["configured", "unchanged"],
        )?;
    }
    let last = kubectl(site, &["apply", "--filename=-"], DEFINITION)?;
    expect_lines(&last, &[DEFINITION_NAME], &["unchanged"])?;
    ensure!(before == explain()?, "the schema was changed");
    Ok(())
}

fn expect_definition_kept(site: &Site<'_>) -> Result<()> {
    let names = || site.server.kubectl(&["get", "provisionings", "--output=name"]);
    let before = names()?;
    ensure!(before.lines().count() == 2, "{before}");
    let deleted = kubectl(site, &["delete", "--filename=-", "--timeout=60s"], DEFINITION)?;
    ensure!(deleted.status.success(), "{}", stderr(&deleted));
    ensure!(before == names()?, "Provisionings were lost");
    let explained = site.server.kubectl(&["explain", "provisioning.spec"])?;
    ensure!(explained.contains("masters"), "{explained}");
    Ok(())
}

fn expect_said(site: &Site<'_>) -> Result<()> {
    for (group, name, reason) in
        [("cluster-api.k8s.io", "head", "ImageMissing"), ("cluster.k8s.io", "hand", "ImageFailed")]
    {
        let limit = super::site::SAID;
        let what = format!("{name} says {reason}");
        let found = site.wait_machines_in(group, &what, &[name], limit, |machine| machine.reason("Ready") == reason)?;
        let line = found.first().context("one was asked for")?.line();
        println!("    {line}");
    }
    let resolved = "--output=jsonpath={.status.providerStatus.resolved.memoryInGB}";
    let memory = site.server.kubectl(&["get", "machines.cluster-api.k8s.io", "head", resolved])?;
    ensure!(memory == "2", "the default memory is not shown in status: {memory:?}");
    let ready = "--output=jsonpath={.status.conditions[?(@.type==\"Ready\")].message}";
    for name in ["site-a", "site-b"] {
        let message = hagane_testkit::road::wait_for("a Provisioning says what is short", super::site::SAID, || {
            let text = site.server.kubectl(&["get", "provisionings", name, ready])?;
            Ok(if text.is_empty() { Err("no message yet".to_owned()) } else { Ok(text) })
        })?;
        println!("    {name}: {message}");
    }
    Ok(())
}
