//! The contract on libvirt's in-memory hypervisor.

use hagane_libvirt::rpc::Connection;
use hagane_ports::Removal;
use hagane_testkit::contract::actuator::{World, create, delete, obeys_the_contract, request};

use crate::daemon::Daemon;
use crate::world::VirshWorld;

/// The in-memory hypervisor forgets everything with its last connection; this one keeps it.
pub(crate) async fn memory_world(daemon: &Daemon) -> (VirshWorld, Connection) {
    let keeper = Connection::open(&daemon.socket(), "test:///default", None).await.expect("libvirtd answers");
    let world = VirshWorld::new(&daemon.uri(), "hg-pool", "hg-net", "192.0.2.12".parse().expect("an address"));
    let pool = "<pool type='dir'><name>hg-pool</name><target><path>/hg-pool</path></target></pool>";
    let network = "<network><name>hg-net</name><bridge name='hgbr0'/><ip address='192.0.2.1' prefix='24'>\
        <dhcp><range start='192.0.2.100' end='192.0.2.200'/></dhcp></ip></network>";
    for (define, start, name, xml) in
        [("pool-define", "pool-start", "hg-pool", pool), ("net-define", "net-start", "hg-net", network)]
    {
        let file = world.file(name, xml);
        world.virsh(&[define, &file.display().to_string()]);
        world.virsh(&[start, name]);
    }
    (world, keeper)
}

#[tokio::test(flavor = "multi_thread")]
async fn obeys_the_contract_in_memory() {
    let Some(daemon) = Daemon::start("obeys_the_contract_in_memory") else { return };
    let (world, _keeper) = memory_world(&daemon).await;
    obeys_the_contract(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_in_a_stopped_pool_are_waited_for_not_forgotten() {
    let Some(daemon) = Daemon::start("volumes_in_a_stopped_pool_are_waited_for_not_forgotten") else { return };
    let (world, _keeper) = memory_world(&daemon).await;
    let actuator = world.actuator().await;
    let before = world.resources().await;
    let request = request(&world, "hidden");
    create(&*actuator, &request).await.expect("a machine can be made");
    world.set_pool_active(false).await;
    let removal = actuator.delete(&request.key).await.expect("delete answers");
    let Removal::Pending(wait) = removal else { unreachable!("expected a wait, got {removal:?}") };
    assert!(wait.contains("hg-pool") && wait.contains("inactive"), "{wait}");
    world.set_pool_active(true).await;
    delete(&*actuator, &request.key).await;
    assert_eq!(world.resources().await, before, "nothing is left");
}
