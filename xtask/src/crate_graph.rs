//! The graph of our own crates: written out for review, and held to its direction.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command::cargo;

/// What each crate may depend on. Words ← thought ← hands and loops ← faces ← top; hands never see each other.
const ALLOWED: &[(&str, &[&str])] = &[
    ("hagane-api", &[]),
    ("hagane-plan", &["hagane-api"]),
    ("hagane-ports", &["hagane-api"]),
    ("hagane-store", &[]),
    ("hagane-apiserver", &["hagane-api", "hagane-store"]),
    ("hagane-libvirt", &["hagane-api", "hagane-ports"]),
    ("hagane-ssh", &["hagane-api", "hagane-ports"]),
    ("hagane-installers", &["hagane-api", "hagane-ports"]),
    ("hagane-images", &["hagane-api", "hagane-ports"]),
    ("hagane-controllers", &["hagane-api", "hagane-plan", "hagane-ports"]),
    ("hagane-cli", &["hagane-api", "hagane-plan"]),
    ("hagane-testkit", &["hagane-api", "hagane-ports"]),
];

type Graph = BTreeMap<String, Vec<String>>;

/// The graph as text, one crate a line.
pub fn text() -> Result<String> {
    let mut text = String::from(
        "# Which crate uses which of ours (development dependencies left out). Written by `make generate`.\n",
    );
    for (name, uses) in graph()? {
        let list = if uses.is_empty() { "-".to_owned() } else { uses.join(", ") };
        writeln!(text, "{name}: {list}")?;
    }
    Ok(text)
}

/// Edges against the direction.
pub fn wrong_edges() -> Result<Vec<String>> {
    let graph = graph()?;
    let mut problems = Vec::new();
    for (name, allowed) in ALLOWED {
        for used in graph.get(*name).into_iter().flatten() {
            if !allowed.contains(&used.as_str()) {
                problems.push(format!("{name} uses {used}, but may only use {allowed:?}"));
            }
        }
    }
    Ok(problems)
}

fn graph() -> Result<Graph> {
    let output = cargo()
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .context("failed to run cargo metadata")?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("failed to read cargo's metadata")?;
    let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let mut graph = Graph::new();
    for package in &packages {
        let dependencies = package["dependencies"].as_array().cloned().unwrap_or_default();
        let ours = dependencies.iter().filter(|dependency| dependency["kind"].is_null()).map(name);
        let mut ours: Vec<_> = ours.filter(|used| used.starts_with("hagane")).collect();
        ours.sort();
        graph.insert(name(package), ours);
    }
    Ok(graph)
}
