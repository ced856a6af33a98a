//! The contract, and what needs real volumes, on a real hypervisor.

use std::net::IpAddr;

use hagane_ports::{ActuatorError, DiskFormat, Presence};
use hagane_testkit::contract::actuator::{World, create, delete, obeys_the_contract, request};

use crate::daemon::left_out;
use crate::world::{VirshWorld, image_of};

pub(crate) fn real_world(test: &str) -> Option<VirshWorld> {
    let Ok(uri) = std::env::var("HAGANE_TEST_LIBVIRT") else {
        left_out(test, "HAGANE_TEST_LIBVIRT names no libvirtd (the lab sets it)");
        return None;
    };
    let setting = |name: &str, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let pool = setting("HAGANE_TEST_POOL", "default");
    let network = setting("HAGANE_TEST_NETWORK", "default");
    let address: IpAddr =
        setting("HAGANE_TEST_ADDRESS", "192.0.2.12").parse().expect("HAGANE_TEST_ADDRESS is an address");
    Some(VirshWorld::new(&uri, &pool, &network, address))
}

#[tokio::test(flavor = "multi_thread")]
async fn obeys_the_contract_for_real() {
    let Some(world) = real_world("obeys_the_contract_for_real") else { return };
    obeys_the_contract(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_base_volume_is_the_image_byte_for_byte() {
    let Some(world) = real_world("the_base_volume_is_the_image_byte_for_byte") else { return };
    let actuator = world.actuator().await;
    let mut request = request(&world, "bytes");
    // Data, a hole, data, a hole that ends inside a step.
    let mut bytes = vec![0; (5 << 20) + 512];
    for range in [0..70_000, 2_000_000..2_000_100] {
        bytes[range].fill(7);
    }
    bytes[..36].copy_from_slice(request.key.uid.as_bytes());
    let directory = tempfile::tempdir().expect("a directory");
    let size = bytes.len() as u64;
    request.image = image_of(directory.path(), "holes.raw", &bytes, DiskFormat::Raw, size);
    create(&*actuator, &request).await.expect("a machine can be made");
    let prefix = hagane_libvirt::names::base_prefix(&request.image.sha256);
    let base = world.volumes().into_iter().find(|name| name.starts_with(&prefix)).expect("a base volume");
    let copy = directory.path().join("copy");
    world.virsh(&["vol-download", "--pool", &world.pool, &base, &copy.display().to_string()]);
    assert!(std::fs::read(&copy).expect("the copy") == bytes, "the volume holds the image");
    delete(&*actuator, &request.key).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_cannot_be_read_leaves_nothing() {
    let Some(world) = real_world("an_image_that_cannot_be_read_leaves_nothing") else { return };
    let actuator = world.actuator().await;
    let mut request = request(&world, "short");
    let directory = tempfile::tempdir().expect("a directory");
    request.image = image_of(directory.path(), "short.raw", request.key.uid.as_bytes(), DiskFormat::Raw, 1 << 20);
    // The file ends before it should.
    request.image.file_size.0 = 1 << 20;
    let error = create(&*actuator, &request).await.expect_err("the image is cut short");
    assert!(matches!(error, ActuatorError::Failed { .. }), "{error:?}");
    let prefix = hagane_libvirt::names::base_prefix(&request.image.sha256);
    assert!(!world.volumes().iter().any(|name| name.starts_with(&prefix)), "nothing stays in the pool");
    assert_eq!(actuator.exists(&request.key).await.expect("it answers"), Presence::Absent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_volume_is_never_used_or_removed() {
    let Some(world) = real_world("a_strangers_volume_is_never_used_or_removed") else { return };
    let actuator = world.actuator().await;
    for name in [hagane_libvirt::names::root_volume, hagane_libvirt::names::seed_volume] {
        let request = request(&world, "strange");
        let volume = name(&request.key.uid);
        world.virsh(&["vol-create-as", &world.pool, &volume, "64k"]);
        let random = world.file("random", &"stranger ".repeat(1000));
        world.virsh(&["vol-upload", "--pool", &world.pool, &volume, &random.display().to_string()]);
        let error = create(&*actuator, &request).await.expect_err("the name is taken");
        assert!(matches!(error, ActuatorError::NameTaken { kind: "volume", .. }), "{error:?}");
        delete(&*actuator, &request.key).await;
        assert_eq!(actuator.exists(&request.key).await.expect("it answers"), Presence::Absent);
        world.virsh(&["vol-delete", "--pool", &world.pool, &volume]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_made_machine_is_finished() {
    let Some(world) = real_world("a_half_made_machine_is_finished") else { return };
    let actuator = world.actuator().await;
    let request = request(&world, "half");
    // Cut off between "seed volume made" and "seed written".
    let seed = hagane_libvirt::names::seed_volume(&request.key.uid);
    world.virsh(&["vol-create-as", &world.pool, &seed, "64k"]);
    // An upload of an earlier life of this program that never got its marker.
    let holder = VirshWorld::options().holder;
    let cut = hagane_libvirt::names::base_volume(&request.image.sha256, &holder, "cut0ff", "raw");
    world.virsh(&["vol-create-as", &world.pool, &cut, "64k"]);
    let before = actuator.exists(&request.key).await.expect("it answers");
    assert!(matches!(before, Presence::Leftovers(_)), "{before:?}");
    let made = create(&*actuator, &request).await.expect("the machine is finished");
    assert!(!world.volumes().contains(&cut), "the cut-off upload is cleared away");
    // Cut off between "defined" and "started".
    world.virsh(&["destroy", &made.uuid]);
    let again = create(&*actuator, &request).await.expect("the machine is started");
    assert_eq!((again.uuid, again.power), (made.uuid, hagane_ports::PowerState::Running));
    delete(&*actuator, &request.key).await;
    assert_eq!(actuator.exists(&request.key).await.expect("it answers"), Presence::Absent);
}
