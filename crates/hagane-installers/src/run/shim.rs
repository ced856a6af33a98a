//! The supervisor of one run: `hagane run-shim DIR`, a process of its own.
//!
//! It holds the run's lock while it lives, starts the program that the intent names, keeps its output, ends it at its
//! limits or when asked to, and writes the exit record last. It needs nothing of the process that started it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hagane_ports::installer::RunExit;
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::signal::unix::{SignalKind, signal};

use super::files::{read_record, reserve, write_record, write_reserved};
use super::history;
use super::intent::{Intent, MARKER_VARIABLE, Marks};
use super::layout::RunLayout;
use super::limits::LimitWatch;
use super::log::BoundedLog;
use super::process::{boot_id, end_marked, own_group, start_ticks};
use super::records::{ExitRecord, Started, StepsDone, now};
use crate::progress::write_timings;

/// Time that the playbook gets to end after it was asked.
const GRACE: Duration = Duration::from_secs(3);
/// Time that remaining output gets after every process has ended.
const LAST_OUTPUT: Duration = Duration::from_secs(2);
/// Exit status: the run was held or begun already, and nothing was done.
const NOTHING_DONE: u8 = 3;

/// Supervises the run in `directory` to its end. Does nothing where the run is held or was begun before: a run is
/// started at most once.
#[must_use]
pub fn run_shim_main(directory: &Path) -> ExitCode {
    // Fails only where this is a session of its own already.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "already the leader of a process group");
    }
    let layout = RunLayout::at(directory.to_path_buf());
    match supervise(&layout) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(NOTHING_DONE),
        Err(error) => {
            tracing::error!(directory = %directory.display(), %error, "the run's supervisor failed");
            ExitCode::FAILURE
        }
    }
}

fn supervise(layout: &RunLayout) -> io::Result<bool> {
    let Some(_lock) = lock_exclusively(layout)? else { return Ok(false) };
    if layout.started().exists() || layout.exit().exists() {
        return Ok(false);
    }
    let intent: Intent =
        read_record(&layout.intent())?.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no intent"))?;
    reserve(&layout.exit_reserve())?;
    let pid = std::process::id().cast_signed();
    // What loses its parent becomes this process's child, so that it is found when the run ends.
    if let Err(error) = rustix::process::set_child_subreaper(Some(Pid::INIT)) {
        tracing::warn!(%error, "processes that leave the run's tree are found by their marks only");
    }
    let started = Started {
        pid,
        start_ticks: start_ticks(pid).unwrap_or_default(),
        boot_id: boot_id(),
        started_at: now(),
        group: own_group(&intent.run_id),
        resumed: intent.resumed(),
        estimate_seconds: intent.estimate_seconds,
    };
    write_record(&layout.started(), &started, 0o640)?;
    let begun = Instant::now();
    let (exit, dropped_output_bytes) = run_child(layout, &intent);
    tell_times(layout, &intent, &exit, begun.elapsed());
    for directory in &intent.remove_at_end {
        remove_directory(directory);
    }
    let record = ExitRecord { exit, finished_at: now(), dropped_output_bytes };
    write_reserved(&layout.exit_reserve(), &layout.exit(), &record)?;
    Ok(true)
}

/// Writes how long everything took. A run is none the worse where that cannot be written.
fn tell_times(layout: &RunLayout, intent: &Intent, exit: &RunExit, length: Duration) {
    if let Err(error) = write_timings(&layout.work(), &layout.timings()) {
        tracing::warn!(%error, "the times of the run could not be written");
    }
    // What passed over steps says nothing about a whole run.
    if let (RunExit::Succeeded, None, Some(kind), Some(runs)) =
        (exit, &intent.resume, &intent.kind, layout.directory().parent())
        && let Err(error) = history::add(runs, kind, length)
    {
        tracing::warn!(%error, "the run could not be added to the history");
    }
}

/// By what this supervisor knows the processes of its run.
fn marks(intent: &Intent) -> Marks<'_> {
    Marks { tree: Some(std::process::id().cast_signed()), ..intent.marks() }
}

/// Takes the run's lock. Observers hold it shared for an instant, so one refusal proves nothing.
fn lock_exclusively(layout: &RunLayout) -> io::Result<Option<File>> {
    let file = OpenOptions::new().create(true).append(true).mode(0o640).open(layout.lock())?;
    for _ in 0..100 {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(file)),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

fn run_child(layout: &RunLayout, intent: &Intent) -> (RunExit, u64) {
    let (output, writer) = match io::pipe() {
        Ok(pipe) => pipe,
        Err(error) => return (RunExit::NotStarted { message: format!("the output: {error}") }, 0),
    };
    let log = BoundedLog::open(layout.directory().to_path_buf(), intent.log_limit_bytes);
    let counted = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&counted);
    let (finished, dropped) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lost = keep_output(output, log, &count);
        if finished.send(lost).is_err() {
            tracing::debug!("the output outlived the wait for its end");
        }
    });
    let exit = run_steps(layout, intent, &writer, LimitWatch::new(layout, intent, counted));
    // The output ends when the last writing end is gone.
    end_marked(marks(intent), Duration::ZERO);
    drop(writer);
    (exit, dropped.recv_timeout(LAST_OUTPUT).unwrap_or_default())
}

fn spawn(intent: &Intent, arguments: &[String], output: &io::PipeWriter) -> io::Result<Child> {
    let mut command = Command::new(&intent.program);
    command
        .args(arguments)
        .env_clear()
        .envs(&intent.environment)
        .env(MARKER_VARIABLE, &intent.marker)
        .current_dir(&intent.working_directory)
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output.try_clone()?)
        .process_group(0);
    if let Some(user) = &intent.user {
        command.uid(user.uid).gid(user.gid);
    }
    command.spawn()
}

fn keep_output(mut output: io::PipeReader, mut log: BoundedLog, counted: &AtomicU64) -> u64 {
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match output.read(&mut buffer) {
            Ok(0) => return log.dropped(),
            Ok(count) => {
                counted.fetch_add(count as u64, Ordering::Relaxed);
                log.write(buffer.get(..count).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return log.dropped(),
        }
    }
}

/// Runs the steps within the limits, up to the first that does not succeed.
fn run_steps(layout: &RunLayout, intent: &Intent, output: &io::PipeWriter, mut limits: LimitWatch) -> RunExit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return RunExit::NotStarted { message: format!("the supervisor: {error}") },
    };
    runtime.block_on(async {
        let end = asked_to_end();
        tokio::pin!(end);
        for (step, arguments) in intent.before.iter().chain([&intent.arguments]).enumerate() {
            announce(intent, step, output);
            if intent.is_passed_over(step) {
                continue;
            }
            let child = match spawn(intent, arguments, output) {
                Ok(child) => child,
                Err(error) => {
                    let message = format!("{}: {error}", intent.program.display());
                    return RunExit::NotStarted { message };
                }
            };
            let pid = child.id().cast_signed();
            let mut exited = tokio::task::spawn_blocking({
                let mut child = child;
                move || child.wait()
            });
            let ended = tokio::select! {
                status = &mut exited => Err(outcome(layout, status.map_err(io::Error::other).flatten())),
                exit = limits.exceeded(pid) => Ok(exit),
                () = &mut end => Ok(RunExit::Cancelled),
            };
            match ended {
                Err(RunExit::Succeeded) => {
                    end_marked(marks(intent), Duration::ZERO);
                    record_step(layout, intent, step);
                }
                Err(exit) => return exit,
                Ok(exit) => {
                    end_group(Pid::from_raw(pid), marks(intent));
                    if let Err(error) = exited.await {
                        tracing::warn!(%error, "the ended child could not be waited for");
                    }
                    return exit;
                }
            };
        }
        RunExit::Succeeded
    })
}

/// Says in the output which of several steps begins.
fn announce(intent: &Intent, step: usize, mut output: &io::PipeWriter) {
    let Some(stage) = intent.stages.get(step).filter(|_| intent.stages.len() > 1) else { return };
    let done = match &intent.resume {
        Some(resume) if intent.is_passed_over(step) => format!(": done by run {}", resume.run_id),
        _ => String::new(),
    };
    let line = format!("\nSTEP {} of {}: {}{done}\n", step + 1, intent.stages.len(), stage.name);
    if let Err(error) = output.write_all(line.as_bytes()) {
        tracing::debug!(%error, "the output is gone");
    }
}

/// Records that a step is finished. Where that cannot be written, a later run does it again.
fn record_step(layout: &RunLayout, intent: &Intent, step: usize) {
    let before = intent.resume.as_ref().map_or(0, |resume| resume.done);
    let done = StepsDone { done: before.max(step + 1) };
    if let Err(error) = write_record(&layout.steps_done(), &done, 0o640) {
        tracing::warn!(%error, "a finished step could not be recorded");
    }
}

/// Asks the whole tree to end, and insists. The group is asked first so that Ansible can stop its workers in order.
fn end_group(group: Option<Pid>, marks: Marks<'_>) {
    let Some(group) = group else { return };
    if let Err(error) = kill_process_group(group, Signal::TERM) {
        tracing::debug!(%error, "the playbook ended before it was asked");
    }
    end_marked(marks, GRACE);
    if let Err(error) = kill_process_group(group, Signal::KILL) {
        tracing::debug!(%error, "the playbook's group is gone");
    }
}

fn outcome(layout: &RunLayout, status: io::Result<ExitStatus>) -> RunExit {
    match status {
        // Whoever asked for the end may have reached the playbook before the supervisor.
        Ok(status) if !status.success() && layout.cancel_request().exists() => RunExit::Cancelled,
        Ok(status) => match (status.code(), status.signal()) {
            (Some(0), _) => RunExit::Succeeded,
            (Some(status), _) => RunExit::Failed { status },
            (None, signal) => RunExit::Killed { signal: signal.unwrap_or_default() },
        },
        Err(error) => RunExit::NotStarted { message: format!("the playbook could not be waited for: {error}") },
    }
}

async fn asked_to_end() {
    // Ignored by being taken: the terminal or session that started us going away is no reason to end.
    let hangup = signal(SignalKind::hangup());
    let (Ok(mut terminate), Ok(mut interrupt)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    drop(hangup);
}

fn remove_directory(directory: &Path) {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(directory = %directory.display(), %error, "a directory of the run was left behind");
        }
        _ => {}
    }
}
