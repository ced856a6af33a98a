//! kubespray and its Ansible, brought here once and found again. Nobody waits for it: who asks is told what is being done.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hagane_ports::installer::InstallerError;

use super::source::{Source, SourceError};
use crate::python::{self, Packages, PythonError};

/// Until what failed is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Which Ansible runs use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Python {
    /// The engine's own `ansible-playbook`.
    Given,
    /// An environment that is made for the version of kubespray, from wheels in a directory where one is named and from a
    /// package index else. A tree that asks for no Ansible gets the engine's own.
    Made {
        /// Directory of wheels; no index is asked then.
        wheels: Option<PathBuf>,
    },
}

/// What is to be prepared, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Where kubespray comes from.
    pub source: Source,
    /// Which Ansible runs it.
    pub python: Python,
    /// Directory of ours for what is fetched and made.
    pub home: PathBuf,
}

/// Why it is not prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// kubespray is not there.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// Its Ansible is not there.
    #[error("failed to make the Python environment of kubespray")]
    Python(#[from] PythonError),
}

/// What runs use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The checkout.
    pub checkout: PathBuf,
    /// `ansible-playbook`; the engine's own where `None`.
    pub ansible: Option<PathBuf>,
}

impl Wanted {
    /// Does what is left to do. `progress` is told what is being done. Blocks for as long as that takes.
    ///
    /// # Errors
    /// Any [`PrepareError`].
    pub fn prepare(&self, progress: &mut dyn FnMut(&str)) -> Result<Prepared, PrepareError> {
        let described = self.source.described();
        let checkout =
            self.source.fetch(&self.home, &mut |step| progress(&format!("fetching kubespray, {described}: {step}")))?;
        let ansible = match (&self.python, self.packages(&checkout)) {
            (Python::Made { wheels }, Some(packages)) => {
                Some(python::ensure(&self.environments(), &packages?, wheels.as_deref(), progress)?)
            }
            _ => None,
        };
        Ok(Prepared { checkout, ansible })
    }

    /// What is there already, without anything being fetched or made; `None` where something is left to do.
    fn there(&self) -> Option<Prepared> {
        let checkout = self.source.is_there(&self.home).then(|| self.source.place(&self.home))?;
        let ansible = match (&self.python, self.packages(&checkout)) {
            (Python::Made { .. }, Some(packages)) => Some(python::made(&self.environments(), &packages.ok()?)?),
            _ => None,
        };
        Some(Prepared { checkout, ansible })
    }

    /// What the checkout's Ansible is made of; nothing where the tree does not say that it needs one.
    fn packages(&self, checkout: &std::path::Path) -> Option<Result<Packages, PythonError>> {
        checkout.join("requirements.txt").exists().then(|| Packages::of_kubespray(checkout))
    }

    fn environments(&self) -> PathBuf {
        self.home.join("python")
    }
}

enum State {
    Idle,
    Working { step: String, since: Instant },
    Ready(Prepared),
    Failed { message: String, at: Instant },
}

/// One preparation of a process. Cheap to clone.
#[derive(Clone)]
pub(super) struct Preparation {
    wanted: Wanted,
    state: Arc<Mutex<State>>,
}

impl Preparation {
    pub(super) fn of(wanted: Wanted) -> Self {
        Self { wanted, state: Arc::new(Mutex::new(State::Idle)) }
    }

    /// What runs use. Where it is not there yet, the work begins, or begins again, and the error says how far it is.
    pub(super) fn ready(&self) -> Result<Prepared, InstallerError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &*state {
            State::Ready(prepared) if prepared.checkout.join("cluster.yml").is_file() => return Ok(prepared.clone()),
            State::Working { step, since } => return Err(preparing(step, since.elapsed())),
            State::Failed { message, at } if at.elapsed() < RETRY_AFTER => return Err(missing(message.clone())),
            State::Idle | State::Ready(_) | State::Failed { .. } => {}
        }
        if let Some(prepared) = self.wanted.there() {
            *state = State::Ready(prepared.clone());
            return Ok(prepared);
        }
        if let Source::Directory(directory) = &self.wanted.source
            && !directory.join("cluster.yml").is_file()
        {
            let looked = directory.join("cluster.yml");
            return Err(missing(format!("looked for {}; name a checkout by --kubespray-dir", looked.display())));
        }
        let step = "starting".to_owned();
        let told = preparing(&step, Duration::ZERO);
        *state = State::Working { step, since: Instant::now() };
        drop(state);
        let this = self.clone();
        std::thread::spawn(move || this.work());
        Err(told)
    }

    fn work(&self) {
        let since = Instant::now();
        let set = |next: State| *self.state.lock().unwrap_or_else(PoisonError::into_inner) = next;
        let outcome = self.wanted.prepare(&mut |step| set(State::Working { step: step.to_owned(), since }));
        set(match outcome {
            Ok(prepared) => {
                tracing::info!(checkout = %prepared.checkout.display(), "kubespray and its Ansible are there");
                State::Ready(prepared)
            }
            Err(error) => {
                let message = chain(&error);
                tracing::warn!(error = message, "kubespray could not be prepared; it is tried again");
                State::Failed { message, at: Instant::now() }
            }
        });
    }
}

fn preparing(step: &str, since: Duration) -> InstallerError {
    InstallerError::Preparing { what: "kubespray".to_owned(), step: step.to_owned(), seconds: since.as_secs() }
}

fn missing(detail: String) -> InstallerError {
    InstallerError::Prerequisite { what: "kubespray".to_owned(), detail }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
