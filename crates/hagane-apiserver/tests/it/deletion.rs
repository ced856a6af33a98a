//! Finalizers, owners, namespaces.

use serde_json::{Value, json};

use crate::support::{CONFIG_MAPS, HOSTS, Lab, config_map};

fn owned(name: &str, owner: &Value, block: bool) -> Value {
    let mut map = config_map(name);
    map["metadata"]["ownerReferences"] = json!([{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block,
    }]);
    map
}

#[tokio::test]
async fn a_plain_delete_answers_success_with_the_uid() {
    let lab = Lab::new().await;
    let created = lab.create_host("h1").await;
    let deleted = lab.delete(&format!("{HOSTS}/h1")).await;
    assert_eq!((deleted.code, deleted.text("/status")), (200, "Success"));
    assert_eq!(deleted.text("/details/uid"), created.text("/metadata/uid"));
    assert_eq!(lab.delete(&format!("{HOSTS}/h1")).await.code, 404);
}

#[tokio::test]
async fn finalizers_hold_an_object_until_the_last_is_gone() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    let path = format!("{HOSTS}/h1");
    lab.merge(&path, &json!({"metadata": {"finalizers": ["a.example/f"]}})).await;
    let pending = lab.delete(&path).await;
    assert_eq!(pending.code, 200);
    assert!(!pending.text("/metadata/deletionTimestamp").is_empty());
    assert_eq!(pending.body["metadata"]["generation"], 2);
    assert_eq!(lab.delete(&path).await.version(), pending.version());
    let more = lab.merge(&path, &json!({"metadata": {"finalizers": ["a.example/f", "b.example/g"]}})).await;
    assert_eq!((more.code, more.text("/details/causes/0/field")), (422, "metadata.finalizers"));
    assert_eq!(lab.merge(&path, &json!({"metadata": {"finalizers": null}})).await.code, 200);
    assert_eq!(lab.get(&path).await.code, 404);
}

#[tokio::test]
async fn preconditions_and_options_are_checked() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    let path = format!("{HOSTS}/h1");
    for (options, code) in [
        (json!({"preconditions": {"uid": "other"}}), 409),
        (json!({"preconditions": {"resourceVersion": "1"}}), 409),
        (json!({"propagationPolicy": "Sideways"}), 422),
        (json!({"propagationPolicy": "Orphan", "orphanDependents": true}), 422),
        (json!({"kind": "Pod"}), 400),
        (json!([]), 400),
    ] {
        let answer = lab.send("DELETE", &path, "application/json", options.to_string()).await;
        assert_eq!(answer.code, code, "{options}");
    }
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"});
    assert_eq!(lab.send("DELETE", &path, "application/json", options.to_string()).await.code, 200);
}

#[tokio::test]
async fn dependents_follow_their_owner() {
    let lab = Lab::new().await;
    let owner = lab.create_host("h1").await.body;
    lab.post(CONFIG_MAPS, &owned("child", &owner, false)).await;
    lab.post(CONFIG_MAPS, &config_map("other")).await;
    lab.delete(&format!("{HOSTS}/h1")).await;
    lab.until(&format!("{CONFIG_MAPS}/child"), 404).await;
    assert_eq!(lab.get(&format!("{CONFIG_MAPS}/other")).await.code, 200);
}

#[tokio::test]
async fn an_orphan_of_an_owner_that_never_was_is_collected() {
    let lab = Lab::new().await;
    let mut owner = lab.create_host("h1").await.body;
    owner["metadata"]["uid"] = "00000000-0000-0000-0000-000000000000".into();
    lab.post(CONFIG_MAPS, &owned("child", &owner, false)).await;
    lab.until(&format!("{CONFIG_MAPS}/child"), 404).await;
    let unknown = json!({"apiVersion": "nowhere.example/v1", "kind": "Thing", "metadata": {"name": "t", "uid": "1"}});
    lab.post(CONFIG_MAPS, &owned("kept", &unknown, false)).await;
    lab.post(CONFIG_MAPS, &owned("gone", &owner, false)).await;
    lab.until(&format!("{CONFIG_MAPS}/gone"), 404).await;
    assert_eq!(lab.get(&format!("{CONFIG_MAPS}/kept")).await.code, 200);
}

#[tokio::test]
async fn a_foreground_owner_waits_for_blocking_dependents() {
    let lab = Lab::new().await;
    let owner = lab.create_host("h1").await.body;
    let mut child = owned("child", &owner, true);
    child["metadata"]["finalizers"] = json!(["a.example/f"]);
    lab.post(CONFIG_MAPS, &child).await;
    let path = format!("{HOSTS}/h1");
    lab.delete(&format!("{path}?propagationPolicy=Foreground")).await;
    assert_eq!(lab.get(&path).await.text("/metadata/finalizers/0"), "foregroundDeletion");
    let child = format!("{CONFIG_MAPS}/child");
    let mut tries = 0;
    while lab.get(&child).await.text("/metadata/deletionTimestamp").is_empty() {
        tries += 1;
        assert!(tries < 500, "the dependent is not being deleted");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(lab.get(&path).await.code, 200);
    lab.merge(&child, &json!({"metadata": {"finalizers": null}})).await;
    lab.until(&path, 404).await;
}

#[tokio::test]
async fn orphaned_dependents_stay_without_the_reference() {
    let lab = Lab::new().await;
    let owner = lab.create_host("h1").await.body;
    lab.post(CONFIG_MAPS, &owned("child", &owner, false)).await;
    let path = format!("{HOSTS}/h1");
    lab.delete(&format!("{path}?propagationPolicy=Orphan")).await;
    lab.until(&path, 404).await;
    let child = lab.get(&format!("{CONFIG_MAPS}/child")).await;
    assert_eq!((child.code, child.body["metadata"].get("ownerReferences")), (200, None));
}

#[tokio::test]
async fn a_collection_is_deleted_by_selector() {
    let lab = Lab::new().await;
    for name in ["a", "b"] {
        lab.post(CONFIG_MAPS, &config_map(name)).await;
    }
    lab.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": {"x": "1"}}})).await;
    let deleted = lab.delete(&format!("{CONFIG_MAPS}?labelSelector=x%3D1")).await;
    assert_eq!((deleted.code, deleted.names()), (200, vec!["a"]));
    assert_eq!(lab.get(CONFIG_MAPS).await.names(), ["b"]);
}

#[tokio::test]
async fn a_namespace_goes_with_its_contents() {
    let lab = Lab::new().await;
    lab.create_host("h1").await;
    lab.post(CONFIG_MAPS, &config_map("a")).await;
    lab.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"finalizers": ["a.example/f"]}})).await;
    let deleted = lab.delete("/api/v1/namespaces/lab").await;
    assert_eq!((deleted.code, deleted.text("/status/phase")), (200, "Terminating"));
    lab.until(&format!("{HOSTS}/h1"), 404).await;
    let refused = lab.post(CONFIG_MAPS, &config_map("late")).await;
    assert_eq!((refused.code, refused.text("/details/causes/0/reason")), (403, "NamespaceTerminating"));
    assert_eq!(lab.get("/api/v1/namespaces/lab").await.code, 200);
    lab.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"finalizers": null}})).await;
    lab.until("/api/v1/namespaces/lab", 404).await;
    let kept = lab.delete("/api/v1/namespaces/default").await;
    assert_eq!((kept.code, kept.text("/reason")), (403, "Forbidden"));
}

#[tokio::test]
async fn only_finalize_changes_the_finalizers_of_a_namespace() {
    let lab = Lab::new().await;
    let path = "/api/v1/namespaces/lab";
    let more = json!({"spec": {"finalizers": ["kubernetes", "a.example/f"]}});
    assert_eq!(lab.merge(path, &more).await.body["spec"]["finalizers"], json!(["kubernetes"]));
    let mut whole = lab.get(path).await.body;
    whole["spec"] = more["spec"].clone();
    assert_eq!(lab.put(&format!("{path}/finalize"), &whole).await.body["spec"], more["spec"]);
    lab.delete(path).await;
    lab.until(&format!("{CONFIG_MAPS}/none"), 404).await;
    let mut terminating = lab.get(path).await.body;
    terminating["spec"]["finalizers"] = json!([]);
    terminating["metadata"]["resourceVersion"] = json!(null);
    assert_eq!(lab.put(&format!("{path}/finalize"), &terminating).await.code, 200);
    lab.until(path, 404).await;
}

#[tokio::test]
async fn what_a_stop_left_undone_is_done_at_the_next_start() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || hagane_apiserver::ApiServer::open(directory.path(), hagane_apiserver::Options::default());
    let lab = Lab { server: open().await.expect("opened") };
    lab.create_namespace("lab").await;
    let mut map = config_map("a");
    map["metadata"]["finalizers"] = json!(["a.example/f"]);
    lab.post(CONFIG_MAPS, &map).await;
    lab.delete("/api/v1/namespaces/lab").await;
    lab.server.stop().await;

    drop(lab);
    let lab = Lab { server: open().await.expect("opened again") };
    lab.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"finalizers": null}})).await;
    lab.until("/api/v1/namespaces/lab", 404).await;
}
