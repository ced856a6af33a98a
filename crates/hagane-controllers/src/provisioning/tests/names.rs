//! Names of clusters, over namespaces, and the Secret that carries them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams, DynamicObject, ObjectMeta, PostParams};
use serde_json::{Value, json};

use super::site::{PRIVATE_KEY, Site, host_object, hosts, message, one_master, provisioning, provisionings, state};
use crate::testing::{NAMESPACE, ready, text};

async fn create_in(site: &Site, namespace: &str, resource: crate::runtime::Resource, mut object: Value) {
    object["apiVersion"] = resource.api_version().into();
    object["kind"] = resource.kind.into();
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let api = resource.api(&site.world.client, namespace);
    api.create(&PostParams::default(), &object).await.expect("created");
}

async fn reason_in(site: &Site, namespace: &str, name: &str, reason: &str) -> Value {
    let api = provisionings().api(&site.world.client, namespace);
    for _ in 0..1000 {
        let object = serde_json::to_value(api.get(name).await.expect("there")).expect("JSON");
        if ready(&object) == reason {
            return object;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    unreachable!("{namespace}/{name} never came to {reason}")
}

#[tokio::test]
async fn a_second_owner_of_a_cluster_name_writes_nothing() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let mut first = provisioning("p1", one_master(2, "4Gi"));
    first["metadata"]["labels"] = json!({"cluster": "alpha"});
    site.world.create(provisionings(), first).await;
    site.install("p1").await;
    site.namespace("lab2").await;
    create_in(&site, "lab2", hosts(), host_object(2, 4, 8)).await;
    site.answering(2, 4, 8);
    site.ssh_key("lab2", "ssh-key-secret", "ssh-privatekey", PRIVATE_KEY).await;
    let mut second = provisioning("p3", one_master(2, "4Gi"));
    second["metadata"]["labels"] = json!({"cluster": "alpha"});
    create_in(&site, "lab2", provisionings(), second).await;
    let taken = reason_in(&site, "lab2", "p3", "ClusterNameTaken").await;
    assert_eq!(state(&taken), ("Failed".to_owned(), "ClusterNameTaken".to_owned()));
    assert!(message(&taken).contains("Provisioning default/p1"), "{}", message(&taken));
    site.a_while().await;
    assert_eq!((taken["status"]["plan"].clone(), site.installer.begun().len()), (Value::Null, 1));
    let secrets: Api<Secret> = Api::namespaced(site.world.client.clone(), "lab2");
    assert_eq!(secrets.get_opt("alpha-kubeconfig").await.expect("readable"), None);
    site.world.delete(provisionings(), "p1").await;
    site.world.gone(provisionings(), "p1").await;
    let installing = reason_in(&site, "lab2", "p3", "Installing").await;
    site.installer.finish(&text(&installing["status"]["run"]["id"]), hagane_ports::RunExit::Succeeded);
    reason_in(&site, "lab2", "p3", "Ready").await;
    assert!(secrets.get_opt("alpha-kubeconfig").await.expect("readable").is_some());
}

#[tokio::test]
async fn the_older_of_two_has_the_name_even_if_both_are_new() {
    let mut site = Site::quiet().await;
    site.host(1, 4, 8).await;
    site.host(2, 4, 8).await;
    for name in ["a", "b"] {
        let mut wish = provisioning(name, one_master(2, "4Gi"));
        wish["metadata"]["labels"] = json!({"cluster": "alpha"});
        site.world.create(provisionings(), wish).await;
    }
    site.world.start();
    site.install("a").await;
    site.until("b", "ClusterNameTaken").await;
    site.every_run_was_one();
}

#[tokio::test]
async fn an_installed_cluster_keeps_its_name() {
    let site = Site::running(&[(1, 4, 8), (2, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let before = site.install("edge").await;
    site.world.patch(provisionings(), "edge", json!({"metadata": {"labels": {"cluster": "other"}}})).await;
    site.a_while().await;
    let after = site.get("edge").await;
    assert_eq!((&after["status"]["cluster"], &after["status"]["plan"]), (&json!("edge"), &before["status"]["plan"]));
    assert_eq!(site.secret("other-kubeconfig").await, None);
    let mut second = provisioning("p2", one_master(2, "4Gi"));
    second["metadata"]["labels"] = json!({"cluster": "edge"});
    site.world.create(provisionings(), second).await;
    site.until("p2", "ClusterNameTaken").await;
    // The name that the label asks for is free.
    let mut third = provisioning("p3", one_master(2, "4Gi"));
    third["metadata"]["labels"] = json!({"cluster": "other"});
    site.world.create(provisionings(), third).await;
    site.install("p3").await;
}

#[tokio::test]
async fn a_strangers_secret_is_left_alone() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let stranger = Secret {
        metadata: ObjectMeta { name: Some("edge-kubeconfig".to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("value".to_owned(), ByteString(b"mine".to_vec()))])),
        ..Secret::default()
    };
    let api: Api<Secret> = Api::namespaced(site.world.client.clone(), NAMESPACE);
    let stored = api.create(&PostParams::default(), &stranger).await.expect("created");
    site.provision("edge", one_master(2, "4Gi")).await;
    site.end_run("edge", hagane_ports::RunExit::Succeeded).await;
    let waiting = site.until("edge", "KubeconfigSecretTaken").await;
    assert_eq!(waiting["status"]["kubeconfigSecret"], Value::Null);
    assert_eq!(site.secret("edge-kubeconfig").await, Some(stored.clone()));
    site.world.delete(provisionings(), "edge").await;
    site.world.gone(provisionings(), "edge").await;
    assert_eq!(site.secret("edge-kubeconfig").await, Some(stored), "deletion leaves it alone too");
    // Where it goes, the next one keeps its kubeconfig.
    site.provision("edge", one_master(2, "4Gi")).await;
    site.end_run("edge", hagane_ports::RunExit::Succeeded).await;
    site.until("edge", "KubeconfigSecretTaken").await;
    api.delete("edge-kubeconfig", &DeleteParams::default()).await.expect("deleted");
    site.until("edge", "Ready").await;
}

#[tokio::test]
async fn a_label_that_is_no_cluster_name_is_named() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let mut wish = provisioning("edge", one_master(2, "4Gi"));
    wish["metadata"]["labels"] = json!({"cluster": "Alpha_1"});
    site.world.create(provisionings(), wish).await;
    let failed = site.until("edge", "InvalidSpec").await;
    assert!(message(&failed).contains("metadata.labels[cluster]: Invalid value: \"Alpha_1\""), "{}", message(&failed));
    site.world.patch(provisionings(), "edge", json!({"metadata": {"labels": {"cluster": "alpha"}}})).await;
    site.install("edge").await;
}
