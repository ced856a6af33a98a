//! What both installers share: preparing a run directory, starting its supervisor, reading its records.

mod keep;
mod launch;
mod prepare;
mod resume;

pub(crate) use prepare::{file_name_of, make_passage};

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hagane_ports::installer::{
    InstallRequest, InstallerError, InstallerKind, RunExit, RunHandle, RunObservation, RunProgress, RunState,
};
use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use serde_json::Value;

use crate::inventory::Group;
use crate::progress::{ProgressReader, Secrets};
use crate::run::files::{read_record, read_untrusted, write_record};
use crate::run::layout::KUBECONFIG;
use crate::run::process::{boot_id, end_marked, signal_exact};
use crate::run::{ExitRecord, Intent, Marks, RunLayout, RunUser, Started, now};

/// Progress bytes taken in by one look at a run that still runs.
const PROGRESS_BYTES_PER_LOOK: usize = 1024 * 1024;
/// Most progress bytes of a run that has ended.
const PROGRESS_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Most bytes of a kubeconfig.
const KUBECONFIG_BYTES_MAX: u64 = 1024 * 1024;
/// How long a cancelled run may take to write its record.
const CANCEL_LIMIT: Duration = Duration::from_secs(15);

/// What an operator chose for all runs.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Directory of the run directories; made with mode 0711 where missing.
    pub runs: PathBuf,
    /// `ansible-playbook`, usually of a virtual environment (see [`crate::python`]).
    pub ansible_playbook: PathBuf,
    /// The executable that has the `run-shim` command, usually this one.
    pub shim: PathBuf,
    /// Its arguments before the run directory.
    pub shim_arguments: Vec<String>,
    /// Login name of the unprivileged user that Ansible runs as; needs root.
    pub run_as: Option<String>,
    /// Most bytes of output kept for a run.
    pub log_limit_bytes: u64,
    /// Hosts worked on at a time.
    pub forks: u16,
}

impl EngineOptions {
    /// Options with the usual limits: `run-shim` of `shim`, 64 MiB of output, 25 hosts at a time, no other user.
    #[must_use]
    pub fn new(runs: PathBuf, ansible_playbook: PathBuf, shim: PathBuf) -> Self {
        Self {
            runs,
            ansible_playbook,
            shim,
            shim_arguments: vec!["run-shim".to_owned()],
            run_as: None,
            log_limit_bytes: 64 * 1024 * 1024,
            forks: 25,
        }
    }
}

/// What an installer wants done for a request.
pub(crate) struct RunPlan {
    /// Which installer.
    pub installer: InstallerKind,
    /// Version of what it installs and of what installs it: runs of one version are compared with each other.
    pub version: String,
    /// What is run, one after the other; a step that fails ends the run.
    pub steps: Vec<Step>,
    /// Groups of the inventory beside the usual ones.
    pub groups: Vec<Group>,
    /// Files to lay below `work`, by relative path.
    pub files: Vec<(String, String)>,
    /// The installer's own variables; they win over the user's.
    pub own_variables: BTreeMap<String, Value>,
    /// Lines for `[defaults]` of `ansible.cfg`.
    pub config_lines: Vec<String>,
    /// Directories that the run's user must be able to read.
    pub must_read: Vec<PathBuf>,
    /// The installer and what it runs with, for people.
    pub tool: Option<String>,
    /// What the installer keeps of a run that ended well.
    pub then: Value,
}

/// One `ansible-playbook` of a run.
pub(crate) struct Step {
    /// The playbook: below the run's `work` directory where relative.
    pub playbook: PathBuf,
    /// Group of the inventory that it is limited to.
    pub limit: Option<&'static str>,
    /// Inventory in place of the usual one: below `work`, among [`RunPlan::files`].
    pub inventory: Option<&'static str>,
    /// Variables of this step alone; they win over all others.
    pub variables: BTreeMap<String, Value>,
    /// It is run in any case, also where the run goes on from an earlier one: checks, and facts that later steps need.
    pub always: bool,
}

impl Step {
    /// A playbook for all hosts of the inventory.
    pub(crate) fn of(playbook: impl Into<PathBuf>) -> Self {
        Self { playbook: playbook.into(), limit: None, inventory: None, variables: BTreeMap::new(), always: false }
    }
}

/// Runs of one directory. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Engine {
    options: Arc<EngineOptions>,
    user: Option<RunUser>,
    readers: Arc<Mutex<HashMap<String, ProgressReader>>>,
}

impl Engine {
    /// Looks the user up; nothing is created yet.
    pub(crate) fn new(options: EngineOptions) -> Result<Self, InstallerError> {
        let user = options.run_as.as_deref().map(prepare::look_up_user).transpose()?;
        Ok(Self { options: Arc::new(options), user, readers: Arc::default() })
    }

    pub(crate) fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The `ansible-playbook` that runs use, where there is one.
    pub(crate) fn ansible(&self) -> Option<PathBuf> {
        prepare::find_program(&self.options.ansible_playbook, std::env::var_os("PATH")).ok()
    }

    /// Where secrets of an owner's cluster lie that its runs share: with the cached facts, under a name that their reader
    /// passes over.
    pub(crate) fn credentials(&self, owner_uid: &str) -> Result<PathBuf, InstallerError> {
        Ok(self.options.runs.join("facts").join(file_name_of(owner_uid)?).join(".credentials"))
    }

    /// Owner and note of a run.
    pub(crate) fn once_ended(&self, run_id: &str) -> Result<Option<(String, Value)>, InstallerError> {
        Ok(read_intent(&self.layout(run_id)?)?.map(|intent| (intent.owner_uid, intent.then)))
    }

    pub(crate) async fn start(&self, request: &InstallRequest, plan: RunPlan) -> Result<RunHandle, InstallerError> {
        let (engine, request) = (self.clone(), request.clone());
        blocking("start the run", move || engine.start_now(&request, &plan)).await
    }

    pub(crate) async fn observe(&self, run_id: &str) -> Result<RunObservation, InstallerError> {
        let (engine, id) = (self.clone(), run_id.to_owned());
        blocking("observe the run", move || engine.observe_now(&id)).await
    }

    pub(crate) async fn kubeconfig(&self, run_id: &str) -> Result<Option<Vec<u8>>, InstallerError> {
        let layout = self.layout(run_id)?;
        blocking("read the kubeconfig", move || {
            let content = read_untrusted(&layout.work(), KUBECONFIG, KUBECONFIG_BYTES_MAX)
                .map_err(directory_error("read the run's kubeconfig"))?;
            Ok(content.filter(|content| !content.trim_ascii().is_empty()))
        })
        .await
    }

    pub(crate) async fn cancel(&self, run_id: &str) -> Result<(), InstallerError> {
        let layout = self.layout(run_id)?;
        blocking("cancel the run", move || cancel_now(&layout)).await
    }

    pub(crate) async fn forget(&self, run_id: &str) -> Result<(), InstallerError> {
        let (engine, id) = (self.clone(), run_id.to_owned());
        blocking("forget the run", move || engine.forget_now(&id)).await
    }

    pub(crate) async fn forget_owned(&self, owner_uid: &str) -> Result<(), InstallerError> {
        let (engine, owner) = (self.clone(), owner_uid.to_owned());
        blocking("forget the owner's runs", move || engine.forget_owned_now(&owner)).await
    }

    fn layout(&self, run_id: &str) -> Result<RunLayout, InstallerError> {
        RunLayout::of(&self.options.runs, run_id)
    }

    fn start_now(&self, request: &InstallRequest, plan: &RunPlan) -> Result<RunHandle, InstallerError> {
        let layout = self.layout(&request.run_id)?;
        if !layout.intent().exists() {
            let resume = self.resumable(request, plan, &layout);
            prepare::prepare(&self.options, self.user.as_ref(), &layout, request, plan, resume.as_ref())?;
            self.make_room(&request.owner_uid, &layout);
        }
        if !layout.started().exists() && !layout.exit().exists() {
            launch::launch(&self.options, &layout)?;
        }
        Ok(RunHandle { id: request.run_id.clone(), directory: layout.directory().to_path_buf() })
    }

    fn observe_now(&self, run_id: &str) -> Result<RunObservation, InstallerError> {
        let layout = self.layout(run_id)?;
        let started: Option<Started> =
            read_record(&layout.started()).map_err(directory_error("read the run's start record"))?;
        let (state, finished_at) = state_of(&layout, started.is_some())?;
        let mut progress = match state {
            RunState::Absent => RunProgress::default(),
            RunState::Running => self.progress(run_id, &layout, PROGRESS_BYTES_PER_LOOK)?,
            RunState::Finished(_) => self.progress(run_id, &layout, PROGRESS_BYTES_MAX)?,
        };
        progress.resumed = started.as_ref().and_then(|record| record.resumed.clone());
        let estimate = started.as_ref().and_then(|record| record.estimate_seconds).map(Duration::from_secs);
        let started_at = started.map(|record| record.started_at);
        Ok(RunObservation { state, progress, started_at, finished_at, log: layout.log(), estimate })
    }

    fn progress(&self, run_id: &str, layout: &RunLayout, limit: usize) -> Result<RunProgress, InstallerError> {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let reader = readers.entry(run_id.to_owned()).or_insert_with(|| {
            // Without them nothing is told by name; what looks like a secret is hidden all the same.
            let hidden: Vec<String> = read_record(&layout.hidden()).ok().flatten().unwrap_or_default();
            ProgressReader::hiding(layout.work(), Secrets::new(hidden))
        });
        let mut taken = 0;
        while taken < limit
            && !reader.advance(PROGRESS_BYTES_PER_LOOK).map_err(directory_error("read the run's progress"))?
        {
            taken += PROGRESS_BYTES_PER_LOOK;
        }
        Ok(reader.progress().clone())
    }
}

/// State of a run from its records and its lock.
fn state_of(layout: &RunLayout, started: bool) -> Result<(RunState, Option<Timestamp>), InstallerError> {
    let ended = |record: ExitRecord| (RunState::Finished(record.exit), Some(record.finished_at));
    let read = || read_record::<ExitRecord>(&layout.exit()).map_err(directory_error("read the run's exit record"));
    if let Some(record) = read()? {
        return Ok(ended(record));
    }
    match lock_state(layout).map_err(directory_error("look at the run's lock"))? {
        LockState::Held => return Ok((RunState::Running, None)),
        LockState::Free => {}
        LockState::Absent if !started => return Ok((RunState::Absent, None)),
        LockState::Absent => {}
    }
    // The supervisor may have written its record and gone between the two looks.
    if let Some(record) = read()? {
        return Ok(ended(record));
    }
    if !started {
        return Ok((RunState::Absent, None));
    }
    let record = bury(layout)?;
    Ok(ended(record))
}

/// Ends what a dead supervisor left running and records the loss.
fn bury(layout: &RunLayout) -> Result<ExitRecord, InstallerError> {
    if let Some(intent) = read_intent(layout)? {
        // Control groups of another boot are others, whatever their names.
        let started: Option<Started> = read_record(&layout.started()).ok().flatten();
        let group = started.filter(|started| started.boot_id == boot_id()).and_then(|started| started.group);
        let marks = Marks { group: group.as_deref(), ..intent.marks() };
        let left = end_marked(marks, Duration::from_secs(1));
        tracing::warn!(run = %intent.run_id, left, "the run's supervisor died; its processes were ended");
    }
    let exit = if layout.cancel_request().exists() { RunExit::Cancelled } else { RunExit::Lost };
    let record = ExitRecord { exit, finished_at: now(), dropped_output_bytes: 0 };
    if let Err(error) = write_record(&layout.exit(), &record, 0o640) {
        // The next look comes to the same end without it.
        tracing::warn!(%error, "the loss of a run could not be recorded");
    }
    Ok(record)
}

fn cancel_now(layout: &RunLayout) -> Result<(), InstallerError> {
    if !layout.intent().exists() || layout.exit().exists() {
        return Ok(());
    }
    File::create(layout.cancel_request()).map_err(directory_error("record the wish to cancel the run"))?;
    let deadline = Instant::now() + CANCEL_LIMIT;
    let mut asked = false;
    while !layout.exit().exists() {
        let started: Option<Started> =
            read_record(&layout.started()).map_err(directory_error("read the run's start record"))?;
        let Some(supervisor) = started else { return Ok(()) };
        let alive = lock_state(layout).map_err(directory_error("look at the run's lock"))? == LockState::Held;
        if !alive {
            return state_of(layout, true).map(|_| ());
        }
        if !asked && supervisor.boot_id == boot_id() {
            asked = signal_exact(supervisor.pid, supervisor.start_ticks, Signal::TERM);
        }
        if Instant::now() > deadline {
            // A supervisor that does not answer is ended like the rest; the lock then tells that it is gone.
            let _ = signal_exact(supervisor.pid, supervisor.start_ticks, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(25));
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LockState {
    /// No lock file: no supervisor was ever there.
    Absent,
    /// A supervisor lives.
    Held,
    /// None lives.
    Free,
}

fn lock_state(layout: &RunLayout) -> io::Result<LockState> {
    let file = match OpenOptions::new().read(true).open(layout.lock()) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(LockState::Absent),
        Err(error) => return Err(error),
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => Ok(LockState::Free),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(LockState::Held),
        Err(error) => Err(error.into()),
    }
}

/// Whether a supervisor is at work. One that has written its exit record only has to let go of the lock.
fn goes_on(layout: &RunLayout) -> io::Result<bool> {
    const LOOKS: u32 = 50;
    for _ in 0..LOOKS {
        if lock_state(layout)? != LockState::Held {
            return Ok(false);
        }
        if !layout.exit().exists() {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

fn read_intent(layout: &RunLayout) -> Result<Option<Intent>, InstallerError> {
    read_record(&layout.intent()).map_err(directory_error("read the run's intent"))
}

fn remove_if_there(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Turns an I/O error into [`InstallerError::Directory`].
pub(crate) fn directory_error(operation: &str) -> impl Fn(io::Error) -> InstallerError {
    move |source| InstallerError::Directory { operation: operation.to_owned(), source }
}

pub(crate) async fn blocking<T: Send + 'static>(
    operation: &'static str,
    work: impl FnOnce() -> Result<T, InstallerError> + Send + 'static,
) -> Result<T, InstallerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(source) => Err(InstallerError::Failed { operation: operation.to_owned(), source: Box::new(source) }),
    }
}
