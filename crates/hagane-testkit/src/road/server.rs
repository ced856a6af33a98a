//! `hagane up` inside a lab.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use super::Tools;
use crate::lab::{Lab, ProcessId};

/// How long hagane may take until it is ready; generous, since a debug build may share the machine with a compiler.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// How long hagane may take to stop cleanly.
const STOP_LIMIT: Duration = Duration::from_secs(30);

/// How hagane is started.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where the API listens inside the lab.
    pub listen: String,
    /// Where machines fetch images from.
    pub serve: String,
    /// Further flags.
    pub flags: Vec<String>,
    /// Whether the process goes with this one (tests) or stays (the demo).
    pub stays: bool,
}

/// A running `hagane up`.
#[derive(Debug)]
pub struct Server<'a> {
    lab: &'a Lab,
    tools: &'a Tools,
    options: ServerOptions,
    /// Its data directory.
    pub data: PathBuf,
    child: Option<Child>,
}

impl<'a> Server<'a> {
    /// Starts hagane with a data directory inside the lab's own, and waits until it is ready.
    ///
    /// # Errors
    /// When it cannot be started or does not become ready; the end of its log is in the error.
    pub fn start(lab: &'a Lab, tools: &'a Tools, options: ServerOptions) -> Result<Self> {
        let data = lab.directory().join("hagane");
        let mut server = Self { lab, tools, options, data, child: None };
        server.launch()?;
        Ok(server)
    }

    fn launch(&mut self) -> Result<()> {
        let images = self.lab.directory().join("served-images");
        fs::create_dir_all(&images).context("failed to create the image directory")?;
        for image in &self.lab.description().images {
            let (Some(name), true) = (image.path.file_name(), image.path.is_file()) else { continue };
            let copy = images.join(name);
            if !copy.exists() {
                fs::hard_link(&image.path, &copy)
                    .or_else(|_| fs::copy(&image.path, &copy).map(|_| ()))
                    .context("failed to offer an image")?;
            }
        }
        let log = self.log();
        let output = OpenOptions::new().create(true).append(true).open(&log).context("failed to open hagane's log")?;
        let begin = fs::metadata(&log).map(|metadata| metadata.len()).unwrap_or(0);
        let text = |path: &Path| path.display().to_string();
        let mut argv = vec![
            text(&self.tools.hagane),
            "up".to_owned(),
            format!("--data-dir={}", text(&self.data)),
            format!("--listen={}", self.options.listen),
            format!("--serve-address={}", self.options.serve),
            format!("--image-dir={}", text(&images)),
            format!("--libvirt-uri={}", self.lab.description().libvirt.uri),
            format!("--ansible-playbook={}", text(&self.tools.ansible_playbook)),
            format!("--payload-dir={}", text(&self.tools.payload)),
            format!("--run-as={}", self.lab.description().runner.name),
        ];
        argv.extend(self.options.flags.iter().cloned());
        let child = self.lab.spawn(argv, output)?;
        if self.options.stays
            && let Some(process) = ProcessId::of(child.id())
        {
            self.lab.adopt(process)?;
        }
        self.child = Some(child);
        self.wait_ready(begin)
    }

    fn wait_ready(&mut self, begin: u64) -> Result<()> {
        let end = Instant::now() + READY_LIMIT;
        loop {
            let bytes = fs::read(self.log()).context("failed to read hagane's log")?;
            let fresh = bytes.get(usize::try_from(begin).unwrap_or(0)..).unwrap_or_default();
            let fresh = String::from_utf8_lossy(fresh);
            if fresh.lines().any(|line| line.split_whitespace().any(|word| word == "ready")) {
                return Ok(());
            }
            let ended = self.child.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if ended.is_some() || Instant::now() > end {
                let tail: Vec<_> = fresh.lines().rev().take(20).collect();
                let tail: Vec<_> = tail.into_iter().rev().collect();
                bail!("hagane is not ready ({ended:?}):\n{}", tail.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.lab.directory().join("hagane.log")
    }

    /// Its admin kubeconfig.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.data.join("admin.kubeconfig")
    }

    /// Its process id, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<Pid> {
        self.child.as_ref().and_then(|child| Pid::from_raw(i32::try_from(child.id()).ok()?))
    }

    /// Ends it cleanly and starts it again on the same data.
    ///
    /// # Errors
    /// When it does not stop or does not become ready.
    pub fn restart(&mut self) -> Result<()> {
        self.stop()?;
        self.launch()
    }

    /// Ends it at once, as a power cut does, and starts it again on the same data.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn crash_and_restart(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.reap()?;
        self.launch()
    }

    /// Ends it cleanly.
    ///
    /// # Errors
    /// When it does not end in time, or not with status 0.
    pub fn stop(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let end = Instant::now() + STOP_LIMIT;
        while let Some(child) = self.child.as_mut() {
            if let Some(status) = child.try_wait().context("failed to ask after hagane")? {
                self.child = None;
                if !status.success() {
                    bail!("hagane stopped with {status}");
                }
                return Ok(());
            }
            if Instant::now() > end {
                bail!("hagane did not stop within {} s", STOP_LIMIT.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.pid().context("hagane does not run")?;
        kill_process(pid, signal).context("failed to signal hagane")
    }

    fn reap(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.wait().context("failed to wait for hagane")?;
        }
        Ok(())
    }

    /// Leaves it running when this value is dropped.
    pub fn leave(mut self) {
        self.child = None;
    }

    /// Runs kubectl against the management API and takes what it prints.
    ///
    /// # Errors
    /// When it fails; what it printed is in the error.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        kubectl(self.lab, self.tools, &self.kubeconfig(), arguments, "")
    }

    /// Runs kubectl with text on standard input and takes its status, output and warnings, whatever they are.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn try_kubectl(&self, arguments: &[&str], input: &str) -> Result<Output> {
        try_kubectl(self.lab, self.tools, &self.kubeconfig(), arguments, input)
    }

    /// Applies manifests.
    ///
    /// # Errors
    /// When kubectl refuses them.
    pub fn apply(&self, manifests: &str) -> Result<String> {
        kubectl(self.lab, self.tools, &self.kubeconfig(), &["apply", "--filename=-"], manifests)
    }

    /// Runs a hagane command against the management API.
    ///
    /// # Errors
    /// When it cannot be started; its status is in the output.
    pub fn hagane(&self, arguments: &[&str]) -> Result<Output> {
        let mut argv = vec![self.tools.hagane.display().to_string()];
        argv.extend(arguments.iter().map(ToString::to_string));
        argv.push(format!("--kubeconfig={}", self.kubeconfig().display()));
        self.lab.exec(argv)
    }

    /// Waits by `hagane wait`, whose progress goes to standard error.
    ///
    /// # Errors
    /// When it is not reached; the reason was printed.
    pub fn wait(&self, subject: &str, name: &str, target: &str, seconds: u64) -> Result<()> {
        let argv = [
            self.tools.hagane.display().to_string(),
            "wait".to_owned(),
            subject.to_owned(),
            name.to_owned(),
            format!("--for={target}"),
            format!("--timeout={seconds}"),
            format!("--kubeconfig={}", self.kubeconfig().display()),
        ];
        let status = self.lab.command(argv).stdin(Stdio::null()).status().context("failed to start hagane wait")?;
        if !status.success() {
            bail!("{subject} {name} is not {target}; see {}", self.log().display());
        }
        Ok(())
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(child) = self.child.as_mut() {
            // Its own lab goes next; an error here has nobody to be told to.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Runs kubectl inside the lab with a kubeconfig and text on standard input; gives what it prints.
pub(super) fn kubectl(lab: &Lab, tools: &Tools, kubeconfig: &Path, arguments: &[&str], input: &str) -> Result<String> {
    let output = try_kubectl(lab, tools, kubeconfig, arguments, input)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        bail!("kubectl {} failed: {}{text}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    }
    Ok(text)
}

fn try_kubectl(lab: &Lab, tools: &Tools, kubeconfig: &Path, arguments: &[&str], input: &str) -> Result<Output> {
    let mut argv = vec![tools.kubectl.display().to_string(), format!("--kubeconfig={}", kubeconfig.display())];
    argv.extend(arguments.iter().map(ToString::to_string));
    let mut command = lab.command(argv);
    // kubectl keeps discovery answers on disk: in the lab's directory, so that they go with it.
    command.env("KUBECACHEDIR", lab.directory().join("kubectl-cache"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().context("failed to start kubectl")?;
    if let Some(mut stdin) = child.stdin.take() {
        match stdin.write_all(input.as_bytes()) {
            // It may have read enough.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => {}
            other => other.context("failed to write to kubectl")?,
        }
    }
    child.wait_with_output().context("failed to wait for kubectl")
}
