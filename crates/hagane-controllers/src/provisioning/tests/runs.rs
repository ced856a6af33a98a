//! Runs that are tried again, that a person ends, and clocks that jump.

use std::collections::BTreeMap;

use hagane_ports::{HostStats, RunExit, RunProgress, TaskFailure};
use serde_json::{Value, json};

use super::holders::start_elsewhere;
use super::site::{Site, message, one_master, provisionings};
use crate::testing::text;

fn annotate(key: &str, value: &str) -> Value {
    json!({"metadata": {"annotations": {key: value}}})
}

/// Waits for another run than these, and gives its id.
async fn next_run(site: &Site, known: &[String]) -> String {
    let is_new = |object: &Value| {
        let run = &object["status"]["run"];
        run["state"] == "Running" && !known.contains(&text(&run["id"]))
    };
    text(&site.until_true("edge", "another run", is_new).await["status"]["run"]["id"])
}

/// Ends a run because its host could not be reached.
fn lose_the_host(site: &Site, id: &str) {
    let host = "edge-master-1".to_owned();
    let counts = HostStats { unreachable: 1, ..HostStats::default() };
    let failure = TaskFailure {
        task: "Look at the host".to_owned(),
        host: host.clone(),
        state: "unreachable".to_owned(),
        message: "no route to host".to_owned(),
        ..TaskFailure::default()
    };
    let progress =
        RunProgress { hosts: BTreeMap::from([(host, counts)]), failures: vec![failure], ..RunProgress::default() };
    site.installer.set_progress(id, progress);
    site.installer.finish(id, RunExit::Failed { status: 4 });
}

#[tokio::test]
async fn a_host_that_was_away_costs_a_try_and_no_person() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let first = next_run(&site, &[]).await;
    let request = site.installer.request(&first).expect("a request");
    lose_the_host(&site, &first);
    let second = next_run(&site, std::slice::from_ref(&first)).await;
    assert_eq!(second, format!("{first}-try2"));
    let run = site.get("edge").await["status"]["run"].clone();
    assert_eq!((&run["attempt"], &run["failures"], &run["finishedAt"]), (&json!(2), &Value::Null, &Value::Null));
    let again = site.installer.request(&second).expect("a request");
    assert_eq!((again.inventory, again.verb), (request.inventory, request.verb));
    site.installer.finish(&second, RunExit::Succeeded);
    site.until("edge", "Ready").await;
    site.every_run_was_one();
}

#[tokio::test]
async fn a_host_that_stays_away_is_given_up_after_the_last_try() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let mut runs = Vec::new();
    for _ in 0..3 {
        let id = next_run(&site, &runs).await;
        lose_the_host(&site, &id);
        runs.push(id);
    }
    let failed = site.until("edge", "InstallFailed").await;
    let told = message(&failed);
    assert!(told.contains("edge-master-1 (unreachable): no route to host at try 3"), "{told}");
    site.a_while().await;
    assert_eq!(site.installer.begun().len(), 3);
    // Asked for anew, it begins with a first try.
    site.world.patch(provisionings(), "edge", annotate("hagane.dev/retry", "1")).await;
    let id = next_run(&site, &runs).await;
    assert_eq!(site.get("edge").await["status"]["run"]["attempt"], 1);
    site.installer.finish(&id, RunExit::Succeeded);
    site.until("edge", "Ready").await;
    site.every_run_was_one();
}

#[tokio::test]
async fn a_run_that_lost_its_machine_is_tried_again() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let first = next_run(&site, &[]).await;
    site.installer.finish(&first, RunExit::Lost);
    let second = next_run(&site, std::slice::from_ref(&first)).await;
    site.installer.finish(&second, RunExit::Succeeded);
    site.until("edge", "Ready").await;
    site.every_run_was_one();
}

#[tokio::test]
async fn wherever_it_crashes_each_try_is_one_run() {
    let mut site = Site::quiet().await;
    site.host(1, 4, 8).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let counts = HostStats { unreachable: 1, ..HostStats::default() };
    let lost = RunProgress { hosts: BTreeMap::from([("h".to_owned(), counts)]), ..RunProgress::default() };
    site.installer.set_script(vec![lost], RunExit::Failed { status: 4 });
    let crashes = site
        .world
        .crash_at_every_step(|client| async move {
            let over = |object: &Value| object["status"]["phase"] == "Failed";
            crate::testing::until(&client, provisionings(), "edge", "the end of the last try", over).await;
        })
        .await;
    assert!(crashes > 6, "{crashes}");
    assert_eq!(site.installer.begun().len(), 3, "{:?}", site.installer.begun());
    site.every_run_was_one();
}

#[tokio::test]
async fn a_person_ends_a_run_and_may_start_another() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let id = next_run(&site, &[]).await;
    site.world.patch(provisionings(), "edge", annotate("hagane.dev/cancel-run", "another-run")).await;
    site.a_while().await;
    assert_eq!(site.installer.running(), std::slice::from_ref(&id));
    site.world.patch(provisionings(), "edge", annotate("hagane.dev/cancel-run", &id)).await;
    let ended = site.until("edge", "InstallInterrupted").await;
    assert_eq!((&ended["status"]["run"]["state"], site.installer.running().len()), (&json!("Cancelled"), 0));
    site.a_while().await;
    assert_eq!(site.installer.begun().len(), 1, "nothing starts by itself");
    site.world.patch(provisionings(), "edge", annotate("hagane.dev/retry", "go on")).await;
    site.install("edge").await;
}

#[tokio::test]
async fn a_person_chooses_whether_a_run_goes_on_or_begins_anew() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let mut known = Vec::new();
    for (value, from_start) in [("", false), ("1", false), ("from-start-2", true), ("not-from-start", false)] {
        if !value.is_empty() {
            site.world.patch(provisionings(), "edge", annotate("hagane.dev/retry", value)).await;
        }
        let id = next_run(&site, &known).await;
        let asked = site.installer.request(&id).expect("a request").limits.from_start;
        assert_eq!(asked, from_start, "{value:?}");
        let resumed = Some("step 2 of 3, scale.yml, where run u-1 ended".to_owned());
        site.installer.set_progress(&id, RunProgress { resumed, ..RunProgress::default() });
        site.installer.finish(&id, RunExit::Failed { status: 2 });
        known.push(id);
        site.until("edge", "InstallFailed").await;
    }
    let told = site.get("edge").await["status"]["run"]["resumed"].clone();
    assert_eq!(told, json!("step 2 of 3, scale.yml, where run u-1 ended"));
}

#[tokio::test]
async fn a_clock_that_jumps_makes_no_living_run_of_another_holder_look_dead() {
    let mut site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let id = next_run(&site, &[]).await;
    site.world.stop().await;
    let (task, shutdown) = start_elsewhere(&site);
    site.until("edge", "RunHeldElsewhere").await;
    for hours in [1000, -1000] {
        site.world.clock.jump(hours * 3600);
        site.world.patch(provisionings(), "edge", annotate("hagane.dev/retry", &hours.to_string())).await;
        site.a_while().await;
        let seen = site.get("edge").await;
        assert_eq!(
            (text(&seen["status"]["run"]["id"]), crate::testing::ready(&seen)),
            (id.clone(), "RunHeldElsewhere".to_owned())
        );
    }
    // A person who knows better need not wait.
    site.world.patch(provisionings(), "edge", annotate("hagane.dev/abandon-run", &id)).await;
    let other = |object: &Value| object["status"]["run"]["holder"] == "elsewhere";
    site.until_true("edge", "a run of the other holder", other).await;
    shutdown.cancel();
    task.await.expect("it ends");
}

#[tokio::test]
async fn a_clock_that_jumps_during_a_run_changes_nothing_about_it() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let id = next_run(&site, &[]).await;
    for hours in [1000, -1000, 0] {
        site.world.clock.jump(hours * 3600);
        site.world.patch(provisionings(), "edge", annotate("example.org/seen", &hours.to_string())).await;
        site.a_while().await;
        assert_eq!(site.installer.running(), std::slice::from_ref(&id));
    }
    site.installer.finish(&id, RunExit::Succeeded);
    site.until("edge", "Ready").await;
    site.every_run_was_one();
}
