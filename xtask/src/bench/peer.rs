//! The peer of the API: etcd and kube-apiserver, from the directory that `HAGANE_PEERS` names.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::https::free_address;
use super::machine::on_server_core;
use super::server::Server;

/// Programs of the peer.
pub(super) struct Peer {
    etcd: PathBuf,
    apiserver: PathBuf,
    /// Certificate and key, made once: the peer's start is measured without that.
    keys: tempfile::TempDir,
    pub versions: String,
}

impl Peer {
    /// The peer, where `HAGANE_PEERS` is set.
    pub(super) fn find() -> Result<Option<Self>> {
        let Some(directory) = std::env::var_os("HAGANE_PEERS").map(PathBuf::from) else {
            eprintln!(
                "HAGANE_PEERS is not set: no peer is measured (docs/benchmarks.md tells how to get the programs)"
            );
            return Ok(None);
        };
        let (etcd, apiserver) = (directory.join("etcd"), directory.join("kube-apiserver"));
        for program in [&etcd, &apiserver] {
            ensure!(program.is_file(), "HAGANE_PEERS={}: no file {}", directory.display(), program.display());
        }
        let first = |program: &Path| -> Result<String> {
            let output = Command::new(program).arg("--version").output();
            let output = output.with_context(|| format!("failed to start {}", program.display()))?;
            Ok(String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or_default().to_owned())
        };
        let versions = format!("{}, kube-apiserver {}", first(&etcd)?, first(&apiserver)?);
        Ok(Some(Self { keys: keys()?, etcd, apiserver, versions }))
    }

    /// Starts both at once, with their data below `directory`: synced writes, RBAC, no audit, as they come.
    pub(super) fn start(&self, directory: &Path) -> Result<Server> {
        let (address, client, member) = (free_address()?, free_address()?, free_address()?);
        let (certificate, key) = (self.keys.path().join("server.crt"), self.keys.path().join("server.key"));
        let mut server = Server::new(directory, address, certificate.clone());
        let (client, member) = (format!("http://{client}"), format!("http://{member}"));
        let mut etcd = on_server_core(&self.etcd);
        etcd.arg("--data-dir").arg(directory.join("etcd"));
        etcd.args(["--listen-client-urls", &client, "--advertise-client-urls", &client, "--log-level", "error"]);
        etcd.args(["--listen-peer-urls", &member, "--initial-advertise-peer-urls", &member]);
        etcd.args(["--initial-cluster", &format!("default={member}")]);
        server.spawn(&mut etcd)?;
        let mut api = on_server_core(&self.apiserver);
        api.args(["--etcd-servers", &client, "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1"]);
        api.args(["--secure-port", &address.port().to_string(), "--endpoint-reconciler-type", "none"]);
        api.args(["--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24"]);
        api.args(["--service-account-issuer", "https://kubernetes.default.svc"]);
        api.arg("--cert-dir").arg(directory.join("certificates"));
        for flag in ["--tls-cert-file", "--client-ca-file", "--service-account-key-file"] {
            api.arg(flag).arg(&certificate);
        }
        for flag in ["--tls-private-key-file", "--service-account-signing-key-file"] {
            api.arg(flag).arg(&key);
        }
        server.spawn(&mut api)?;
        Ok(server)
    }
}

/// A certificate for 127.0.0.1 that is its own authority.
fn keys() -> Result<tempfile::TempDir> {
    let directory = tempfile::tempdir().context("failed to make a directory for keys")?;
    let mut command = Command::new("openssl");
    command.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    command.args(["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]);
    command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    command.arg("-keyout").arg(directory.path().join("server.key"));
    command.arg("-out").arg(directory.path().join("server.crt"));
    let output = command.output().context("failed to start openssl")?;
    if !output.status.success() {
        bail!("openssl made no certificate: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(directory)
}
