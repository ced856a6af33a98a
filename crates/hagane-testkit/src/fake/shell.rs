//! Hosts that answer scripted commands.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{HostKey, RemoteCommand, RemoteOutput, RemoteShell, ShellError, ShellTarget};

/// What a fake host does with a command.
#[derive(Clone, Debug)]
pub enum ShellAnswer {
    /// Ends with these outputs and status.
    Output(RemoteOutput),
    /// Ends well and gives its standard input back on standard output.
    Echo,
    /// Never ends: the caller's time limit "runs out" at once.
    Hang,
    /// The connection breaks while it runs.
    Break,
    /// What a function makes of the arguments.
    Computed(Compute),
}

/// Makes an answer of a command's arguments.
#[derive(Clone)]
pub struct Compute(Arc<Computing>);

/// A function from arguments to an answer.
type Computing = dyn Fn(&[String]) -> ShellAnswer + Send + Sync;

impl std::fmt::Debug for Compute {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Compute")
    }
}

impl ShellAnswer {
    /// An answer that depends on the arguments, and on what the function remembers.
    #[must_use]
    pub fn computed(answer: impl Fn(&[String]) -> Self + Send + Sync + 'static) -> Self {
        Self::Computed(Compute(Arc::new(answer)))
    }

    /// Status 0 with this standard output.
    #[must_use]
    pub fn stdout(text: &str) -> Self {
        Self::exit(0, text, "")
    }

    /// This status with these outputs.
    #[must_use]
    pub fn exit(status: u32, stdout: &str, stderr: &str) -> Self {
        Self::Output(RemoteOutput {
            status: Some(status),
            stdout: stdout.as_bytes().to_vec(),
            stderr: stderr.as_bytes().to_vec(),
            truncated: false,
        })
    }
}

/// One command that reached a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellCall {
    /// The host's name as the caller wrote it.
    pub host: String,
    /// The user logged in as.
    pub user: String,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Standard input.
    pub stdin: Vec<u8>,
}

/// A network of hosts. Hosts that were not added cannot be reached; commands without an answer end with status 127, as a
/// shell's "not found". Host keys are checked as the real adapter does.
#[derive(Debug, Default)]
pub struct FakeShell {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    hosts: BTreeMap<String, Host>,
    calls: Vec<ShellCall>,
    keys_made: u32,
}

#[derive(Debug)]
struct Host {
    key: HostKey,
    reachable: bool,
    login_refused: bool,
    answers: Vec<(Vec<String>, ShellAnswer)>,
}

impl FakeShell {
    /// A network without hosts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a host (any port) and returns its key. A host of that name is replaced.
    pub fn add_host(&self, name: &str) -> HostKey {
        let mut state = self.lock();
        let key = state.new_key();
        let host = Host { key: key.clone(), reachable: true, login_refused: false, answers: Vec::new() };
        state.hosts.insert(name.to_owned(), host);
        key
    }

    /// Sets what the host does with commands that begin with these arguments. The longest match wins, the newest of
    /// equal ones. Nothing happens for a host that was not added.
    pub fn answer(&self, host: &str, argv: &[&str], answer: ShellAnswer) {
        let argv: Vec<String> = argv.iter().map(|argument| (*argument).to_owned()).collect();
        self.change(host, |host| {
            host.answers.retain(|(known, _)| *known != argv);
            host.answers.push((argv, answer));
        });
    }

    /// Takes the host off the network or puts it back.
    pub fn set_reachable(&self, host: &str, reachable: bool) {
        self.change(host, |host| host.reachable = reachable);
    }

    /// Makes the host refuse every login, or accept it again.
    pub fn set_login_refused(&self, host: &str, refused: bool) {
        self.change(host, |host| host.login_refused = refused);
    }

    /// Gives the host a new key, as a reinstalled (or another) machine has, and returns it.
    pub fn change_host_key(&self, host: &str) -> HostKey {
        let key = self.lock().new_key();
        self.change(host, |host| host.key = key.clone());
        key
    }

    /// Every command that reached a host so far, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<ShellCall> {
        self.lock().calls.clone()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Host)) {
        if let Some(host) = self.lock().hosts.get_mut(name) {
            change(host);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Looks like a key, is none; never the same twice.
    fn new_key(&mut self) -> HostKey {
        self.keys_made += 1;
        HostKey(format!("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFake{:039}", self.keys_made))
    }

    fn host(&self, name: &str, target: &str) -> Result<&Host, ShellError> {
        self.hosts
            .get(name)
            .filter(|host| host.reachable)
            .ok_or_else(|| ShellError::Unreachable { target: target.to_owned(), source: "no route to host".into() })
    }
}

#[async_trait]
impl RemoteShell for FakeShell {
    async fn run(&self, target: &ShellTarget, command: &RemoteCommand) -> Result<RemoteOutput, ShellError> {
        let name = format!("{target:?}");
        let mut state = self.lock();
        if command.argv.first().is_none_or(String::is_empty) || command.argv.iter().any(|text| text.contains('\0')) {
            return Err(ShellError::InvalidCommand { reason: "no program, or a NUL byte in an argument".to_owned() });
        }
        if target.private_key.is_empty() {
            return Err(ShellError::InvalidKey { source: "it is empty".into() });
        }
        if target.host_keys.is_empty() {
            return Err(ShellError::HostKeyUnknown { target: name });
        }
        let host = state.host(&target.host, &name)?;
        if !target.host_keys.contains(&host.key) {
            return Err(ShellError::HostKeyChanged { target: name, found: format!("SHA256:{}", host.key.0) });
        }
        if host.login_refused {
            return Err(ShellError::LoginRefused { target: name });
        }
        let matching = host.answers.iter().filter(|(argv, _)| command.argv.starts_with(argv));
        let answer = matching.max_by_key(|(argv, _)| argv.len()).map(|(_, answer)| answer.clone());
        state.calls.push(ShellCall {
            host: target.host.clone(),
            user: target.user.clone(),
            argv: command.argv.clone(),
            stdin: command.stdin.clone(),
        });
        drop(state);
        let answer = match answer {
            Some(ShellAnswer::Computed(Compute(compute))) => Some(compute(&command.argv)),
            answer => answer,
        };
        match answer.unwrap_or_else(|| ShellAnswer::exit(127, "", "not found")) {
            // A function that answers with a function has no answer.
            ShellAnswer::Computed(_) => {
                Ok(RemoteOutput { status: None, stdout: Vec::new(), stderr: Vec::new(), truncated: false })
            }
            ShellAnswer::Output(output) => Ok(limited(output, command.output_limit)),
            ShellAnswer::Echo => {
                let output = RemoteOutput {
                    status: Some(0),
                    stdout: command.stdin.clone(),
                    stderr: Vec::new(),
                    truncated: false,
                };
                Ok(limited(output, command.output_limit))
            }
            ShellAnswer::Hang => Err(ShellError::TimedOut {
                target: name,
                command: command.argv.first().cloned().unwrap_or_default(),
                seconds: command.deadline.as_secs(),
            }),
            ShellAnswer::Break => Err(ShellError::Broken { target: name, source: "connection reset".into() }),
        }
    }

    async fn scan_host_key(&self, host: &str, port: u16, _deadline: Duration) -> Result<HostKey, ShellError> {
        self.lock().host(host, &format!("{host}:{port}")).map(|host| host.key.clone())
    }
}

fn limited(mut output: RemoteOutput, limit: usize) -> RemoteOutput {
    output.truncated |= output.stdout.len() > limit || output.stderr.len() > limit;
    output.stdout.truncate(limit);
    output.stderr.truncate(limit);
    output
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::remote_shell::{self, World};

    struct FakeWorld {
        shell: Arc<FakeShell>,
        key: HostKey,
    }

    #[async_trait]
    impl World for FakeWorld {
        fn shell(&self) -> Arc<dyn RemoteShell> {
            Arc::clone(&self.shell) as Arc<dyn RemoteShell>
        }

        fn target(&self) -> ShellTarget {
            ShellTarget {
                host: "node.test".to_owned(),
                port: 22,
                user: "root".to_owned(),
                private_key: "a key".to_owned(),
                host_keys: vec![self.key.clone()],
            }
        }

        fn unreachable(&self) -> (String, u16) {
            ("absent.test".to_owned(), 22)
        }

        fn other_private_key(&self) -> Option<String> {
            None
        }
    }

    #[tokio::test]
    async fn obeys_the_contract() {
        let shell = Arc::new(FakeShell::new());
        let key = shell.add_host("node.test");
        shell.answer("node.test", &["printf", "%s", "it's $HOME"], ShellAnswer::stdout("it's $HOME"));
        shell.answer("node.test", &["printf", "%s", "0123456789"], ShellAnswer::stdout("0123456789"));
        shell.answer(
            "node.test",
            &["sh", "-c", "echo out; echo err >&2; exit 3"],
            ShellAnswer::exit(3, "out\n", "err\n"),
        );
        shell.answer("node.test", &["cat"], ShellAnswer::Echo);
        shell.answer("node.test", &["sleep"], ShellAnswer::Hang);
        let killed = RemoteOutput { status: None, stdout: Vec::new(), stderr: Vec::new(), truncated: false };
        shell.answer("node.test", &["sh", "-c", "kill -KILL $$"], ShellAnswer::Output(killed));
        remote_shell::obeys_the_contract(&FakeWorld { shell, key }).await;
    }

    #[tokio::test]
    async fn the_longest_answer_wins_and_calls_are_recorded() {
        let shell = FakeShell::new();
        let world = FakeWorld { key: shell.add_host("node.test"), shell: Arc::new(FakeShell::new()) };
        shell.answer("node.test", &["cat"], ShellAnswer::Echo);
        shell.answer("node.test", &["cat", "/proc/meminfo"], ShellAnswer::stdout("MemTotal: 1 kB"));
        let command = remote_shell::command(&["cat", "/proc/meminfo"]);
        let output = shell.run(&world.target(), &command).await.expect("it is reachable");
        assert_eq!(output.stdout, b"MemTotal: 1 kB");
        assert_eq!(shell.calls().len(), 1);
        shell.change_host_key("node.test");
        let refused = shell.run(&world.target(), &command).await;
        assert!(matches!(refused, Err(ShellError::HostKeyChanged { .. })), "{refused:?}");
        assert_eq!(shell.calls().len(), 1, "a refused command never reached the host");
    }
}
