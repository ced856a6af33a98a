//! The programs that the road needs: hagane itself, the payload, Ansible.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Where the programs are.
#[derive(Debug, Clone)]
pub struct Tools {
    /// The binary under test.
    pub hagane: PathBuf,
    /// kubectl of the payload.
    pub kubectl: PathBuf,
    /// The payload.
    pub payload: PathBuf,
    /// ansible-playbook in an environment of its own.
    pub ansible_playbook: PathBuf,
}

impl Tools {
    /// Builds what is not there yet: hagane by cargo, payload and Ansible environment by hagane.
    ///
    /// # Errors
    /// When a build fails; its output went to standard error.
    pub fn prepare(repository: &Path) -> Result<Self> {
        let hagane = Self::build_hagane(repository)?;
        let payload = PathBuf::from(last_line(&hagane, &["payload", "build"])?);
        let ansible_playbook = PathBuf::from(last_line(&hagane, &["payload", "ansible"])?);
        let kubectl = payload.join("binaries/kubectl");
        Ok(Self { hagane, kubectl, payload, ansible_playbook })
    }

    /// A payload of another Kubernetes version, built where it is not there yet.
    ///
    /// # Errors
    /// When the build fails, or the version cannot be built.
    pub fn payload_of(&self, version: &str) -> Result<PathBuf> {
        last_line(&self.hagane, &["payload", "build", "--kubernetes-version", version]).map(PathBuf::from)
    }

    /// Builds hagane in the development profile.
    ///
    /// # Errors
    /// When cargo fails.
    pub fn build_hagane(repository: &Path) -> Result<PathBuf> {
        let mut command = cargo();
        command.current_dir(repository).args(["build", "--locked", "--package", "hagane"]);
        let status = command.status().context("failed to start cargo")?;
        if !status.success() {
            bail!("cargo could not build hagane ({status})");
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| repository.join("target"), PathBuf::from);
        Ok(target.join("debug/hagane"))
    }
}

/// The cargo that runs this program, as a shell would start it.
///
/// What `cargo run` tells a program of its own package is left out: build scripts ask for some of it, and everything on top of
/// them would be built again whenever a shell and this program take turns.
#[must_use]
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        let of_the_package = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_CRATE_", "CARGO_BIN_"];
        if of_the_package.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes())) {
            command.env_remove(name);
        }
    }
    command
}

/// Runs hagane and takes the last line it prints; progress goes to standard error as it comes.
fn last_line(hagane: &Path, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(hagane);
    command.args(arguments).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("failed to start {}", hagane.display()))?;
    if !output.status.success() {
        bail!("hagane {} failed ({})", arguments.join(" "), output.status);
    }
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().last().map(str::to_owned).with_context(|| format!("hagane {} printed nothing", arguments.join(" ")))
}
