//! The port's implementation: time limits and errors around a session.

use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{HostKey, RemoteCommand, RemoteOutput, RemoteShell, ShellError, ShellTarget};
use russh::client::Msg;
use russh::{Channel, Sig};
use tokio::time::Instant;

use crate::session::{self, Session};
use crate::{quote, run};

/// Most time spent on telling a host to end a command that has run out of time.
const FAREWELL: Duration = Duration::from_secs(2);

/// How connections are made and watched.
#[derive(Clone, Debug)]
pub struct SshOptions {
    /// Most time for the TCP connection; a shorter command deadline wins.
    pub connect_timeout: Duration,
    /// A host silent for so long is asked for a sign of life.
    pub keepalive_interval: Duration,
    /// So many unanswered questions end the connection.
    pub keepalive_max: usize,
}

impl Default for SshOptions {
    fn default() -> Self {
        Self { connect_timeout: Duration::from_secs(15), keepalive_interval: Duration::from_secs(10), keepalive_max: 3 }
    }
}

/// Runs commands over SSH, one connection each.
///
/// A command over its deadline is sent SIGKILL and the connection is closed. OpenSSH refuses signals in root's sessions;
/// there the command may live on until it writes to its closed output.
#[derive(Clone, Debug, Default)]
pub struct SshShell {
    options: SshOptions,
}

impl SshShell {
    /// A shell with the given options.
    #[must_use]
    pub fn new(options: SshOptions) -> Self {
        Self { options }
    }

    async fn open(&self, target: &ShellTarget, limit: Duration) -> Result<(Session, Channel<Msg>), ShellError> {
        let session = Session::open(&self.options, target, limit).await?;
        let channel = session.handle.channel_open_session().await;
        let channel = channel.map_err(|error| broken(target, session.end().unwrap_or_else(|| error.to_string())))?;
        Ok((session, channel))
    }
}

#[async_trait]
impl RemoteShell for SshShell {
    async fn run(&self, target: &ShellTarget, command: &RemoteCommand) -> Result<RemoteOutput, ShellError> {
        let line = quote(&command.argv)?;
        let program = command.argv.first().cloned().unwrap_or_default();
        let timed_out = || ShellError::TimedOut {
            target: format!("{target:?}"),
            command: program.clone(),
            seconds: command.deadline.as_secs(),
        };
        let end = Instant::now() + command.deadline;
        let opened = tokio::time::timeout_at(end, self.open(target, command.deadline)).await;
        let (session, channel) = opened.map_err(|_| timed_out())??;
        let (reader, writer) = channel.split();
        let outcome = tokio::time::timeout_at(end, run::run(reader, &writer, line, command)).await;
        let result = match outcome {
            Ok(Ok(output)) => Ok(output),
            Ok(Err(reason)) => Err(broken(target, session.end().unwrap_or(reason))),
            Err(_) => Err(timed_out()),
        };
        let kill = matches!(result, Err(ShellError::TimedOut { .. }));
        // In the background: the caller's time limit has passed or its answer is there.
        tokio::spawn(tokio::time::timeout(FAREWELL, async move {
            if kill {
                let _ = writer.signal(Sig::KILL).await;
            }
            session.close().await;
        }));
        result
    }

    async fn scan_host_key(&self, host: &str, port: u16, deadline: Duration) -> Result<HostKey, ShellError> {
        let scan = session::scan(&self.options, host, port, deadline);
        tokio::time::timeout(deadline, scan).await.map_err(|_| ShellError::TimedOut {
            target: format!("{host}:{port}"),
            command: "host key scan".to_owned(),
            seconds: deadline.as_secs(),
        })?
    }
}

fn broken(target: &ShellTarget, reason: String) -> ShellError {
    ShellError::Broken { target: format!("{target:?}"), source: reason.into() }
}
