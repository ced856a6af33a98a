//! How long it takes to make a machine, beside the same calls by hand. Prints figures, judges none.

use std::time::{Duration, Instant};

use hagane_testkit::contract::actuator::{World, create, delete};

use crate::boot::{guest, guest_image};
use crate::daemon::left_out;
use crate::real::real_world;
use crate::world::VirshWorld;

const ROUNDS: usize = 10;

#[tokio::test(flavor = "multi_thread")]
async fn prints_the_time_from_create_to_running() {
    let test = "prints_the_time_from_create_to_running";
    if std::env::var("HAGANE_TEST_FIGURES").is_err() {
        return left_out(test, "HAGANE_TEST_FIGURES is not set");
    }
    let (Some(world), Some(image)) = (real_world(test), guest_image(test)) else { return };
    let actuator = world.actuator().await;
    // The first machine brings the image into the pool.
    let first = guest(&world, &image, "warm");
    create(&*actuator, &first).await.expect("a machine can be made");
    delete(&*actuator, &first.key).await;
    let prefix = hagane_libvirt::names::base_prefix(&image.sha256);
    let base = world.volumes().into_iter().find(|name| name.starts_with(&prefix)).expect("a base volume");

    let mut ours = Vec::new();
    let mut by_hand = Vec::new();
    for round in 0..ROUNDS {
        let request = guest(&world, &image, &format!("figure-{round}"));
        let start = Instant::now();
        create(&*actuator, &request).await.expect("a machine can be made");
        ours.push(start.elapsed());
        let xml = world.virsh(&["dumpxml", "--inactive", &request.key.uid]);
        delete(&*actuator, &request.key).await;
        by_hand.push(make_by_hand(&world, &base, &xml, &request.key.uid));
    }
    print("machine_create_to_running", &mut ours);
    print("the_same_calls_by_hand", &mut by_hand);
}

/// The same volumes and the same domain with virsh, one process for all calls.
fn make_by_hand(world: &VirshWorld, base: &str, xml: &str, uid: &str) -> Duration {
    let file = world.file("by-hand.xml", xml);
    let seed = world.file("seed.bin", &"x".repeat(380 << 10));
    let (root_name, seed_name) = (hagane_libvirt::names::root_volume(uid), hagane_libvirt::names::seed_volume(uid));
    let pool = &world.pool;
    let calls = [
        format!("vol-create-as {pool} {root_name} 256M --format qcow2 --backing-vol {base} --backing-vol-format qcow2"),
        format!("vol-create-as {pool} {seed_name} 380k"),
        format!("vol-upload --pool {pool} {seed_name} {}", seed.display()),
        format!("define {}", file.display()),
        format!("start {uid}"),
    ];
    let start = Instant::now();
    world.virsh(&[&calls.join("; ")]);
    let taken = start.elapsed();
    let undo = [
        format!("destroy {uid}"),
        format!("undefine {uid}"),
        format!("vol-delete --pool {pool} {root_name}"),
        format!("vol-delete --pool {pool} {seed_name}"),
    ];
    world.virsh(&[&undo.join("; ")]);
    taken
}

fn print(name: &str, times: &mut [Duration]) {
    // In the order of measurement, so that both sides of a round can be compared.
    let samples: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    times.sort_unstable();
    let seconds = |index: usize| times[index].as_secs_f64();
    println!(
        "{{\"name\": \"{name}\", \"median\": {:.3}, \"min\": {:.3}, \"max\": {:.3}, \"unit\": \"s\", \"n\": {}, \
         \"samples\": {samples:.4?}}}",
        seconds(times.len() / 2),
        seconds(0),
        seconds(times.len() - 1),
        times.len()
    );
}
