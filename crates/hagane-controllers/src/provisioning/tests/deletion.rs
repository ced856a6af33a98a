//! Deletion ends from every stage and leaves nothing.

use hagane_ports::RunExit;
use hagane_testkit::fake::{InstallerCall, ProbeAnswer};
use serde_json::json;

use super::site::{Site, hosts, message, one_master, provisionings};
use crate::testing::text;

async fn nothing_is_left(site: &Site, uid: &str) {
    site.world.gone(provisionings(), "edge").await;
    assert_eq!(site.claimed(uid).await, Vec::<String>::new());
    assert_eq!(site.secret("edge-kubeconfig").await, None);
    assert_eq!((site.installer.recorded(), site.installer.running()), (Vec::new(), Vec::new()));
    assert!(site.world.get(hosts(), "host-1").await.is_some(), "hosts stay");
}

#[tokio::test]
async fn of_a_finished_cluster_gives_everything_back() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    site.install("edge").await;
    site.world.delete(provisionings(), "edge").await;
    nothing_is_left(&site, &uid).await;
    // The same name can be used again at once.
    site.provision("edge", one_master(2, "4Gi")).await;
    site.install("edge").await;
}

#[tokio::test]
async fn during_a_run_ends_the_run_first() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    let id = text(&site.until("edge", "Installing").await["status"]["run"]["id"]);
    site.world.delete(provisionings(), "edge").await;
    nothing_is_left(&site, &uid).await;
    let calls = site.installer.calls();
    let place = |call: &InstallerCall| calls.iter().position(|known| known == call);
    let (cancelled, forgotten) = (place(&InstallerCall::Cancel(id)), place(&InstallerCall::ForgetOwned(uid)));
    assert!(cancelled.is_some() && cancelled < forgotten, "{calls:?}");
}

#[tokio::test]
async fn removes_the_records_of_earlier_runs_too() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    for number in ["1", "2"] {
        site.end_run("edge", RunExit::Failed { status: 2 }).await;
        site.until("edge", "InstallFailed").await;
        let retry = json!({"metadata": {"annotations": {"hagane.dev/retry": number}}});
        site.world.patch(provisionings(), "edge", retry).await;
    }
    site.install("edge").await;
    assert_eq!(site.installer.recorded().len(), 3);
    site.world.delete(provisionings(), "edge").await;
    nothing_is_left(&site, &uid).await;
}

#[tokio::test]
async fn ends_from_every_stage() {
    for stage in ["NoSuitableHosts", "SshKeyMissing", "KubeconfigNotAnswering", "InstallFailed", "InvalidSpec"] {
        let mut site = if stage == "SshKeyMissing" { Site::keyless().await } else { Site::quiet().await };
        site.host(1, 4, 8).await;
        site.world.start();
        let spec = if stage == "NoSuitableHosts" { one_master(99, "1Ti") } else { one_master(2, "4Gi") };
        site.world.probe.set(ProbeAnswer::NoAnswer("refused".to_owned()));
        let mut wish = super::site::provisioning("edge", spec);
        if stage == "InvalidSpec" {
            wish["metadata"]["labels"] = json!({"cluster": "No_Name"});
        }
        let uid = site.world.create(provisionings(), wish).await.metadata.uid.expect("a uid");
        match stage {
            "InstallFailed" => drop(site.end_run("edge", RunExit::Failed { status: 2 }).await),
            "KubeconfigNotAnswering" => drop(site.end_run("edge", RunExit::Succeeded).await),
            _ => {}
        }
        site.until("edge", stage).await;
        site.world.delete(provisionings(), "edge").await;
        nothing_is_left(&site, &uid).await;
    }
}

#[tokio::test]
async fn waits_for_a_run_whose_record_cannot_be_read() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    let id = text(&site.until("edge", "Installing").await["status"]["run"]["id"]);
    site.installer.set_unreadable(true);
    site.world.delete(provisionings(), "edge").await;
    let waiting = site.until("edge", "CancellingRun").await;
    assert!(message(&waiting).contains("input/output error"), "{}", message(&waiting));
    site.a_while().await;
    assert_eq!((site.claimed(&uid).await, site.installer.running()), (vec!["host-1".to_owned()], vec![id]));
    site.installer.set_unreadable(false);
    nothing_is_left(&site, &uid).await;
}

#[tokio::test]
async fn is_not_held_up_for_ever_by_a_directory_that_cannot_be_removed() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    site.install("edge").await;
    site.installer.set_unreadable(true);
    site.world.delete(provisionings(), "edge").await;
    site.world.gone(provisionings(), "edge").await;
    assert_eq!((site.claimed(&uid).await, site.secret("edge-kubeconfig").await), (Vec::<String>::new(), None));
    let tries = site.installer.calls().into_iter().filter(|call| matches!(call, InstallerCall::ForgetOwned(_))).count();
    assert!(tries > 3, "{tries} tries");
}

#[tokio::test]
async fn ends_although_a_host_of_the_plan_is_gone() {
    let site = Site::running(&[(1, 4, 8), (2, 4, 8)]).await;
    let uid = site.provision("edge", json!({"masters": [{"m": {"mac-address": super::site::mac(2)}}]})).await;
    site.install("edge").await;
    site.world.delete(hosts(), "host-2").await;
    site.world.delete(provisionings(), "edge").await;
    nothing_is_left(&site, &uid).await;
}
