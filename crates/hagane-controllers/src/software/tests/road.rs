//! From a Software to packages on hosts, and back.

use hagane_testkit::fake::{ShellAnswer, ShellCall, UnitEnd};
use serde_json::{Value, json};

use super::site::{Site, address, hosts, message, provisionings, seed, softwares};
use crate::testing::{condition, gone, ready, until};

#[tokio::test]
async fn installs_the_founding_file_and_removes_it_again() {
    let site = Site::running(&["m1", "w1", "w2"]).await;
    site.hosts["m1"].set("curl", Some("7.0"));
    site.ask_for("edge-2-tools", seed()).await;
    let seen = site.until_done("edge-2-tools").await;
    assert_eq!(
        (site.installed("m1"), site.installed("w2")),
        (vec!["curl=7.0".to_owned(), "jq=1.6-2.1".to_owned()], vec!["htop=3.2".to_owned()])
    );
    assert_eq!((seen["status"]["done"].as_str(), seen["status"]["cluster"].as_str()), (Some("3/3"), Some("edge-2")));
    let packages = &seen["status"]["hosts"][0]["packages"];
    assert_eq!(
        (&packages[0]["ours"], &packages[1]["ours"], &packages[1]["installed"], &packages[1]["state"]),
        (&json!(false), &json!(true), &json!("1.6-2.1"), &json!("Installed"))
    );
    assert_eq!(condition(&seen, "UpToDate").expect("told")["status"], "True");
    assert!(seen["status"].get("turnSince").is_none(), "{seen:#}");
    site.until_no_units("w1").await;
    site.world.delete(softwares(), "edge-2-tools").await;
    site.world.gone(softwares(), "edge-2-tools").await;
    assert_eq!(
        (site.installed("m1"), site.installed("w1"), site.installed("w2")),
        (vec!["curl=7.0".to_owned()], vec![], vec![])
    );
    assert!(!site.events().await.iter().any(|(reason, _)| reason == "PackagesLeft"));
}

#[tokio::test]
async fn another_user_than_root_becomes_root_without_a_password_or_not_at_all() {
    let site = Site::running(&["m1"]).await;
    let shell = &site.world.shell;
    let refused = ShellAnswer::exit(1, "", "sudo: a password is required\n");
    shell.answer(&address("m1"), &["sudo", "-n", "systemd-run", "--version"], refused);
    site.world.patch(provisionings(), "edge-2", json!({"spec": {"ssh": {"user": "lab"}}})).await;
    site.ask_for("tools", json!({"masterSoftware": [{"jq": {"version": "1:1.6~rc-2.1"}}]})).await;
    let told = message(&site.until("tools", "LoginRefused").await, "Ready");
    assert!(told.contains("a password is required"), "{told}");
    shell.answer(&address("m1"), &["sudo", "-n", "systemd-run", "--version"], ShellAnswer::stdout("systemd 252\n"));
    site.world.until(softwares(), "tools", "a start", |_| shell.calls().iter().any(started)).await;
    let calls = shell.calls();
    let start = calls.iter().find(|call| started(call)).expect("it was started");
    assert_eq!(start.user, "lab");
    assert_eq!(start.argv[start.argv.len() - 3..], ["install", "--", "jq=1:1.6~rc-2.1"]);
}

fn started(call: &ShellCall) -> bool {
    call.argv.starts_with(&["sudo".to_owned(), "-n".to_owned(), "systemd-run".to_owned(), "--quiet".to_owned()])
}

#[tokio::test]
async fn a_changed_spec_drift_and_a_new_worker() {
    let mut site = Site::running(&["m1", "w1"]).await;
    site.ask_for("tools", seed()).await;
    site.until_done("tools").await;
    site.world.patch(softwares(), "tools", json!({"spec": {"masterSoftware": [{"jq": {"version": "1.7"}}]}})).await;
    site.until_done("tools").await;
    assert_eq!(site.installed("m1"), ["jq=1.7"]);

    site.hosts["w1"].set("htop", None);
    // A check is due when the last one is old enough.
    let hosts_now =
        serde_json::to_value(site.world.get(softwares(), "tools").await).expect("JSON")["status"]["hosts"].clone();
    let mut aged = hosts_now;
    aged.as_array_mut().expect("hosts").iter_mut().for_each(|host| host["checkedAt"] = json!("2026-01-01T00:00:00Z"));
    site.status(softwares(), "tools", json!({"hosts": aged})).await;
    site.world.patch(softwares(), "tools", json!({"metadata": {"labels": {"wake": "1"}}})).await;
    let drifted = site.until_says("tools", "UpToDate", "Drifted").await;
    assert_eq!(
        (message(&drifted, "UpToDate"), ready(&drifted)),
        ("w1: htop is missing".to_owned(), "Ready".to_owned())
    );
    site.a_while().await;
    assert_eq!(site.installed("w1"), Vec::<String>::new(), "it is told, not put right");
    site.world.patch(softwares(), "tools", json!({"metadata": {"annotations": {"hagane.dev/retry": "1"}}})).await;
    site.until_says("tools", "UpToDate", "UpToDate").await;
    assert_eq!(site.installed("w1"), ["htop=3.2"]);

    site.stands(&["m1", "w1", "w2"]).await;
    let all = |object: &Value| object["status"]["done"] == "3/3";
    site.world.until(softwares(), "tools", "three hosts", all).await;
    assert_eq!(site.installed("w2"), ["htop=3.2"]);
}

#[tokio::test]
async fn a_host_that_fails_says_so_and_holds_up_no_other() {
    let site = Site::running(&["w1", "w2", "w3"]).await;
    site.hosts["w1"].set_ends(&[UnitEnd::Failed(100, "Reading…\nE: Unable to locate package htop\n".to_owned())]);
    site.world.shell.set_reachable(&address("w2"), false);
    site.ask_for("tools", json!({"workerSoftware": ["htop"]})).await;
    let failed = site.until("tools", "InstallFailed").await;
    let told = message(&failed, "Ready");
    assert!(told.contains("w1: E: Unable to locate package htop") && told.contains("w2: "), "{told}");
    assert_eq!(site.installed("w3"), ["htop=3.2"]);
    let record = &failed["status"]["hosts"][0];
    assert_eq!((&record["state"], &record["reason"]), (&json!("Failed"), &json!("InstallFailed")));
    assert!(record["output"].as_str().is_some_and(|output| output.contains("E: Unable to locate")), "{record:#}");
    site.world.shell.set_reachable(&address("w2"), true);
    site.world.patch(softwares(), "tools", json!({"metadata": {"annotations": {"hagane.dev/retry": "1"}}})).await;
    site.until_done("tools").await;
    assert_eq!(
        (site.installed("w1"), site.installed("w2")),
        (vec!["htop=3.2".to_owned()], vec!["htop=3.2".to_owned()])
    );
    let texts = serde_json::to_string(&site.events().await).expect("JSON");
    assert!(!texts.contains("VERY-SECRET"), "{texts}");
}

#[tokio::test]
async fn hosts_that_cannot_be_worked_on_are_told() {
    let site = Site::running(&["w1"]).await;
    let shell = &site.world.shell;
    shell.set_login_refused(&address("w1"), true);
    site.ask_for("tools", json!({"workerSoftware": ["htop"]})).await;
    site.until("tools", "LoginRefused").await;
    shell.set_login_refused(&address("w1"), false);
    let key = shell.change_host_key(&address("w1"));
    site.until("tools", "HostKeyChanged").await;
    site.world
        .patch(hosts(), "host-w1", json!({"metadata": {"annotations": {"hagane.dev/ssh-host-keys": key.0}}}))
        .await;
    site.until_done("tools").await;
    site.world
        .patch(hosts(), "host-w1", json!({"metadata": {"annotations": {"hagane.dev/ssh-host-keys": null}}}))
        .await;
    site.world.patch(softwares(), "tools", json!({"spec": {"workerSoftware": ["curl"]}})).await;
    site.until("tools", "HostKeyUnknown").await;
    site.world
        .patch(hosts(), "host-w1", json!({"metadata": {"annotations": {"hagane.dev/ssh-host-keys": key.0}}}))
        .await;
    site.until_done("tools").await;
    assert_eq!(site.installed("w1"), ["curl=7.88"]);
}

#[tokio::test]
async fn a_host_without_a_known_package_manager_is_told() {
    let site = Site::running(&["w1"]).await;
    site.world.shell.answer(&address("w1"), &["apt-get", "--version"], ShellAnswer::exit(127, "", "not found"));
    site.ask_for("tools", json!({"workerSoftware": ["htop"]})).await;
    let told = message(&site.until("tools", "HostUnsupported").await, "Ready");
    assert!(told.contains("it has neither apt-get nor dnf"), "{told}");
}

#[tokio::test]
async fn two_for_one_cluster_take_turns_and_tell_a_conflict() {
    let site = Site::running(&["m1"]).await;
    site.hosts["m1"].set_ends(&[UnitEnd::GoesOn("Unpacking jq\n".to_owned())]);
    site.ask_for("a", json!({"masterSoftware": ["jq"]})).await;
    let works = |object: &Value| message(object, "Ready").contains("Unpacking jq");
    site.world.until(softwares(), "a", "work", works).await;
    site.ask_for("b", json!({"masterSoftware": ["curl"]})).await;
    let told = message(&site.until("b", "WaitingForTurn").await, "Ready");
    assert_eq!((told.as_str(), site.hosts["m1"].started().len()), ("waits for Software a to end its work", 1));
    site.hosts["m1"].end_units();
    site.until_done("a").await;
    site.until_done("b").await;
    assert_eq!(site.installed("m1"), ["curl=7.88", "jq=1.7"]);
    site.world.patch(softwares(), "a", json!({"spec": {"masterSoftware": [{"jq": {"version": "1.7"}}]}})).await;
    site.until_done("a").await;
    site.ask_for("c", json!({"masterSoftware": [{"jq": {"version": "9"}}]})).await;
    let told = message(&site.until("c", "PackageConflict").await, "Ready");
    assert!(told.contains("\"9\" is asked for, and \"1.7\" by Software a"), "{told}");
}

#[tokio::test]
async fn drains_and_reboots_one_node_after_the_other() {
    let site = Site::running(&["w1", "w2"]).await;
    site.world.nodes.change("w1", |node| node.pods.push("default/db: its budget allows none".to_owned()));
    site.ask_for("tools", json!({"workerSoftware": ["htop"], "drain": true, "reboot": "Always"})).await;
    let blocked = |object: &Value| message(object, "Ready").contains("w1: drains: default/db: its budget allows none");
    site.world.until(softwares(), "tools", "a blocked drain", blocked).await;
    assert_eq!(site.hosts["w1"].started().len() + site.hosts["w2"].started().len(), 0);
    site.world.nodes.change("w1", |node| node.pods.clear());
    site.until_done("tools").await;
    assert_eq!((site.hosts["w1"].boots(), site.hosts["w2"].boots()), (1, 1));
    let mut calls = site.world.nodes.calls();
    calls.dedup();
    assert_eq!(calls, ["drain w1", "uncordon w1", "drain w2", "uncordon w2"]);
    assert!(["w1", "w2"].iter().all(|node| site.world.nodes.get(node).is_some_and(|node| !node.unschedulable)));
}

#[tokio::test]
async fn waits_for_the_cluster_and_for_its_installer() {
    let site = Site::quiet(&["w1"]).await;
    site.world.delete(provisionings(), "edge-2").await;
    let mut site = site;
    site.world.start();
    site.ask_for("tools", json!({"workerSoftware": ["htop"]})).await;
    site.until("tools", "ClusterMissing").await;
    site.world.create(provisionings(), json!({"metadata": {"name": "edge-2"}, "spec": {"master": {}}})).await;
    site.until("tools", "ClusterNotInstalled").await;
    let run = json!({"id": "r", "installer": "kubeadm", "holder": "h", "startedAt": "2026-01-01T00:00:00Z", "state": "Running"});
    site.provisioning_status(json!({"run": run})).await;
    site.stands(&["w1"]).await;
    site.until("tools", "ClusterBusy").await;
    site.provisioning_status(json!({"run": {"state": "Succeeded"}})).await;
    site.until_done("tools").await;
    assert_eq!(site.installed("w1"), ["htop=3.2"]);
}

#[tokio::test]
async fn a_kubeconfig_that_names_a_program_is_never_used() {
    let site = Site::running(&["w1"]).await;
    let secrets = crate::runtime::Resource::SECRETS;
    let evil =
        "YXBpVmVyc2lvbjogdjEKa2luZDogQ29uZmlnCnVzZXJzOiBbe25hbWU6IGEsIHVzZXI6IHtleGVjOiB7Y29tbWFuZDogc2h9fX1dCg==";
    site.world.patch(secrets, "edge-2-kubeconfig", json!({"data": {"value": evil}})).await;
    site.ask_for("tools", json!({"workerSoftware": ["htop"], "drain": true})).await;
    let told = message(&site.until("tools", "ClusterNotAnswering").await, "Ready");
    assert!(told.contains("\"exec\"") && site.world.nodes.calls().is_empty(), "{told}");
}

#[tokio::test]
async fn deletion_ends_without_the_cluster_and_tells_what_stays() {
    let site = Site::running(&["w1"]).await;
    site.ask_for("tools", json!({"workerSoftware": ["htop"]})).await;
    site.until_done("tools").await;
    site.world.delete(provisionings(), "edge-2").await;
    site.world.delete(softwares(), "tools").await;
    site.world.gone(softwares(), "tools").await;
    let events = site.events().await;
    let left = events.iter().find(|(reason, _)| reason == "PackagesLeft").expect("it is told");
    assert!(left.1.contains("w1: htop"), "{left:?}");
}

#[tokio::test]
async fn after_a_crash_at_any_step_nothing_is_done_twice_and_nothing_is_left() {
    let mut site = Site::quiet(&["m1", "w1"]).await;
    site.ask_for("tools", seed()).await;
    let crashes = site
        .world
        .crash_at_every_step(|client| async move {
            until(&client, softwares(), "tools", "Ready", |object| ready(object) == "Ready").await;
        })
        .await;
    assert!(crashes >= 3, "{crashes}: {:?}", site.world.fuse.effects());
    assert_eq!(site.hosts["m1"].started().len(), 1);
    assert_eq!((site.installed("m1").len(), site.installed("w1").len()), (2, 1));
    site.world.stop().await;
    site.world.delete(softwares(), "tools").await;
    let crashes =
        site.world.crash_at_every_step(|client| async move { gone(&client, softwares(), "tools").await }).await;
    assert!(crashes >= 3, "{crashes}: {:?}", site.world.fuse.effects());
    assert_eq!((site.installed("m1").len(), site.installed("w1").len()), (0, 0));
}
