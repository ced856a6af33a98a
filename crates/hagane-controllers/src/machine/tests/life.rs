use std::collections::BTreeSet;

use hagane_ports::{ImagePurpose, Seed};
use hagane_testkit::fake::FakeImages;
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::Client;
use kube::api::Api;
use serde_json::{Value, json};

use super::{machine, machines, released, slides, uid};
use crate::testing::{DEFAULT_IMAGE, NAMESPACE, World, condition, text, until};

async fn secrets(client: &Client) -> Vec<Secret> {
    let api: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    api.list(&kube::api::ListParams::default()).await.expect("secrets").items
}

#[tokio::test]
async fn makes_the_slides_machine_with_defaults_that_status_shows() {
    let world = World::running().await;
    let mut wish = machine("kube-cp", json!({"vcpu": 2}));
    wish["spec"]["versions"] = json!({"kubelet": "1.15.0"});
    world.create(slides("machines"), wish).await;
    let made = world.until_ready_says(slides("machines"), "kube-cp", "Running").await;
    let facts = world.actuator.domains().remove(&uid(&made)).expect("a domain of this uid");
    assert_eq!(made["spec"]["providerID"], json!(facts.provider_id));
    let status = &made["status"];
    assert_eq!(status["phase"], "Running");
    assert_eq!(status["addresses"], json!([{"type": "InternalIP", "address": facts.addresses[0].to_string()}]));
    assert_eq!(
        status["providerStatus"]["resolved"],
        json!({"vcpu": 2, "memoryInGB": 2, "imageURI": DEFAULT_IMAGE, "poolName": "default", "networkName": "default"})
    );
    assert_eq!(status["providerStatus"]["instanceID"], json!(facts.uuid));
    assert_eq!(status["versions"]["kubelet"], "1.15.0");
    assert_eq!(made["metadata"]["finalizers"], json!(["machine.cluster.k8s.io"]));
    assert_eq!(status["observedGeneration"], made["metadata"]["generation"]);
}

#[tokio::test]
async fn puts_a_host_key_into_the_machine_and_knows_it_afterwards() {
    let world = World::running().await;
    world.create(machines(), machine("1234", json!({"sshAuthorizedKeys": ["ssh-ed25519 AAAA me"]}))).await;
    let made = world.until_ready_says(machines(), "1234", "Running").await;
    let request = world.actuator.request(&uid(&made)).expect("a request");
    let Seed::Files(files) = request.seed else { unreachable!("no seed image was named") };
    let user: Value = serde_saphyr::from_slice(&files.user_data).expect("YAML");
    let meta: Value = serde_saphyr::from_slice(&files.meta_data).expect("YAML");
    assert_eq!((&meta["local-hostname"], &meta["instance-id"]), (&json!("1234"), &json!(format!("i-{}", uid(&made)))));
    assert_eq!(user["ssh_authorized_keys"], json!(["ssh-ed25519 AAAA me"]));
    assert_eq!(user["ssh_keys"]["ed25519_public"], made["status"]["providerStatus"]["sshHostKey"]);
    let secrets = secrets(&world.client).await;
    assert_eq!(secrets.len(), 1);
    let data = secrets[0].data.as_ref().expect("data");
    assert_eq!(data["ssh_host_ed25519_key"].0, text(&user["ssh_keys"]["ed25519_private"]).into_bytes());
    assert!(!made.to_string().contains("private"), "no private key in the Machine");
}

#[tokio::test]
async fn takes_image_seed_and_sizes_from_the_released_form() {
    let world = World::running().await;
    let value = json!({"value": {
        "apiVersion": "libvirt.cluster.k8s.io/v1alpha1", "kind": "LibvirtMachineProviderSpec", "vcpu": 3, "memoryInGB": 1,
        "imageURI": "http://images.test/a.qcow2", "userDataURI": "http://images.test/worker.iso", "diskInGB": 9,
    }});
    world.create(machines(), machine("m1", value)).await;
    let made = world.until_ready_says(machines(), "m1", "Running").await;
    let request = world.actuator.request(&uid(&made)).expect("a request");
    assert_eq!((request.shape.vcpus, request.shape.memory.0), (3, 1024));
    assert_eq!(request.shape.disk.map(|disk| disk.0 >> 30), Some(9));
    assert_eq!(request.image, FakeImages::ready_image("http://images.test/a.qcow2", ImagePurpose::RootDisk));
    let seed = FakeImages::ready_image("http://images.test/worker.iso", ImagePurpose::Seed);
    assert_eq!(request.seed, Seed::Image(seed));
    assert_eq!(made["status"]["providerStatus"]["sshHostKey"], Value::Null);
}

#[tokio::test]
async fn waits_for_its_class_and_takes_its_fields() {
    let world = World::running().await;
    let provider = json!({"vcpu": 4, "valueFrom": {"machineClass": {"name": "small"}}});
    world.create(machines(), machine("m1", provider)).await;
    world.until_ready_says(machines(), "m1", "MachineClassMissing").await;
    let class = json!({"metadata": {"name": "small"}, "providerSpec": {"vcpu": 1, "memoryInGB": 7}});
    world.create(slides("machineclasses"), class.clone()).await;
    world.create(released("machineclasses"), class).await;
    let made = world.until_ready_says(machines(), "m1", "Running").await;
    let request = world.actuator.request(&uid(&made)).expect("a request");
    assert_eq!((request.shape.vcpus, request.shape.memory.0), (4, 7 * 1024));
}

#[tokio::test]
async fn equal_names_in_both_groups_are_two_machines() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({}))).await;
    world.create(slides("machines"), machine("m1", json!({}))).await;
    let first = world.until_ready_says(machines(), "m1", "Running").await;
    let second = world.until_ready_says(slides("machines"), "m1", "Running").await;
    let uids: BTreeSet<_> = world.actuator.domains().into_keys().collect();
    assert_eq!(uids, BTreeSet::from([uid(&first), uid(&second)]));
    assert_eq!(secrets(&world.client).await.len(), 2);
}

#[tokio::test]
async fn says_that_a_changed_spec_is_not_acted_on() {
    let world = World::running().await;
    world.create(machines(), machine("m1", json!({"vcpu": 1}))).await;
    let made = world.until_ready_says(machines(), "m1", "Running").await;
    world.patch(machines(), "m1", json!({"spec": {"providerSpec": {"vcpu": 8}}})).await;
    let reason = |object: &Value| condition(object, "UpToDate").map(|condition| text(&condition["reason"]));
    let changed =
        world.until(machines(), "m1", "SpecChanged", |object| reason(object).as_deref() == Some("SpecChanged")).await;
    assert!(text(&condition(&changed, "UpToDate").expect("there")["message"]).contains("vcpu"));
    assert_eq!(changed["status"]["providerStatus"]["resolved"]["vcpu"], 1);
    assert_eq!(world.actuator.domains()[&uid(&made)].vcpus, 1);
}

#[tokio::test]
async fn writes_nothing_for_an_object_that_does_not_change() {
    let world = World::running().await;
    let made = world.create(machines(), machine("m1", json!({}))).await;
    world.create(machines(), machine("m2", json!({"imageURI": "http://images.test/away"}))).await;
    world.until_ready_says(machines(), "m1", "Running").await;
    world.until_ready_says(machines(), "m2", "Running").await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let before = (world.fuse.effects(), world.actuator.calls().len());
    let uid = made.metadata.uid.expect("a uid");
    for _ in 0..5 {
        world.actuator.set_power(&uid, hagane_ports::PowerState::Running);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(world.actuator.calls().len() > before.1, "passes went by");
    assert_eq!(world.fuse.effects(), before.0);
}

#[tokio::test]
async fn counts_an_event_instead_of_repeating_it() {
    let world = World::running().await;
    let made = world.create(machines(), machine("m1", json!({}))).await;
    let uid = made.metadata.uid.expect("a uid");
    for _ in 0..2 {
        world.until_ready_says(machines(), "m1", "Running").await;
        world.actuator.set_power(&uid, hagane_ports::PowerState::Off);
        world.until_ready_says(machines(), "m1", "PoweredOff").await;
        world.actuator.set_power(&uid, hagane_ports::PowerState::Running);
    }
    world.until_ready_says(machines(), "m1", "Running").await;
    let api: Api<Event> = Api::namespaced(world.client.clone(), NAMESPACE);
    let counted = |reason: &'static str| {
        let api = api.clone();
        async move {
            let events = api.list(&kube::api::ListParams::default()).await.expect("events").items;
            let of_reason: Vec<_> = events.iter().filter(|event| event.reason.as_deref() == Some(reason)).collect();
            of_reason.iter().map(|event| event.count).collect::<Vec<_>>()
        }
    };
    for _ in 0..200 {
        if counted("Running").await == [Some(3)] {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(counted("Running").await, [Some(3)]);
    assert_eq!(counted("PoweredOff").await, [Some(2)]);
    assert_eq!(counted("Created").await, [Some(1)]);
}

#[tokio::test]
async fn is_owned_by_the_cluster_of_its_own_group() {
    let world = World::running().await;
    let mut wish = machine("m1", json!({}));
    wish["metadata"]["labels"] = json!({"cluster.k8s.io/cluster-name": "fujisan"});
    world.create(machines(), wish).await;
    world.until_ready_says(machines(), "m1", "Running").await;
    let other = world.create(slides("clusters"), json!({"metadata": {"name": "fujisan"}, "spec": {}})).await;
    world.until(slides("clusters"), "fujisan", "one machine", |object| object["status"]["machines"] == 1).await;
    let own = world.create(released("clusters"), json!({"metadata": {"name": "fujisan"}, "spec": {}})).await;
    let owned =
        until(&world.client, machines(), "m1", "an owner", |object| object["metadata"]["ownerReferences"].is_array())
            .await;
    let owners = owned["metadata"]["ownerReferences"].as_array().expect("owners");
    assert_eq!((owners.len(), text(&owners[0]["uid"])), (1, own.metadata.uid.expect("a uid")));
    assert_ne!(Some(text(&owners[0]["uid"])), other.metadata.uid);
    world.until(released("clusters"), "fujisan", "one machine", |object| object["status"]["machines"] == 1).await;
    world.until(slides("clusters"), "fujisan", "no machine", |object| object["status"]["machines"] == 0).await;
}
