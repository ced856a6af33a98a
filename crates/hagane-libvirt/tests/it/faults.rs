//! The daemon goes away and comes back.

use std::time::Duration;

use hagane_libvirt::LibvirtActuator;
use hagane_ports::{Actuator, ActuatorError, MachineKey, Presence};

use crate::daemon::Daemon;
use crate::world::VirshWorld;

fn key() -> MachineKey {
    MachineKey { namespace: "lab".into(), name: "m".into(), uid: uuid::Uuid::new_v4().to_string() }
}

#[tokio::test]
async fn starts_without_a_daemon_and_says_that_it_is_away() {
    let actuator = LibvirtActuator::new("test:///default?socket=/nonexistent/sock", VirshWorld::options());
    let error = actuator.expect("a good URI").exists(&key()).await.expect_err("nobody is there");
    let ActuatorError::Unreachable { uri, source } = error else { unreachable!("expected unreachable, got {error:?}") };
    assert_eq!(uri, "test:///default?socket=/nonexistent/sock");
    assert!(source.to_string().contains("/nonexistent/sock"), "{source}");
}

#[tokio::test(flavor = "multi_thread")]
async fn recovers_when_the_daemon_comes_back() {
    let Some(mut daemon) = Daemon::start("recovers_when_the_daemon_comes_back") else { return };
    let actuator = LibvirtActuator::new(&daemon.uri(), VirshWorld::options()).expect("a good URI");
    let mut changes = actuator.changes();
    assert_eq!(actuator.exists(&key()).await.expect("it answers"), Presence::Absent);

    daemon.kill();
    let away = async {
        while actuator.exists(&key()).await.is_ok() {
            tokio::task::yield_now().await;
        }
        actuator.exists(&key()).await.expect_err("it is away")
    };
    let error = tokio::time::timeout(Duration::from_secs(10), away).await.expect("the loss is noticed");
    assert!(matches!(error, ActuatorError::Unreachable { .. }), "{error:?}");

    while changes.try_recv().is_ok() {}
    daemon.run();
    let heard = tokio::time::timeout(Duration::from_secs(30), changes.recv()).await.expect("the return is reported");
    assert_eq!(heard.expect("the channel is open"), "", "anything may have changed");
    assert_eq!(actuator.exists(&key()).await.expect("it answers again"), Presence::Absent);
}
