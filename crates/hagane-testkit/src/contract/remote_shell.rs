//! What every [`RemoteShell`] must do. Run it with [`obeys_the_contract`] on a [`World`]: a host of one's own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{HostKey, RemoteCommand, RemoteOutput, RemoteShell, ShellError, ShellTarget};

/// A host that belongs to the test, with `sh`, `printf`, `cat` and `sleep`.
#[async_trait]
pub trait World: Send + Sync {
    /// The shell under test.
    fn shell(&self) -> Arc<dyn RemoteShell>;

    /// A login that works, with the host's key pinned.
    fn target(&self) -> ShellTarget;

    /// Host and port where nothing answers.
    fn unreachable(&self) -> (String, u16);

    /// A good private key that the host does not accept, where there is one.
    fn other_private_key(&self) -> Option<String>;
}

/// A command without input, with limits that no honest answer reaches.
#[must_use]
pub fn command(argv: &[&str]) -> RemoteCommand {
    RemoteCommand {
        argv: argv.iter().map(|argument| (*argument).to_owned()).collect(),
        stdin: Vec::new(),
        deadline: Duration::from_secs(30),
        output_limit: 1 << 20,
    }
}

/// Runs the whole suite. Panics, naming the promise, where one is broken.
///
/// # Panics
/// Where the contract is broken.
pub async fn obeys_the_contract(world: &dyn World) {
    gives_outputs_and_status(world).await;
    passes_arguments_and_input_on_unchanged(world).await;
    cuts_output_at_the_limit(world).await;
    ends_at_the_deadline(world).await;
    trusts_pinned_keys_only(world).await;
    names_what_went_wrong(world).await;
}

async fn run(world: &dyn World, command: &RemoteCommand) -> RemoteOutput {
    world.shell().run(&world.target(), command).await.expect("the host is reachable and the command can be run")
}

async fn gives_outputs_and_status(world: &dyn World) {
    let output = run(world, &command(&["sh", "-c", "echo out; echo err >&2; exit 3"])).await;
    assert_eq!(output.status, Some(3), "a status other than zero is an answer");
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (b"out\n".as_slice(), b"err\n".as_slice()));
    assert!(!output.truncated);
    let output = run(world, &command(&["sh", "-c", "kill -KILL $$"])).await;
    assert_eq!(output.status, None, "a command ended by a signal has no status");
}

async fn passes_arguments_and_input_on_unchanged(world: &dyn World) {
    let output = run(world, &command(&["printf", "%s", "it's $HOME"])).await;
    assert_eq!(output.stdout, b"it's $HOME");
    let input: Vec<u8> = (0..=u8::MAX).cycle().take(300_000).collect();
    let output = run(world, &RemoteCommand { stdin: input.clone(), ..command(&["cat"]) }).await;
    assert!(output.stdout == input, "binary input arrives whole: {} of {} bytes", output.stdout.len(), input.len());
}

async fn cuts_output_at_the_limit(world: &dyn World) {
    let all = command(&["printf", "%s", "0123456789"]);
    let output = run(world, &RemoteCommand { output_limit: 4, ..all.clone() }).await;
    assert_eq!((output.stdout.as_slice(), output.truncated), (b"0123".as_slice(), true));
    let output = run(world, &RemoteCommand { output_limit: 10, ..all }).await;
    assert!(!output.truncated, "exactly the limit is not too much");
}

async fn ends_at_the_deadline(world: &dyn World) {
    let slow = RemoteCommand { deadline: Duration::from_secs(2), ..command(&["sleep", "600"]) };
    let result = world.shell().run(&world.target(), &slow).await;
    assert!(matches!(&result, Err(ShellError::TimedOut { command, .. }) if command == "sleep"), "{result:?}");
}

async fn trusts_pinned_keys_only(world: &dyn World) {
    let shell = world.shell();
    let good = world.target();
    let scanned = shell.scan_host_key(&good.host, good.port, Duration::from_secs(10)).await;
    assert!(good.host_keys.contains(&scanned.expect("a scan needs no login")), "a scan gives the host's key");
    let harmless = command(&["cat"]);
    let unpinned = ShellTarget { host_keys: Vec::new(), ..good.clone() };
    let result = shell.run(&unpinned, &harmless).await;
    assert!(matches!(result, Err(ShellError::HostKeyUnknown { .. })), "{result:?}");
    let stranger = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAZTBDOha9I0QG/NBqzkJYnyJzsnR4Ruzqd3nNQoaOLq";
    let moved = ShellTarget { host_keys: vec![HostKey(stranger.to_owned())], ..good.clone() };
    let result = shell.run(&moved, &harmless).await;
    assert!(
        matches!(&result, Err(ShellError::HostKeyChanged { found, .. }) if found.starts_with("SHA256:")),
        "{result:?}"
    );
    let several = [vec![HostKey(stranger.to_owned())], good.host_keys.clone()].concat();
    shell.run(&ShellTarget { host_keys: several, ..good }, &harmless).await.expect("one of the pinned keys is enough");
}

async fn names_what_went_wrong(world: &dyn World) {
    let shell = world.shell();
    let good = world.target();
    let (host, port) = world.unreachable();
    let result = shell.run(&ShellTarget { host: host.clone(), port, ..good.clone() }, &command(&["cat"])).await;
    assert!(matches!(result, Err(ShellError::Unreachable { .. })), "{result:?}");
    let result = shell.scan_host_key(&host, port, Duration::from_secs(10)).await;
    assert!(matches!(result, Err(ShellError::Unreachable { .. })), "{result:?}");
    let result = shell.run(&ShellTarget { private_key: String::new(), ..good.clone() }, &command(&["cat"])).await;
    assert!(matches!(result, Err(ShellError::InvalidKey { .. })), "{result:?}");
    for argv in [&[] as &[&str], &["printf", "a\0b"]] {
        let result = shell.run(&good, &command(argv)).await;
        assert!(matches!(result, Err(ShellError::InvalidCommand { .. })), "{result:?}");
    }
    if let Some(private_key) = world.other_private_key() {
        let result = shell.run(&ShellTarget { private_key, ..good }, &command(&["cat"])).await;
        assert!(matches!(result, Err(ShellError::LoginRefused { .. })), "{result:?}");
    }
}
