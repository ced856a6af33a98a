//! The fake obeys the contract that the real adapter obeys, and its faults do what they say.

use std::sync::Arc;

use hagane_ports::{ImagePurpose, LocalImage};

use super::*;
use crate::contract::actuator::{World, obeys_the_contract, request};
use crate::fake::FakeImages;

struct FakeWorld(Arc<FakeActuator>);

#[async_trait]
impl World for FakeWorld {
    async fn actuator(&self) -> Arc<dyn Actuator> {
        self.0.clone()
    }

    fn image(&self) -> LocalImage {
        FakeImages::ready_image("http://images.test/root", ImagePurpose::RootDisk)
    }

    fn pool(&self) -> String {
        "default".to_owned()
    }

    fn network(&self) -> String {
        "default".to_owned()
    }

    fn free_address(&self) -> Option<IpAddr> {
        Some(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 200)))
    }

    async fn resources(&self) -> Vec<String> {
        self.0.lock().machines.keys().cloned().collect()
    }

    async fn add_stranger(&self, domain: &str) {
        self.0.add_stranger(domain);
    }

    async fn remove_stranger(&self, domain: &str) -> bool {
        let found = self.0.has_stranger(domain);
        self.0.remove_stranger(domain);
        found
    }

    async fn lose_domain(&self, facts: &MachineFacts) {
        let uid = self.0.domains().into_iter().find(|(_, other)| other.uuid == facts.uuid).map(|(uid, _)| uid);
        self.0.vanish(&uid.expect("the machine is there"));
    }

    async fn set_network_active(&self, active: bool) {
        self.0.set_network("default", if active { SiteState::Active } else { SiteState::Inactive });
    }

    async fn set_pool_active(&self, active: bool) {
        self.0.set_pool("default", if active { SiteState::Active } else { SiteState::Inactive });
    }
}

fn world() -> FakeWorld {
    FakeWorld(Arc::new(FakeActuator::new()))
}

#[tokio::test]
async fn obeys_the_actuator_contract() {
    obeys_the_contract(&world()).await;
}

#[tokio::test]
async fn an_interrupted_create_leaves_what_the_next_one_finds() {
    let world = world();
    let request = request(&world, "half");
    for (stage, leftover) in [(CreateStage::RootVolume, true), (CreateStage::Seed, true), (CreateStage::Defined, false)]
    {
        world.0.interrupt_next_create(stage);
        world.0.create(&request).await.expect_err("the create was cut off");
        let presence = world.0.exists(&request.key).await.expect("exists works");
        assert_eq!(matches!(presence, Presence::Leftovers(_)), leftover, "{stage:?}: {presence:?}");
        let Creation::Running(facts) = world.0.create(&request).await.expect("the next create goes on") else {
            unreachable!("the fake prepares only when told to")
        };
        assert_eq!(facts.power, PowerState::Running);
        world.0.delete(&request.key).await.expect("delete works");
    }
}

#[tokio::test]
async fn faults_hit_the_call_they_were_meant_for() {
    let world = world();
    let request = request(&world, "faulty");
    let failure = || ActuatorError::Failed { operation: "try".to_owned(), source: "broken".into() };
    world.0.fail_next(ActuatorCall::Exists, failure());
    world.0.create(&request).await.expect("create was not meant");
    world.0.exists(&request.key).await.expect_err("exists was meant");
    world.0.exists(&request.key).await.expect("but only once");
    world.0.set_unreachable(true);
    let mut changes = world.0.changes();
    let error = world.0.exists(&request.key).await.expect_err("the daemon is away");
    assert!(matches!(error, ActuatorError::Unreachable { .. }));
    world.0.set_unreachable(false);
    assert_eq!(changes.recv().await.expect("a report comes"), "");
    world.0.hold_removal(1);
    assert!(matches!(world.0.delete(&request.key).await, Ok(Removal::Pending(_))));
    assert!(matches!(world.0.delete(&request.key).await, Ok(Removal::Done)));
    assert!(world.0.is_empty());
}
