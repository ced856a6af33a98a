//! hagane is killed at every step of a machine's birth and end, and started again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::objects::machine;
use super::site::{GONE, Site, in_lab};
use crate::support;

/// How long a moment may take to come.
const MOMENT: Duration = Duration::from_secs(60);

/// A step that can be seen from outside, in the files of libvirtd.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// The image is being brought into the pool.
    UploadBegan,
    /// The image is whole in the pool.
    UploadEnded,
    RootMade,
    SeedMade,
    Defined,
    Started,
    Stopped,
    RootGone,
    SeedGone,
    Undefined,
    /// Some time after the order was given, whatever is done by then.
    After(Duration),
}

/// Where libvirtd keeps what the moments are seen by.
struct Traces {
    pool: PathBuf,
    definitions: PathBuf,
    running: PathBuf,
}

#[test]
fn a_killed_hagane_goes_on_and_leaks_nothing() -> Result<()> {
    in_lab("machines::crashes", &[], |site| {
        use Moment::{
            Defined, RootGone, RootMade, SeedGone, SeedMade, Started, Stopped, Undefined, UploadBegan, UploadEnded,
        };
        let mut pairs = vec![
            (UploadBegan, Stopped),
            (UploadEnded, RootGone),
            (RootMade, SeedGone),
            (SeedMade, Undefined),
            (Defined, Moment::After(Duration::ZERO)),
            (Started, Moment::After(Duration::from_millis(150))),
        ];
        if support::long() {
            let times = (0..12).map(|round| Moment::After(Duration::from_millis(round * 137)));
            pairs.extend(times.clone().zip(times.rev()));
        }
        for (number, (birth, end)) in pairs.into_iter().enumerate() {
            let name = format!("k{number}");
            site.step(&format!("{name}: killed at {birth:?} and at {end:?}"), |site| cycle(site, &name, birth, end))?;
        }
        site.step("nothing is left", |site| {
            site.expect_nothing_left()?;
            expect_whole_uploads(site)
        })
    })
}

fn cycle(site: &mut Site<'_>, name: &str, birth: Moment, end: Moment) -> Result<()> {
    let tiny = site.tiny()?;
    if matches!(birth, Moment::UploadBegan | Moment::UploadEnded) {
        remove_uploads(site)?;
    }
    killed_at(site, birth, |site| site.apply(&[machine(name, &tiny, json!({}))]))?;
    let running = site.wait_running(&[name])?;
    site.expect_one_of_each(&running[0])?;
    killed_at(site, end, |site| delete(site, name))?;
    site.wait_gone(&[name], GONE)?;
    site.expect_nothing_left()
}

fn delete(site: &Site<'_>, name: &str) -> Result<()> {
    let words = ["delete", "machines.cluster.k8s.io", name, "--wait=false", "--ignore-not-found"];
    site.server.kubectl(&words).map(drop)
}

/// Gives an order, kills hagane at the moment, and starts it again. An order whose answer was lost is given again, as a
/// user would do.
fn killed_at(site: &mut Site<'_>, moment: Moment, order: impl Fn(&Site<'_>) -> Result<()>) -> Result<()> {
    let pid = site.server.pid().context("hagane runs")?;
    let traces = Traces::of(site);
    let (ordered, killed) = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| traces.kill_at(moment, pid));
        (order(site), watcher.join())
    });
    site.server.crash_and_restart()?;
    killed.map_err(|_| anyhow::anyhow!("the watcher ended early"))??;
    ordered.or_else(|_| order(site))
}

impl Traces {
    fn of(site: &Site<'_>) -> Self {
        Self {
            pool: site.outside("/var/lib/libvirt/images"),
            definitions: site.outside("/etc/libvirt/qemu"),
            running: site.lab.directory().join("run/libvirt/qemu"),
        }
    }

    fn kill_at(&self, moment: Moment, pid: Pid) -> Result<()> {
        let begin = Instant::now();
        while !self.has_come(moment, begin) {
            ensure!(begin.elapsed() < MOMENT, "{moment:?} did not come");
            std::thread::sleep(Duration::from_millis(1));
        }
        kill_process(pid, Signal::KILL).context("kill hagane")
    }

    /// How many domains run. The file of libvirtd's own driver is beside theirs.
    fn emulators(&self) -> usize {
        names(&self.running).iter().filter(|name| name.ends_with(".pid") && *name != "driver.pid").count()
    }

    fn has_come(&self, moment: Moment, begin: Instant) -> bool {
        let in_pool = |start: &str, ending: &str| {
            names(&self.pool).iter().any(|name| name.starts_with(start) && name.ends_with(ending))
        };
        let has = |directory: &Path, ending: &str| names(directory).iter().any(|name| name.ends_with(ending));
        match moment {
            Moment::UploadBegan => in_pool("hagane-base-", ".qcow2"),
            Moment::UploadEnded => in_pool("hagane-base-", ".ok"),
            Moment::RootMade => in_pool("hagane-", "-root.qcow2"),
            Moment::SeedMade => in_pool("hagane-", "-seed.iso"),
            Moment::Defined => has(&self.definitions, ".xml"),
            Moment::Started => self.emulators() > 0,
            Moment::Stopped => self.emulators() == 0,
            Moment::RootGone => !in_pool("hagane-", "-root.qcow2"),
            Moment::SeedGone => !in_pool("hagane-", "-seed.iso"),
            Moment::Undefined => !has(&self.definitions, ".xml"),
            Moment::After(time) => begin.elapsed() >= time,
        }
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn base_volumes(site: &Site<'_>) -> Result<Vec<String>> {
    let listed = site.virsh(&["vol-list", "default"])?;
    let first_words = listed.lines().filter_map(|line| line.split_whitespace().next());
    Ok(first_words.filter(|name| name.starts_with("hagane-base-")).map(str::to_owned).collect())
}

fn remove_uploads(site: &Site<'_>) -> Result<()> {
    let delete = |volume: &String| site.virsh(&["vol-delete", "--pool", "default", volume]).map(drop);
    base_volumes(site)?.iter().try_for_each(delete)
}

/// Of each image there is one upload, and it is whole.
fn expect_whole_uploads(site: &Site<'_>) -> Result<()> {
    let volumes = base_volumes(site)?;
    let (marks, uploads): (Vec<_>, Vec<_>) = volumes.iter().partition(|name| name.ends_with(".ok"));
    let whole = uploads.len() == 1 && marks.len() == 1 && *marks[0] == format!("{}.ok", uploads[0]);
    ensure!(whole, "cut-off uploads are left: {volumes:?}");
    Ok(())
}
