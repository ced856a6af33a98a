//! What every [`ClusterInstaller`] must do. Run it with [`obeys_the_contract`] on a [`World`]: an installer of one's own.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hagane_ports::{ClusterInstaller, InstallRequest, InstallerError, RunExit, RunObservation, RunState};

/// Beyond this something hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// How a run of the suite is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All tasks go well, and a kubeconfig is left.
    Success,
    /// A task fails.
    Failure,
    /// Whatever looks after the run is killed without a chance to write anything.
    Death,
}

/// An installer that belongs to the test.
#[async_trait]
pub trait World: Send + Sync {
    /// The installer under test.
    fn installer(&self) -> Arc<dyn ClusterInstaller>;

    /// Another one over the same records, as after a restart of the program.
    fn restarted(&self) -> Arc<dyn ClusterInstaller>;

    /// A good request. Its run goes on until [`Self::end`], or until it is cancelled.
    fn request(&self, run_id: &str, owner_uid: &str) -> InstallRequest;

    /// Ends a run that goes on. It need not have ended yet when this returns.
    async fn end(&self, run_id: &str, ending: Ending);

    /// How often the run's work really began.
    async fn begun(&self, run_id: &str) -> usize;
}

/// Runs the whole suite. Panics, naming the promise, where one is broken.
///
/// # Panics
/// Where the contract is broken.
pub async fn obeys_the_contract(world: &dyn World) {
    knows_nothing_of_a_run_that_never_was(world).await;
    refuses_ids_that_name_no_directory(world).await;
    starts_a_run_once_and_finds_it_again(world).await;
    tells_how_a_run_ended(world).await;
    ends_a_run_when_asked(world).await;
    forgets_ended_runs_only(world).await;
    forgets_all_runs_of_one_owner(world).await;
}

async fn observe(installer: &dyn ClusterInstaller, run_id: &str) -> RunObservation {
    installer.observe(run_id).await.expect("a run can be observed")
}

async fn finished(installer: &dyn ClusterInstaller, run_id: &str) -> (RunExit, RunObservation) {
    let waiting = async {
        loop {
            let seen = observe(installer, run_id).await;
            if let RunState::Finished(exit) = seen.state.clone() {
                return (exit, seen);
            }
            assert_eq!(seen.state, RunState::Running, "a run that was started never becomes unknown: {run_id}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("a run ends")
}

async fn begun(world: &dyn World, run_id: &str) -> usize {
    let waiting = async {
        loop {
            match world.begun(run_id).await {
                0 => tokio::time::sleep(Duration::from_millis(50)).await,
                times => return times,
            }
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.expect("a run begins")
}

async fn start(world: &dyn World, run_id: &str, owner_uid: &str) {
    let request = world.request(run_id, owner_uid);
    let handle = world.installer().start(&request).await.expect("a good request starts");
    assert_eq!(handle.id, run_id);
}

async fn knows_nothing_of_a_run_that_never_was(world: &dyn World) {
    let installer = world.installer();
    let seen = observe(installer.as_ref(), "never").await;
    assert_eq!((seen.state, seen.started_at, seen.finished_at), (RunState::Absent, None, None));
    assert_eq!(installer.kubeconfig("never").await.expect("readable"), None);
    installer.cancel("never").await.expect("there is nothing to cancel");
    installer.forget("never").await.expect("there is nothing to forget");
    installer.forget_owned("nobody").await.expect("there is nothing to forget");
}

async fn refuses_ids_that_name_no_directory(world: &dyn World) {
    for id in ["", ".", "..", "../x", "a/b", "A", "a b"] {
        let result = world.installer().start(&world.request(id, "owner-0")).await;
        assert!(matches!(result, Err(InstallerError::Invalid { .. })), "{id:?}: {result:?}");
        let result = world.installer().observe(id).await;
        assert!(matches!(result, Err(InstallerError::Invalid { .. })), "{id:?}: {result:?}");
    }
}

async fn starts_a_run_once_and_finds_it_again(world: &dyn World) {
    start(world, "once", "owner-1").await;
    let seen = observe(world.installer().as_ref(), "once").await;
    assert_eq!(seen.state, RunState::Running, "the first look after a start finds the run");
    assert!(seen.started_at.is_some() && seen.finished_at.is_none());
    assert_eq!(begun(world, "once").await, 1);
    let other = world.restarted();
    assert_eq!(observe(other.as_ref(), "once").await.state, RunState::Running, "a restart finds it again");
    other.start(&world.request("once", "owner-1")).await.expect("a second start finds the first run");
    world.end("once", Ending::Success).await;
    finished(other.as_ref(), "once").await;
    start(world, "once", "owner-1").await;
    let seen = observe(other.as_ref(), "once").await;
    assert_eq!(seen.state, RunState::Finished(RunExit::Succeeded), "a run that ended is not run again");
    assert_eq!(world.begun("once").await, 1, "one id is one run");
}

async fn tells_how_a_run_ended(world: &dyn World) {
    let installer = world.installer();
    for (id, ending) in [("good", Ending::Success), ("bad", Ending::Failure), ("dead", Ending::Death)] {
        start(world, id, "owner-2").await;
        begun(world, id).await;
        assert_eq!(installer.kubeconfig(id).await.expect("readable"), None, "no kubeconfig before the end");
        world.end(id, ending).await;
        let (exit, seen) = finished(installer.as_ref(), id).await;
        let right = match ending {
            Ending::Success => exit == RunExit::Succeeded,
            Ending::Failure => matches!(exit, RunExit::Failed { status } if status != 0),
            Ending::Death => exit == RunExit::Lost,
        };
        assert!(right, "{ending:?} is told as {exit:?}");
        assert!(seen.started_at.is_some() && seen.started_at <= seen.finished_at, "{seen:?}");
        let kubeconfig = installer.kubeconfig(id).await.expect("readable");
        assert_eq!(kubeconfig.is_some(), ending == Ending::Success, "{ending:?}");
        let again = observe(world.restarted().as_ref(), id).await;
        assert_eq!((again.state, again.finished_at), (seen.state, seen.finished_at), "an end stays as it was");
    }
}

async fn ends_a_run_when_asked(world: &dyn World) {
    start(world, "cancelled", "owner-3").await;
    begun(world, "cancelled").await;
    let other = world.restarted();
    other.cancel("cancelled").await.expect("any process may cancel it");
    let (exit, _) = finished(world.installer().as_ref(), "cancelled").await;
    assert_eq!(exit, RunExit::Cancelled);
    other.cancel("cancelled").await.expect("cancelling twice is harmless");
    assert_eq!(finished(other.as_ref(), "cancelled").await.0, RunExit::Cancelled);
}

async fn forgets_ended_runs_only(world: &dyn World) {
    let installer = world.installer();
    start(world, "kept", "owner-4").await;
    begun(world, "kept").await;
    let refused = installer.forget("kept").await;
    assert!(matches!(refused, Err(InstallerError::HeldElsewhere { .. })), "a run that goes on stays: {refused:?}");
    assert_eq!(observe(installer.as_ref(), "kept").await.state, RunState::Running);
    installer.cancel("kept").await.expect("it can be cancelled");
    finished(installer.as_ref(), "kept").await;
    for _ in 0..2 {
        installer.forget("kept").await.expect("an ended run is forgotten, twice if need be");
        assert_eq!(observe(installer.as_ref(), "kept").await.state, RunState::Absent);
    }
    assert_eq!(installer.kubeconfig("kept").await.expect("readable"), None);
}

async fn forgets_all_runs_of_one_owner(world: &dyn World) {
    let installer = world.installer();
    for (id, owner) in [("mine-1", "owner-5"), ("mine-2", "owner-5"), ("yours", "owner-6")] {
        start(world, id, owner).await;
        begun(world, id).await;
        world.end(id, Ending::Failure).await;
        finished(installer.as_ref(), id).await;
    }
    installer.forget_owned("owner-5").await.expect("ended runs are forgotten");
    for (id, gone) in [("mine-1", true), ("mine-2", true), ("yours", false)] {
        assert_eq!(observe(installer.as_ref(), id).await.state == RunState::Absent, gone, "{id}");
    }
    installer.forget_owned("owner-5").await.expect("there is nothing left");
    start(world, "lives", "owner-5").await;
    begun(world, "lives").await;
    assert!(installer.forget_owned("owner-5").await.is_err(), "a run that goes on stays, and that is said");
    assert_eq!(observe(installer.as_ref(), "lives").await.state, RunState::Running);
    installer.cancel("lives").await.expect("it can be cancelled");
    finished(installer.as_ref(), "lives").await;
    installer.forget_owned("owner-5").await.expect("and then it is forgotten");
}
