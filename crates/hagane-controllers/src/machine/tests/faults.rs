use std::time::Duration;

use hagane_ports::{ActuatorError, ImageFailure, PowerState};
use hagane_testkit::fake::{ActuatorCall, CreateStage, FakeActuator, SiteState};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::{machine, machines, uid};
use crate::testing::{DEFAULT_IMAGE, NAMESPACE, World, condition, text, until};

fn creates(world: &World) -> usize {
    world.actuator.calls().iter().filter(|(call, _)| *call == ActuatorCall::Create).count()
}

#[tokio::test]
async fn waits_for_an_image_when_nobody_names_one() {
    let mut world = World::quiet().await;
    world.settings.default_image = None;
    world.start();
    world.create(machines(), machine("m1", json!({"vcpu": 2}))).await;
    let waiting = world.until_ready_says(machines(), "m1", "ImageMissing").await;
    assert_eq!((waiting["status"]["phase"].as_str(), creates(&world)), (Some("Pending"), 0));
    assert!(world.actuator.is_empty());
    world.patch(machines(), "m1", json!({"spec": {"providerSpec": {"imageURI": "http://images.test/a"}}})).await;
    world.until_ready_says(machines(), "m1", "Running").await;
}

#[tokio::test]
async fn shows_how_far_the_image_is() {
    let world = World::running().await;
    world.images.set_fetching(DEFAULT_IMAGE, 25, Some(100));
    world.create(machines(), machine("m1", json!({}))).await;
    let fetching = world.until_ready_says(machines(), "m1", "ImageFetching").await;
    assert!(text(&condition(&fetching, "Ready").expect("there")["message"]).contains("25 of 100"));
    world.images.reset(DEFAULT_IMAGE);
    world.until_ready_says(machines(), "m1", "Running").await;
}

#[tokio::test]
async fn a_bad_image_is_an_error_until_the_spec_names_another() {
    let world = World::running().await;
    world.images.set_failed("http://images.test/html", ImageFailure::NotAnImage, None);
    world.create(machines(), machine("m1", json!({"imageURI": "http://images.test/html"}))).await;
    let failed = world.until_ready_says(machines(), "m1", "ImageFailed").await;
    assert_eq!(
        (&failed["status"]["phase"], &failed["status"]["errorReason"]),
        (&json!("Failed"), &json!("CreateError"))
    );
    world.patch(machines(), "m1", json!({"spec": {"providerSpec": {"imageURI": "http://images.test/good"}}})).await;
    let made = world.until_ready_says(machines(), "m1", "Running").await;
    assert_eq!((&made["status"]["errorReason"], &made["status"]["errorMessage"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_server_that_fails_is_asked_again() {
    let world = World::running().await;
    world.images.set_failed(DEFAULT_IMAGE, ImageFailure::FetchFailed, Some(Duration::from_secs(30)));
    world.create(machines(), machine("m1", json!({}))).await;
    world.until_ready_says(machines(), "m1", "ImageFailed").await;
    let events: Api<Event> = Api::namespaced(world.client.clone(), NAMESPACE);
    let severity = async || {
        let told = events.list(&ListParams::default()).await.expect("events").items;
        told.into_iter().find(|event| event.reason.as_deref() == Some("ImageFailed")).and_then(|event| event.type_)
    };
    for _ in 0..400 {
        if severity().await.is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(severity().await.as_deref(), Some("Warning"));
    world.images.reset(DEFAULT_IMAGE);
    world.until_ready_says(machines(), "m1", "Running").await;
}

#[tokio::test]
async fn missing_pools_and_networks_are_named_and_waited_for() {
    let world = World::running().await;
    for (field, reason, set) in [
        ("poolName", "PoolNotAvailable", FakeActuator::set_pool as fn(&FakeActuator, &str, SiteState)),
        ("networkName", "NetworkNotAvailable", FakeActuator::set_network),
    ] {
        let name = field.to_lowercase();
        world.create(machines(), machine(&name, json!({field: "nosuch"}))).await;
        let waiting = world.until_ready_says(machines(), &name, reason).await;
        assert!(text(&condition(&waiting, "Ready").expect("there")["message"]).contains("\"nosuch\" is missing"));
        assert_eq!(world.actuator.request(&uid(&waiting)), None);
        set(&world.actuator, "nosuch", SiteState::Active);
        world.until_ready_says(machines(), &name, "Running").await;
    }
}

#[tokio::test]
async fn a_strangers_domain_is_left_alone() {
    let mut world = World::quiet().await;
    let wish = world.create(machines(), machine("m1", json!({}))).await;
    let key = hagane_ports::MachineKey {
        namespace: "default".to_owned(),
        name: "m1".to_owned(),
        uid: wish.metadata.uid.expect("a uid"),
    };
    let domain = FakeActuator::domain_name(&key);
    world.actuator.add_stranger(&domain);
    world.start();
    world.until_ready_says(machines(), "m1", "NameTaken").await;
    assert!(world.actuator.has_stranger(&domain));
    world.actuator.remove_stranger(&domain);
    world.until_ready_says(machines(), "m1", "Running").await;
}

#[tokio::test]
async fn one_address_is_given_to_one_machine() {
    let world = World::running().await;
    for name in ["m1", "m2"] {
        world.create(machines(), machine(name, json!({"networkAddress": "192.0.2.12"}))).await;
    }
    let reason = |object: &Value| crate::testing::ready(object);
    let settled = |object: &Value| ["Running", "AddressInUse"].contains(&reason(object).as_str());
    let first = world.until(machines(), "m1", "an answer", settled).await;
    let second = world.until(machines(), "m2", "an answer", settled).await;
    let mut reasons = [reason(&first), reason(&second)];
    reasons.sort();
    assert_eq!((reasons, world.actuator.domains().len()), (["AddressInUse".to_owned(), "Running".to_owned()], 1));
}

#[tokio::test]
async fn waits_while_the_hypervisor_is_away_and_others_go_on() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({}))).await;
    world.until_ready_says(machines(), "m1", "Running").await;
    world.actuator.set_unreachable(true);
    world.create(machines(), machine("m2", json!({}))).await;
    world.until_ready_says(machines(), "m2", "HypervisorUnreachable").await;
    world.actuator.set_unreachable(false);
    world.until_ready_says(machines(), "m2", "Running").await;
    assert_eq!(world.actuator.domains().len(), 2);
}

#[tokio::test]
async fn a_create_that_fails_half_way_is_finished_later() {
    let world = World::running().await;
    for (name, stage) in [("m1", CreateStage::RootVolume), ("m2", CreateStage::Seed), ("m3", CreateStage::Defined)] {
        world.actuator.interrupt_next_create(stage);
        world.create(machines(), machine(name, json!({}))).await;
        let made =
            world.until(machines(), name, "a provider id", |object| object["spec"]["providerID"].is_string()).await;
        assert_eq!(world.actuator.domains()[&uid(&made)].power, PowerState::Running, "{stage:?}");
    }
    assert_eq!(world.actuator.domains().len(), 3);
}

#[tokio::test]
async fn a_failed_create_is_said_and_tried_again() {
    let world = World::running().await;
    for _ in 0..3 {
        let error = ActuatorError::Failed { operation: "start the domain".to_owned(), source: "no emulator".into() };
        world.actuator.fail_next(ActuatorCall::Create, error);
    }
    world.create(machines(), machine("m1", json!({}))).await;
    let failed = world.until_ready_says(machines(), "m1", "CreateFailed").await;
    let message = text(&condition(&failed, "Ready").expect("there")["message"]);
    assert_eq!(message, "failed to start the domain: no emulator");
    world.until_ready_says(machines(), "m1", "Running").await;
}

#[tokio::test]
async fn a_lost_domain_is_said_and_only_a_new_spec_makes_it_anew() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({"vcpu": 1}))).await;
    let made = world.until_ready_says(machines(), "m1", "Running").await;
    world.actuator.vanish(&uid(&made));
    let gone = world.until_ready_says(machines(), "m1", "DomainGone").await;
    assert_eq!((&gone["status"]["phase"], gone["status"]["addresses"].is_array()), (&json!("Failed"), false));
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(world.actuator.domains().is_empty());
    world.patch(machines(), "m1", json!({"spec": {"providerSpec": {"vcpu": 3}}})).await;
    let anew = world.until_ready_says(machines(), "m1", "Running").await;
    assert_eq!(anew["status"]["providerStatus"]["resolved"]["vcpu"], 3);
    assert_eq!(world.actuator.domains()[&uid(&made)].vcpus, 3);
}

#[tokio::test]
async fn a_machine_that_is_off_is_said_and_not_started() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({}))).await;
    let made = world.until_ready_says(machines(), "m1", "Running").await;
    for (power, reason) in
        [(PowerState::Off, "PoweredOff"), (PowerState::Paused, "InstancePaused"), (PowerState::Crashed, "Crashed")]
    {
        world.actuator.set_power(&uid(&made), power);
        world.until_ready_says(machines(), "m1", reason).await;
    }
    assert_eq!((world.actuator.domains()[&uid(&made)].power, creates(&world)), (PowerState::Crashed, 1));
}

#[tokio::test]
async fn a_paused_object_is_left_alone() {
    let world = World::running().await;
    let mut wish = machine("m1", json!({}));
    wish["metadata"]["annotations"] = json!({"hagane.dev/paused": ""});
    world.create(machines(), wish).await;
    let paused = |object: &Value| condition(object, "Paused").map(|condition| text(&condition["status"]));
    let held = world.until(machines(), "m1", "Paused", |object| paused(object).as_deref() == Some("True")).await;
    assert_eq!((&held["metadata"]["finalizers"], world.actuator.calls().len()), (&Value::Null, 0));
    world.patch(machines(), "m1", json!({"metadata": {"annotations": {"hagane.dev/paused": null}}})).await;
    let made = world.until_ready_says(machines(), "m1", "Running").await;
    assert_eq!(paused(&made).as_deref(), Some("False"));
}

#[tokio::test]
async fn a_crash_after_any_step_ends_in_one_machine() {
    let mut world = World::quiet().await;
    let wish = world.create(machines(), machine("m1", json!({"sshAuthorizedKeys": ["ssh-ed25519 AAAA me"]}))).await;
    let crashes = world
        .crash_at_every_step(|client| async move {
            let whole =
                |object: &Value| crate::testing::ready(object) == "Running" && object["spec"]["providerID"].is_string();
            until(&client, machines(), "m1", "Running", whole).await;
        })
        .await;
    let steps = world.fuse.effects();
    assert!(crashes >= 4, "{crashes} crashes: {steps:?}");
    let made = world.get(machines(), "m1").await.expect("there");
    let made = serde_json::to_value(made).expect("JSON");
    let domains = world.actuator.domains();
    assert_eq!(domains.keys().collect::<Vec<_>>(), [&wish.metadata.uid.expect("a uid")]);
    let request = world.actuator.request(&uid(&made)).expect("a request");
    let hagane_ports::Seed::Files(files) = request.seed else { unreachable!("no seed image was named") };
    let user: Value = serde_saphyr::from_slice(&files.user_data).expect("YAML");
    assert_eq!(user["ssh_keys"]["ed25519_public"], made["status"]["providerStatus"]["sshHostKey"], "{steps:?}");
    assert_eq!(made["spec"]["providerID"], json!(domains[&uid(&made)].provider_id));
}
