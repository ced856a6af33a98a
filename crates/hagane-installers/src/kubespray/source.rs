//! Where kubespray comes from: a directory that the operator keeps, or a commit or an archive that is fetched once and checked.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use super::download;
use crate::program::{self, ProgramError};

/// Largest archive that is fetched: kubespray's are about 2 MiB.
pub(super) const ARCHIVE_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Largest tree that an archive may unpack to.
const TREE_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Where kubespray comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A checkout on this machine; it is used where it is, and nothing in it is changed.
    Directory(PathBuf),
    /// A commit of a git repository.
    Git {
        /// `https`, `ssh`, `git` or `file` URL, or an absolute path.
        url: String,
        /// Tag or branch that leads to it.
        reference: String,
        /// The commit that it must be, 40 or 64 hexadecimal digits.
        commit: String,
    },
    /// A gzipped tar archive.
    Archive {
        /// `https`, `http` or `file` URL, or an absolute path.
        location: String,
        /// SHA-256 that it must have, 64 hexadecimal digits.
        sha256: String,
    },
}

/// Why kubespray is not there.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It is named in a way that cannot be.
    #[error("{field}: {value:?} is not possible: {allowed}")]
    Invalid {
        /// The flag.
        field: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// git did not do its part.
    #[error("failed to fetch {reference} of {url}")]
    Git {
        /// The repository.
        url: String,
        /// What was asked for.
        reference: String,
        /// The cause.
        #[source]
        source: ProgramError,
    },
    /// The name leads to another commit.
    #[error(
        "{reference} of {url} is commit {found}, and --kubespray-commit says {wanted}: it was moved, or one of them is wrong"
    )]
    Commit {
        /// The repository.
        url: String,
        /// What was asked for.
        reference: String,
        /// What it is.
        found: String,
        /// What it must be.
        wanted: String,
    },
    /// The archive is another one.
    #[error("{location} has SHA-256 {found}, and --kubespray-archive-sha256 says {wanted}")]
    Digest {
        /// The archive.
        location: String,
        /// What it has.
        found: String,
        /// What it must have.
        wanted: String,
    },
    /// The archive cannot be fetched.
    #[error("failed to download {location}")]
    Download {
        /// The archive.
        location: String,
        /// The cause.
        #[source]
        source: download::DownloadError,
    },
    /// The archive cannot be read or unpacked, or the place for it cannot be used.
    #[error("failed to {operation} {path}")]
    Files {
        /// What was tried.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is not kubespray.
    #[error("{from} holds no cluster.yml: it is no kubespray")]
    NoPlaybooks {
        /// Where it came from.
        from: String,
    },
}

impl Source {
    /// A commit of a repository.
    ///
    /// # Errors
    /// [`SourceError::Invalid`] naming the flag.
    pub fn git(url: &str, reference: &str, commit: &str) -> Result<Self, SourceError> {
        let schemes = ["https://", "ssh://", "git://", "file:///", "/"];
        if !schemes.iter().any(|scheme| url.starts_with(scheme)) || unfit(url) {
            let allowed = "a URL with https, ssh, git or file and without a password, or an absolute path";
            return Err(SourceError::Invalid { field: "--kubespray-git", value: without_password(url), allowed });
        }
        let odd = |character: char| !character.is_ascii_alphanumeric() && !"._/+-".contains(character);
        if reference.is_empty() || reference.starts_with('-') || reference.contains("..") || reference.contains(odd) {
            let allowed = "the name of a tag or a branch, such as v2.31.0";
            return Err(SourceError::Invalid { field: "--kubespray-ref", value: reference.to_owned(), allowed });
        }
        let commit = hexadecimal(commit, &[40, 64]).ok_or_else(|| SourceError::Invalid {
            field: "--kubespray-commit",
            value: commit.to_owned(),
            allowed: "all 40 hexadecimal digits of a commit (64 where the repository uses SHA-256)",
        })?;
        Ok(Self::Git { url: url.to_owned(), reference: reference.to_owned(), commit })
    }

    /// An archive.
    ///
    /// # Errors
    /// [`SourceError::Invalid`] naming the flag.
    pub fn archive(location: &str, sha256: &str) -> Result<Self, SourceError> {
        let schemes = ["https://", "http://", "file:///", "/"];
        if !schemes.iter().any(|scheme| location.starts_with(scheme)) || unfit(location) {
            let allowed = "a URL with https, http or file and without a password, or an absolute path";
            return Err(SourceError::Invalid {
                field: "--kubespray-archive",
                value: without_password(location),
                allowed,
            });
        }
        let sha256 = sha256.strip_prefix("sha256:").unwrap_or(sha256);
        let sha256 = hexadecimal(sha256, &[64]).ok_or_else(|| SourceError::Invalid {
            field: "--kubespray-archive-sha256",
            value: sha256.to_owned(),
            allowed: "the 64 hexadecimal digits of a SHA-256",
        })?;
        Ok(Self::Archive { location: location.to_owned(), sha256 })
    }

    /// Where it lies, or will lie, below a directory of ours.
    #[must_use]
    pub fn place(&self, home: &Path) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.clone(),
            Self::Git { commit, .. } => home.join("sources").join(format!("git-{commit}")),
            Self::Archive { sha256, .. } => home.join("sources").join(format!("archive-{sha256}")),
        }
    }

    /// Whether it lies there. What is fetched is moved there whole.
    #[must_use]
    pub fn is_there(&self, home: &Path) -> bool {
        self.place(home).join("cluster.yml").is_file()
    }

    /// For people.
    #[must_use]
    pub fn described(&self) -> String {
        match self {
            Self::Directory(directory) => directory.display().to_string(),
            Self::Git { url, reference, .. } => format!("{reference} of {url}"),
            Self::Archive { location, .. } => location.clone(),
        }
    }

    /// Brings it here where it is not, checked, in one step. `progress` is told what is being done. Blocks for as long as the
    /// network takes.
    ///
    /// # Errors
    /// Any [`SourceError`]; nothing is left behind then.
    pub fn fetch(&self, home: &Path, progress: &mut dyn FnMut(&str)) -> Result<PathBuf, SourceError> {
        let place = self.place(home);
        if self.is_there(home) {
            return Ok(place);
        }
        let nothing = || SourceError::NoPlaybooks { from: self.described() };
        let Some(parent) = place.parent().filter(|_| !matches!(self, Self::Directory(_))) else {
            return Err(nothing());
        };
        fs::create_dir_all(parent).map_err(files("make", parent))?;
        let staging = Staging(parent.join(format!(".new-{}", uuid::Uuid::new_v4())));
        fs::create_dir(&staging.0).map_err(files("make", &staging.0))?;
        match self {
            Self::Directory(_) => return Err(nothing()),
            Self::Git { url, reference, commit } => clone(&staging.0, url, reference, commit, progress)?,
            Self::Archive { location, sha256 } => unpack(&staging.0, location, sha256, progress)?,
        }
        let root = root_of(&staging.0).ok_or_else(nothing)?;
        crate::python::open_to_all(&root).map_err(files("open", &root))?;
        match fs::rename(&root, &place) {
            // Another process was faster.
            Err(_) if self.is_there(home) => Ok(place),
            Err(error) => Err(files("make", &place)(error)),
            Ok(()) => Ok(place),
        }
    }
}

/// A directory that goes with this value.
struct Staging(PathBuf);

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(directory = %self.0.display(), %error, "what was left of fetching kubespray could not be removed");
        }
    }
}

/// Whether a location cannot be shown and handed to programs: it has a password, which would stand in arguments and messages.
fn unfit(location: &str) -> bool {
    location.chars().any(char::is_control) || without_password(location) != location
}

fn without_password(location: &str) -> String {
    let Some((scheme, rest)) = location.split_once("://") else { return location.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match authority.rsplit_once('@') {
        Some((user, host)) if user.contains(':') || scheme.starts_with("http") => format!("{scheme}://{host}{path}"),
        _ => location.to_owned(),
    }
}

fn hexadecimal(text: &str, lengths: &[usize]) -> Option<String> {
    let good = lengths.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    good.then(|| text.to_ascii_lowercase())
}

fn files(operation: &'static str, path: &Path) -> impl Fn(io::Error) -> SourceError {
    move |source| SourceError::Files { operation, path: path.to_path_buf(), source }
}

/// The directory with the playbooks: the tree itself, or the one directory in it.
fn root_of(tree: &Path) -> Option<PathBuf> {
    let inside = fs::read_dir(tree).ok()?.flatten().map(|entry| entry.path());
    let mut found = inside.chain([tree.to_path_buf()]).filter(|path| path.join("cluster.yml").is_file());
    found.next()
}

fn clone(
    directory: &Path,
    url: &str,
    reference: &str,
    commit: &str,
    progress: &mut dyn FnMut(&str),
) -> Result<(), SourceError> {
    let failed = |source| SourceError::Git { url: url.to_owned(), reference: reference.to_owned(), source };
    // A file of its own, so that nothing of the checkout lies beside it.
    let repository = directory.join("repository");
    let tree = directory.join("tree");
    fs::create_dir(&tree).map_err(files("make", &tree))?;
    let git = || {
        let mut git = Command::new("git");
        git.arg("--git-dir").arg(&repository).env("GIT_TERMINAL_PROMPT", "0").env("GIT_CONFIG_GLOBAL", "/dev/null");
        // Neither hooks nor programs that a URL might name; a local repository may be another user's.
        git.args(["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "safe.directory=*"]);
        git.env("GIT_CONFIG_COUNT", "1").env("GIT_CONFIG_KEY_0", "safe.directory").env("GIT_CONFIG_VALUE_0", "*");
        git
    };
    program::output(git().args(["init", "--quiet", "--bare"])).map_err(failed)?;
    progress("asking git");
    let mut fetch = git();
    fetch.args(["fetch", "--progress", "--no-tags", "--depth=1", "--end-of-options", url, reference]);
    program::run(&mut fetch, &mut |line| progress(&format!("git: {line}"))).map_err(failed)?;
    let found = program::output(git().args(["rev-parse", "--verify", "FETCH_HEAD^{commit}"])).map_err(failed)?;
    if found != commit {
        let (url, reference, wanted) = (url.to_owned(), reference.to_owned(), commit.to_owned());
        return Err(SourceError::Commit { url, reference, found, wanted });
    }
    program::output(git().arg("--work-tree").arg(&tree).args(["checkout", "--force", "--detach", "--quiet", commit]))
        .map(drop)
        .map_err(failed)
}

fn unpack(directory: &Path, location: &str, sha256: &str, progress: &mut dyn FnMut(&str)) -> Result<(), SourceError> {
    let path = location.strip_prefix("file://").unwrap_or(location);
    let content = if path.starts_with('/') {
        progress("reading the archive");
        let path = Path::new(path);
        let file = fs::File::open(path).map_err(files("read", path))?;
        let mut content = Vec::new();
        file.take(ARCHIVE_BYTES_MAX).read_to_end(&mut content).map_err(files("read", path))?;
        content
    } else {
        download::download(location, ARCHIVE_BYTES_MAX, progress)
            .map_err(|source| SourceError::Download { location: location.to_owned(), source })?
    };
    let found: String = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != sha256 {
        return Err(SourceError::Digest { location: location.to_owned(), found, wanted: sha256.to_owned() });
    }
    progress("unpacking the archive");
    let reader = flate2::read::GzDecoder::new(content.as_slice()).take(TREE_BYTES_MAX);
    let mut archive = tar::Archive::new(reader);
    archive.set_preserve_permissions(true);
    archive.set_preserve_mtime(false);
    // It leaves out entries that lead out of the directory.
    archive.unpack(directory).map_err(files("unpack the archive into", directory))
}

#[cfg(test)]
mod tests;
