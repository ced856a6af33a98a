//! Everything that can stand in the way: each is said, and the road goes on when it is gone.

use hagane_api::keys::SSH_HOST_KEYS_ANNOTATION;
use hagane_ports::{InstallerError, RunExit};
use hagane_testkit::fake::ShellAnswer;
use serde_json::{Value, json};

use super::site::{PRIVATE_KEY, Site, address, hosts, message, one_master, provisioning, provisionings, stands, state};
use crate::testing::{condition, text};

fn retry(value: &str) -> Value {
    json!({"metadata": {"annotations": {"hagane.dev/retry": value}}})
}

#[tokio::test]
async fn waits_for_the_ssh_key_and_goes_on_when_it_comes() {
    let mut site = Site::keyless().await;
    site.host(1, 4, 8).await;
    site.world.start();
    let mut spec = one_master(2, "4Gi");
    spec["ssh"] = json!({"secretName": "lab-key", "user": "lab", "port": 2222});
    site.provision("edge", spec).await;
    let waiting = site.until("edge", "SshKeyMissing").await;
    assert_eq!(waiting["status"]["phase"], "Waiting");
    assert!(message(&waiting).contains("lab-key"), "{}", message(&waiting));
    site.ssh_key("default", "lab-key", "password", "hunter-2").await;
    let waiting = site.until("edge", "SshKeyInvalid").await;
    assert!(message(&waiting).contains("ssh-privatekey") && !message(&waiting).contains("hunter"));
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::default_namespaced(site.world.client.clone());
    secrets.delete("lab-key", &kube::api::DeleteParams::default()).await.expect("deleted");
    site.until("edge", "SshKeyMissing").await;
    assert_eq!(site.installer.begun().len(), 0);
    site.ssh_key("default", "lab-key", "ssh-privatekey", PRIVATE_KEY).await;
    let ready = site.install("edge").await;
    let request = site.installer.request(&text(&ready["status"]["run"]["id"])).expect("a request");
    assert_eq!((request.ssh.user.as_str(), request.inventory.nodes[0].ssh_port), ("lab", 2222));
    assert!(request.ssh.known_hosts[0].starts_with("[192.0.2.1]:2222 ssh-ed25519 "), "{:?}", request.ssh.known_hosts);
}

#[tokio::test]
async fn names_a_host_that_does_not_answer_and_why() {
    let mut site = Site::quiet().await;
    site.host(1, 4, 8).await;
    site.world.shell.set_reachable(&address(1), false);
    site.world.start();
    site.provision("edge", one_master(2, "4Gi")).await;
    let waiting = site.until("edge", "HostUnreachable").await;
    assert!(message(&waiting).contains("host-1: ") && message(&waiting).contains("no route"), "{}", message(&waiting));
    site.world.shell.set_reachable(&address(1), true);
    site.install("edge").await;
    let pinned = site.world.get(hosts(), "host-1").await.expect("there");
    assert!(pinned.metadata.annotations.expect("annotations")[SSH_HOST_KEYS_ANNOTATION].starts_with("ssh-ed25519 "));
}

#[tokio::test]
async fn refuses_a_host_that_shows_another_key_than_the_pinned_one() {
    let mut site = Site::quiet().await;
    let object = site.host(1, 4, 8).await;
    let annotation = json!({"metadata": {"annotations": {SSH_HOST_KEYS_ANNOTATION: "ssh-ed25519 AAAAother\n"}}});
    site.world.patch(hosts(), &object.metadata.name.expect("a name"), annotation).await;
    site.world.start();
    site.provision("edge", one_master(2, "4Gi")).await;
    let refused = site.until("edge", "HostKeyChanged").await;
    assert!(message(&refused).contains("host-1") && message(&refused).contains("SHA256:"), "{}", message(&refused));
    site.a_while().await;
    assert_eq!((site.installer.begun().len(), site.world.shell.calls().len()), (0, 0));
    // A person who knows better removes the pinned key.
    site.world.patch(hosts(), "host-1", json!({"metadata": {"annotations": {SSH_HOST_KEYS_ANNOTATION: null}}})).await;
    site.install("edge").await;
}

#[tokio::test]
async fn names_a_host_that_refuses_the_login() {
    let mut site = Site::quiet().await;
    site.host(1, 4, 8).await;
    site.world.shell.set_login_refused(&address(1), true);
    site.world.start();
    site.provision("edge", one_master(2, "4Gi")).await;
    let refused = site.until("edge", "LoginRefused").await;
    assert!(message(&refused).contains("host-1: root@192.0.2.1:22 refuses the key"), "{}", message(&refused));
    site.world.shell.set_login_refused(&address(1), false);
    site.install("edge").await;
}

#[tokio::test]
async fn says_when_declared_and_real_facts_differ_and_goes_on() {
    let mut site = Site::quiet().await;
    site.host(1, 4, 8).await;
    site.world.shell.answer(&address(1), &["nproc"], ShellAnswer::stdout("2\n"));
    site.world.start();
    site.provision("edge", one_master(2, "4Gi")).await;
    let seen = site.until("edge", "Installing").await;
    assert_eq!(stands(&seen, "FactsDiffer"), ("True".to_owned(), "FactsDiffer".to_owned()));
    let told = text(&condition(&seen, "FactsDiffer").expect("there")["message"]);
    assert_eq!(told, "host-1: 4 CPUs declared, 2 found");
    let ready = site.install("edge").await;
    assert_eq!(stands(&ready, "FactsDiffer").0, "True", "it stays said");
}

#[tokio::test]
async fn a_start_that_fails_is_said_and_tried_again() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let missing =
        || InstallerError::Prerequisite { what: "ansible-playbook".to_owned(), detail: "not found".to_owned() };
    let full = || InstallerError::Directory {
        operation: "prepare the run directory".to_owned(),
        source: std::io::Error::other("no space left on device"),
    };
    for _ in 0..4 {
        site.installer.fail_next_start(missing());
    }
    for _ in 0..4 {
        site.installer.fail_next_start(full());
    }
    site.provision("edge", one_master(2, "4Gi")).await;
    let waiting = site.until("edge", "InstallerNotReady").await;
    assert_eq!(
        (message(&waiting).as_str(), &waiting["status"]["phase"]),
        ("ansible-playbook is missing: not found", &json!("Waiting"))
    );
    let waiting = site.until("edge", "InstallNotStarted").await;
    assert!(message(&waiting).contains("no space left on device"), "{}", message(&waiting));
    site.install("edge").await;
    site.every_run_was_one();
}

#[tokio::test]
async fn a_request_that_the_installer_refuses_waits_for_another_spec() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.installer.fail_next_start(InstallerError::Invalid {
        field: "variable name".to_owned(),
        value: "become".to_owned(),
        allowed: "not a name that Ansible uses itself".to_owned(),
    });
    site.provision("edge", one_master(2, "4Gi")).await;
    let failed = site.until("edge", "InvalidSpec").await;
    assert_eq!(failed["status"]["phase"], "Failed");
    assert!(message(&failed).contains("\"become\""), "{}", message(&failed));
    site.world.patch(provisionings(), "edge", json!({"spec": {"variables": {"dns_domain": "x.test"}}})).await;
    site.install("edge").await;
}

#[tokio::test]
async fn an_installer_that_is_not_set_up_is_named_before_anything_is_recorded() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let mut spec = one_master(2, "4Gi");
    spec["installer"] = json!("kubespray");
    site.provision("edge", spec).await;
    let waiting = site.until("edge", "InstallerNotReady").await;
    assert!(message(&waiting).contains("\"kubespray\" is not set up here"), "{}", message(&waiting));
    assert_eq!(waiting["status"]["run"], Value::Null);
    site.world.patch(provisionings(), "edge", json!({"spec": {"installer": "kubeadm"}})).await;
    site.install("edge").await;
}

#[tokio::test]
async fn ends_of_runs_are_told_apart_and_a_retry_starts_another_one() {
    let site = Site::running(&[(1, 4, 8)]).await;
    let mut spec = one_master(2, "4Gi");
    spec["runPolicy"] = json!({"retries": 0});
    let uid = site.provision("edge", spec).await;
    for (number, (exit, reason)) in [
        (RunExit::Failed { status: 2 }, "InstallFailed"),
        (RunExit::Killed { signal: 9 }, "InstallInterrupted"),
        (RunExit::TimedOut, "InstallTimedOut"),
        (RunExit::Stalled { seconds: 60 }, "InstallTimedOut"),
        (RunExit::PlayTimedOut { play: "Join".to_owned(), seconds: 60 }, "InstallTimedOut"),
        (RunExit::Cancelled, "InstallInterrupted"),
        (RunExit::Lost, "RunLost"),
        (RunExit::NotStarted { message: "no such file".to_owned() }, "InstallNotStarted"),
    ]
    .into_iter()
    .enumerate()
    {
        let id = site.end_run("edge", exit.clone()).await;
        let failed = site.until("edge", reason).await;
        assert_eq!(state(&failed), ("Failed".to_owned(), reason.to_owned()));
        assert!(message(&failed).contains(&id), "{}", message(&failed));
        site.a_while().await;
        assert_eq!(site.installer.begun().len(), number + 1, "{exit:?}: nothing is tried again unasked");
        site.world.patch(provisionings(), "edge", retry(&format!("{number} $(x)/.."))).await;
    }
    let ready = site.install("edge").await;
    assert_eq!((site.installer.begun().len(), ready["status"]["run"]["retry"].as_str()), (9, Some("7 $(x)/..")));
    assert_eq!(site.claimed(&uid).await, ["host-1"]);
    site.every_run_was_one();
}

#[tokio::test]
async fn a_run_that_vanished_is_lost_and_may_be_found_again() {
    let site = Site::running(&[(1, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let id = text(&site.until("edge", "Installing").await["status"]["run"]["id"]);
    site.installer.set_unreadable(true);
    let unread = |object: &Value| message(object).contains("cannot be read");
    site.until_true("edge", "a record that cannot be read", unread).await;
    site.world.patch(provisionings(), "edge", retry("now")).await;
    site.a_while().await;
    assert_eq!(site.installer.begun().len(), 1, "no second run beside one that may live");
    site.installer.set_unreadable(false);
    site.until("edge", "Installing").await;
    site.world.patch(provisionings(), "edge", json!({"metadata": {"annotations": {"hagane.dev/retry": null}}})).await;
    site.installer.set_hidden(&id, true);
    let lost = site.until("edge", "RunLost").await;
    assert_eq!(lost["status"]["run"]["state"], "Lost");
    site.installer.set_hidden(&id, false);
    site.world.patch(hosts(), "host-1", json!({"metadata": {"labels": {"mounted": "again"}}})).await;
    site.install("edge").await;
    site.every_run_was_one();
}

#[tokio::test]
async fn a_spec_changed_during_a_run_is_carried_out_by_no_second_run() {
    let site = Site::running(&[(1, 4, 8), (2, 4, 8)]).await;
    site.provision("edge", one_master(2, "4Gi")).await;
    let id = text(&site.until("edge", "Installing").await["status"]["run"]["id"]);
    let more = json!({"spec": {"worker": {"cpu": 2}, "replicas": 1}});
    site.world.patch(provisionings(), "edge", more).await;
    site.a_while().await;
    assert_eq!((site.installer.begun().len(), site.installer.running()), (1, vec![id.clone()]));
    site.installer.finish(&id, RunExit::Succeeded);
    let ready = site.until("edge", "Ready").await;
    assert_eq!(stands(&ready, "UpToDate"), ("False".to_owned(), "SpecChanged".to_owned()));
    assert_eq!(ready["status"]["plan"]["assignments"].as_array().map(Vec::len), Some(1));
    let told = ready["status"]["conditions"].to_string();
    assert!(told.contains("edge-master-1 is master and worker and would be master"), "{told}");
}

#[tokio::test]
async fn a_spec_changed_after_a_failed_run_is_installed_without_moving_masters() {
    let site = Site::running(&[(1, 4, 8), (2, 4, 8), (3, 2, 4)]).await;
    site.provision("edge", one_master(4, "8Gi")).await;
    site.end_run("edge", RunExit::Failed { status: 2 }).await;
    site.until("edge", "InstallFailed").await;
    let smaller = json!({"spec": {"master": {"cpu": 2, "memory": "4Gi"}, "worker": {"cpu": 4}, "replicas": 1}});
    site.world.patch(provisionings(), "edge", smaller).await;
    let ready = site.install("edge").await;
    let hosts: Vec<_> = super::site::assigned(&ready).into_iter().map(|(_, host)| host).collect();
    assert_eq!(hosts, ["host-1", "host-2"]);
    assert_eq!(ready["status"]["run"]["generation"], 2);
    site.every_run_was_one();
}

#[tokio::test]
async fn one_bad_provisioning_never_holds_up_another() {
    let mut site = Site::quiet().await;
    for number in 1..=3 {
        site.host(number, 4, 8).await;
    }
    site.answering(9, 4, 8);
    let mut silent = super::site::host_object(9, 64, 64);
    silent["metadata"]["name"] = json!("silent");
    site.world.create(hosts(), silent).await;
    site.world.shell.set_reachable(&address(9), false);
    site.world.start();
    site.provision("silent", one_master(64, "1Gi")).await;
    site.provision("large", one_master(999, "1Ti")).await;
    let mut wrong = provisioning("wrong", one_master(1, "1Gi"));
    wrong["metadata"]["labels"] = json!({"cluster": "-"});
    let refused = site.world.try_create(provisionings(), wrong).await;
    assert!(refused.is_err(), "a label value that Kubernetes refuses");
    let trap = json!({"master": {"cpu": 2}, "variables": {"motd": "{{ lookup('pipe','touch X') }}"}});
    site.provision("trap", trap).await;
    site.provision("good", one_master(2, "4Gi")).await;
    site.install("good").await;
    site.until("silent", "HostUnreachable").await;
    site.until("large", "NoSuitableHosts").await;
    let trapped = site.install("trap").await;
    let request = site.installer.request(&text(&trapped["status"]["run"]["id"])).expect("a request");
    assert_eq!(request.variables["motd"], "{{ lookup('pipe','touch X') }}", "it is passed on as data");
}

#[test]
fn a_status_of_another_version_is_not_taken_for_none() {
    let read = |status: Value, deleting: bool| {
        let mut object = json!({"metadata": {"name": "edge", "namespace": "default"}, "spec": {}, "status": status});
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let raw: kube::api::DynamicObject = serde_json::from_value(object).expect("an object");
        let key = crate::runtime::ObjectKey::of(provisionings(), &raw);
        let seen = crate::runtime::Seen::read(key, std::sync::Arc::new(raw)).expect("the spec reads");
        super::super::unreadable(&seen)
    };
    let newer = json!({"phase": "Hibernating", "run": {"id": "u-1"}});
    assert!(read(newer.clone(), false).is_some_and(|problem| problem.contains("Hibernating")));
    assert_eq!(
        (read(newer, true), read(json!({"phase": "Ready"}), false), read(Value::Null, false)),
        (None, None, None)
    );
}
