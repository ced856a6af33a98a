//! The virtual environment with Ansible that runs use: pinned packages, made once per pin and Python.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

/// The packages and their versions.
pub const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// Why a virtual environment could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// No usable Python.
    #[error("no Python with the venv module was found (tried {tried}); on Debian: apt-get install python3-venv")]
    NoPython {
        /// The programs tried.
        tried: String,
    },
    /// A program could not be run.
    #[error("failed to run {program}")]
    Run {
        /// Which.
        program: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A program said no.
    #[error("{program} failed: {message}")]
    Refused {
        /// Which.
        program: String,
        /// The end of what it wrote.
        message: String,
    },
    /// The directory cannot be used.
    #[error("failed to use {path}")]
    Directory {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// The cache of this user: `HAGANE_CACHE`, else `~/.cache/hagane`.
#[must_use]
pub fn default_cache() -> PathBuf {
    let named = std::env::var_os("HAGANE_CACHE").filter(|value| !value.is_empty()).map(PathBuf::from);
    named.unwrap_or_else(|| {
        let home = std::env::var_os("HOME").map_or_else(|| PathBuf::from("/var/cache"), PathBuf::from);
        home.join(".cache/hagane")
    })
}

/// Returns `ansible-playbook` of the virtual environment below `cache`, making it where it is missing. `progress` is
/// told what is being done. Blocks for as long as pip needs.
///
/// # Errors
/// Any [`PythonError`].
pub fn ensure_ansible(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, PythonError> {
    let python = find_python()?;
    let version = output(Command::new(&python).arg("--version"))?;
    let digest = Sha256::digest(format!("{}\n{version}\n{REQUIREMENTS}", python.display()));
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let parent = cache.join("venv");
    let environment = parent.join(&name);
    let program = environment.join("bin/ansible-playbook");
    // pip writes the program before the last packages; this file is written after everything.
    let complete = environment.join("hagane-complete");
    if complete.exists() && program.exists() {
        return Ok(program);
    }
    progress("making a Python environment for Ansible");
    let directory = |path: &Path| {
        let path = path.to_path_buf();
        move |source| PythonError::Directory { path: path.clone(), source }
    };
    fs::create_dir_all(&parent).map_err(directory(&parent))?;
    // One maker at a time: the programs inside carry their final path, so it cannot be made elsewhere and moved.
    let lock = fs::File::create(parent.join(format!("{name}.lock"))).map_err(directory(&parent))?;
    lock.lock().map_err(directory(&parent))?;
    if complete.exists() && program.exists() {
        return Ok(program);
    }
    if environment.exists() {
        fs::remove_dir_all(&environment).map_err(directory(&environment))?;
    }
    output(Command::new(&python).args(["-m", "venv"]).arg(&environment))?;
    let requirements = environment.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(directory(&requirements))?;
    progress("installing ansible-core with pip");
    let pip = environment.join("bin/python");
    output(
        Command::new(pip).args(["-m", "pip", "install", "--no-input", "--no-deps", "--requirement"]).arg(&requirements),
    )?;
    fs::write(&complete, "").map_err(directory(&complete))?;
    Ok(program)
}

fn find_python() -> Result<PathBuf, PythonError> {
    let candidates = ["/usr/bin/python3", "python3"];
    let usable = |program: &&str| {
        let mut command = Command::new(program);
        command.args(["-c", "import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 11))"]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    match candidates.iter().find(|program| usable(program)) {
        Some(program) => Ok(PathBuf::from(program)),
        None => Err(PythonError::NoPython { tried: candidates.join(", ") }),
    }
}

fn output(command: &mut Command) -> Result<String, PythonError> {
    let program = Path::new(command.get_program()).file_name().unwrap_or_else(|| OsStr::new("python"));
    let program = program.to_string_lossy().into_owned();
    let result = command.stdin(Stdio::null()).output();
    let output = result.map_err(|source| PythonError::Run { program: program.clone(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let message = text.lines().rev().take(5).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("; ");
    Err(PythonError::Refused { program, message })
}
