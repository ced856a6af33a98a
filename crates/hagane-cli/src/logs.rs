//! `hagane logs`: the log of an installer run, followed until the run ends, or how long everything in it took.

mod text;
mod timings;

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::args::{LogsArgs, RunSubject};
use crate::resource::{find, word};
use crate::{CliError, connect, output, software, wait};
use text::Decoder;

/// Most bytes read at once.
const CHUNK: usize = 1 << 20;

/// A piece of a run's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogPiece {
    /// The output; empty where there is none after the place asked for yet.
    pub bytes: Vec<u8>,
    /// The place after it.
    pub next: u64,
    /// Bytes that were asked for and are not kept any more.
    pub left_out: u64,
}

/// Reads the output kept in a run's directory from a place on, at most so many bytes: whoever writes the log knows how.
pub type ReadLog = fn(directory: &Path, from: u64, limit: usize) -> io::Result<LogPiece>;

pub(crate) async fn run(args: &LogsArgs, read: ReadLog) -> Result<ExitCode, CliError> {
    if args.subject == RunSubject::Software {
        return software::logs(args).await;
    }
    let client = connect::client(&args.api.kubeconfig).await?;
    let subject = args.subject.into();
    let mut told = String::new();
    let mut followed: Option<Followed> = None;
    loop {
        let (_, object) = find(&client, subject, &args.api.namespace, &args.name).await?;
        let run = Run::of(&object.data);
        if followed.as_ref().map(|known| &known.directory) != run.directory.as_ref() {
            if let (Some(known), Some(_)) = (&followed, &run.directory) {
                eprintln!("another run after {}: {}", known.directory.display(), run.id);
            }
            followed = run.directory.clone().map(Followed::new);
        }
        match &mut followed {
            None if !args.follow => {
                let what = word(subject);
                let message = format!("{what} {:?} has no installer run yet: see `hagane describe`", args.name);
                return Err(CliError::NotYet(message));
            }
            None => tell(&mut told, &object.data),
            Some(known) if args.timings => {
                output::write(&timings::page(&known.directory, &object.data)?)?;
                return Ok(ExitCode::SUCCESS);
            }
            Some(known) => known.copy(read, &run.holder).await?,
        }
        if !args.follow || (followed.is_some() && run.is_over()) {
            return Ok(ExitCode::SUCCESS);
        }
        if let Some(waits) = run.waits_for_its_next_try() {
            say_once(&mut told, waits);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// What `status.run` tells of where the log is.
struct Run {
    id: String,
    holder: String,
    state: String,
    retry_at: String,
    directory: Option<PathBuf>,
}

impl Run {
    fn of(object: &Value) -> Self {
        let text = |name: &str| {
            let value = object.pointer(&format!("/status/run/{name}"));
            value.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let directory =
            Path::new(&text("log")).parent().filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
        Self { id: text("id"), holder: text("holder"), state: text("state"), retry_at: text("retryAt"), directory }
    }

    fn is_over(&self) -> bool {
        !matches!(self.state.as_str(), "Running" | "Starting") && self.retry_at.is_empty()
    }

    fn waits_for_its_next_try(&self) -> Option<String> {
        (!self.retry_at.is_empty()).then(|| format!("run {} is tried again at {}", self.id, self.retry_at))
    }
}

/// A log on its way to standard output.
struct Followed {
    directory: PathBuf,
    position: u64,
    decoder: Decoder,
}

impl Followed {
    fn new(directory: PathBuf) -> Self {
        Self { directory, position: 0, decoder: Decoder::new(io::stdout().is_terminal()) }
    }

    /// Prints what was added since the last time.
    async fn copy(&mut self, read: ReadLog, holder: &str) -> Result<(), CliError> {
        loop {
            let (directory, position) = (self.directory.clone(), self.position);
            let piece = tokio::task::spawn_blocking(move || read(&directory, position, CHUNK));
            let piece = piece.await.map_err(|source| CliError::Output(source.into()))?;
            let piece = piece.map_err(|source| unreadable(&self.directory, holder, source))?;
            if piece.left_out > 0 {
                eprintln!("{} bytes of output are not kept any more", piece.left_out);
            }
            self.position = piece.next;
            if piece.bytes.is_empty() {
                return Ok(());
            }
            output::write(&self.decoder.text(&piece.bytes))?;
        }
    }
}

/// Says what stands between the object and its run, once for each thing; not among the lines of the log.
fn tell(told: &mut String, object: &Value) {
    say_once(told, format!("no installer run yet: {}", wait::summary(object)));
}

fn say_once(told: &mut String, line: String) {
    if line != *told {
        eprintln!("{line}");
        *told = line;
    }
}

fn unreadable(directory: &Path, holder: &str, source: io::Error) -> CliError {
    if source.kind() == io::ErrorKind::NotFound {
        let message = format!("the log is on the machine that holds the run ({holder}): {}", directory.display());
        return CliError::NotYet(message);
    }
    CliError::File { operation: "read the log in", path: directory.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn says_once_what_a_run_waits_for() {
        let object = json!({"status": {"phase": "Waiting", "conditions": [
            {"type": "Ready", "status": "False", "reason": "NoSuitableHosts", "message": "1 host short"},
        ]}});
        let mut told = String::new();
        tell(&mut told, &object);
        assert_eq!(told, "no installer run yet: Waiting | NoSuitableHosts: 1 host short");
    }

    #[test]
    fn a_run_that_is_tried_again_is_not_over() {
        let run = |fields: Value| Run::of(&json!({"status": {"run": fields}}));
        let ended = run(json!({"id": "u-1", "state": "Failed", "log": "/runs/u-1/log"}));
        assert_eq!((ended.is_over(), ended.directory.as_deref()), (true, Some(Path::new("/runs/u-1"))));
        let waits = run(json!({"id": "u-1", "state": "Failed", "retryAt": "2026-01-01T00:00:00Z"}));
        assert!(!waits.is_over() && waits.directory.is_none());
        assert_eq!(waits.waits_for_its_next_try().as_deref(), Some("run u-1 is tried again at 2026-01-01T00:00:00Z"));
        for state in ["Running", "Starting"] {
            assert!(!run(json!({"state": state})).is_over());
        }
    }

    #[tokio::test]
    async fn goes_on_where_it_stopped() {
        fn read(_: &Path, from: u64, limit: usize) -> io::Result<LogPiece> {
            let whole = b"one\ntwo\n";
            let rest = whole.get(usize::try_from(from).unwrap_or(usize::MAX)..).unwrap_or_default();
            let bytes = rest.get(..limit.min(3).min(rest.len())).unwrap_or_default().to_vec();
            Ok(LogPiece { next: from + bytes.len() as u64, bytes, left_out: 0 })
        }
        let mut followed = Followed::new(PathBuf::from("/runs/u-1"));
        followed.copy(read, "h").await.expect("printed");
        assert_eq!(followed.position, 8);
        let gone: ReadLog = |_, _, _| Err(io::ErrorKind::NotFound.into());
        let error = followed.copy(gone, "holder-1").await.expect_err("not here").to_string();
        assert!(error.contains("holder-1") && error.contains("/runs/u-1"), "{error}");
    }
}
