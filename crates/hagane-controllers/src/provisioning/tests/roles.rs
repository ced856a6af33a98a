//! Which hosts a Provisioning gets, and how several share them.

use serde_json::{Value, json};

use super::site::{Site, assigned, hosts, mac, message, one_master, provisionings, stands};
use crate::testing::{condition, ready, text};

#[tokio::test]
async fn of_two_that_want_one_host_exactly_one_gets_it() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let (first, second) =
        tokio::join!(site.provision("a", one_master(2, "4Gi")), site.provision("b", one_master(2, "4Gi")));
    let settled = |object: &Value| ["Installing", "NoSuitableHosts"].contains(&ready(object).as_str());
    let (a, b) = (site.until_true("a", "an answer", settled).await, site.until_true("b", "an answer", settled).await);
    let mut reasons = [ready(&a), ready(&b)];
    reasons.sort();
    assert_eq!(reasons, ["Installing", "NoSuitableHosts"]);
    let (winner, loser, name) = if ready(&a) == "Installing" { ("a", "b", b) } else { ("b", "a", a) };
    assert!(message(&name).contains(&format!("Provisioning default/{winner}")), "{}", message(&name));
    let claims = (site.claimed(&first).await.len(), site.claimed(&second).await.len());
    assert!(claims == (1, 0) || claims == (0, 1), "{claims:?}");
    // The loser goes on by itself once the winner is gone.
    site.world.delete(provisionings(), winner).await;
    site.world.gone(provisionings(), winner).await;
    site.install(loser).await;
    site.every_run_was_one();
}

#[tokio::test]
async fn many_that_want_few_hosts_never_share_one() {
    let site = Site::running(&[(1, 4, 8), (2, 4, 8), (3, 4, 8), (4, 4, 8), (5, 4, 8)]).await;
    let spec = json!({"master": {}, "worker": {}, "replicas": 1});
    let names = ["a", "b", "c", "d"];
    let uids = futures::future::join_all(names.iter().map(|name| site.provision(name, spec.clone()))).await;
    let settled = |object: &Value| ["Installing", "NoSuitableHosts"].contains(&ready(object).as_str());
    for _ in 0..200 {
        let mut found = Vec::new();
        for name in names {
            found.push(ready(&site.until_true(name, "an answer", settled).await));
        }
        if found.iter().filter(|reason| *reason == "Installing").count() == 2 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    site.a_while().await;
    let mut claims = Vec::new();
    for uid in &uids {
        claims.push(site.claimed(uid).await.len());
    }
    claims.sort_unstable();
    assert_eq!(claims, [0, 0, 2, 2], "those that wait keep no host from others");
    assert_eq!(site.installer.running().len(), 2);
}

#[tokio::test]
async fn one_that_waits_for_more_hosts_gives_back_those_it_has() {
    let mut site = Site::keyless().await;
    site.host(1, 4, 8).await;
    site.world.start();
    let uid = site.provision("a", one_master(2, "4Gi")).await;
    site.until("a", "SshKeyMissing").await;
    assert_eq!(site.claimed(&uid).await, ["host-1"]);
    site.world.patch(provisionings(), "a", json!({"spec": {"worker": {}, "replicas": 1}})).await;
    let waiting = site.until("a", "NoSuitableHosts").await;
    assert_eq!(assigned(&waiting), [("a-master-1".to_owned(), "host-1".to_owned())], "the assignment stays recorded");
    let other = site.provision("b", one_master(2, "4Gi")).await;
    site.until("b", "SshKeyMissing").await;
    assert_eq!((site.claimed(&uid).await, site.claimed(&other).await), (Vec::new(), vec!["host-1".to_owned()]));
}

#[tokio::test]
async fn a_host_taken_by_mac_in_upper_case_is_the_same_host() {
    let site = Site::running(&[(1, 4, 8), (2, 4, 8), (3, 4, 8)]).await;
    let node = |mac: String| json!({"mac-address": mac});
    site.provision("p1", json!({"masters": [{"m": node(mac(1))}], "workers": [{"w": node(mac(2))}]})).await;
    let first = site.install("p1").await;
    let spec = json!({"masters": [{"m": node(mac(1).to_uppercase())}], "workers": [{"w": node(mac(3))}]});
    let second = site.provision("p2", spec).await;
    let waiting = site.until("p2", "NoSuitableHosts").await;
    let told = message(&waiting);
    assert!(told.contains(&mac(1)) && told.contains("Provisioning default/p1"), "{told}");
    site.a_while().await;
    assert_eq!((site.claimed(&second).await.len(), site.installer.begun().len()), (0, 1));
    assert_eq!(site.get("p1").await["status"], first["status"]);
    site.world.delete(provisionings(), "p1").await;
    site.world.gone(provisionings(), "p1").await;
    site.install("p2").await;
}

#[tokio::test]
async fn waits_for_hosts_and_says_what_is_short() {
    let site = Site::running(&[(1, 4, 4)]).await;
    site.provision("edge", one_master(4, "17Gi")).await;
    let waiting = site.until("edge", "NoSuitableHosts").await;
    assert_eq!(waiting["status"]["phase"], "Waiting");
    assert_eq!(stands(&waiting, "HostsAssigned"), ("False".to_owned(), "NoSuitableHosts".to_owned()));
    let unmet = &waiting["status"]["plan"]["unsatisfied"][0];
    assert!(text(&unmet["demand"]).contains("edge-master-1") && text(&unmet["short"]).contains("host-1"), "{unmet}");
    assert!(text(&waiting["status"]["plan"]["rejected"][0]["reasons"][0]).contains("4"), "{waiting:#}");
    site.host(2, 4, 32).await;
    let ready = site.install("edge").await;
    assert_eq!(assigned(&ready), [("edge-master-1".to_owned(), "host-2".to_owned())]);
}

#[tokio::test]
async fn amounts_are_compared_as_amounts() {
    let site = Site::running(&[(1, 4, 4), (2, 16, 16)]).await;
    for (number, (memory, host)) in [
        (json!("4194304Ki"), "host-1"),
        (json!(4_294_967_296_i64), "host-1"),
        (json!("4G"), "host-1"),
        (json!("4.0Gi"), "host-1"),
        (json!("4097Mi"), "host-2"),
        (json!("5G"), "host-2"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("p{number}");
        site.provision(&name, json!({"master": {"cpu": "4", "memory": memory}})).await;
        let seen = site.until(&name, "Installing").await;
        assert_eq!(assigned(&seen)[0].1, host, "{memory}");
        site.world.delete(provisionings(), &name).await;
        site.world.gone(provisionings(), &name).await;
    }
}

#[tokio::test]
async fn a_host_lost_before_the_run_is_replaced() {
    let mut site = Site::keyless().await;
    for number in [1, 2] {
        site.host(number, 4, 8).await;
    }
    site.world.start();
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    let waiting = site.until("edge", "SshKeyMissing").await;
    assert_eq!(assigned(&waiting)[0].1, "host-1");
    site.world.delete(hosts(), "host-1").await;
    let moved =
        site.until_true("edge", "another host", |object| assigned(object).iter().any(|(_, host)| host == "host-2"));
    moved.await;
    site.ssh_key("default", "ssh-key-secret", "ssh-privatekey", super::site::PRIVATE_KEY).await;
    site.install("edge").await;
    assert_eq!(site.claimed(&uid).await, ["host-2"]);
}

#[tokio::test]
async fn a_recorded_run_does_not_start_on_a_host_that_was_taken_meanwhile() {
    let mut site = Site::quiet().await;
    for number in [1, 2] {
        site.host(number, 4, 8).await;
    }
    site.provision("edge", one_master(2, "4Gi")).await;
    // The life before ended right after the intent was recorded.
    loop {
        site.world.fuse.set(1);
        site.world.start();
        site.world.burnt().await;
        site.world.crash().await;
        let seen = site.get("edge").await;
        if seen["status"]["run"]["state"] == "Starting" {
            break;
        }
    }
    let consumer =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "stranger", "uid": "x"});
    site.world.patch(hosts(), "host-1", json!({"spec": {"consumerRef": consumer}})).await;
    site.world.fuse.unset();
    site.world.start();
    let ready = site.install("edge").await;
    assert_eq!(assigned(&ready)[0].1, "host-2");
    let request = site.installer.request(&text(&ready["status"]["run"]["id"])).expect("a request");
    assert_eq!(request.inventory.nodes[0].address.to_string(), "192.0.2.2");
    site.every_run_was_one();
}

#[tokio::test]
async fn a_new_object_for_a_machine_in_use_does_not_make_it_free() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    site.until("edge", "Installing").await;
    site.world.delete(hosts(), "host-1").await;
    site.world.gone(hosts(), "host-1").await;
    site.host(1, 4, 8).await;
    let other = site.provision("other", one_master(2, "4Gi")).await;
    let waiting = site.until("other", "NoSuitableHosts").await;
    let said = waiting["status"].to_string();
    assert!(said.contains("claimed by Provisioning default/edge, through a host object that is gone"), "{said}");
    assert_eq!(site.installer.begun().len(), 1);
    site.world.delete(provisionings(), "edge").await;
    site.until("other", "Installing").await;
    assert_eq!(site.claimed(&other).await, ["host-1"]);
}

#[tokio::test]
async fn a_host_is_found_by_any_of_its_nics_and_an_empty_one_matches_nothing() {
    let mut site = Site::quiet().await;
    let details = json!({"ramMebibytes": 8192, "cpu": {"count": 4}, "nics": [
        {"mac": "", "ip": ""}, {"mac": mac(1), "ip": "192.0.2.1"}, {"mac": "52:54:00:6B:01:63", "ip": "192.0.2.21"},
    ]});
    let mut object = super::site::host_object(1, 4, 8);
    object["metadata"]["annotations"] = json!({"inspect.metal3.io/hardwaredetails": details.to_string()});
    site.world.create(hosts(), object).await;
    site.answering(21, 4, 8);
    site.world.start();
    site.provision("edge", json!({"masters": [{"m": {"mac-address": "52:54:00:6b:01:63"}}]})).await;
    let ready = site.install("edge").await;
    assert_eq!(ready["status"]["plan"]["assignments"][0]["address"], "192.0.2.21");
    assert!(condition(&ready, "Ready").is_some());
}
