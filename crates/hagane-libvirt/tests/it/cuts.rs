//! The program dies after any of its calls. What the next life finds is finished or removed, and nothing leaks.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use hagane_libvirt::LibvirtActuator;
use hagane_ports::{Actuator, CreateMachine, DiskFormat, Presence, Seed};
use hagane_testkit::contract::actuator::{World, create, delete, request};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::task::AbortOnDropHandle;

use crate::contract::memory_world;
use crate::daemon::Daemon;
use crate::real::real_world;
use crate::world::{VirshWorld, image_of};

/// Passes frames on until its budget is used up, then closes every connection. The last call reaches libvirtd; its
/// answer does not come back.
struct Scissors {
    socket: PathBuf,
    calls_left: Arc<AtomicI64>,
    _directory: tempfile::TempDir,
    _task: AbortOnDropHandle<()>,
}

impl Scissors {
    fn new(target: &Path, calls: i64) -> Self {
        let directory = tempfile::Builder::new().prefix("hgcut").tempdir_in("/tmp").expect("a directory");
        let socket = directory.path().join("sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let calls_left = Arc::new(AtomicI64::new(calls));
        let (target, left) = (target.to_owned(), calls_left.clone());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(pass(client, target.clone(), left.clone()));
            }
        });
        Self { socket, calls_left, _directory: directory, _task: AbortOnDropHandle::new(task) }
    }

    fn are_closed(&self) -> bool {
        self.calls_left.load(Ordering::SeqCst) <= 0
    }
}

async fn pass(client: UnixStream, target: PathBuf, calls_left: Arc<AtomicI64>) {
    let Ok(server) = UnixStream::connect(target).await else { return };
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let back = async { tokio::io::copy(&mut from_server, &mut to_client).await.map(drop) };
    let forth = async {
        loop {
            let mut frame = vec![0; 4];
            from_client.read_exact(&mut frame).await?;
            let length = u32::from_be_bytes(frame[..4].try_into().expect("four bytes"));
            frame.resize(length as usize, 0);
            from_client.read_exact(&mut frame[4..]).await?;
            if calls_left.fetch_sub(1, Ordering::SeqCst) <= 0 {
                return Ok(());
            }
            to_server.write_all(&frame).await?;
            if calls_left.load(Ordering::SeqCst) <= 0 {
                return Ok(());
            }
        }
    };
    let _: std::io::Result<()> = tokio::select! { end = back => end, end = forth => end };
    // libvirtd has time to do what it was told last.
    tokio::time::sleep(Duration::from_millis(20)).await;
}

fn cut_actuator(world: &VirshWorld, scissors: &Scissors) -> LibvirtActuator {
    let (hypervisor, _) = world.uri.split_once('?').unwrap_or((&world.uri, ""));
    let uri = format!("{hypervisor}?socket={}", scissors.socket.display());
    LibvirtActuator::new(&uri, VirshWorld::options()).expect("a good URI")
}

fn socket_of(world: &VirshWorld) -> PathBuf {
    hagane_libvirt::ConnectionUri::parse(&world.uri).expect("a good URI").socket
}

/// Cuts a create and a delete after `calls` calls each. True where both got through uncut.
async fn cut_after(world: &VirshWorld, request: &CreateMachine, calls: i64) -> bool {
    let whole = world.actuator().await;
    let scissors = Scissors::new(&socket_of(world), calls);
    let cut = create(&cut_actuator(world, &scissors), request).await;
    let create_done = cut.is_ok() && !scissors.are_closed();

    let made = create(&*whole, request).await.expect("the next life finishes the machine");
    let uid = &request.key.uid;
    let resources = world.resources().await;
    let count = |part: &str| resources.iter().filter(|name| name.contains(part)).count();
    assert_eq!(count(&made.domain), 1 + usize::from(request.shape.address.is_some()), "after {calls}: {resources:?}");
    assert_eq!(count(&format!("hagane-{uid}")), 2, "one root volume and one seed after {calls}: {resources:?}");

    let scissors = Scissors::new(&socket_of(world), calls);
    let cut = cut_actuator(world, &scissors).delete(&request.key).await;
    let delete_done = cut.is_ok() && !scissors.are_closed();
    delete(&*whole, &request.key).await;
    assert_eq!(whole.exists(&request.key).await.expect("it answers"), Presence::Absent, "after {calls}");
    create_done && delete_done
}

async fn cut_everywhere(world: &VirshWorld, step: usize) {
    let before = world.resources().await;
    for calls in (1..400).step_by(step) {
        let mut request = request(world, "cut");
        request.shape.address = world.free_address();
        let done = cut_after(world, &request, calls).await;
        assert_eq!(world.resources().await, before, "nothing is left after {calls} calls");
        if done {
            assert!(calls > 20, "a create of {calls} calls was never cut");
            return;
        }
    }
    unreachable!("create and delete never got through")
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaks_wherever_the_program_dies_in_memory() {
    let Some(daemon) = Daemon::start("nothing_leaks_wherever_the_program_dies_in_memory") else { return };
    let (world, _keeper) = memory_world(&daemon).await;
    cut_everywhere(&world, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_leaks_wherever_the_program_dies_for_real() {
    let Some(world) = real_world("nothing_leaks_wherever_the_program_dies_for_real") else { return };
    let step = std::env::var("HAGANE_TEST_CUT_STEP").ok().and_then(|text| text.parse().ok());
    cut_everywhere(&world, step.unwrap_or(7)).await;
    let partial: Vec<_> = world.volumes().into_iter().filter(|name| name.starts_with("hagane-base-")).collect();
    for name in partial.iter().filter(|name| !name.ends_with(".ok")) {
        assert!(partial.contains(&hagane_libvirt::names::marker(name)), "cut-off upload {name} stays: {partial:?}");
    }
}

/// A seed that the user named, too large to be read through, is made in more steps than a small one.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_seed_leaks_nowhere() {
    let Some(world) = real_world("a_large_seed_leaks_nowhere") else { return };
    let whole = world.actuator().await;
    let directory = tempfile::tempdir().expect("a directory");
    let bytes = vec![7; (9 << 20) + 100];
    let mut wanted = request(&world, "large-seed");
    wanted.seed = Seed::Image(image_of(directory.path(), "seed.iso", &bytes, DiskFormat::Raw, bytes.len() as u64));
    let before = world.resources().await;

    create(&*whole, &wanted).await.expect("a machine can be made");
    let copy = directory.path().join("copy");
    let volume = hagane_libvirt::names::seed_volume(&wanted.key.uid);
    world.virsh(&["vol-download", "--pool", &world.pool, &volume, &copy.display().to_string()]);
    let stored = std::fs::read(&copy).expect("the copy");
    assert!(stored.starts_with(&bytes), "the volume holds the seed byte for byte");
    delete(&*whole, &wanted.key).await;

    for calls in 1..200 {
        let scissors = Scissors::new(&socket_of(&world), calls);
        let cut = create(&cut_actuator(&world, &scissors), &wanted).await;
        let done = cut.is_ok() && !scissors.are_closed();
        delete(&*whole, &wanted.key).await;
        assert_eq!(world.resources().await, before, "nothing is left after {calls} calls");
        if done {
            assert!(calls > 15, "a create of {calls} calls was never cut");
            return;
        }
    }
    unreachable!("create never got through")
}
