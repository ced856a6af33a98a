//! An installer in memory: its runs go as a test says, and outlive the control loops that started them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use hagane_ports::{
    ClusterInstaller, InstallRequest, InstallerError, InstallerKind, RunExit, RunHandle, RunObservation, RunProgress,
    RunState,
};
use jiff::{Timestamp, ToSpan as _};

/// One call of the port that changes something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallerCall {
    /// [`ClusterInstaller::start`] of this run.
    Start(String),
    /// [`ClusterInstaller::cancel`] of this run.
    Cancel(String),
    /// [`ClusterInstaller::forget`] of this run.
    Forget(String),
    /// [`ClusterInstaller::forget_owned`] of this owner.
    ForgetOwned(String),
}

/// Obeys the contract of [`ClusterInstaller`] without hosts.
///
/// A new run goes on until [`Self::finish`], or by the script that [`Self::set_script`] set. Share it by
/// [`std::sync::Arc`] with a second set of control loops to play a restart.
#[derive(Debug)]
pub struct FakeInstaller {
    kind: InstallerKind,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    runs: BTreeMap<String, Run>,
    hidden: BTreeMap<String, Run>,
    script: Option<Script>,
    faults: VecDeque<InstallerError>,
    held: BTreeSet<String>,
    unreadable: bool,
    calls: Vec<InstallerCall>,
    begun: BTreeMap<String, usize>,
    overlaps: Vec<String>,
    seconds: i64,
}

#[derive(Clone, Debug)]
struct Script {
    steps: VecDeque<RunProgress>,
    exit: RunExit,
}

struct Run {
    request: InstallRequest,
    state: RunState,
    progress: RunProgress,
    script: Option<Script>,
    kubeconfig: Option<Vec<u8>>,
    started_at: Timestamp,
    finished_at: Option<Timestamp>,
}

impl std::fmt::Debug for Run {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Run").field("id", &self.request.run_id).field("state", &self.state).finish()
    }
}

impl FakeInstaller {
    /// An installer without runs.
    #[must_use]
    pub fn new(kind: InstallerKind) -> Self {
        Self { kind, state: Mutex::default() }
    }

    /// A kubeconfig as a good run leaves it: credentials in place, no files, no programs.
    #[must_use]
    pub fn kubeconfig_of(run_id: &str) -> Vec<u8> {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters:\n- name: c\n  cluster:\n    server: https://192.0.2.1:6443\n    \
             certificate-authority-data: Y2E=\nusers:\n- name: u\n  user:\n    client-certificate-data: Y2VydA==\n    \
             client-key-data: a2V5\ncontexts:\n- name: c\n  context:\n    cluster: c\n    user: u\n# {run_id}\n"
        )
        .into_bytes()
    }

    /// Runs that start from now on go one step with every look, and then end like this.
    pub fn set_script(&self, steps: Vec<RunProgress>, exit: RunExit) {
        self.lock().script = Some(Script { steps: steps.into(), exit });
    }

    /// Sets what a run shows. Nothing happens for a run that is not there.
    pub fn set_progress(&self, run_id: &str, progress: RunProgress) {
        if let Some(run) = self.lock().runs.get_mut(run_id) {
            run.progress = progress;
        }
    }

    /// Ends a run; one that succeeds leaves a kubeconfig. Nothing happens for a run that is not there or has ended.
    pub fn finish(&self, run_id: &str, exit: RunExit) {
        self.lock().end(run_id, exit);
    }

    /// Sets or removes the kubeconfig that a run left.
    pub fn set_kubeconfig(&self, run_id: &str, kubeconfig: Option<&[u8]>) {
        if let Some(run) = self.lock().runs.get_mut(run_id) {
            run.kubeconfig = kubeconfig.map(<[u8]>::to_vec);
        }
    }

    /// The next start fails like this and leaves nothing. Several are used up in order.
    pub fn fail_next_start(&self, error: InstallerError) {
        self.lock().faults.push_back(error);
    }

    /// Makes a run id one that another process holds, or no longer.
    pub fn set_held_elsewhere(&self, run_id: &str, held: bool) {
        let mut state = self.lock();
        if held {
            state.held.insert(run_id.to_owned());
        } else {
            state.held.remove(run_id);
        }
    }

    /// Makes every record unreadable, as a disk that is away does, or readable again.
    pub fn set_unreadable(&self, unreadable: bool) {
        self.lock().unreadable = unreadable;
    }

    /// Takes the record of a run away without ending it, as a directory that is not mounted does, or brings it back.
    pub fn set_hidden(&self, run_id: &str, hidden: bool) {
        let mut state = self.lock();
        let State { runs, hidden: away, .. } = &mut *state;
        let (from, to) = if hidden { (runs, away) } else { (away, runs) };
        if let Some(run) = from.remove(run_id) {
            to.insert(run_id.to_owned(), run);
        }
    }

    /// Ids of the runs that go on now.
    #[must_use]
    pub fn running(&self) -> Vec<String> {
        let state = self.lock();
        state.runs.iter().filter(|(_, run)| run.state == RunState::Running).map(|(id, _)| id.clone()).collect()
    }

    /// Ids of all runs with a record.
    #[must_use]
    pub fn recorded(&self) -> Vec<String> {
        self.lock().runs.keys().cloned().collect()
    }

    /// What a run was asked for.
    #[must_use]
    pub fn request(&self, run_id: &str) -> Option<InstallRequest> {
        self.lock().runs.get(run_id).map(|run| run.request.clone())
    }

    /// How often a run of each id really began: more than once is a broken promise.
    #[must_use]
    pub fn begun(&self) -> BTreeMap<String, usize> {
        self.lock().begun.clone()
    }

    /// Runs that began while another one of the same owner went on.
    #[must_use]
    pub fn overlaps(&self) -> Vec<String> {
        self.lock().overlaps.clone()
    }

    /// Every call that changes something, in order.
    #[must_use]
    pub fn calls(&self) -> Vec<InstallerCall> {
        self.lock().calls.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Every record is a second later than the one before.
    fn tick(&mut self) -> Timestamp {
        self.seconds += 1;
        Timestamp::UNIX_EPOCH.checked_add(self.seconds.seconds()).unwrap_or(Timestamp::MAX)
    }

    fn readable(&self, operation: &str) -> Result<(), InstallerError> {
        if self.unreadable {
            let source = std::io::Error::other("input/output error");
            return Err(InstallerError::Directory { operation: operation.to_owned(), source });
        }
        Ok(())
    }

    fn end(&mut self, run_id: &str, exit: RunExit) {
        let at = self.tick();
        let Some(run) = self.runs.get_mut(run_id).filter(|run| run.state == RunState::Running) else { return };
        if exit == RunExit::Succeeded && run.kubeconfig.is_none() {
            run.kubeconfig = Some(FakeInstaller::kubeconfig_of(run_id));
        }
        run.state = RunState::Finished(exit);
        run.finished_at = Some(at);
    }

    /// One step of the run's script.
    fn advance(&mut self, run_id: &str) {
        let Some(run) = self.runs.get_mut(run_id) else { return };
        let Some(script) = &mut run.script else { return };
        match script.steps.pop_front() {
            Some(progress) => run.progress = progress,
            None => {
                let exit = script.exit.clone();
                self.end(run_id, exit);
            }
        }
    }

    fn forget(&mut self, run_id: &str) -> Result<(), InstallerError> {
        if self.runs.get(run_id).is_some_and(|run| run.state == RunState::Running) {
            return Err(InstallerError::HeldElsewhere { id: run_id.to_owned() });
        }
        self.runs.remove(run_id);
        Ok(())
    }
}

fn log_of(run_id: &str) -> PathBuf {
    PathBuf::from("/runs").join(run_id).join("log")
}

/// As strict as a directory name must be.
fn check_id(run_id: &str) -> Result<(), InstallerError> {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    if run_id.is_empty() || run_id.starts_with(['.', '-']) || run_id.len() > 128 || !run_id.bytes().all(inside) {
        return Err(InstallerError::Invalid {
            field: "run id".to_owned(),
            value: run_id.to_owned(),
            allowed: "lower-case letters, digits, '-' and '.', at most 128 characters".to_owned(),
        });
    }
    Ok(())
}

#[async_trait]
impl ClusterInstaller for FakeInstaller {
    fn kind(&self) -> InstallerKind {
        self.kind
    }

    async fn start(&self, request: &InstallRequest) -> Result<RunHandle, InstallerError> {
        let id = &request.run_id;
        check_id(id)?;
        let mut state = self.lock();
        state.calls.push(InstallerCall::Start(id.clone()));
        state.readable("prepare the run directory")?;
        if let Some(error) = state.faults.pop_front() {
            return Err(error);
        }
        if state.held.contains(id) {
            return Err(InstallerError::HeldElsewhere { id: id.clone() });
        }
        let handle = RunHandle { id: id.clone(), directory: PathBuf::from("/runs").join(id) };
        if state.runs.contains_key(id) {
            return Ok(handle);
        }
        let living = |run: &Run| run.state == RunState::Running && run.request.owner_uid == request.owner_uid;
        if state.runs.values().any(living) {
            state.overlaps.push(id.clone());
        }
        *state.begun.entry(id.clone()).or_default() += 1;
        let run = Run {
            request: request.clone(),
            state: RunState::Running,
            progress: RunProgress::default(),
            script: state.script.clone(),
            kubeconfig: None,
            started_at: state.tick(),
            finished_at: None,
        };
        state.runs.insert(id.clone(), run);
        Ok(handle)
    }

    async fn observe(&self, run_id: &str) -> Result<RunObservation, InstallerError> {
        check_id(run_id)?;
        let mut state = self.lock();
        state.readable("read the run's record")?;
        state.advance(run_id);
        let log = log_of(run_id);
        Ok(match state.runs.get(run_id) {
            None => RunObservation {
                state: RunState::Absent,
                progress: RunProgress::default(),
                started_at: None,
                finished_at: None,
                log,
                estimate: None,
            },
            Some(run) => RunObservation {
                state: run.state.clone(),
                progress: run.progress.clone(),
                started_at: Some(run.started_at),
                finished_at: run.finished_at,
                log,
                estimate: None,
            },
        })
    }

    async fn kubeconfig(&self, run_id: &str) -> Result<Option<Vec<u8>>, InstallerError> {
        check_id(run_id)?;
        let state = self.lock();
        state.readable("read the run's kubeconfig")?;
        let kubeconfig = state.runs.get(run_id).and_then(|run| run.kubeconfig.clone());
        Ok(kubeconfig.filter(|kubeconfig| !kubeconfig.trim_ascii().is_empty()))
    }

    async fn cancel(&self, run_id: &str) -> Result<(), InstallerError> {
        check_id(run_id)?;
        let mut state = self.lock();
        state.calls.push(InstallerCall::Cancel(run_id.to_owned()));
        state.readable("record the wish to cancel the run")?;
        state.end(run_id, RunExit::Cancelled);
        Ok(())
    }

    async fn forget(&self, run_id: &str) -> Result<(), InstallerError> {
        check_id(run_id)?;
        let mut state = self.lock();
        state.calls.push(InstallerCall::Forget(run_id.to_owned()));
        state.readable("remove the run directory")?;
        state.forget(run_id)
    }

    async fn forget_owned(&self, owner_uid: &str) -> Result<(), InstallerError> {
        let mut state = self.lock();
        state.calls.push(InstallerCall::ForgetOwned(owner_uid.to_owned()));
        state.readable("remove the owner's run directories")?;
        let owned = |run: &Run| run.request.owner_uid == owner_uid;
        let ids: Vec<String> = state.runs.iter().filter(|(_, run)| owned(run)).map(|(id, _)| id.clone()).collect();
        ids.iter().try_for_each(|id| state.forget(id))
    }
}

#[cfg(test)]
mod tests;
