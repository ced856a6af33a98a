use hagane_ports::{ImageFailure, PowerState};
use hagane_testkit::fake::SiteState;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::{machine, machines, uid};
use crate::testing::{DEFAULT_IMAGE, NAMESPACE, World, gone, text, until};

async fn nothing_is_left(world: &World) {
    assert!(world.actuator.is_empty(), "{:?}", world.actuator.domains());
    let secrets: Api<Secret> = Api::namespaced(world.client.clone(), NAMESPACE);
    let mut left = Vec::new();
    for _ in 0..400 {
        left = secrets.list(&ListParams::default()).await.expect("secrets").items;
        if left.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(left.is_empty(), "a Secret is left");
}

#[tokio::test]
async fn removes_a_running_machine_and_all_that_is_its() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({}))).await;
    world.until_ready_says(machines(), "m1", "Running").await;
    world.actuator.hold_removal(2);
    world.delete(machines(), "m1").await;
    world.gone(machines(), "m1").await;
    nothing_is_left(&world).await;
}

#[tokio::test]
async fn deletion_ends_from_every_state() {
    let world = World::running().await;
    world.images.set_fetching("http://images.test/slow", 1, None);
    world.images.set_failed("http://images.test/bad", ImageFailure::NotAnImage, None);
    world.actuator.set_pool("off", SiteState::Inactive);
    for (name, provider, reason) in [
        ("fetching", json!({"imageURI": "http://images.test/slow"}), "ImageFetching"),
        ("bad", json!({"imageURI": "http://images.test/bad"}), "ImageFailed"),
        ("pool", json!({"poolName": "off"}), "PoolNotAvailable"),
        ("class", json!({"valueFrom": {"machineClass": {"name": "nosuch"}}}), "MachineClassMissing"),
        ("small", json!({"diskInGB": 1}), "InvalidSpec"),
    ] {
        world.create(machines(), machine(name, provider)).await;
        world.until_ready_says(machines(), name, reason).await;
        world.delete(machines(), name).await;
        world.gone(machines(), name).await;
    }
    nothing_is_left(&world).await;
}

#[tokio::test]
async fn a_machine_without_a_provider_spec_says_so_and_can_be_deleted() {
    let world = World::running().await;
    world.create(machines(), json!({"metadata": {"name": "m1"}, "spec": {}})).await;
    let failed = world.until_ready_says(machines(), "m1", "ProviderSpecMissing").await;
    assert_eq!(failed["status"]["errorReason"], "InvalidConfiguration");
    let conditions = failed["status"]["conditions"].as_array().expect("conditions");
    let valid = conditions.iter().find(|condition| condition["type"] == "SpecValid").expect("there");
    assert!(valid["message"].as_str().expect("a message").starts_with("spec.providerSpec is needed"), "{valid}");
    world.delete(machines(), "m1").await;
    world.gone(machines(), "m1").await;
}

#[tokio::test]
async fn nonsense_is_refused_by_field() {
    let world = World::running().await;
    let refused = world.try_create(machines(), machine("m1", json!({"vcpu": 0, "imageURI": "::"}))).await;
    let message = refused.expect_err("422").to_string();
    assert!(message.contains("vcpu") && message.contains("imageURI"), "{message}");
}

#[tokio::test]
async fn a_machine_whose_domain_is_gone_or_off_can_be_deleted() {
    let world = World::running().await;
    for (name, reason) in [("gone", "DomainGone"), ("off", "PoweredOff")] {
        world.create(machines(), machine(name, json!({}))).await;
        let made = world.until_ready_says(machines(), name, "Running").await;
        if name == "gone" {
            world.actuator.vanish(&uid(&made));
        } else {
            world.actuator.set_power(&uid(&made), PowerState::Off);
        }
        world.until_ready_says(machines(), name, reason).await;
        world.delete(machines(), name).await;
        world.gone(machines(), name).await;
    }
    nothing_is_left(&world).await;
}

#[tokio::test]
async fn deletion_waits_for_the_hypervisor_with_a_reason() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({}))).await;
    world.until_ready_says(machines(), "m1", "Running").await;
    world.actuator.set_unreachable(true);
    world.delete(machines(), "m1").await;
    let waiting = world.until_ready_says(machines(), "m1", "HypervisorUnreachable").await;
    assert_eq!(waiting["status"]["phase"], "Deleting");
    world.actuator.set_unreachable(false);
    world.gone(machines(), "m1").await;
    nothing_is_left(&world).await;
}

#[tokio::test]
async fn the_same_name_again_is_another_machine() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({}))).await;
    let first = world.until_ready_says(machines(), "m1", "Running").await;
    world.delete(machines(), "m1").await;
    world.gone(machines(), "m1").await;
    world.create(machines(), machine("m1", json!({}))).await;
    let second = world.until_ready_says(machines(), "m1", "Running").await;
    assert_ne!(text(&first["spec"]["providerID"]), text(&second["spec"]["providerID"]));
    assert_ne!(
        text(&first["status"]["providerStatus"]["sshHostKey"]),
        text(&second["status"]["providerStatus"]["sshHostKey"])
    );
    assert_eq!(world.actuator.domains().into_keys().collect::<Vec<_>>(), [uid(&second)]);
}

#[tokio::test]
async fn a_crash_after_any_step_of_deletion_leaves_nothing() {
    let mut world = World::quiet().await;
    world.create(machines(), machine("m1", json!({}))).await;
    world.start();
    world.until_ready_says(machines(), "m1", "Running").await;
    world.stop().await;
    world.delete(machines(), "m1").await;
    let crashes = world.crash_at_every_step(|client| async move { gone(&client, machines(), "m1").await }).await;
    assert!(crashes >= 1, "{:?}", world.fuse.effects());
    nothing_is_left(&world).await;
}

#[tokio::test]
async fn a_pause_holds_deletion_back() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({}))).await;
    world.until_ready_says(machines(), "m1", "Running").await;
    world.patch(machines(), "m1", json!({"metadata": {"annotations": {"hagane.dev/paused": ""}}})).await;
    world.delete(machines(), "m1").await;
    let message = |object: &Value| {
        let paused = crate::testing::condition(object, "Paused");
        paused.map(|condition| text(&condition["message"])).unwrap_or_default()
    };
    until(&world.client, machines(), "m1", "a held deletion", |object| message(object).contains("deletion waits"))
        .await;
    assert_eq!(world.actuator.domains().len(), 1);
    world.patch(machines(), "m1", json!({"metadata": {"annotations": {"hagane.dev/paused": null}}})).await;
    world.gone(machines(), "m1").await;
    nothing_is_left(&world).await;
}

#[tokio::test]
async fn a_default_image_that_comes_later_is_no_change() {
    let mut world = World::running().await;
    world.create(machines(), machine("m1", json!({}))).await;
    world.until_ready_says(machines(), "m1", "Running").await;
    world.stop().await;
    world.settings.default_image = Some("http://images.test/newer".to_owned());
    let before = world.fuse.effects().len();
    world.start();
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert_eq!(world.fuse.effects().len(), before, "{:?} {DEFAULT_IMAGE}", world.fuse.effects());
}
