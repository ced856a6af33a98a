//! `hagane payload`: what is installed on hosts, and the Ansible that installs it.

use anyhow::{Context, Result};
use hagane_cli::args::{Format, PayloadArgs, PayloadBuildArgs, PayloadCommand};
use hagane_installers::payload::{self, BuildOptions, Manifest, Progress};
use hagane_installers::python;

use crate::adapters::default_payload;

/// Runs the subcommand. Progress goes to standard error, the result to standard output.
pub async fn run(command: PayloadCommand) -> Result<()> {
    tokio::task::spawn_blocking(move || match command {
        PayloadCommand::Build(args) => build(&args),
        PayloadCommand::Verify(args) => verify(&args),
        PayloadCommand::List(args) => list(&args),
        PayloadCommand::Ansible => ansible(),
    })
    .await
    .context("the task ended early")?
}

fn build(args: &PayloadBuildArgs) -> Result<()> {
    let mut options = BuildOptions::new(args.payload_dir.clone().unwrap_or_else(python::default_cache));
    if let Some(version) = &args.kubernetes_version {
        options.version = version.strip_prefix('v').unwrap_or(version).to_owned();
    }
    let mut tell = |progress: &Progress| {
        let detail = progress.detail.as_deref().map(|detail| format!(": {detail}")).unwrap_or_default();
        eprintln!("[{}/{}] {}{detail}", progress.done, progress.total, progress.step);
    };
    let directory = payload::build(&options, &mut tell)?;
    println!("{}", directory.display());
    Ok(())
}

fn verify(args: &PayloadArgs) -> Result<()> {
    let directory = args.payload_dir.clone().unwrap_or_else(default_payload);
    let manifest = payload::verify(&directory, &mut |item| eprintln!("{} {}: good", item.name, item.version))?;
    println!("{}: {} files agree with their digests", directory.display(), manifest.items.len());
    Ok(())
}

fn list(args: &PayloadArgs) -> Result<()> {
    let directory = args.payload_dir.clone().unwrap_or_else(default_payload);
    let manifest = payload::load(&directory)?;
    print!("{}", render(&manifest, args.output)?);
    Ok(())
}

fn render(manifest: &Manifest, format: Option<Format>) -> Result<String> {
    if let Some(format) = format {
        return Ok(hagane_cli::render(manifest, format)?);
    }
    let mut rows = vec![["NAME", "VERSION", "ARCH", "KIND", "SHA256", "SOURCE"].map(str::to_owned).to_vec()];
    for item in &manifest.items {
        let digest: String = item.sha256.to_string().chars().take(12).collect();
        let kind = format!("{:?}", item.kind).to_lowercase();
        rows.push(vec![item.name.clone(), item.version.clone(), item.arch.clone(), kind, digest, item.source.clone()]);
    }
    Ok(hagane_cli::table(&rows))
}

fn ansible() -> Result<()> {
    let playbook = python::ensure_ansible(&python::default_cache(), &mut |line| eprintln!("{line}"))?;
    println!("{}", playbook.display());
    Ok(())
}
