//! What every [`Actuator`] must do. Run it with [`obeys_the_contract`] on a [`World`]: a hypervisor of one's own.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use hagane_api::quantity::{ByteSize, MemoryMib};
use hagane_ports::{
    Actuator, ActuatorError, CloudInitFiles, CreateMachine, Creation, LocalImage, MachineFacts, MachineKey,
    MachineShape, PowerState, Presence, Removal, Seed,
};
use uuid::Uuid;

/// A hypervisor that belongs to the test, and what a person could do to it behind the actuator's back.
#[async_trait]
pub trait World: Send + Sync {
    /// A new adapter over the same hypervisor, as a restarted program would make it.
    async fn actuator(&self) -> Arc<dyn Actuator>;

    /// An image for root disks.
    fn image(&self) -> LocalImage;

    /// The active storage pool to use.
    fn pool(&self) -> String;

    /// The active network to use.
    fn network(&self) -> String;

    /// An address of the network that can be reserved, where the network has an address plan.
    fn free_address(&self) -> Option<IpAddr>;

    /// Names of all domains, volumes and reservations, base images left out, sorted.
    async fn resources(&self) -> Vec<String>;

    /// Defines a domain of this name that is not ours.
    async fn add_stranger(&self, domain: &str);

    /// Removes it again. True where it was still there.
    async fn remove_stranger(&self, domain: &str) -> bool;

    /// Removes a machine's domain and nothing else.
    async fn lose_domain(&self, facts: &MachineFacts);

    /// Starts or stops the network.
    async fn set_network_active(&self, active: bool);

    /// Starts or stops the pool.
    async fn set_pool_active(&self, active: bool);
}

/// Runs the whole suite. Panics, naming the promise, where one is broken.
///
/// # Panics
/// Where the contract is broken.
pub async fn obeys_the_contract(world: &dyn World) {
    let before = world.resources().await;
    makes_one_running_machine_and_removes_all_of_it(world).await;
    keeps_machines_of_equal_names_apart(world).await;
    survives_a_restart_of_the_program(world).await;
    gives_a_recreated_machine_a_new_identity(world).await;
    never_touches_a_stranger(world).await;
    waits_for_pool_and_network_without_leaving_anything(world).await;
    refuses_a_disk_smaller_than_the_image(world).await;
    rounds_an_odd_disk_up(world).await;
    gives_an_address_to_one_machine_only(world).await;
    makes_a_lost_domain_again(world).await;
    finds_leftovers_by_uid(world).await;
    assert_eq!(world.resources().await, before, "the suite leaves the hypervisor as it was");
}

/// A request for a small machine of this name under a new uid.
#[must_use]
pub fn request(world: &dyn World, name: &str) -> CreateMachine {
    let uid = Uuid::new_v4().to_string();
    let meta_data = format!("instance-id: i-{uid}\nlocal-hostname: {name}\n").into_bytes();
    CreateMachine {
        key: MachineKey { namespace: "lab".to_owned(), name: name.to_owned(), uid },
        shape: MachineShape {
            vcpus: 1,
            memory: MemoryMib(128),
            disk: None,
            pool: world.pool(),
            network: world.network(),
            address: None,
        },
        image: world.image(),
        seed: Seed::Files(CloudInitFiles {
            user_data: b"#cloud-config\n{}\n".to_vec(),
            meta_data,
            network_config: None,
        }),
    }
}

/// Calls create until it no longer answers "preparing".
///
/// # Errors
/// What create answers.
///
/// # Panics
/// Where it goes on preparing for longer than any test image can need.
pub async fn create(actuator: &dyn Actuator, request: &CreateMachine) -> Result<MachineFacts, ActuatorError> {
    for _ in 0..1200 {
        match actuator.create(request).await? {
            Creation::Running(facts) => return Ok(facts),
            Creation::Preparing(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    unreachable!("create prepares without end")
}

/// Calls delete until nothing is left.
///
/// # Panics
/// Where it fails or never ends.
pub async fn delete(actuator: &dyn Actuator, key: &MachineKey) {
    for _ in 0..1200 {
        match actuator.delete(key).await.expect("delete works") {
            Removal::Done => return,
            Removal::Pending(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
    unreachable!("delete is pending without end")
}

async fn facts(actuator: &dyn Actuator, key: &MachineKey) -> MachineFacts {
    match actuator.exists(key).await.expect("exists works") {
        Presence::Present(facts) => facts,
        other => unreachable!("{} should be present and is {other:?}", key.name),
    }
}

async fn assert_absent(actuator: &dyn Actuator, key: &MachineKey) {
    let presence = actuator.exists(key).await.expect("exists works");
    assert_eq!(presence, Presence::Absent, "nothing of {} should be left", key.name);
}

async fn makes_one_running_machine_and_removes_all_of_it(world: &dyn World) {
    let actuator = world.actuator().await;
    let before = world.resources().await;
    let request = request(world, "one");
    assert_absent(&*actuator, &request.key).await;
    let mut changes = actuator.changes();

    let made = create(&*actuator, &request).await.expect("a machine can be made");
    assert_eq!(made.power, PowerState::Running);
    assert_eq!(made.provider_id, format!("libvirt:///{}", made.uuid));
    assert_eq!((made.vcpus, made.memory), (1, MemoryMib(128)));
    assert_eq!(made.disk, Some(request.image.virtual_size), "without a size the disk is as large as the image");
    let octet = u8::from_str_radix(&made.mac[..2], 16).expect("a MAC in hex");
    assert_eq!(octet & 0b11, 0b10, "the MAC is local and unicast: {}", made.mac);
    let heard = tokio::time::timeout(Duration::from_secs(10), changes.recv()).await;
    let heard = heard.expect("creating a machine is reported").expect("the channel is open");
    assert!(heard.is_empty() || heard == request.key.uid, "reported {heard:?}");

    let with_one = world.resources().await;
    let again = create(&*actuator, &request).await.expect("create again is fine");
    assert_eq!((again.uuid, again.mac), (made.uuid.clone(), made.mac), "create again finds the same machine");
    assert_eq!(world.resources().await, with_one, "create again makes nothing new");
    assert_eq!(facts(&*actuator, &request.key).await.uuid, made.uuid);

    delete(&*actuator, &request.key).await;
    assert_absent(&*actuator, &request.key).await;
    assert_eq!(world.resources().await, before, "delete leaves nothing");
    delete(&*actuator, &request.key).await;
}

async fn keeps_machines_of_equal_names_apart(world: &dyn World) {
    let actuator = world.actuator().await;
    let first = request(world, "same");
    let mut second = request(world, "same");
    second.key.namespace = "lab2".to_owned();
    let one = create(&*actuator, &first).await.expect("the first machine can be made");
    let two = create(&*actuator, &second).await.expect("the second machine can be made");
    assert_ne!(one.domain, two.domain);
    assert_ne!(one.uuid, two.uuid);
    assert_ne!(one.mac, two.mac);
    delete(&*actuator, &first.key).await;
    assert_eq!(facts(&*actuator, &second.key).await.power, PowerState::Running, "the other machine goes on");
    delete(&*actuator, &second.key).await;
}

async fn survives_a_restart_of_the_program(world: &dyn World) {
    let request = request(world, "restart");
    let made = create(&*world.actuator().await, &request).await.expect("a machine can be made");
    let restarted = world.actuator().await;
    assert_eq!(facts(&*restarted, &request.key).await.uuid, made.uuid);
    let again = create(&*restarted, &request).await.expect("create goes on after a restart");
    assert_eq!(again.uuid, made.uuid);
    delete(&*restarted, &request.key).await;
}

async fn gives_a_recreated_machine_a_new_identity(world: &dyn World) {
    let actuator = world.actuator().await;
    let first = request(world, "again");
    let made = create(&*actuator, &first).await.expect("a machine can be made");
    delete(&*actuator, &first.key).await;
    let second = request(world, "again");
    let remade = create(&*actuator, &second).await.expect("it can be made again");
    assert_ne!(made.uuid, remade.uuid, "another object of the same name is another machine");
    delete(&*actuator, &second.key).await;
}

async fn never_touches_a_stranger(world: &dyn World) {
    let actuator = world.actuator().await;
    let request = request(world, "taken");
    // The name of the domain is the adapter's own business: learn it by making the machine once.
    let name = create(&*actuator, &request).await.expect("a machine can be made").domain;
    delete(&*actuator, &request.key).await;
    let before = world.resources().await;

    world.add_stranger(&name).await;
    let refusal = create(&*actuator, &request).await.expect_err("the name is taken");
    assert!(matches!(refusal, ActuatorError::NameTaken { .. }), "got {refusal:?}");
    delete(&*actuator, &request.key).await;
    assert!(world.remove_stranger(&name).await, "the stranger's domain is still there");
    assert_eq!(world.resources().await, before, "a refused machine leaves nothing");

    create(&*actuator, &request).await.expect("it goes on once the name is free");
    delete(&*actuator, &request.key).await;
}

async fn waits_for_pool_and_network_without_leaving_anything(world: &dyn World) {
    let actuator = world.actuator().await;
    let before = world.resources().await;
    let good = request(world, "waits");
    let mut no_pool = good.clone();
    no_pool.shape.pool = "nosuch".to_owned();
    assert_not_available(&*actuator, &no_pool, "storage pool", "missing").await;
    let mut no_network = good.clone();
    no_network.shape.network = "nosuch".to_owned();
    assert_not_available(&*actuator, &no_network, "network", "missing").await;

    world.set_network_active(false).await;
    assert_not_available(&*actuator, &good, "network", "inactive").await;
    world.set_network_active(true).await;
    world.set_pool_active(false).await;
    assert_not_available(&*actuator, &good, "storage pool", "inactive").await;
    world.set_pool_active(true).await;
    assert_eq!(world.resources().await, before, "a waiting machine leaves nothing");

    create(&*actuator, &good).await.expect("after the repair it goes on by itself");
    delete(&*actuator, &good.key).await;
}

async fn assert_not_available(actuator: &dyn Actuator, request: &CreateMachine, wanted_kind: &str, wanted: &str) {
    match create(actuator, request).await.expect_err("something is not available") {
        ActuatorError::NotAvailable { kind, state, .. } => assert_eq!((kind, state), (wanted_kind, wanted)),
        other => unreachable!("expected {wanted_kind} {wanted}, got {other:?}"),
    }
}

async fn refuses_a_disk_smaller_than_the_image(world: &dyn World) {
    let actuator = world.actuator().await;
    let before = world.resources().await;
    let mut request = request(world, "small");
    request.shape.disk = Some(ByteSize(request.image.virtual_size.0 - 512));
    let refusal = create(&*actuator, &request).await.expect_err("the disk is too small");
    assert!(matches!(refusal, ActuatorError::Invalid { field: "diskInGB", .. }), "got {refusal:?}");
    assert_eq!(world.resources().await, before, "a refused machine leaves nothing");
}

async fn rounds_an_odd_disk_up(world: &dyn World) {
    let actuator = world.actuator().await;
    let mut request = request(world, "odd");
    let asked = request.image.virtual_size.0 + 1;
    request.shape.disk = Some(ByteSize(asked));
    let made = create(&*actuator, &request).await.expect("an odd size is fine");
    let size = made.disk.expect("the size is known").0;
    assert!(size >= asked && size < asked + 4096, "asked {asked}, got {size}");
    let again = create(&*actuator, &request).await.expect("and stays fine");
    assert_eq!(again.disk, made.disk);
    delete(&*actuator, &request.key).await;
}

async fn gives_an_address_to_one_machine_only(world: &dyn World) {
    let Some(address) = world.free_address() else { return };
    let actuator = world.actuator().await;
    let mut first = request(world, "fixed-1");
    let mut second = request(world, "fixed-2");
    first.shape.address = Some(address);
    second.shape.address = Some(address);
    let made = create(&*actuator, &first).await.expect("the address is free");
    assert!(made.addresses.contains(&address), "the reserved address shows: {:?}", made.addresses);
    let refusal = create(&*actuator, &second).await.expect_err("the address is taken");
    assert!(matches!(refusal, ActuatorError::AddressInUse { .. }), "got {refusal:?}");
    delete(&*actuator, &first.key).await;
    create(&*actuator, &second).await.expect("the address is free again");
    delete(&*actuator, &second.key).await;
}

async fn makes_a_lost_domain_again(world: &dyn World) {
    let actuator = world.actuator().await;
    let request = request(world, "lost");
    let made = create(&*actuator, &request).await.expect("a machine can be made");
    world.lose_domain(&made).await;
    let presence = actuator.exists(&request.key).await.expect("exists works");
    assert!(matches!(&presence, Presence::Leftovers(names) if !names.is_empty()), "got {presence:?}");
    let remade = create(&*actuator, &request).await.expect("it can be made again");
    assert_eq!(remade.power, PowerState::Running);
    assert_eq!(facts(&*actuator, &request.key).await.uuid, remade.uuid);
    delete(&*actuator, &request.key).await;
}

async fn finds_leftovers_by_uid(world: &dyn World) {
    let actuator = world.actuator().await;
    let before = world.resources().await;
    let request = request(world, "leftover");
    let made = create(&*actuator, &request).await.expect("a machine can be made");
    world.lose_domain(&made).await;
    // Only the uid counts: whoever deletes need not know the rest.
    let key = MachineKey { namespace: String::new(), name: String::new(), uid: request.key.uid.clone() };
    delete(&*actuator, &key).await;
    assert_absent(&*actuator, &key).await;
    assert_eq!(world.resources().await, before, "delete leaves nothing");
}
