//! Starting a run's supervisor so that it outlives this process.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hagane_ports::installer::InstallerError;

use super::EngineOptions;
use crate::run::RunLayout;
use crate::run::process::SCOPE_PREFIX;

/// How long a supervisor may take to say that it is there.
const START_LIMIT: Duration = Duration::from_secs(20);

/// Starts the supervisor and waits until it has recorded itself, so that the caller's next look finds the run.
pub(super) fn launch(options: &EngineOptions, layout: &RunLayout) -> Result<(), InstallerError> {
    if let Some(scope) = scope_command(options, layout)
        && spawn_and_wait(scope, layout)?
    {
        return Ok(());
    }
    let mut command = Command::new(&options.shim);
    command.args(&options.shim_arguments).arg(layout.directory());
    if spawn_and_wait(command, layout)? {
        return Ok(());
    }
    Err(InstallerError::Failed {
        operation: "start the run's supervisor".to_owned(),
        source: format!("{} recorded no start in {}", options.shim.display(), layout.directory().display()).into(),
    })
}

/// Under systemd the supervisor gets a scope of its own: otherwise stopping our service would end it too.
fn scope_command(options: &EngineOptions, layout: &RunLayout) -> Option<Command> {
    let systemd = Path::new("/run/systemd/system").is_dir() && rustix::process::geteuid().is_root();
    let program = ["/usr/bin/systemd-run", "/bin/systemd-run"].into_iter().find(|path| Path::new(path).is_file())?;
    if !systemd {
        return None;
    }
    let id = layout.directory().file_name()?.to_string_lossy().into_owned();
    let attempt = uuid::Uuid::new_v4().simple().to_string();
    let unit = format!("{SCOPE_PREFIX}{id}-{}", attempt.get(..8).unwrap_or_default());
    let mut command = Command::new(program);
    command.args(["--scope", "--quiet", "--collect", "--unit"]).arg(unit).arg("--").arg(&options.shim);
    command.args(&options.shim_arguments).arg(layout.directory());
    Some(command)
}

/// Says whether the run was begun. A command that ends without that (no bus, unit refused) leaves another way open.
fn spawn_and_wait(mut command: Command, layout: &RunLayout) -> Result<bool, InstallerError> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/sbin:/usr/bin:/sbin:/bin"));
    command.env_clear().env("PATH", path).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|source| InstallerError::Failed {
        operation: "start the run's supervisor".to_owned(),
        source: Box::new(source),
    })?;
    let deadline = Instant::now() + START_LIMIT;
    loop {
        let begun = layout.started().exists() || layout.exit().exists();
        let ended = !matches!(child.try_wait(), Ok(None));
        if begun {
            if !ended {
                reap_later(child);
            }
            return Ok(true);
        }
        if ended {
            return Ok(layout.started().exists() || layout.exit().exists());
        }
        if Instant::now() > deadline {
            reap_later(child);
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// No zombie stays behind when the supervisor ends before this process.
fn reap_later(mut child: Child) {
    std::thread::spawn(move || {
        if let Err(error) = child.wait() {
            tracing::debug!(%error, "a run's supervisor could not be waited for");
        }
    });
}
