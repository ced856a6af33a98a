//! The adapter against a real OpenSSH server.

mod support;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{HostKey, RemoteCommand, RemoteShell, ShellError, ShellTarget};
use hagane_ssh::{SshOptions, SshShell, keys};
use hagane_testkit::contract::remote_shell::{self, World, command};
use support::Sshd;
use tokio::io::AsyncReadExt as _;

struct RealWorld {
    server: Sshd,
    nobody: u16,
}

#[async_trait]
impl World for RealWorld {
    fn shell(&self) -> Arc<dyn RemoteShell> {
        Arc::new(SshShell::default())
    }

    fn target(&self) -> ShellTarget {
        self.server.target()
    }

    fn unreachable(&self) -> (String, u16) {
        ("127.0.0.1".to_owned(), self.nobody)
    }

    fn other_private_key(&self) -> Option<String> {
        keys::generate("").ok().map(|pair| pair.private_openssh)
    }
}

#[tokio::test]
async fn obeys_the_contract() {
    let Some(server) = Sshd::start("").await else { return };
    remote_shell::obeys_the_contract(&RealWorld { server, nobody: support::free_port() }).await;
}

#[tokio::test]
async fn a_process_left_behind_does_not_hold_the_answer_back() {
    let Some(server) = Sshd::start("").await else { return };
    let script = "sleep 20 & echo $!; exit 4";
    let output = SshShell::default().run(&server.target(), &command(&["sh", "-c", script])).await;
    let output = output.expect("the command ended");
    assert_eq!(output.status, Some(4));
    let pid = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let killed = std::process::Command::new("kill").arg(&pid).status().expect("kill is installed");
    assert!(killed.success(), "the background process outlived the command");
}

#[tokio::test]
async fn a_command_that_ignores_its_input_still_ends() {
    let Some(server) = Sshd::start("").await else { return };
    let ignoring = RemoteCommand { stdin: vec![b'x'; 8 << 20], ..command(&["sh", "-c", "exit 5"]) };
    let output = SshShell::default().run(&server.target(), &ignoring).await.expect("the command ended");
    assert_eq!(output.status, Some(5));
}

#[tokio::test]
async fn large_input_and_output_flow_at_the_same_time() {
    let Some(server) = Sshd::start("").await else { return };
    let size = 12 << 20;
    let copying = RemoteCommand { stdin: vec![b'y'; size], output_limit: size, ..command(&["cat"]) };
    let output = SshShell::default().run(&server.target(), &copying).await.expect("the command ended");
    assert_eq!((output.stdout.len(), output.truncated), (size, false));
}

#[tokio::test]
async fn asks_for_the_type_of_key_that_is_pinned() {
    let Some(server) = Sshd::start("").await else { return };
    let ecdsa = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBNae9BadjLgTlctxiuvewUmqCkAnoX76GVrNbiaWdha+PId6KMu/e/bGVE1NlS0ZqhE/2kejOR/bHlkPuX9/ov4=";
    let target = ShellTarget { host_keys: vec![HostKey(ecdsa.to_owned())], ..server.target() };
    let result = SshShell::default().run(&target, &command(&["true"])).await;
    assert!(
        matches!(&result, Err(ShellError::HostKeyChanged { found, .. }) if found.contains("ssh-ed25519")),
        "{result:?}"
    );
}

#[tokio::test]
async fn an_unreadable_pin_is_no_pin() {
    let Some(server) = Sshd::start("").await else { return };
    let target = ShellTarget { host_keys: vec![HostKey("nonsense".to_owned())], ..server.target() };
    let result = SshShell::default().run(&target, &command(&["true"])).await;
    assert!(matches!(result, Err(ShellError::HostKeyUnknown { .. })), "{result:?}");
}

#[tokio::test]
async fn a_host_that_accepts_and_says_nothing_times_out() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let port = listener.local_addr().expect("it is bound").port();
    let result = SshShell::default().scan_host_key("127.0.0.1", port, Duration::from_millis(300)).await;
    assert!(matches!(result, Err(ShellError::TimedOut { .. })), "{result:?}");
}

#[tokio::test]
async fn a_host_that_speaks_another_protocol_is_unreachable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
    let port = listener.local_addr().expect("it is bound").port();
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("the client connects");
        let mut buffer = [0; 64];
        let _ = stream.read(&mut buffer).await;
        let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    });
    let result = SshShell::default().scan_host_key("127.0.0.1", port, Duration::from_secs(10)).await;
    assert!(matches!(result, Err(ShellError::Unreachable { .. })), "{result:?}");
    server.await.expect("the server ended");
}

#[tokio::test]
async fn a_server_that_dies_breaks_the_session() {
    let Some(server) = Sshd::start("").await else { return };
    // The command ends its own connection's server process: its parent.
    let script = "kill -KILL $(ps -o ppid= -p $(ps -o ppid= -p $$)) $PPID; sleep 20";
    let options = SshOptions { keepalive_interval: Duration::from_secs(1), ..SshOptions::default() };
    let result = SshShell::new(options).run(&server.target(), &command(&["sh", "-c", script])).await;
    assert!(matches!(result, Err(ShellError::Broken { .. })), "{result:?}");
}

#[tokio::test]
async fn a_hostile_user_name_is_refused_as_a_name() {
    let Some(server) = Sshd::start("").await else { return };
    let target = ShellTarget { user: "no such user; id".to_owned(), ..server.target() };
    let result = SshShell::default().run(&target, &command(&["true"])).await;
    assert!(matches!(result, Err(ShellError::LoginRefused { .. })), "{result:?}");
}
