//! A private libvirtd with its own directories and socket.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The user a daemon started by root runs as, so that it keeps out of the system's directories.
const NOBODY: u32 = 65534;

/// Runs until dropped.
pub(crate) struct Daemon {
    directory: tempfile::TempDir,
    child: Option<Child>,
}

/// Whether a program can be found.
pub(crate) fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).any(|directory| directory.join(name).is_file())
}

/// Says on standard error that a test was left out, and why.
pub(crate) fn left_out(test: &str, why: &str) {
    eprintln!("left out: {test}: {why}");
}

impl Daemon {
    /// Starts a daemon, or says why that is not possible here.
    pub(crate) fn start(test: &str) -> Option<Self> {
        for program in ["libvirtd", "virsh"] {
            if !has_program(program) {
                left_out(test, &format!("{program} is not installed (Debian: libvirt-daemon, libvirt-clients)"));
                return None;
            }
        }
        let directory = tempfile::Builder::new().prefix("hglv").tempdir_in("/tmp").expect("a directory");
        let mut daemon = Self { directory, child: None };
        daemon.run();
        Some(daemon)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path().join("run/libvirt/libvirt-sock")
    }

    /// URI of the in-memory hypervisor behind this daemon.
    pub(crate) fn uri(&self) -> String {
        format!("test:///default?socket={}", self.socket().display())
    }

    /// Starts the daemon (again) and waits until it listens.
    pub(crate) fn run(&mut self) {
        let is_root =
            std::fs::metadata("/proc/self").map(|own| std::os::unix::fs::MetadataExt::uid(&own)).unwrap_or(1) == 0;
        let mut command = Command::new("libvirtd");
        for (variable, name) in [("XDG_RUNTIME_DIR", "run"), ("XDG_CONFIG_HOME", "config"), ("XDG_CACHE_HOME", "cache")]
        {
            let path = self.path().join(name);
            std::fs::create_dir_all(&path).expect("a directory");
            if is_root {
                chown(&path, Some(NOBODY), Some(NOBODY)).expect("root may give it away");
            }
            command.env(variable, path);
        }
        let configuration = self.path().join("libvirtd.conf");
        std::fs::write(&configuration, "log_outputs = \"4:stderr\"\n").expect("a file");
        if is_root {
            chown(self.path(), Some(NOBODY), Some(NOBODY)).expect("root may give it away");
            command.uid(NOBODY).gid(NOBODY);
        }
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        command.env("PATH", path).env("HOME", self.path()).arg("--config").arg(&configuration);
        command.arg("--pid-file").arg(self.path().join("run/pid"));
        let log = std::fs::File::create(self.path().join("log")).expect("a file");
        command.current_dir(self.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.child = Some(command.spawn().expect("libvirtd starts"));
        for _ in 0..600 {
            if std::os::unix::net::UnixStream::connect(self.socket()).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let log = std::fs::read_to_string(self.path().join("log")).unwrap_or_default();
        unreachable!("libvirtd does not listen: {log}");
    }

    /// Ends the daemon as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().expect("our own child can be killed");
            child.wait().expect("our own child can be waited for");
        }
        let _ = std::fs::remove_file(self.socket());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}
