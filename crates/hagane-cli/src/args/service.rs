//! Arguments of `service`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Commands under `service`.
#[derive(Clone, Debug, Subcommand)]
pub enum ServiceCommand {
    /// Write the unit, the user that runs Ansible, and a configuration file to begin with; an existing one stays.
    Install(ServiceInstallArgs),
    /// Stop the unit and take it away. Data and configuration stay, unless --purge is given; so do the clusters.
    Uninstall(ServiceUninstallArgs),
    /// Print the unit.
    Print(ServiceUnitArgs),
}

/// What the service runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServiceMode {
    /// `hagane up`: the API and the controllers.
    Up,
    /// `hagane controllers`: the controllers alone, for another API.
    Controllers,
}

impl ServiceMode {
    /// The command's name.
    #[must_use]
    pub const fn command(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Controllers => "controllers",
        }
    }
}

/// What the unit starts.
#[derive(Clone, Debug, Args)]
pub struct ServiceUnitArgs {
    /// What the service runs.
    #[arg(long, value_enum, default_value = "up")]
    pub mode: ServiceMode,
    /// The hagane program that the unit starts; the one that runs now when not given.
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// Arguments of `service install`.
#[derive(Clone, Debug, Args)]
pub struct ServiceInstallArgs {
    #[command(flatten)]
    #[allow(missing_docs, reason = "flattened: its fields are documented")]
    pub unit: ServiceUnitArgs,
    /// Write below this directory, for images and packages; systemd is then not asked.
    #[arg(long, default_value = "/", value_name = "DIR")]
    pub root: PathBuf,
    /// Enable and start the unit too.
    #[arg(long)]
    pub now: bool,
}

/// Arguments of `service uninstall`.
#[derive(Clone, Debug, Args)]
pub struct ServiceUninstallArgs {
    /// Remove below this directory; systemd is then not asked.
    #[arg(long, default_value = "/", value_name = "DIR")]
    pub root: PathBuf,
    /// Remove configuration, data and cache too: every object, key and log of this installation. Cannot be undone.
    #[arg(long)]
    pub purge: bool,
}
