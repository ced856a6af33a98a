use hagane_api::machine::{GROUP, SLIDES_GROUP};
use serde_json::{Value, json};

use crate::runtime::Resource;
use crate::testing::{World, condition, ready, text};

fn of(group: &str, plural: &str) -> Resource {
    Resource::of(group, plural).expect("a kind of ours")
}

fn cluster(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {"providerSpec": {}, "clusterNetwork": {
            "services": {"cidrBlocks": ["10.96.0.0/12"]}, "pods": {"cidrBlocks": ["192.168.0.0/16"]}, "serviceDomain": "cluster.local",
        }},
    })
}

fn machine(name: &str, cluster: &str) -> Value {
    json!({
        "metadata": {"name": name, "labels": {"cluster.k8s.io/cluster-name": cluster}},
        "spec": {"providerSpec": {"vcpu": 1}},
    })
}

#[tokio::test]
async fn takes_the_slides_cluster() {
    let world = World::running().await;
    let clusters = of(SLIDES_GROUP, "clusters");
    world.create(clusters, cluster("fujisan")).await;
    let taken = world.until_ready_says(clusters, "fujisan", "Provisioned").await;
    assert_eq!((&taken["status"]["phase"], &taken["status"]["machines"]), (&json!("Provisioned"), &json!(0)));
    assert_eq!(taken["metadata"]["finalizers"], json!(["cluster.cluster.k8s.io"]));
}

#[tokio::test]
async fn refuses_networks_that_are_none() {
    let world = World::running().await;
    let mut wish = cluster("c1");
    wish["spec"]["clusterNetwork"]["pods"]["cidrBlocks"] = json!(["192.168.0.0/33"]);
    let refused = world.try_create(of(GROUP, "clusters"), wish).await.expect_err("422").to_string();
    assert!(refused.contains("spec.clusterNetwork.pods.cidrBlocks[0]"), "{refused}");
}

#[tokio::test]
async fn goes_after_its_machines_of_both_groups() {
    let world = World::running().await;
    let clusters = of(GROUP, "clusters");
    world.create(clusters, cluster("c1")).await;
    for (group, name, cluster) in [(GROUP, "m1", "c1"), (SLIDES_GROUP, "m2", "c1"), (GROUP, "other", "c2")] {
        world.create(of(group, "machines"), machine(name, cluster)).await;
        world.until_ready_says(of(group, "machines"), name, "Running").await;
    }
    world.until(clusters, "c1", "two machines", |object| object["status"]["machines"] == 2).await;
    world.actuator.set_unreachable(true);
    world.delete(clusters, "c1").await;
    let waiting = world.until_ready_says(clusters, "c1", "WaitingForMachines").await;
    let message = text(&condition(&waiting, "Ready").expect("there")["message"]);
    assert!(message.contains("m1") && message.contains("m2") && !message.contains("other"), "{message}");
    world.until_ready_says(of(GROUP, "machines"), "m1", "HypervisorUnreachable").await;
    world.delete(clusters, "c1").await;
    world.actuator.set_unreachable(false);
    world.gone(clusters, "c1").await;
    world.gone(of(GROUP, "machines"), "m1").await;
    world.gone(of(SLIDES_GROUP, "machines"), "m2").await;
    let other = world.until_ready_says(of(GROUP, "machines"), "other", "Running").await;
    assert_eq!((ready(&other).as_str(), world.actuator.domains().len()), ("Running", 1));
}

#[tokio::test]
async fn a_crash_after_any_step_of_deletion_leaves_nothing() {
    let mut world = World::quiet().await;
    let clusters = of(GROUP, "clusters");
    world.create(clusters, cluster("c1")).await;
    for name in ["m1", "m2"] {
        world.create(of(GROUP, "machines"), machine(name, "c1")).await;
    }
    world.start();
    for name in ["m1", "m2"] {
        world.until_ready_says(of(GROUP, "machines"), name, "Running").await;
    }
    world.until(clusters, "c1", "two machines", |object| object["status"]["machines"] == 2).await;
    world.stop().await;
    world.delete(clusters, "c1").await;
    let crashes =
        world.crash_at_every_step(|client| async move { crate::testing::gone(&client, clusters, "c1").await }).await;
    assert!(crashes >= 3, "{crashes}: {:?}", world.fuse.effects());
    assert!(world.actuator.is_empty());
}
