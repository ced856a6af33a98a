use super::*;

use tempfile::TempDir;

struct Bed {
    directory: TempDir,
}

impl Bed {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn home(&self) -> PathBuf {
        self.path("home")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut git = Command::new("git");
        git.arg("-C").arg(self.path("repository")).args(["-c", "user.name=t", "-c", "user.email=t@example.org"]);
        program::output(git.args(arguments)).expect("git works")
    }

    /// A repository with one commit, tagged v1; gives the commit.
    fn repository(&self) -> String {
        fs::create_dir(self.path("repository")).expect("a directory");
        self.git(&["init", "--quiet", "--initial-branch=main"]);
        self.commit("first")
    }

    fn commit(&self, text: &str) -> String {
        fs::write(self.path("repository/cluster.yml"), text).expect("a file");
        self.git(&["add", "cluster.yml"]);
        self.git(&["commit", "--quiet", "--message", text]);
        self.git(&["tag", "--force", "--annotate", "--message", text, "v1"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// An archive as code hosts make them: everything in one directory.
    fn archive(&self, name: &str) -> String {
        let file = fs::File::create(self.path("kubespray.tar.gz")).expect("a file");
        let mut archive = tar::Builder::new(flate2::write::GzEncoder::new(file, flate2::Compression::fast()));
        let mut header = tar::Header::new_gnu();
        header.set_size(5);
        header.set_mode(0o600);
        archive.append_data(&mut header, format!("kubespray-2.31.0/{name}"), b"- []\n".as_slice()).expect("an entry");
        archive.into_inner().expect("an archive").finish().expect("an archive");
        let content = fs::read(self.path("kubespray.tar.gz")).expect("an archive");
        Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn fetch(&self, source: &Source) -> Result<PathBuf, SourceError> {
        source.fetch(&self.home(), &mut |_| {})
    }

    /// Nothing is left of what failed.
    fn assert_nothing_left(&self) {
        let left: Vec<_> = fs::read_dir(self.home().join("sources")).into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_commit_is_fetched_once_and_without_its_history() {
    let bed = Bed::new();
    let commit = bed.repository();
    let url = format!("file://{}", bed.path("repository").display());
    let source = Source::git(&url, "v1", &commit).expect("a source");
    assert!(!source.is_there(&bed.home()));
    let mut told = Vec::new();
    let place = source.fetch(&bed.home(), &mut |step| told.push(step.to_owned())).expect("it comes");
    assert_eq!(fs::read_to_string(place.join("cluster.yml")).expect("a file"), "first");
    assert!(!place.join(".git").exists() && source.is_there(&bed.home()) && !told.is_empty());
    // The repository is not asked again.
    fs::remove_dir_all(bed.path("repository")).expect("it goes");
    assert_eq!(bed.fetch(&source).expect("it is there"), place);
}

#[test]
fn a_tag_that_was_moved_is_refused() {
    let bed = Bed::new();
    let first = bed.repository();
    let second = bed.commit("second");
    let source = Source::git(&bed.path("repository").display().to_string(), "v1", &first).expect("a source");
    let error = bed.fetch(&source).expect_err("another commit").to_string();
    assert!(error.contains(&format!("is commit {second}")) && error.contains(&first), "{error}");
    bed.assert_nothing_left();
}

#[test]
fn a_repository_or_a_name_that_is_not_there_is_named() {
    let bed = Bed::new();
    let commit = bed.repository();
    let there = bed.path("repository").display().to_string();
    for (url, reference) in [(there.as_str(), "v2"), ("/nowhere/at/all", "v1")] {
        let error = bed.fetch(&Source::git(url, reference, &commit).expect("a source")).expect_err("there is none");
        assert_eq!(error.to_string(), format!("failed to fetch {reference} of {url}"));
        assert!(matches!(error, SourceError::Git { source: ProgramError::Refused { .. }, .. }));
    }
    bed.assert_nothing_left();
}

#[test]
fn an_archive_is_unpacked_where_its_digest_agrees() {
    let bed = Bed::new();
    let digest = bed.archive("cluster.yml");
    for location in [
        bed.path("kubespray.tar.gz").display().to_string(),
        format!("file://{}", bed.path("kubespray.tar.gz").display()),
    ] {
        let source = Source::archive(&location, &digest).expect("a source");
        let place = bed.fetch(&source).expect("it comes");
        assert_eq!(fs::read_to_string(place.join("cluster.yml")).expect("a file"), "- []\n");
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(place.join("cluster.yml")).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode, 0o644, "the run's user reads it");
        fs::remove_dir_all(bed.home()).expect("it goes");
    }
}

#[test]
fn another_archive_is_refused_before_it_is_unpacked() {
    let bed = Bed::new();
    let digest = bed.archive("cluster.yml");
    let wanted = "0".repeat(64);
    let source = Source::archive(&bed.path("kubespray.tar.gz").display().to_string(), &wanted).expect("a source");
    let error = bed.fetch(&source).expect_err("another one").to_string();
    assert!(error.contains(&digest) && error.contains(&wanted), "{error}");
    bed.assert_nothing_left();
}

#[test]
fn an_archive_of_something_else_is_refused() {
    let bed = Bed::new();
    let digest = bed.archive("README.md");
    let location = bed.path("kubespray.tar.gz").display().to_string();
    let error = bed.fetch(&Source::archive(&location, &digest).expect("a source")).expect_err("no playbooks");
    assert_eq!(error.to_string(), format!("{location} holds no cluster.yml: it is no kubespray"));
    bed.assert_nothing_left();
}

#[test]
fn what_cannot_be_a_source_is_refused_by_its_flag() {
    let commit = "a".repeat(40);
    for (url, reference, commit, field) in [
        ("--upload-pack=touch /x", "v1", commit.as_str(), "--kubespray-git"),
        ("ext::sh -c date", "v1", &commit, "--kubespray-git"),
        ("https://user:secret@example.org/k", "v1", &commit, "--kubespray-git"),
        ("https://example.org/k", "--exec=date", &commit, "--kubespray-ref"),
        ("https://example.org/k", "a..b", &commit, "--kubespray-ref"),
        ("https://example.org/k", "", &commit, "--kubespray-ref"),
        ("https://example.org/k", "v1", "abc", "--kubespray-commit"),
    ] {
        let error = Source::git(url, reference, commit).expect_err("refused").to_string();
        assert!(error.starts_with(field) && !error.contains("secret"), "{error}");
    }
    let digest = "b".repeat(64);
    for (location, digest, field) in [
        ("kubespray.tar.gz", digest.as_str(), "--kubespray-archive"),
        ("https://user:secret@example.org/k.tar.gz", &digest, "--kubespray-archive"),
        ("https://example.org/k.tar.gz", "sha256:abc", "--kubespray-archive-sha256"),
    ] {
        let error = Source::archive(location, digest).expect_err("refused").to_string();
        assert!(error.starts_with(field) && !error.contains("secret"), "{error}");
    }
    assert!(Source::git("ssh://git@example.org/k.git", "v1", &commit).is_ok());
}
