//! The control loops end after every single effect, and start again: one run, one Secret, nothing left.

use hagane_ports::{RunExit, RunProgress};
use serde_json::json;

use super::site::{Site, assigned, one_master, provisionings, secret};
use crate::testing::{gone, ready, until};

#[tokio::test]
async fn after_any_step_of_an_installation_ends_in_one_run() {
    let mut site = Site::quiet().await;
    for number in 1..=3 {
        site.host(number, 4, 8).await;
    }
    let step = |task: &str| RunProgress { task: Some(task.to_owned()), ..RunProgress::default() };
    site.installer.set_script(vec![step("one"), step("two"), step("three")], RunExit::Succeeded);
    let spec = json!({"master": {"cpu": 2}, "worker": {"cpu": 2}, "replicas": 2});
    let uid = site.provision("edge", spec).await;
    let crashes = site
        .world
        .crash_at_every_step(|client| async move {
            until(&client, provisionings(), "edge", "Ready", |object| ready(object) == "Ready").await;
        })
        .await;
    let steps = site.world.fuse.effects();
    assert!(crashes >= 10, "{crashes} crashes: {steps:?}");
    site.every_run_was_one();
    assert_eq!(site.installer.begun().len(), 1, "{steps:?}");
    assert_eq!(site.claimed(&uid).await, ["host-1", "host-2", "host-3"]);
    assert_eq!(assigned(&site.get("edge").await).len(), 3);
    assert!(site.secret("edge-kubeconfig").await.is_some());
    let place = |wanted: &dyn Fn(&String) -> bool| steps.iter().position(wanted);
    let claim =
        place(&|step| step.starts_with("PATCH") && step.contains("baremetalhosts/host-1") && !step.ends_with("status"));
    let status = place(&|step| step.ends_with("provisionings/edge/status"));
    let start = place(&|step| step.starts_with("start "));
    assert!(status < claim && claim < start, "the plan is stored, hosts are claimed, then the run starts: {steps:?}");
}

#[tokio::test]
async fn after_any_step_of_a_deletion_leaves_nothing() {
    let mut site = Site::running(&[(1, 4, 8)]).await;
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    site.end_run("edge", RunExit::Succeeded).await;
    site.until("edge", "Ready").await;
    site.world.stop().await;
    site.world.delete(provisionings(), "edge").await;
    let crashes = site
        .world
        .crash_at_every_step(|client| async move {
            gone(&client, provisionings(), "edge").await;
            assert_eq!(secret(&client, "edge-kubeconfig").await, None);
        })
        .await;
    assert!(crashes >= 4, "{crashes} crashes: {:?}", site.world.fuse.effects());
    assert_eq!((site.claimed(&uid).await, site.installer.recorded()), (Vec::<String>::new(), Vec::new()));
}

#[tokio::test]
async fn after_any_step_of_a_deletion_during_a_run_leaves_nothing() {
    let mut site = Site::running(&[(1, 4, 8)]).await;
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    site.until("edge", "Installing").await;
    site.world.crash().await;
    site.world.delete(provisionings(), "edge").await;
    site.world.crash_at_every_step(|client| async move { gone(&client, provisionings(), "edge").await }).await;
    assert_eq!((site.claimed(&uid).await, site.installer.recorded()), (Vec::<String>::new(), Vec::new()));
    site.every_run_was_one();
}

#[tokio::test]
async fn during_a_run_finds_the_run_again() {
    let mut site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    site.until("edge", "Installing").await;
    for _ in 0..3 {
        site.world.crash().await;
        site.world.start();
        site.a_while().await;
    }
    site.world.crash().await;
    let id = site.installer.running().pop().expect("it goes on without us");
    site.installer.finish(&id, RunExit::Succeeded);
    site.world.start();
    site.until("edge", "Ready").await;
    site.every_run_was_one();
    assert_eq!(site.installer.begun().len(), 1);
}
