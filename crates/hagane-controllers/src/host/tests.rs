use hagane_api::keys::HARDWARE_DETAILS_ANNOTATION;
use hagane_api::metal3::GROUP;
use serde_json::{Value, json};

use crate::runtime::Resource;
use crate::testing::{World, condition, ready, text};

fn hosts() -> Resource {
    Resource::of(GROUP, "baremetalhosts").expect("a kind of ours")
}

fn host(name: &str, mac: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"online": true, "externallyProvisioned": true, "bootMACAddress": mac}})
}

fn with_facts(mut object: Value, facts: &Value) -> Value {
    object["metadata"]["annotations"] = json!({HARDWARE_DETAILS_ANNOTATION: facts.to_string()});
    object
}

async fn world() -> World {
    let mut world = World::quiet().await;
    world.selection = "host".parse().expect("a name of ours");
    world.start();
    world
}

async fn refused(world: &World, object: Value) -> String {
    match world.try_create(hosts(), object).await {
        Err(kube::Error::Api(status)) if status.code == 422 => status.message,
        other => unreachable!("it should be refused with 422: {other:?}"),
    }
}

#[tokio::test]
async fn copies_facts_from_the_annotation_and_follows_them() {
    let world = world().await;
    let facts = json!({"cpu": {"arch": "x86_64", "count": 4}, "ramMebibytes": 8192, "nics": [{"mac": "52:54:00:AA:BB:01", "ip": "192.0.2.21"}]});
    world.create(hosts(), with_facts(host("h-a", "52:54:00:AA:BB:01"), &facts)).await;
    let seen = world.until_ready_says(hosts(), "h-a", "Available").await;
    assert_eq!(seen["status"]["hardware"], facts);
    assert_eq!(seen["status"]["provisioning"]["state"], "externally provisioned");
    assert_eq!((&seen["status"]["operationalStatus"], &seen["status"]["errorMessage"]), (&json!("OK"), &json!("")));
    let more = json!({"ramMebibytes": 16384});
    let change = json!({"metadata": {"annotations": {HARDWARE_DETAILS_ANNOTATION: more.to_string()}}});
    world.patch(hosts(), "h-a", change).await;
    let told =
        world.until(hosts(), "h-a", "new facts", |object| object["status"]["hardware"]["ramMebibytes"] == 16384).await;
    assert_eq!(told["status"]["hardware"], more);
    // Facts that were told stay when the annotation goes.
    world.patch(hosts(), "h-a", json!({"metadata": {"annotations": {HARDWARE_DETAILS_ANNOTATION: null}}})).await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    assert_eq!(world.until_ready_says(hosts(), "h-a", "Available").await["status"]["hardware"], more);
}

#[tokio::test]
async fn says_what_a_host_without_facts_lacks() {
    let world = world().await;
    world.create(hosts(), host("h-a", "")).await;
    let seen = world.until_ready_says(hosts(), "h-a", "FactsMissing").await;
    assert!(text(&condition(&seen, "HardwareKnown").expect("there")["message"]).contains(HARDWARE_DETAILS_ANNOTATION));
    let mut unmanaged = with_facts(host("h-b", "52:54:00:aa:bb:02"), &json!({"ramMebibytes": 1}));
    unmanaged["spec"]["externallyProvisioned"] = json!(false);
    world.create(hosts(), unmanaged).await;
    let seen = world.until_ready_says(hosts(), "h-b", "NotProvisioned").await;
    assert_eq!(seen["status"]["provisioning"]["state"], "unmanaged");
}

#[tokio::test]
async fn refuses_addresses_that_no_nic_has() {
    let world = world().await;
    for (mac, told) in [
        ("52:54:00:aa:bb", "six octets"),
        ("53:54:00:aa:bb:04", "multicast"),
        ("52:54:00:ff:fe:aa:bb:05", "six octets"),
        ("ff:ff:ff:ff:ff:ff", "multicast"),
        ("00:00:00:00:00:00", "all zeros"),
    ] {
        let message = refused(&world, host("h", mac)).await;
        let start = format!("spec.bootMACAddress: Invalid value: \"{mac}\"");
        assert!(message.contains(&start) && message.contains(told), "{message}");
    }
    let broken = with_facts(host("h", ""), &json!({"cpu": 4}));
    assert!(refused(&world, broken).await.contains("hardwaredetails"));
    let mut typed = host("h", "");
    typed["spec"]["online"] = json!("yes");
    assert!(refused(&world, typed).await.contains("spec.online"));
    for (name, mac) in [("h-c", "52-54-00-aa-bb-02"), ("h-d", "5254.00aa.bb03"), ("h-j", "")] {
        world.create(hosts(), host(name, mac)).await;
    }
}

#[tokio::test]
async fn a_boot_address_that_is_set_stays() {
    let world = world().await;
    world.create(hosts(), host("h-a", "52:54:00:aa:bb:01")).await;
    let api = hosts().api(&world.client, crate::testing::NAMESPACE);
    let change = json!({"spec": {"bootMACAddress": "52:54:00:aa:bb:09"}});
    let params = kube::api::PatchParams::default();
    let result = api.patch("h-a", &params, &kube::api::Patch::Merge(&change)).await;
    let Err(kube::Error::Api(status)) = result else { unreachable!("{result:?}") };
    assert_eq!(status.code, 422);
    assert!(status.message.contains("it is 52:54:00:aa:bb:01"), "{}", status.message);
    world.patch(hosts(), "h-a", json!({"spec": {"bootMACAddress": "52-54-00-AA-BB-01"}})).await;
}

#[tokio::test]
async fn the_second_host_with_one_mac_or_one_controller_is_named_until_the_first_is_gone() {
    let mut world = World::quiet().await;
    world.selection = "host".parse().expect("a name of ours");
    let facts = json!({"ramMebibytes": 1});
    for (name, mac) in [("h-a", "52:54:00:AA:BB:01"), ("h-b", "52-54-00-aa-bb-01")] {
        world.create(hosts(), with_facts(host(name, mac), &facts)).await;
    }
    for (name, address) in [
        ("h-c", "redfish+http://BMC.test/redfish/v1/Systems/1"),
        ("h-d", "redfish+http://bmc.test/redfish/v1/Systems/1/"),
    ] {
        let mut object = with_facts(host(name, ""), &facts);
        object["spec"]["bmc"] = json!({"address": address, "credentialsName": "s"});
        world.create(hosts(), object).await;
    }
    world.start();
    for (first, second, reason) in [("h-a", "h-b", "DuplicateMac"), ("h-c", "h-d", "DuplicateBmc")] {
        world.until_ready_says(hosts(), first, "Available").await;
        let flagged = world.until_ready_says(hosts(), second, reason).await;
        let status = &flagged["status"];
        assert!(text(&status["errorMessage"]).contains(first), "{status}");
        assert_eq!(
            (&status["operationalStatus"], &status["errorType"]),
            (&json!("error"), &json!("registration error"))
        );
        world.delete(hosts(), first).await;
        let free = world.until_ready_says(hosts(), second, "Available").await;
        assert_eq!((&free["status"]["errorMessage"], &free["status"]["errorType"]), (&json!(""), &Value::Null));
    }
}

#[tokio::test]
async fn leaves_a_host_of_another_operator_alone() {
    let world = world().await;
    let mut object = with_facts(host("h-a", "52:54:00:aa:bb:01"), &json!({"ramMebibytes": 1}));
    object["metadata"]["finalizers"] = json!(["baremetalhost.metal3.io"]);
    let foreign = world.create(hosts(), object).await;
    world.create(hosts(), with_facts(host("h-b", "52:54:00:aa:bb:02"), &json!({"ramMebibytes": 1}))).await;
    world.until_ready_says(hosts(), "h-b", "Available").await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let after = world.get(hosts(), "h-a").await.expect("there");
    assert_eq!(after.metadata.resource_version, foreign.metadata.resource_version);
}

#[tokio::test]
async fn writes_nothing_for_a_host_that_does_not_change() {
    let world = world().await;
    world.create(hosts(), with_facts(host("h-a", "52:54:00:aa:bb:01"), &json!({"ramMebibytes": 1}))).await;
    world.until_ready_says(hosts(), "h-a", "Available").await;
    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    let before = world.fuse.effects();
    for value in ["1", "2"] {
        world.patch(hosts(), "h-a", json!({"metadata": {"labels": {"touched": value}}})).await;
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(world.fuse.effects(), before);
    let seen = serde_json::to_value(world.get(hosts(), "h-a").await.expect("there")).expect("JSON");
    assert_eq!(ready(&seen), "Available");
}

#[tokio::test]
async fn marks_and_users_are_told() {
    let world = world().await;
    let facts = json!({"ramMebibytes": 1});
    for (name, change, reason) in [
        ("h-a", json!({"metadata": {"annotations": {"capm3.metal3.io/unhealthy": ""}}}), "Unhealthy"),
        ("h-b", json!({"metadata": {"annotations": {"baremetalhost.metal3.io/paused": ""}}}), "Paused"),
        ("h-c", json!({"spec": {"consumerRef": {"kind": "Metal3Machine", "namespace": "x", "name": "m"}}}), "InUse"),
    ] {
        world.create(hosts(), with_facts(host(name, ""), &facts)).await;
        world.until_ready_says(hosts(), name, "Available").await;
        world.patch(hosts(), name, change).await;
        let seen = world.until_ready_says(hosts(), name, reason).await;
        assert_eq!(condition(&seen, "AvailableForProvisioning").expect("there")["status"], "False");
    }
}
