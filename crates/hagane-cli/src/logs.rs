//! `hagane logs`: the log of an installer run, followed until the run ends.

use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;

use crate::args::LogsArgs;
use crate::resource::{find, word};
use crate::{CliError, connect, output, wait};

/// Most bytes read at once.
const CHUNK: u64 = 1 << 20;

pub(crate) async fn run(args: &LogsArgs) -> Result<ExitCode, CliError> {
    let client = connect::client(&args.api.kubeconfig).await?;
    let subject = args.subject.into();
    let mut position = 0;
    let mut known: Option<PathBuf> = None;
    let mut told = String::new();
    loop {
        let (_, object) = find(&client, subject, &args.api.namespace, &args.name).await?;
        let text = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let path = Some(PathBuf::from(text("/status/run/log"))).filter(|path| !path.as_os_str().is_empty());
        if path != known {
            (known, position) = (path, 0);
        }
        match &known {
            None if !args.follow => {
                let what = word(subject);
                return Err(CliError::NotYet(format!(
                    "{what} {:?} has no installer run yet: see `hagane describe`",
                    args.name
                )));
            }
            None => tell(&mut told, &object.data),
            Some(path) => position = copy_from(path, position, &text("/status/run/holder")).await?,
        }
        let running = known.is_none() || text("/status/run/state") == "Running";
        if !args.follow || !running {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Says what stands between the object and its run, once for each thing; not among the lines of the log.
fn tell(told: &mut String, object: &Value) {
    if let Some(line) = waiting_line(told, object) {
        eprintln!("{line}");
        *told = line;
    }
}

fn waiting_line(told: &str, object: &Value) -> Option<String> {
    let line = format!("no installer run yet: {}", wait::summary(object));
    (line != told).then_some(line)
}

/// Prints what was added since `position` and says where the end is now.
async fn copy_from(path: &Path, position: u64, holder: &str) -> Result<u64, CliError> {
    let (owned, holder) = (path.to_owned(), holder.to_owned());
    let task = tokio::task::spawn_blocking(move || {
        let mut position = position;
        loop {
            let read = read_chunk(&owned, position);
            let (bytes, end) = read.map_err(|source| unreadable(&owned, &holder, source))?;
            if bytes.is_empty() {
                return Ok(end);
            }
            position = end;
            output::write(&String::from_utf8_lossy(&bytes))?;
        }
    });
    task.await.map_err(|source| CliError::Output(source.into()))?
}

fn unreadable(path: &Path, holder: &str, source: std::io::Error) -> CliError {
    if source.kind() == std::io::ErrorKind::NotFound {
        return CliError::NotYet(format!(
            "the log is on the machine that holds the run ({holder}): {}",
            path.display()
        ));
    }
    CliError::File { operation: "read", path: path.to_owned(), source }
}

/// The bytes after `position` (from the start again where the file was rotated) and the position after them.
fn read_chunk(path: &Path, position: u64) -> std::io::Result<(Vec<u8>, u64)> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let start = if position > length { 0 } else { position };
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(CHUNK).read_to_end(&mut bytes)?;
    let end = start + u64::try_from(bytes.len()).unwrap_or(0);
    Ok((bytes, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_once_what_a_run_waits_for() {
        let object = serde_json::json!({"status": {"phase": "Waiting", "conditions": [
            {"type": "Ready", "status": "False", "reason": "NoSuitableHosts", "message": "1 host short"},
        ]}});
        let line = waiting_line("", &object).expect("news");
        assert_eq!(line, "no installer run yet: Waiting | NoSuitableHosts: 1 host short");
        assert_eq!(waiting_line(&line, &object), None);
    }

    #[test]
    fn goes_on_where_it_stopped_and_starts_again_after_rotation() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), "one\ntwo\n").expect("writable");
        let (bytes, end) = read_chunk(file.path(), 4).expect("readable");
        assert_eq!((bytes.as_slice(), end), (&b"two\n"[..], 8));
        std::fs::write(file.path(), "new\n").expect("writable");
        assert_eq!(read_chunk(file.path(), end).expect("readable"), (b"new\n".to_vec(), 4));
    }
}
