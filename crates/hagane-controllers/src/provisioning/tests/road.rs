//! From objects to a kubeconfig: the whole road, and what status tells on the way.

use std::collections::BTreeMap;

use hagane_api::keys::OWNER_UID_LABEL;
use hagane_ports::{HostStats, NodeRole, PlayTime, RunExit, RunProgress, TaskFailure, TaskTime};
use hagane_testkit::fake::{FakeInstaller, ProbeAnswer};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::site::{PRIVATE_KEY, Site, assigned, message, one_master, provisionings, stands, state};
use crate::testing::{NAMESPACE, text};

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(node, host)| ((*node).to_owned(), (*host).to_owned())).collect()
}

/// The document's form: two sizes, no names.
fn by_size() -> Value {
    json!({"master": {"cpu": 10, "memory": "4Gi"}, "worker": {"cpu": 20, "memory": "8Gi"}, "replicas": 2})
}

#[tokio::test]
async fn installs_a_cluster_by_size() {
    let site = Site::running(&[(1, 32, 64), (2, 20, 8), (3, 10, 4), (4, 20, 8), (5, 4, 2)]).await;
    let mut wish = super::site::provisioning("edge-1", by_size());
    wish["metadata"]["labels"] = json!({"cluster": "edge-1", "owner": "lab"});
    let uid = site.world.create(provisionings(), wish).await.metadata.uid.expect("a uid");
    let ready = site.install("edge-1").await;
    assert_eq!(
        assigned(&ready),
        pairs(&[("edge-1-master-1", "host-3"), ("edge-1-worker-1", "host-2"), ("edge-1-worker-2", "host-4")])
    );
    assert_eq!(site.claimed(&uid).await, ["host-2", "host-3", "host-4"]);
    assert_eq!(state(&ready), ("Ready".to_owned(), "Ready".to_owned()));
    for name in ["SpecValid", "HostsAssigned", "Installed", "UpToDate"] {
        assert_eq!(stands(&ready, name).0, "True", "{name}: {ready:#}");
    }
    assert_eq!(stands(&ready, "FactsDiffer"), ("False".to_owned(), "FactsAgree".to_owned()));
    assert_eq!(ready["status"]["cluster"], "edge-1");
    assert_eq!(ready["status"]["kubeconfigSecret"], "edge-1-kubeconfig");
    let request = site.installer.request(&text(&ready["status"]["run"]["id"])).expect("a request");
    let nodes: Vec<_> = request.inventory.nodes.iter().map(|node| (node.name.as_str(), node.roles.clone())).collect();
    assert_eq!(
        nodes,
        [
            ("edge-1-master-1", vec![NodeRole::Master]),
            ("edge-1-worker-1", vec![NodeRole::Worker]),
            ("edge-1-worker-2", vec![NodeRole::Worker])
        ]
    );
    assert_eq!((request.owner_uid, request.cluster.as_str()), (uid, "edge-1"));
    assert_eq!(request.ssh.private_key, format!("{PRIVATE_KEY}\n"));
    let known = request.ssh.known_hosts.iter().filter(|line| line.starts_with("192.0.2.")).count();
    assert_eq!((known, request.ssh.user.as_str()), (3, "root"));
    site.every_run_was_one();
}

#[tokio::test]
async fn installs_a_cluster_by_mac_address_and_size_mixed() {
    let mut site = Site::quiet().await;
    site.host(10, 4, 8).await;
    site.answering(11, 4, 8);
    let mut with_sriov = super::site::host_object(11, 4, 8);
    with_sriov["metadata"]["labels"] = json!({"hagane.dev/feature.sriov": "true"});
    site.world.create(super::site::hosts(), with_sriov).await;
    site.host(12, 2, 4).await;
    site.host(13, 8, 16).await;
    site.world.start();
    site.provision(
        "edge-2",
        json!({
            "masters": [{"master-1": {"mac-address": "52:54:00:6B:01:0A", "cpu": 4, "memory": "8Gi"}}],
            "workers": [
                {"worker-1": {"mac-address": "52-54-00-6b-01-0b", "cpu": 4, "memory": "8Gi", "sriov": true}},
                {"worker-2": {"cpu": 2, "memory": "4Gi", "qat": false}},
            ],
            "worker": {"cpu": 8}, "replicas": 1,
            "KUDPlugins": ["multus"], "PodSubnet": "10.244.64.0/18",
        }),
    )
    .await;
    let ready = site.install("edge-2").await;
    assert_eq!(
        assigned(&ready),
        pairs(&[
            ("master-1", "host-10"),
            ("worker-1", "host-11"),
            ("worker-2", "host-12"),
            ("edge-2-worker-1", "host-13")
        ])
    );
    let request = site.installer.request(&text(&ready["status"]["run"]["id"])).expect("a request");
    assert_eq!(request.variables, BTreeMap::from([("kube_pods_subnet".to_owned(), json!("10.244.64.0/18"))]));
}

#[tokio::test]
async fn without_workers_the_masters_are_workers_too() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("solo", one_master(2, "4Gi")).await;
    let ready = site.install("solo").await;
    assert_eq!(ready["status"]["plan"]["assignments"][0]["roles"], json!(["master", "worker"]));
}

#[tokio::test]
async fn status_follows_the_run_task_by_task() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let id = text(&site.until("edge", "Installing").await["status"]["run"]["id"]);
    let counts = HostStats { ok: 3, changed: 2, skipped: 1, ..HostStats::default() };
    let mut progress = RunProgress {
        play: Some("Containers".to_owned()),
        task: Some("install containerd".to_owned()),
        tasks_started: 4,
        tasks_total: Some(40),
        hosts: BTreeMap::from([("edge-master-1".to_owned(), counts)]),
        plays: vec![PlayTime { play: "Hosts".to_owned(), milliseconds: Some(2500) }],
        slowest: vec![TaskTime { task: "copy".to_owned(), host: "edge-master-1".to_owned(), milliseconds: 1999 }],
        ..RunProgress::default()
    };
    site.installer.set_progress(&id, progress.clone());
    let running =
        site.until_true("edge", "the task", |object| object["status"]["run"]["task"] == "install containerd").await;
    let run = &running["status"]["run"];
    assert_eq!((&run["state"], &run["play"]), (&json!("Running"), &json!("Containers")));
    assert_eq!((&run["tasksStarted"], &run["tasksTotal"]), (&json!(4), &json!(40)));
    assert_eq!(
        run["hosts"]["edge-master-1"],
        json!({"ok": 3, "changed": 2, "failed": 0, "unreachable": 0, "skipped": 1})
    );
    assert_eq!((text(&run["log"]), &run["installer"]), (format!("/runs/{id}/log"), &json!("kubeadm")));
    assert_eq!(run["plays"], json!([{"play": "Hosts", "seconds": 2}]));
    assert_eq!(run["slowest"], json!([{"task": "copy", "host": "edge-master-1", "seconds": 1}]));
    assert_eq!(message(&running), "task 4 of 40: install containerd");
    let task = "install containerd".to_owned();
    progress.failures = vec![TaskFailure {
        task,
        host: "edge-master-1".to_owned(),
        state: "failed".to_owned(),
        message: "no space left".to_owned(),
        output: "one\ntwo".to_owned(),
    }];
    site.installer.set_progress(&id, progress);
    site.installer.finish(&id, RunExit::Failed { status: 2 });
    let failed = site.until("edge", "InstallFailed").await;
    let run = &failed["status"]["run"];
    assert_eq!((&run["state"], &failed["status"]["phase"]), (&json!("Failed"), &json!("Failed")));
    let told = json!({
        "task": "install containerd", "host": "edge-master-1", "state": "failed", "message": "no space left",
        "output": "one\ntwo",
    });
    assert_eq!((&run["failures"], &run["attempt"]), (&json!([told]), &json!(1)));
    assert!(text(&run["message"]).ends_with("edge-master-1 (failed): no space left"), "{}", run["message"]);
    assert!(run["finishedAt"].is_string() && run["seconds"].is_u64(), "{run}");
    assert!(message(&failed).contains("\"install containerd\" on edge-master-1"), "{}", message(&failed));
    assert_eq!(site.secret("edge-kubeconfig").await, None);
}

#[tokio::test]
async fn keeps_a_kubeconfig_that_the_cluster_answers_to() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.world.probe.set(ProbeAnswer::NoAnswer("connection refused".to_owned()));
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    let id = site.end_run("edge", RunExit::Succeeded).await;
    let waiting = site.until("edge", "KubeconfigNotAnswering").await;
    assert!(message(&waiting).contains("connection refused"), "{}", message(&waiting));
    assert_eq!((site.secret("edge-kubeconfig").await, &waiting["status"]["phase"]), (None, &json!("Waiting")));
    site.world.probe.set(ProbeAnswer::Version("v1.36.3".to_owned()));
    site.until("edge", "Ready").await;
    let secret = site.secret("edge-kubeconfig").await.expect("kept");
    let data = secret.data.expect("data");
    assert_eq!(data["value"].0, FakeInstaller::kubeconfig_of(&id));
    assert_eq!(data["value"], data["kubeconfig"]);
    assert_eq!(secret.metadata.labels.expect("labels")[OWNER_UID_LABEL], uid);
    assert_eq!(secret.metadata.owner_references.expect("owners")[0].uid, uid);
}

#[tokio::test]
async fn refuses_a_kubeconfig_that_cannot_be_used() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let id = text(&site.until("edge", "Installing").await["status"]["run"]["id"]);
    let exec = String::from_utf8(FakeInstaller::kubeconfig_of(&id)).expect("text");
    let exec = exec.replace("client-key-data: a2V5", "exec: {command: touch, args: [X]}");
    site.installer.set_kubeconfig(&id, Some(exec.as_bytes()));
    site.installer.finish(&id, RunExit::Succeeded);
    let failed = site.until("edge", "KubeconfigInvalid").await;
    assert!(message(&failed).contains("\"exec\""), "{}", message(&failed));
    assert_eq!((site.world.probe.calls().len(), site.secret("edge-kubeconfig").await), (0, None));
    // Another try is asked for and goes well.
    let retry = json!({"metadata": {"annotations": {"hagane.dev/retry": "1"}}});
    site.world.patch(provisionings(), "edge", retry).await;
    site.install("edge").await;
}

#[tokio::test]
async fn a_kubeconfig_that_was_deleted_comes_back() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    site.install("edge").await;
    let api: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(site.world.client.clone(), NAMESPACE);
    api.delete("edge-kubeconfig", &kube::api::DeleteParams::default()).await.expect("deleted");
    for _ in 0..400 {
        if site.secret("edge-kubeconfig").await.is_some() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(site.secret("edge-kubeconfig").await.is_some());
    site.until("edge", "Ready").await;
    assert_eq!(site.installer.begun().len(), 1);
}

#[tokio::test]
async fn writes_nothing_for_a_finished_cluster_that_does_not_change() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    site.install("edge").await;
    site.a_while().await;
    let before = (site.world.fuse.effects(), site.installer.calls());
    for value in ["1", "2", "3"] {
        // A host's change wakes the Provisioning.
        let change = json!({"metadata": {"labels": {"touched": value}}});
        site.world.patch(super::site::hosts(), "host-1", change).await;
        site.a_while().await;
    }
    assert_eq!((site.world.fuse.effects(), site.installer.calls()), before);
}

#[tokio::test]
async fn the_private_key_is_in_no_object_that_is_written() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    site.end_run("edge", RunExit::Failed { status: 1 }).await;
    let failed = site.until("edge", "InstallFailed").await;
    let events: Api<Event> = Api::namespaced(site.world.client.clone(), NAMESPACE);
    let mut told = Vec::new();
    for _ in 0..400 {
        told = events.list(&ListParams::default()).await.expect("events").items;
        if told.iter().any(|event| event.reason.as_deref() == Some("InstallFailed")) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let failed_told = told.iter().find(|event| event.reason.as_deref() == Some("InstallFailed"));
    assert_eq!(failed_told.and_then(|event| event.type_.as_deref()), Some("Warning"), "{told:?}");
    let told = format!("{failed} {}", serde_json::to_string(&told).expect("JSON"));
    assert!(!told.contains("VERY-SECRET"));
}
