//! `make test`: `check`, then the tests with real parts.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;
use hagane_testkit::lab::{self, Image, Lab, LabOptions, Progress};
use hagane_testkit::road::Tools;
use serde_json::Value;

use crate::command::{cargo, root, step};

/// Packages that tests use beside those of the lab: a real sshd, and readers of seed images.
const PACKAGES: [&str; 2] = ["genisoimage", "openssh-server"];
/// An address of the lab's machine network outside the range that it hands out.
const FREE_ADDRESS: &str = "192.168.122.12";

/// Arguments of `test`.
#[derive(Args)]
pub struct TestArgs {
    /// Also the crash and scale matrices.
    #[arg(long)]
    pub long: bool,
}

/// Runs every test.
pub fn run(args: &TestArgs) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!("the tests with real parts make namespaces, mounts and machines: run them as root, or run `make check`");
    }
    lab::install_packages(&PACKAGES, Progress::Shown)?;
    lab::prepare(&Image::ALL, Progress::Shown)?;
    println!("== hagane, the Kubernetes payload and Ansible");
    let tools = Tools::prepare(&root())?;
    use_kubectl(&tools)?;
    crate::deny::install()?;
    crate::check::run(&tools_environment(&tools))?;
    driver_on_real_libvirt(args)?;
    let mut command = cargo();
    command.args(["test", "--locked", "--package", "hagane-e2e", "--", "--nocapture", "--test-threads=1"]);
    command.env("HAGANE_SLOW_TESTS", if args.long { "long" } else { "1" }).envs(tools_environment(&tools));
    step("tests with real parts", &mut command)
}

fn use_kubectl(tools: &Tools) -> Result<()> {
    let version = Command::new(&tools.kubectl).args(["version", "--client"]).stdout(Stdio::null()).status();
    let version = version.with_context(|| format!("failed to start {}", tools.kubectl.display()))?;
    if version.success() { Ok(()) } else { bail!("{} does not run", tools.kubectl.display()) }
}

/// The payload's kubectl first on the path, and the Ansible that was made.
fn tools_environment(tools: &Tools) -> Vec<(OsString, OsString)> {
    let mut path = tools.kubectl.parent().map(OsString::from).unwrap_or_default();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    vec![("PATH".into(), path), ("HAGANE_ANSIBLE_PLAYBOOK".into(), tools.ansible_playbook.clone().into_os_string())]
}

/// The libvirt driver's own tests, inside a lab.
fn driver_on_real_libvirt(args: &TestArgs) -> Result<()> {
    let binary = test_binary("hagane-libvirt")?;
    let lab = Lab::up(&LabOptions { progress: Progress::Shown, ..LabOptions::default() })?;
    let description = lab.description();
    let tiny = description.images.iter().find(|image| image.image == Image::Tiny).context("the tiny image is built")?;
    let mut command = lab.command([binary.as_os_str(), "--test-threads=1".as_ref()]);
    command.env("HAGANE_TEST_LIBVIRT", &description.libvirt.uri).env("HAGANE_TEST_ADDRESS", FREE_ADDRESS);
    command.env("HAGANE_TEST_IMAGE", &tiny.path);
    if args.long {
        command.env("HAGANE_TEST_CUT_STEP", "1");
    }
    step("the libvirt driver on the lab's libvirtd", &mut command)?;
    lab.down()
}

/// Builds the integration tests of a crate and says where the program is.
fn test_binary(package: &str) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["test", "--locked", "--package", package, "--test", "it", "--no-run", "--message-format=json"]);
    let output = command.stderr(Stdio::inherit()).output().context("failed to start cargo")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs = messages.filter_map(|message| {
        let is_test = message["profile"]["test"] == true && message["target"]["name"] == "it";
        message["executable"].as_str().filter(|_| is_test).map(PathBuf::from)
    });
    programs.next().with_context(|| format!("cargo built no tests of {package}"))
}
