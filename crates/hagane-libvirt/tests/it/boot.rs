//! A guest really boots, reads its seed and gets its address.

use std::net::IpAddr;
use std::time::Duration;

use hagane_api::quantity::{ByteSize, MemoryMib};
use hagane_ports::{Actuator, CloudInitFiles, CreateMachine, DiskFormat, LocalImage, MachineKey, Presence, Seed};
use hagane_testkit::contract::actuator::{World, create, delete, request};
use sha2::{Digest, Sha256};

use crate::daemon::left_out;
use crate::real::real_world;
use crate::world::VirshWorld;

/// The image of `HAGANE_TEST_IMAGE`.
pub(crate) fn guest_image(test: &str) -> Option<LocalImage> {
    let Ok(path) = std::env::var("HAGANE_TEST_IMAGE") else {
        left_out(test, "HAGANE_TEST_IMAGE names no guest image");
        return None;
    };
    let bytes = std::fs::read(&path).expect("HAGANE_TEST_IMAGE is readable");
    let virtual_size = u64::from_be_bytes(bytes[24..32].try_into().expect("a qcow2 header"));
    Some(LocalImage {
        path: path.into(),
        sha256: Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect(),
        format: DiskFormat::Qcow2,
        virtual_size: ByteSize(virtual_size),
        file_size: ByteSize(bytes.len() as u64),
    })
}

pub(crate) fn guest(world: &VirshWorld, image: &LocalImage, name: &str) -> CreateMachine {
    let mut request = request(world, name);
    request.image = image.clone();
    request.shape.memory = MemoryMib(192);
    request.seed = Seed::Files(CloudInitFiles {
        user_data: b"#!/bin/sh\necho hello\n".to_vec(),
        meta_data: format!("instance-id: {}\nlocal-hostname: {name}\n", request.key.uid).into_bytes(),
        network_config: None,
    });
    request
}

async fn wait_for_addresses(actuator: &dyn Actuator, key: &MachineKey) -> Vec<IpAddr> {
    for _ in 0..600 {
        if let Presence::Present(facts) = actuator.exists(key).await.expect("it answers")
            && !facts.addresses.is_empty()
        {
            return facts.addresses;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    unreachable!("the guest got no address in two minutes")
}

/// Waits for the lease of a guest that calls itself `name`, and returns its address.
async fn wait_for_lease(world: &VirshWorld, name: &str) -> String {
    for _ in 0..600 {
        let leases = world.virsh(&["net-dhcp-leases", &world.network]);
        if let Some(line) = leases.lines().find(|line| line.split_whitespace().any(|word| word == name)) {
            let address = line.split_whitespace().find(|word| word.contains('/') && word.contains('.'));
            return address.expect("a lease has an address").to_owned();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    unreachable!("no lease of {name} in two minutes: {}", world.virsh(&["net-dhcp-leases", &world.network]))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_boots_reads_its_seed_and_has_an_address() {
    let test = "a_guest_boots_reads_its_seed_and_has_an_address";
    let (Some(world), Some(image)) = (real_world(test), guest_image(test)) else { return };
    let actuator = world.actuator().await;
    let request = guest(&world, &image, "boots-1");
    create(&*actuator, &request).await.expect("a machine can be made");
    let addresses = wait_for_addresses(&*actuator, &request.key).await;
    // The guest knows its name from the seed alone.
    let lease = wait_for_lease(&world, "boots-1").await;
    assert_eq!(addresses.len(), 1, "{addresses:?}");
    assert!(lease.starts_with(&format!("{}/", addresses[0])), "{lease} is not {addresses:?}");
    delete(&*actuator, &request.key).await;
    assert_eq!(actuator.exists(&request.key).await.expect("it answers"), Presence::Absent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fixed_address_goes_from_a_removed_machine_to_the_next() {
    let test = "a_fixed_address_goes_from_a_removed_machine_to_the_next";
    let (Some(world), Some(image)) = (real_world(test), guest_image(test)) else { return };
    let actuator = world.actuator().await;
    let wanted = format!("{}/", world.address);
    for name in ["fixed-a", "fixed-b"] {
        let mut request = guest(&world, &image, name);
        request.shape.address = Some(world.address);
        let made = create(&*actuator, &request).await.expect("a machine can be made");
        // dnsmasq tells the guest the reservation's name; whichever of the two is shown, the lease is this machine's.
        let lease = wait_for_mac(&world, &made.mac).await;
        assert!(lease.starts_with(&wanted), "{name} got {lease} instead of {wanted}");
        delete(&*actuator, &request.key).await;
    }
}

async fn wait_for_mac(world: &VirshWorld, mac: &str) -> String {
    for _ in 0..600 {
        let leases = world.virsh(&["net-dhcp-leases", &world.network, "--mac", mac]);
        let address = leases.split_whitespace().find(|word| word.contains('/') && word.contains('.'));
        if let Some(address) = address {
            return address.to_owned();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    unreachable!("no lease of {mac} in two minutes")
}
