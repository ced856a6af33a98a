//! A real OpenSSH server on a loopback port of its own.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hagane_ports::{HostKey, ShellTarget, SshKeyPair};
use hagane_ssh::keys;

/// Where Debian and most others install it.
const SSHD: &str = "/usr/sbin/sshd";

/// A running server; ended when dropped.
pub struct Sshd {
    child: Child,
    pub port: u16,
    pub host_key: SshKeyPair,
    pub user_key: SshKeyPair,
    _directory: tempfile::TempDir,
}

impl Sshd {
    /// Starts a server with extra configuration lines and waits until it answers. `None` where OpenSSH's server is not
    /// installed; the test says so and checks nothing.
    pub async fn start(extra: &str) -> Option<Self> {
        if !Path::new(SSHD).exists() {
            eprintln!("left out: {SSHD} is not installed");
            return None;
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        // A server started by root insists on this directory and on parents that others cannot write.
        let separation = Path::new("/run/sshd");
        if is_root() && !separation.exists() {
            std::fs::create_dir(separation).expect("root may make it");
        }
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).expect("it is ours");
        let host_key = keys::generate("host").expect("the system has random numbers");
        let user_key = keys::generate("user").expect("the system has random numbers");
        let host_key_path = write(directory.path(), "host_key", &host_key.private_openssh, 0o600);
        let authorized = write(directory.path(), "authorized_keys", &format!("{}\n", user_key.public_line), 0o644);
        let port = free_port();
        let configuration = format!(
            "ListenAddress 127.0.0.1:{port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
             StrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nLogLevel ERROR\n{extra}\n",
            host_key_path.display(),
            authorized.display()
        );
        let configuration = write(directory.path(), "sshd_config", &configuration, 0o644);
        let child = Command::new(SSHD).arg("-D").arg("-e").arg("-f").arg(&configuration).stdin(Stdio::null()).spawn();
        let server = Self { child: child.expect("sshd starts"), port, host_key, user_key, _directory: directory };
        server.wait_until_it_listens().await;
        Some(server)
    }

    async fn wait_until_it_listens(&self) {
        for _ in 0..200 {
            if tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.is_ok() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(self.port, 0, "sshd never listened");
    }

    /// A login that works.
    pub fn target(&self) -> ShellTarget {
        ShellTarget {
            host: "127.0.0.1".to_owned(),
            port: self.port,
            user: user_name(),
            private_key: self.user_key.private_openssh.clone(),
            host_keys: vec![HostKey(self.host_key.public_line.clone())],
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port nobody listens on now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has free ports");
    listener.local_addr().expect("it is bound").port()
}

fn write(directory: &Path, name: &str, text: &str, mode: u32) -> PathBuf {
    let path = directory.join(name);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).expect("a new file");
    std::io::Write::write_all(&mut file, text.as_bytes()).expect("it can be written");
    path
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("a standard tool");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn user_name() -> String {
    output_of("id", &["-un"])
}

fn is_root() -> bool {
    output_of("id", &["-u"]) == "0"
}
