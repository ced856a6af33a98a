//! A cluster that stands and a spec that asks for more.

use hagane_ports::{InstallVerb, RunExit};
use serde_json::{Value, json};

use super::site::{Site, assigned, provisionings, stands, state};
use crate::testing::text;

fn sizes(workers: i64) -> Value {
    json!({"master": {"cpu": 2, "memory": "4Gi"}, "worker": {"cpu": 4, "memory": "8Gi"}, "replicas": workers})
}

fn names(cluster: &Value) -> Vec<String> {
    let nodes = cluster["status"]["installed"]["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().map(|node| text(&node["node"])).collect()
}

fn run_id(object: &Value) -> String {
    text(&object["status"]["run"]["id"])
}

#[tokio::test]
async fn a_further_worker_joins_by_a_run_of_its_own() {
    let site = Site::running(&[(1, 2, 4), (2, 4, 8), (3, 4, 8)]).await;
    site.provision("edge", sizes(1)).await;
    let first = site.install("edge").await;
    let before = assigned(&first);
    assert_eq!(names(&first), ["edge-master-1", "edge-worker-1"]);
    site.world.patch(provisionings(), "edge", json!({"spec": {"replicas": 2}})).await;
    let other = run_id(&first);
    let updating = |object: &Value| {
        run_id(object) != other
            && object["status"]["run"]["state"] == "Running"
            && object["status"]["phase"] == "Updating"
    };
    let seen = site.until_true("edge", "the run that joins it", updating).await;
    assert_eq!(stands(&seen, "Ready").0, "True", "{seen:#}");
    let id = run_id(&seen);
    let request = site.installer.request(&id).expect("a request");
    assert_eq!(request.verb, InstallVerb::AddWorkers(vec!["edge-worker-2".to_owned()]));
    assert_eq!(request.inventory.nodes.len(), 3, "the nodes that stand are part of the inventory");
    assert_eq!(seen["status"]["run"]["verb"], "AddWorkers");
    site.installer.finish(&id, RunExit::Succeeded);
    let done = site.until_true("edge", "up to date", |object| stands(object, "UpToDate").0 == "True").await;
    assert_eq!(state(&done), ("Ready".to_owned(), "Ready".to_owned()));
    assert_eq!(names(&done), ["edge-master-1", "edge-worker-1", "edge-worker-2"]);
    assert!(before.iter().all(|pair| assigned(&done).contains(pair)), "nobody moves");
    site.every_run_was_one();
}

#[tokio::test]
async fn a_join_that_fails_leaves_the_cluster_ready() {
    let site = Site::running(&[(1, 2, 4), (2, 4, 8), (3, 4, 8)]).await;
    site.provision("edge", sizes(1)).await;
    let other = run_id(&site.install("edge").await);
    site.world.patch(provisionings(), "edge", json!({"spec": {"replicas": 2}})).await;
    let seen = site.until_true("edge", "the run that joins it", |object| run_id(object) != other).await;
    let id = run_id(&seen);
    site.until_true("edge", "the run is seen", |object| object["status"]["run"]["state"] == "Running").await;
    site.installer.finish(&id, RunExit::Failed { status: 2 });
    let failed = site.until_true("edge", "failed", |object| object["status"]["phase"] == "Failed").await;
    assert_eq!(stands(&failed, "Ready").0, "True");
    assert_eq!(stands(&failed, "UpToDate"), ("False".to_owned(), "InstallFailed".to_owned()));
    assert_eq!(names(&failed), ["edge-master-1", "edge-worker-1"]);
    site.every_run_was_one();
}

#[tokio::test]
async fn a_worker_that_is_not_asked_for_leaves_by_a_run_of_its_own_and_its_host_is_free() {
    let site = Site::running(&[(1, 2, 4), (2, 4, 8), (3, 4, 8)]).await;
    site.provision("edge", sizes(2)).await;
    let first = run_id(&site.install("edge").await);
    site.world.patch(provisionings(), "edge", json!({"spec": {"replicas": 1}})).await;
    let seen = site.until_true("edge", "the run that removes it", |object| run_id(object) != first).await;
    let id = run_id(&seen);
    site.until_true("edge", "the run is seen", |object| object["status"]["run"]["state"] == "Running").await;
    let request = site.installer.request(&id).expect("a request");
    let nodes = vec!["edge-worker-2".to_owned()];
    assert_eq!(request.verb, InstallVerb::RemoveNodes { nodes, lost: Vec::new() });
    assert_eq!(request.inventory.nodes.len(), 3, "who leaves is still in the inventory");
    assert_eq!(request.ssh.known_hosts.len(), 3);
    site.installer.finish(&id, RunExit::Succeeded);
    let done = site.until_true("edge", "up to date", |object| stands(object, "UpToDate").0 == "True").await;
    assert_eq!(names(&done), ["edge-master-1", "edge-worker-1"]);
    assert_eq!(assigned(&done).len(), 2);
    assert!(done["status"]["plannedRun"].is_null(), "{done:#}");
    site.every_run_was_one();
}

#[tokio::test]
async fn a_master_leaves_when_the_planned_run_is_approved() {
    let site = Site::running(&[(1, 2, 4), (2, 2, 4), (3, 2, 4), (4, 4, 8)]).await;
    let masters = |count: i64| json!({"master": {"cpu": 2, "memory": "4Gi", "replicas": count}, "worker": {"cpu": 4, "memory": "8Gi"}});
    site.provision("edge", masters(3)).await;
    let first = run_id(&site.install("edge").await);
    site.world.patch(provisionings(), "edge", json!({"spec": masters(1)})).await;
    let waits = |object: &Value| stands(object, "UpToDate").1 == "WaitingForApproval";
    let seen = site.until_true("edge", "waiting for approval", waits).await;
    assert_eq!((run_id(&seen), text(&seen["status"]["plannedRun"]["verb"])), (first.clone(), "RemoveNodes".to_owned()));
    let id = text(&seen["status"]["plannedRun"]["id"]);
    let approval = json!({"metadata": {"annotations": {"hagane.dev/approve-run": id}}});
    site.world.patch(provisionings(), "edge", approval).await;
    let seen = site.until_true("edge", "the approved run", |object| run_id(object) != first).await;
    assert_eq!(run_id(&seen), id);
}
