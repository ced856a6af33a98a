//! Virtual environments with Ansible that runs use: pinned packages, made once per list of pins and Python.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::program::{self, ProgramError};

/// The packages of the kubeadm playbooks and their versions.
pub const REQUIREMENTS: &str = include_str!("../python/requirements.txt");

/// Lists for versions of kubespray: every package pinned and every file by digest.
const FOR_KUBESPRAY: [&str; 1] = [include_str!("../python/kubespray-2.31.txt")];

/// Why a virtual environment could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PythonError {
    /// No usable Python.
    #[error("no Python with the venv module was found (tried {tried}); on Debian: apt-get install python3-venv")]
    NoPython {
        /// The programs tried.
        tried: String,
    },
    /// A program did not do its part.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// There is no list of packages.
    #[error("{path} does not say which Ansible is needed: a line such as ansible==11.13.0 is missing")]
    NoRequirements {
        /// The file looked at.
        path: PathBuf,
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

/// What an environment holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packages {
    /// Lines for pip.
    pub requirements: String,
    /// Whether they name everything, dependencies too.
    pub whole: bool,
    /// Whether they name the digest of every file.
    pub digests: bool,
}

impl Packages {
    /// Those of the kubeadm playbooks.
    #[must_use]
    pub fn of_kubeadm() -> Self {
        Self { requirements: REQUIREMENTS.to_owned(), whole: true, digests: false }
    }

    /// Those that a checkout of kubespray asks for: our list where we have one for its pins, else its own lines.
    ///
    /// # Errors
    /// [`PythonError::NoRequirements`] where its `requirements.txt` pins no Ansible.
    pub fn of_kubespray(checkout: &Path) -> Result<Self, PythonError> {
        let path = checkout.join("requirements.txt");
        let asked = fs::read_to_string(&path).unwrap_or_default();
        let wanted = pins(&asked);
        if !wanted.iter().any(|(name, _)| name == "ansible") {
            return Err(PythonError::NoRequirements { path });
        }
        let ours = FOR_KUBESPRAY.iter().find(|list| {
            let known = pins(list);
            wanted.iter().all(|pin| known.contains(pin))
        });
        Ok(match ours {
            Some(list) => Self { requirements: (*list).to_owned(), whole: true, digests: true },
            None => Self { requirements: asked, whole: false, digests: false },
        })
    }

    /// Number of packages that they name.
    #[must_use]
    pub fn count(&self) -> usize {
        pins(&self.requirements).len()
    }
}

/// Names and versions of lines `name==version`, names as pip compares them.
fn pins(requirements: &str) -> Vec<(String, String)> {
    let lines = requirements.lines().map(|line| line.split(['#', ';', '\\']).next().unwrap_or_default().trim());
    let pin = |line: &str| {
        let (name, version) = line.split_once("==")?;
        Some((name.trim().to_lowercase().replace(['_', '.'], "-"), version.trim().to_owned()))
    };
    lines.filter_map(pin).collect()
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

/// Returns `ansible-playbook` of the virtual environment below `cache` that the kubeadm playbooks use, making it where it is
/// missing. `progress` is told what is being done. Blocks for as long as pip needs.
///
/// # Errors
/// Any [`PythonError`].
pub fn ensure_ansible(cache: &Path, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, PythonError> {
    ensure(&cache.join("venv"), &Packages::of_kubeadm(), None, progress)
}

/// Where `ansible-playbook` of the environment with these packages is, if it was made whole. Asks Python for its version.
#[must_use]
pub fn made(parent: &Path, packages: &Packages) -> Option<PathBuf> {
    place(parent, packages).ok().filter(Place::is_whole).map(|place| place.program())
}

/// Returns `ansible-playbook` of the virtual environment below `parent` with these packages, making it where it is missing:
/// from a directory of wheels alone where one is given. `progress` is told what is being done. Blocks for as long as pip needs.
///
/// # Errors
/// Any [`PythonError`].
pub fn ensure(
    parent: &Path,
    packages: &Packages,
    wheels: Option<&Path>,
    progress: &mut dyn FnMut(&str),
) -> Result<PathBuf, PythonError> {
    let place = place(parent, packages)?;
    if place.is_whole() {
        return Ok(place.program());
    }
    progress("making a Python environment for Ansible");
    let directory = |path: &Path| {
        let path = path.to_path_buf();
        move |source| PythonError::Directory { path: path.clone(), source }
    };
    fs::create_dir_all(parent).map_err(directory(parent))?;
    // One maker at a time: the programs inside carry their final path, so it cannot be made elsewhere and moved.
    let lock = fs::File::create(place.environment.with_extension("lock")).map_err(directory(parent))?;
    lock.lock().map_err(directory(parent))?;
    if place.is_whole() {
        return Ok(place.program());
    }
    let environment = &place.environment;
    if environment.exists() {
        fs::remove_dir_all(environment).map_err(directory(environment))?;
    }
    program::output(Command::new(&place.python).args(["-m", "venv"]).arg(environment))?;
    let requirements = environment.join("requirements.txt");
    fs::write(&requirements, &packages.requirements).map_err(directory(&requirements))?;
    install(&place, packages, wheels, &requirements, progress)?;
    open_to_all(environment).map_err(directory(environment))?;
    fs::write(place.complete(), "").map_err(directory(environment))?;
    Ok(place.program())
}

fn install(
    place: &Place,
    packages: &Packages,
    wheels: Option<&Path>,
    requirements: &Path,
    progress: &mut dyn FnMut(&str),
) -> Result<(), PythonError> {
    let mut pip = Command::new(place.environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check"]);
    pip.args(packages.whole.then_some("--no-deps"));
    pip.args(packages.digests.then_some("--require-hashes"));
    if let Some(wheels) = wheels {
        pip.args(["--no-index", "--find-links"]).arg(wheels);
    }
    progress("installing ansible-core with pip");
    let (total, mut fetched) = (packages.count(), 0);
    program::run(pip.arg("--requirement").arg(requirements), &mut |line| {
        if let Some(package) = line.strip_prefix("Collecting ").or_else(|| line.strip_prefix("Processing ")) {
            fetched += 1;
            let package = package.split_whitespace().next().unwrap_or_default();
            let name = package.rsplit('/').next().unwrap_or_default();
            progress(&format!("fetching Python packages: {name} ({fetched} of {})", total.max(fetched)));
        } else if line.starts_with("Installing collected packages") {
            progress(&format!("unpacking {fetched} Python packages, which takes minutes where disks are slow"));
        }
    })?;
    Ok(())
}

/// Runs may be another user's, whatever the umask of this process is.
pub(crate) fn open_to_all(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let data = entry.metadata()?;
        if data.is_symlink() {
            continue;
        }
        let mode = data.permissions().mode() & 0o777;
        let wanted = mode | 0o444 | if data.is_dir() || mode & 0o100 != 0 { 0o111 } else { 0 };
        if mode != wanted {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(wanted))?;
        }
        if data.is_dir() {
            open_to_all(&entry.path())?;
        }
    }
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

/// Where an environment is, or will be.
struct Place {
    python: PathBuf,
    environment: PathBuf,
}

impl Place {
    fn program(&self) -> PathBuf {
        self.environment.join("bin/ansible-playbook")
    }

    /// pip writes the program before the last packages; this file is written after everything.
    fn complete(&self) -> PathBuf {
        self.environment.join("hagane-complete")
    }

    fn is_whole(&self) -> bool {
        self.complete().exists() && self.program().exists()
    }
}

fn place(parent: &Path, packages: &Packages) -> Result<Place, PythonError> {
    let python = find_python()?;
    let version = program::output(Command::new(&python).arg("--version"))?;
    let digest = Sha256::digest(format!("{}\n{version}\n{}", python.display(), packages.requirements));
    let name: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    Ok(Place { python, environment: parent.join(name) })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(requirements: &str) -> Result<Packages, PythonError> {
        let checkout = tempfile::tempdir().expect("a directory");
        fs::write(checkout.path().join("requirements.txt"), requirements).expect("a file");
        Packages::of_kubespray(checkout.path())
    }

    #[test]
    fn a_checkout_whose_pins_we_know_gets_everything_by_digest() {
        let packages =
            asked("ansible==11.13.0\n# for a module\ncryptography==46.0.7\njmespath==1.1.0 # too\nnetaddr==1.3.0\n");
        let packages = packages.expect("a list");
        assert!(packages.whole && packages.digests && packages.count() >= 12, "{packages:?}");
        let pins: Vec<_> = packages.requirements.lines().filter(|line| line.contains("==")).collect();
        assert!(pins.iter().all(|line| line.ends_with('\\')), "every pin is followed by digests: {pins:?}");
    }

    #[test]
    fn one_with_other_pins_gets_what_it_asks_for() {
        let text = "ansible==9.13.0\nnetaddr==1.3.0\n";
        let packages = asked(text).expect("a list");
        assert_eq!(packages, Packages { requirements: text.to_owned(), whole: false, digests: false });
    }

    #[test]
    fn one_that_pins_no_ansible_is_told_so() {
        for text in ["", "ansible-core\n", "netaddr==1.3.0\n"] {
            let error = asked(text).expect_err("no list").to_string();
            assert!(error.contains("requirements.txt does not say which Ansible is needed"), "{error}");
        }
    }

    #[test]
    fn offline_a_missing_wheel_is_named_and_nothing_whole_is_left() {
        let directory = tempfile::tempdir().expect("a directory");
        let wheels = directory.path().join("wheels");
        fs::create_dir(&wheels).expect("a directory");
        let packages = Packages { requirements: "nowhere-to-be-found==1.0\n".to_owned(), whole: true, digests: false };
        let parent = directory.path().join("python");
        let error = ensure(&parent, &packages, Some(&wheels), &mut |_| {}).expect_err("no such wheel").to_string();
        assert!(error.contains("nowhere-to-be-found==1.0"), "{error}");
        assert_eq!(made(&parent, &packages), None);
    }
}
