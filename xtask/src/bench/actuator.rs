//! A machine from create to running over the RPC driver, beside the same calls by `virsh`, in a lab of its own.
//!
//! The driver's own tests do the measuring: they know how to make a machine and what the same calls by hand are.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use hagane_testkit::lab::{Image, Lab, LabOptions, Progress};
use serde::Deserialize;
use serde_json::Value;

use super::figure::Figure;
use crate::command::cargo;

const TEST: &str = "figures::prints_the_time_from_create_to_running";
const OURS: &str = "machine_create_to_running";
const BY_HAND: &str = "the_same_calls_by_hand";
/// Distance of a free address from the gateway's.
const FREE_ADDRESS: u32 = 11;

/// What the test prints, a line each.
#[derive(Deserialize)]
struct Line {
    name: String,
    /// In seconds.
    samples: Vec<f64>,
}

pub(super) fn run() -> Result<Vec<Figure>> {
    let test = test_program()?;
    let lab = Lab::up(&LabOptions { progress: Progress::Silent, ..LabOptions::default() })?;
    let result = measure(&lab, &test);
    lab.down()?;
    result
}

fn measure(lab: &Lab, test: &std::path::Path) -> Result<Vec<Figure>> {
    let description = lab.description();
    let image = Image::Tiny.built()?.context("the lab has no guest image")?;
    let address = Ipv4Addr::from(u32::from(description.machine_gateway) + FREE_ADDRESS);
    let mut argv = vec![
        "env".to_owned(),
        format!("HAGANE_TEST_LIBVIRT={}", description.libvirt.uri),
        format!("HAGANE_TEST_POOL={}", description.libvirt.pool),
        format!("HAGANE_TEST_NETWORK={}", description.libvirt.network),
        format!("HAGANE_TEST_ADDRESS={address}"),
        format!("HAGANE_TEST_IMAGE={}", image.display()),
        "HAGANE_TEST_FIGURES=1".to_owned(),
        test.display().to_string(),
    ];
    argv.extend(["--exact", TEST, "--nocapture", "--test-threads", "1"].map(str::to_owned));
    let output = lab.command(argv).stderr(Stdio::inherit()).output().context("failed to start the driver's test")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        bail!("the driver's test failed ({}): {text}", output.status);
    }
    // The test's runner begins the first line itself.
    let objects = text.lines().filter_map(|line| line.get(line.find('{')?..));
    let lines: Vec<Line> = objects.filter_map(|object| serde_json::from_str(object).ok()).collect();
    let samples = |name: &str| -> Result<Vec<f64>> {
        let line = lines.iter().find(|line| line.name == name);
        let line = line.with_context(|| format!("the driver's test printed no {name}: {text}"))?;
        Ok(line.samples.iter().map(|seconds| seconds * 1e3).collect())
    };
    let (ours, by_hand) = (samples(OURS)?, samples(BY_HAND)?);
    let over: Vec<f64> = ours.iter().zip(&by_hand).map(|(ours, by_hand)| ours - by_hand).collect();
    let how = if description.libvirt.kvm { "KVM" } else { "emulated" };
    let versions = format!("libvirt {}, {how}", libvirt_version(lab)?);
    let figures = [
        Figure::middle("actuator, create to running, beside virsh".to_owned(), ours, "ms").against_numbers(by_hand),
        Figure::middle("actuator, create to running, over virsh".to_owned(), over, "ms"),
    ];
    Ok(figures.into_iter().map(|figure| figure.with_versions(Some(&versions))).collect())
}

fn libvirt_version(lab: &Lab) -> Result<String> {
    let output = lab.exec(["virsh", "--version"])?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The driver's tests, built for release.
fn test_program() -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["test", "--release", "--package", "hagane-libvirt", "--test", "it", "--no-run"]);
    let output = command.args(["--message-format", "json"]).stderr(Stdio::inherit()).output();
    let output = output.context("failed to start cargo")?;
    if !output.status.success() {
        bail!("the driver's tests could not be built");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let programs = messages.filter(|message| message["target"]["name"] == "it");
    let mut programs = programs.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    programs.next().context("cargo named no program of the driver's tests")
}
