//! `hagane service`: the system as a systemd unit, with the user, directories and configuration that it needs.

mod files;

use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::args::{ServiceCommand, ServiceInstallArgs, ServiceUninstallArgs};
use crate::{CliError, output};
use files::{MARK, Paths, USER, USER_COMMENT};

/// Time for systemd to answer; starting the unit is the longest.
const SYSTEMD_LIMIT: Duration = Duration::from_secs(180);

pub(crate) async fn run(command: &ServiceCommand) -> Result<ExitCode, CliError> {
    match command {
        ServiceCommand::Print(args) => output::write(&files::unit(&program(args.program.as_deref())?, args.mode))?,
        ServiceCommand::Install(args) => install(args).await?,
        ServiceCommand::Uninstall(args) => uninstall(args).await?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The program that the unit starts.
fn program(given: Option<&Path>) -> Result<PathBuf, CliError> {
    let program = match given {
        Some(path) => path.to_owned(),
        None => std::env::current_exe().map_err(file("find", Path::new("/proc/self/exe")))?,
    };
    let value = program.display().to_string();
    let plain = |character: char| character.is_ascii_alphanumeric() || "/._+-".contains(character);
    if program.is_absolute() && value.chars().all(plain) {
        return Ok(program);
    }
    let allowed = "an absolute path of letters, digits and ./_+- that a unit can name".to_owned();
    Err(CliError::Argument { argument: "--program", value, allowed })
}

async fn install(args: &ServiceInstallArgs) -> Result<(), CliError> {
    let paths = Paths::below(&args.root);
    let live = args.root == Path::new("/");
    let program = program(args.unit.program.as_deref())?;
    if live && ["/home", "/root", "/tmp"].iter().any(|hidden| program.starts_with(hidden)) {
        let allowed = "a program outside of /home, /root and /tmp, which the unit does not see".to_owned();
        return Err(CliError::Argument { argument: "--program", value: program.display().to_string(), allowed });
    }
    for path in [&paths.unit, &paths.sysusers] {
        refuse_foreign(path)?;
    }
    put(&paths.unit, &files::unit(&program, args.unit.mode))?;
    put(&paths.sysusers, &files::sysusers())?;
    let wrote_config = put_if_absent(&paths.config, &files::config(args.unit.mode))?;
    if live {
        systemd("systemd-sysusers", &[&paths.sysusers.display().to_string()]).await?;
        systemd("systemctl", &["daemon-reload"]).await?;
        if args.now {
            systemd("systemctl", &["enable", "hagane.service"]).await?;
            systemd("systemctl", &["restart", "hagane.service"]).await?;
        }
    }
    let config = paths.config.display();
    let kept = if wrote_config { "written" } else { "was there and stays" };
    let next = if args.now { "it runs: journalctl -u hagane" } else { "start it: systemctl enable --now hagane" };
    output::write(&format!("{}: written\n{config}: {kept}\nuser {USER}: there\n{next}\n", paths.unit.display()))
}

async fn uninstall(args: &ServiceUninstallArgs) -> Result<(), CliError> {
    let paths = Paths::below(&args.root);
    let live = args.root == Path::new("/");
    for path in [&paths.unit, &paths.sysusers] {
        refuse_foreign(path)?;
    }
    if live && args.purge {
        refuse_live_runs().await?;
    }
    if live && paths.unit.exists() {
        systemd("systemctl", &["disable", "--now", "hagane.service"]).await?;
    }
    let mut told = String::new();
    for path in [&paths.unit, &paths.sysusers] {
        if remove(path, |path| std::fs::remove_file(path))? {
            told.push_str(&format!("{}: removed\n", path.display()));
        }
    }
    if live {
        systemd("systemctl", &["daemon-reload"]).await?;
    }
    for path in [paths.config.parent().unwrap_or(&paths.config), &paths.data, &paths.cache] {
        if args.purge && remove(path, |path| std::fs::remove_dir_all(path))? {
            told.push_str(&format!("{}: removed\n", path.display()));
        } else if path.exists() {
            told.push_str(&format!("{}: kept; --purge removes it\n", path.display()));
        }
    }
    // A user of that name that somebody else made is none of ours.
    let ours = |entry: String| entry.contains(USER_COMMENT);
    if live && args.purge && systemd("getent", &["passwd", USER]).await.is_ok_and(ours) {
        systemd("userdel", &[USER]).await?;
        told.push_str(&format!("user {USER}: removed\n"));
    }
    output::write(&told)
}

/// A file of somebody else's making is not replaced and not removed.
fn refuse_foreign(path: &Path) -> Result<(), CliError> {
    match std::fs::read_to_string(path) {
        Ok(text) if text.starts_with(MARK) => Ok(()),
        Ok(_) => Err(CliError::Content {
            path: path.to_owned(),
            problem: "was not written by `hagane service install`: move it away first".to_owned(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(file("read", path)(error)),
    }
}

/// Runs go on after their unit stopped; their directories must not be taken from under them.
async fn refuse_live_runs() -> Result<(), CliError> {
    let list = ["list-units", "--type=scope", "--state=running", "--plain", "--no-legend", "hagane-run-*"];
    let running = systemd("systemctl", &list).await?;
    let Some(first) = running.split_whitespace().next() else { return Ok(()) };
    Err(CliError::NotYet(format!(
        "an installer run goes on in {first}: wait for it, or end it with `systemctl stop {first}`, and try again"
    )))
}

fn put(path: &Path, text: &str) -> Result<(), CliError> {
    make_parent(path)?;
    // Beside it and then renamed: a full disk leaves the earlier file as it was.
    let beside = path.with_extension("new");
    std::fs::write(&beside, text).map_err(file("write", &beside))?;
    std::fs::rename(&beside, path).map_err(file("write", path))
}

fn put_if_absent(path: &Path, text: &str) -> Result<bool, CliError> {
    make_parent(path)?;
    match std::fs::OpenOptions::new().write(true).create_new(true).mode(0o640).open(path) {
        Ok(mut new) => new.write_all(text.as_bytes()).map(|()| true).map_err(file("write", path)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(file("write", path)(error)),
    }
}

fn make_parent(path: &Path) -> Result<(), CliError> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).map_err(file("make", parent))
}

fn remove(path: &Path, remove: impl Fn(&Path) -> std::io::Result<()>) -> Result<bool, CliError> {
    match remove(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(file("remove", path)(error)),
    }
}

fn file(operation: &'static str, path: &Path) -> impl Fn(std::io::Error) -> CliError {
    let path = path.to_owned();
    move |source| CliError::File { operation, path: path.clone(), source }
}

/// Runs one of systemd's own programs and gives what it printed.
async fn systemd(program: &'static str, arguments: &[&str]) -> Result<String, CliError> {
    let failed = |source: std::io::Error| CliError::Program { program, arguments: arguments.join(" "), source };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).stdin(std::process::Stdio::null()).kill_on_drop(true);
    let output = match tokio::time::timeout(SYSTEMD_LIMIT, command.output()).await {
        Ok(output) => output.map_err(failed)?,
        Err(_) => return Err(failed(std::io::Error::new(ErrorKind::TimedOut, "no answer in time"))),
    };
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(failed(std::io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())))
}

#[cfg(test)]
mod tests;
