//! Two sets of control loops on one API: the one that did not start a run leaves it alone.

use std::sync::Arc;

use hagane_ports::RunExit;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::site::{Site, message, one_master, provisionings};
use crate::testing::text;
use crate::{Settings, run};

/// Control loops of another holder on the same API, with an installer of their own that knows nothing.
pub(super) fn start_elsewhere(site: &Site) -> (tokio::task::JoinHandle<()>, CancellationToken) {
    let mut context = site.world.context();
    context.settings = Arc::new(Settings { holder: "elsewhere".to_owned(), ..site.world.settings.clone() });
    let kind = hagane_ports::InstallerKind::Kubeadm;
    context.ports.installers.insert(kind, Arc::new(hagane_testkit::fake::FakeInstaller::new(kind)));
    let (shutdown, selection) = (CancellationToken::new(), site.world.selection.clone());
    let token = shutdown.clone();
    (tokio::spawn(async move { run(context, &selection, token).await }), shutdown)
}

#[tokio::test]
async fn another_holder_waits_for_a_run_that_may_live() {
    let mut site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let id = text(&site.until("edge", "Installing").await["status"]["run"]["id"]);
    site.world.stop().await;
    let (task, shutdown) = start_elsewhere(&site);
    let held = site.until("edge", "RunHeldElsewhere").await;
    assert!(message(&held).contains(&id) && message(&held).contains("hagane"), "{}", message(&held));
    site.world.patch(provisionings(), "edge", json!({"metadata": {"annotations": {"hagane.dev/retry": "1"}}})).await;
    site.a_while().await;
    assert_eq!((site.get("edge").await["status"]["run"]["id"].clone(), site.installer.begun().len()), (json!(id), 1));
    shutdown.cancel();
    task.await.expect("it ends");
    // The first one comes back and finds its run.
    site.world.start();
    site.until("edge", "Installing").await;
    site.installer.finish(&id, RunExit::Failed { status: 1 });
    // The retry that was asked for meanwhile is answered now.
    let again =
        |object: &Value| object["status"]["run"]["retry"] == "1" && object["status"]["run"]["state"] == "Running";
    site.until_true("edge", "the retry", again).await;
    site.install("edge").await;
    site.every_run_was_one();
}

#[tokio::test]
async fn another_holder_deletes_nothing_that_may_live() {
    let mut site = Site::running(&[(1, 4, 8)]).await;
    let uid = site.provision("edge", one_master(2, "4Gi")).await;
    let id = text(&site.until("edge", "Installing").await["status"]["run"]["id"]);
    site.world.stop().await;
    site.world.delete(provisionings(), "edge").await;
    let (task, shutdown) = start_elsewhere(&site);
    site.until("edge", "RunHeldElsewhere").await;
    site.a_while().await;
    assert_eq!((site.claimed(&uid).await, site.installer.running()), (vec!["host-1".to_owned()], vec![id]));
    shutdown.cancel();
    task.await.expect("it ends");
    site.world.start();
    site.world.gone(provisionings(), "edge").await;
    assert_eq!((site.claimed(&uid).await, site.installer.recorded()), (Vec::<String>::new(), Vec::new()));
}

#[tokio::test]
async fn two_holders_at_once_start_one_run() {
    let mut site = Site::quiet().await;
    site.host(1, 4, 8).await;
    site.world.start();
    let (task, shutdown) = start_elsewhere(&site);
    site.provision("edge", one_master(2, "4Gi")).await;
    let recorded = site.until_true("edge", "a run", |object| object["status"]["run"]["id"].is_string()).await;
    site.a_while().await;
    let seen = site.get("edge").await;
    assert_eq!(seen["status"]["run"]["id"], recorded["status"]["run"]["id"]);
    let ours = seen["status"]["run"]["holder"] == "hagane";
    assert_eq!(
        site.installer.begun().len(),
        usize::from(ours),
        "the holder that recorded the run is the one to start it"
    );
    shutdown.cancel();
    task.await.expect("it ends");
}
