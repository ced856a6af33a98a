//! Commands on other machines over SSH, with verified host keys.

use std::time::Duration;

use async_trait::async_trait;

/// A host's public key in the form of an `authorized_keys` line without options and comment
/// (`ssh-ed25519 AAAA…`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostKey(pub String);

/// Where and as whom to log in.
#[derive(Clone)]
pub struct ShellTarget {
    /// Host name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// User name.
    pub user: String,
    /// Private key, OpenSSH or PEM text. Never logged.
    pub private_key: String,
    /// Keys the host may show. Empty is refused: scan and pin first.
    pub host_keys: Vec<HostKey>,
}

impl std::fmt::Debug for ShellTarget {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}@{}:{}", self.user, self.host, self.port)
    }
}

/// A command as an argument vector; no shell interprets it beyond exact quoting of each argument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCommand {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Bytes for standard input.
    pub stdin: Vec<u8>,
    /// Time limit for connect and run together.
    pub deadline: Duration,
    /// Most bytes kept of each output stream; the rest is dropped and marked.
    pub output_limit: usize,
}

/// What a command left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteOutput {
    /// Exit status; `None` when a signal ended it.
    pub status: Option<u32>,
    /// Standard output, up to the limit.
    pub stdout: Vec<u8>,
    /// Standard error, up to the limit.
    pub stderr: Vec<u8>,
    /// Whether either stream was cut at the limit.
    pub truncated: bool,
}

/// Why a remote command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    /// No connection; try again later.
    #[error("{target} cannot be reached by SSH")]
    Unreachable {
        /// user@host:port.
        target: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The host showed a key that is not among the known ones.
    #[error("{target} shows host key {found}, which is not the pinned one")]
    HostKeyChanged {
        /// user@host:port.
        target: String,
        /// Fingerprint shown, `SHA256:…`.
        found: String,
    },
    /// No key is pinned, or none that can be read; the host was not contacted.
    #[error("no host key of {target} is known: scan it and pin it first")]
    HostKeyUnknown {
        /// user@host:port.
        target: String,
    },
    /// The host refused the login.
    #[error("{target} refuses the key")]
    LoginRefused {
        /// user@host:port.
        target: String,
    },
    /// The private key cannot be read.
    #[error("the SSH private key cannot be used")]
    InvalidKey {
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No new key pair could be made.
    #[error("no SSH key pair can be made")]
    KeyGeneration {
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The command cannot be sent as it is; nothing was contacted.
    #[error("the command cannot be sent: {reason}")]
    InvalidCommand {
        /// What is wrong with it.
        reason: String,
    },
    /// The time limit ran out.
    #[error("{target} did not finish {command:?} within {seconds} s")]
    TimedOut {
        /// user@host:port.
        target: String,
        /// First argument.
        command: String,
        /// The limit.
        seconds: u64,
    },
    /// The connection broke while the command ran.
    #[error("the SSH session with {target} broke")]
    Broken {
        /// user@host:port.
        target: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Runs commands on other machines.
#[async_trait]
pub trait RemoteShell: Send + Sync {
    /// Runs one command. A non-zero exit status is an answer, not an error.
    ///
    /// # Errors
    /// Any [`ShellError`].
    async fn run(&self, target: &ShellTarget, command: &RemoteCommand) -> Result<RemoteOutput, ShellError>;

    /// Asks the host for its key without logging in, to pin it on first use.
    ///
    /// # Errors
    /// [`ShellError::Unreachable`] or [`ShellError::TimedOut`].
    async fn scan_host_key(&self, host: &str, port: u16, deadline: Duration) -> Result<HostKey, ShellError>;
}

/// A new SSH key pair: a host's own (given to it by cloud-init, known afterwards) or one to log in with.
#[derive(Clone, PartialEq, Eq)]
pub struct SshKeyPair {
    /// Private key as OpenSSH text (`-----BEGIN OPENSSH PRIVATE KEY-----`), ending in a newline. Never logged.
    pub private_openssh: String,
    /// Public key as one line without comment and newline (`ssh-ed25519 AAAA…`).
    pub public_line: String,
}

impl std::fmt::Debug for SshKeyPair {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SshKeyPair").field("public_line", &self.public_line).finish_non_exhaustive()
    }
}

/// Makes SSH key pairs for machines that are about to be created.
pub trait HostKeyMaker: Send + Sync {
    /// A new ed25519 pair from the operating system's random source. Cheap (well under a millisecond), does no I/O.
    ///
    /// # Errors
    /// [`ShellError::KeyGeneration`].
    fn generate(&self) -> Result<SshKeyPair, ShellError>;
}
