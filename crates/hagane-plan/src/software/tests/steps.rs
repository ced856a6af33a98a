use std::time::Duration;

use hagane_api::bpa::software_reasons::SoftwareReason;
use serde_json::json;

use super::world::{World, node, seed};
use crate::provisioning::Login;
use crate::software::{ClusterFact, UnitSeen};

#[test]
fn installs_the_founding_file_on_masters_and_workers() {
    let mut world = World::new(&["m1", "w1", "w2", "b1"], seed());
    world.host("w2").packages.insert("htop".to_owned(), "2".to_owned());
    world.settle();
    assert_eq!(world.ready().0, "Ready");
    assert_eq!(world.condition("UpToDate").0, "UpToDate");
    assert_eq!(
        (world.has("m1"), world.has("w1")),
        (vec!["curl=1".to_owned(), "jq=1.6-2.1".to_owned()], vec!["htop=3".to_owned()])
    );
    assert_eq!(world.has("b1"), ["curl=1", "htop=3", "jq=1.6-2.1"]);
    assert_eq!(world.has("w2"), ["htop=2"], "any version is good where none is asked for");
    let ours = |uid: &str| world.record(uid).packages.iter().map(|package| package.ours).collect::<Vec<_>>();
    assert_eq!((ours("m1"), ours("w2")), (vec![true, true], vec![false]));
    assert_eq!(world.most_jobs, 3);
    assert!(world.record("m1").output.is_none() && world.facts.status.turn_since.is_none());
}

#[test]
fn changes_a_version_and_removes_what_is_not_asked_for_any_more() {
    let mut world = World::new(&["m1", "w1"], seed());
    world.host("m1").packages.insert("curl".to_owned(), "0".to_owned());
    world.settle();
    world.edit(json!({"masterSoftware": [{"jq": {"version": "1.7"}}]}));
    world.done.clear();
    world.settle();
    assert_eq!(world.has("m1"), ["curl=0", "jq=1.7"], "curl was there before");
    assert_eq!((world.has("w1"), world.ready().0), (Vec::<String>::new(), "Ready".to_owned()));
    assert_eq!(world.done, ["install jq=1.7 on m1", "remove htop on w1"]);
}

#[test]
fn a_new_worker_gets_it_too_and_one_that_left_is_forgotten() {
    let mut world = World::new(&["m1", "w1"], seed());
    world.settle();
    let more = World::new(&["m1", "w2"], seed());
    world.facts.standing = more.facts.standing.clone();
    world.hosts.insert("w2".to_owned(), more.hosts["w2"].clone());
    world.settle();
    assert_eq!((world.has("w2"), world.has("w1")), (vec!["htop=3".to_owned()], vec!["htop=3".to_owned()]));
    let recorded: Vec<_> = world.facts.status.hosts.iter().map(|host| host.node.as_str()).collect();
    assert_eq!(recorded, ["m1", "w2"]);
}

#[test]
fn reports_drift_and_puts_it_right_only_when_told() {
    let mut world = World::new(&["m1", "w1"], seed());
    world.settle();
    world.host("w1").packages.clear();
    world.host("m1").packages.insert("jq".to_owned(), "1.7".to_owned());
    world.settle();
    assert_eq!(world.condition("UpToDate").0, "UpToDate", "it is not asked all the time");
    world.done.clear();
    world.pass_time(Duration::from_secs(600));
    world.settle();
    let drifted = "m1: jq is 1.7, not 1.6-2.1, w1: htop is missing".to_owned();
    assert_eq!(world.condition("UpToDate"), ("Drifted".to_owned(), drifted));
    assert_eq!((world.ready().0.as_str(), world.done.len()), ("Ready", 0));
    world.facts.retry = Some("1".to_owned());
    world.settle();
    assert_eq!(world.condition("UpToDate").0, "UpToDate");
    assert_eq!(
        (world.has("m1"), world.has("w1")),
        (vec!["curl=1".to_owned(), "jq=1.6-2.1".to_owned()], vec!["htop=3".to_owned()])
    );
}

#[test]
fn a_host_that_is_silent_at_a_check_is_told_apart_from_drift() {
    let mut world = World::new(&["m1", "w1"], seed());
    world.settle();
    world.host("w1").silent = Some((SoftwareReason::HostUnreachable, "no route".to_owned()));
    world.pass_time(Duration::from_secs(600));
    world.settle();
    assert_eq!(world.condition("UpToDate"), ("NotChecked".to_owned(), "w1: no route".to_owned()));
    assert_eq!(world.ready().0, "Ready");
    world.host("w1").silent = None;
    world.settle();
    assert_eq!(world.condition("UpToDate").0, "UpToDate");
}

#[test]
fn hosts_that_fail_or_are_silent_hold_up_no_others() {
    let mut world = World::new(&["w1", "w2", "w3", "w4"], json!({"workerSoftware": ["htop"]}));
    world.host("w1").ends = vec![UnitSeen::Failed(100, false)];
    world.host("w1").output = Some("Reading lists\nE: Unable to locate package htop\n".to_owned());
    world.host("w2").silent = Some((SoftwareReason::HostUnreachable, "no route".to_owned()));
    world.host("w3").silent = Some((SoftwareReason::LoginRefused, "refused".to_owned()));
    world.settle();
    let told = "1/4 hosts done; w1: E: Unable to locate package htop; w2: no route, w3: refused".to_owned();
    assert_eq!(world.ready(), ("InstallFailed".to_owned(), told));
    assert_eq!(world.has("w4"), ["htop=3"]);
    world.host("w2").silent = None;
    world.host("w3").silent = None;
    world.settle();
    assert_eq!((world.has("w2"), world.has("w1")), (vec!["htop=3".to_owned()], Vec::new()));
    world.facts.retry = Some("again".to_owned());
    world.settle();
    assert_eq!((world.ready().0.as_str(), world.has("w1")), ("Ready", vec!["htop=3".to_owned()]));
}

#[test]
fn a_silent_cluster_of_hosts_waits_with_its_reason() {
    for (reason, word) in [
        (SoftwareReason::HostUnreachable, "HostUnreachable"),
        (SoftwareReason::HostKeyChanged, "HostKeyChanged"),
        (SoftwareReason::LoginRefused, "LoginRefused"),
        (SoftwareReason::HostUnsupported, "HostUnsupported"),
    ] {
        let mut world = World::new(&["w1"], seed());
        world.host("w1").silent = Some((reason, "why".to_owned()));
        world.settle();
        assert_eq!(world.ready(), (word.to_owned(), "0/1 hosts done; w1: why".to_owned()));
    }
    let mut world = World::new(&["w1"], seed());
    if let ClusterFact::Stands { nodes, .. } = &mut world.facts.standing {
        nodes[0].unaskable = Some("no key is pinned".to_owned());
    }
    world.settle();
    assert_eq!(world.ready(), ("HostKeyUnknown".to_owned(), "0/1 hosts done; w1: no key is pinned".to_owned()));
}

#[test]
fn says_what_is_in_the_way() {
    type Change = fn(&mut World);
    let cases: [(&str, Change); 8] = [
        ("ClusterUnnamed", |world| world.facts.cluster = None),
        ("ClusterMissing", |world| world.facts.standing = ClusterFact::Missing),
        ("ClusterNotInstalled", |world| {
            world.facts.standing = ClusterFact::NotInstalled { provisioning: "edge".to_owned() };
        }),
        ("SshKeyMissing", |world| world.facts.login = Login::Missing { secret: "s".to_owned() }),
        ("SshKeyInvalid", |world| {
            world.facts.login = Login::Invalid { secret: "s".to_owned(), problem: "p".to_owned() };
        }),
        ("InvalidSpec", |world| world.edit(json!({"masterSoftware": ["$(touch x)"]}))),
        ("ClusterBusy", |world| {
            if let ClusterFact::Stands { busy, .. } = &mut world.facts.standing {
                *busy = Some("AddWorkers".to_owned());
            }
        }),
        ("PackageConflict", |world| {
            let spec =
                json!({"masterSoftware": [{"a": {"version": "1"}}], "workerSoftware": [{"a": {"version": "2"}}]});
            world.facts.standing = World::new(&["b1"], json!({})).facts.standing;
            world.edit(spec);
        }),
    ];
    for (reason, bring_about) in cases {
        let mut world = World::new(&["m1"], seed());
        bring_about(&mut world);
        world.settle();
        assert_eq!((world.ready().0.as_str(), world.done.len()), (reason, 0));
    }
}

#[test]
fn a_locked_or_lost_package_manager_is_tried_again_but_not_for_ever() {
    for (end, reason) in [(UnitSeen::Failed(2, true), "PackageManagerBusy"), (UnitSeen::Killed, "RunLost")] {
        let mut world = World::new(&["w1"], seed());
        world.host("w1").ends = vec![end.clone(), end.clone()];
        world.settle();
        assert_eq!(world.ready().0, "Ready", "{end:?}");
        let mut world = World::new(&["w1"], seed());
        world.host("w1").ends = vec![end.clone(); 20];
        world.settle();
        assert_eq!(world.ready().0, reason);
        let tries = world.done.iter().filter(|done| done.starts_with("install")).count();
        assert_eq!(tries, 5);
    }
}

#[test]
fn a_unit_that_is_gone_after_it_was_seen_is_lost_and_one_that_was_not_is_started() {
    let mut world = World::new(&["w1"], seed());
    world.host("w1").ends = vec![UnitSeen::Running(None), UnitSeen::Absent];
    world.settle();
    assert_eq!(world.ready().0, "Ready");
    assert_eq!(world.done.iter().filter(|done| done.starts_with("install")).count(), 2);
    let units = world.facts.status.hosts[0].jobs;
    assert_eq!(units, 2, "each start has a unit of its own");
}

#[test]
fn a_lock_that_is_waited_for_is_told() {
    let mut world = World::new(&["w1"], seed());
    let lock = "waits for the lock of process 7 (apt)".to_owned();
    world.host("w1").ends = vec![UnitSeen::Running(Some(lock.clone()))];
    world.pass();
    world.pass();
    world.pass();
    assert_eq!(world.ready(), ("PackageManagerBusy".to_owned(), format!("0/1 hosts done; w1: {lock}")));
    world.settle();
    assert_eq!(world.ready().0, "Ready");
}

#[test]
fn a_package_manager_that_takes_too_long_or_brings_another_package_fails() {
    let mut world = World::new(&["w1"], seed());
    world.host("w1").ends = vec![UnitSeen::TimedOut];
    world.settle();
    assert_eq!(world.ready().0, "TimedOut");
    let mut world = World::new(&["w1"], json!({"workerSoftware": ["virtual"]}));
    world.settle();
    let (reason, message) = world.ready();
    assert!(reason == "InstallFailed" && message.contains("virtual is not there: no package"), "{message}");
}

#[test]
fn a_host_that_falls_silent_in_its_work_fails_at_the_deadline() {
    let mut world = World::new(&["w1", "w2"], seed());
    world.pass();
    world.pass();
    world.host("w1").silent = Some((SoftwareReason::HostUnreachable, "no route".to_owned()));
    world.pass_time(Duration::from_secs(60));
    world.pass();
    assert_eq!(world.ready().0, "Installing");
    assert_eq!(world.has("w2"), ["htop=3"]);
    world.pass_time(Duration::from_secs(40 * 60));
    world.settle();
    assert_eq!(world.ready().0, "HostUnreachable");
}

#[test]
fn drains_one_node_at_a_time_and_gives_it_back() {
    let mut world = World::new(&["w1", "w2"], json!({"workerSoftware": ["htop"], "drain": true}));
    world.host("w2").cordoned = true;
    world.settle();
    let wanted = ["drain w1", "install htop on w1", "uncordon w1", "drain w2", "install htop on w2"];
    assert_eq!(world.done, wanted, "a node that somebody else cordoned stays so");
    assert_eq!((world.most_jobs, world.ready().0.as_str()), (1, "Ready"));
}

#[test]
fn pods_that_do_not_go_are_named_and_the_next_node_is_not_held_up() {
    let mut world = World::new(&["w1", "w2"], json!({"workerSoftware": ["htop"], "drain": true, "drainMinutes": 1}));
    world.host("w1").pods = vec!["default/db: its disruption budget db allows none now".to_owned()];
    for _ in 0..3 {
        world.pass();
    }
    assert_eq!(world.ready().0, "Draining");
    world.pass_time(Duration::from_secs(60));
    world.settle();
    let (reason, message) = world.ready();
    assert!(reason == "DrainFailed" && message.contains("default/db: its disruption budget"), "{message}");
    assert_eq!((world.has("w1"), world.has("w2")), (Vec::new(), vec!["htop=3".to_owned()]));
    assert!(!world.hosts["w1"].cordoned && !world.hosts["w2"].cordoned);
}

#[test]
fn nothing_is_drained_while_the_cluster_does_not_answer() {
    let mut world = World::new(&["w1"], json!({"workerSoftware": ["htop"], "drain": true}));
    world.host("w1").cluster_silent = true;
    world.settle();
    assert_eq!((world.ready().0.as_str(), world.done.len()), ("ClusterNotAnswering", 0));
    world.host("w1").cluster_silent = false;
    world.settle();
    assert_eq!(world.ready().0, "Ready");
}

#[test]
fn reboots_where_asked_and_stops_at_a_host_that_does_not_come_back() {
    let mut world = World::new(&["w1", "w2"], json!({"workerSoftware": ["htop"], "reboot": "IfRequired"}));
    world.host("w2").reboot_required = true;
    world.settle();
    assert_eq!(world.done, ["install htop on w1", "install htop on w2", "reboot w2"]);
    let mut world = World::new(&["w1", "w2"], json!({"workerSoftware": ["htop"], "reboot": "Always", "drain": true}));
    world.host("w1").comes_back = false;
    for _ in 0..6 {
        world.pass();
    }
    assert_eq!(world.ready().0, "Rebooting");
    world.pass_time(Duration::from_secs(16 * 60));
    world.settle();
    assert_eq!(world.ready().0, "RebootFailed");
    assert!(!world.done.iter().any(|done| done.contains("w2")), "{:?}", world.done);
    assert_eq!(world.most_jobs, 1);
}

#[test]
fn a_node_in_no_list_is_done_without_work() {
    let mut world = World::new(&["m1", "w1"], json!({"masterSoftware": ["curl"]}));
    world.settle();
    assert_eq!((world.ready().0.as_str(), world.done.len()), ("Ready", 1));
    assert!(node("w1", false, true).unaskable.is_none());
}

#[test]
fn a_spec_that_changes_in_the_middle_of_the_work_is_carried_out_after_it() {
    let mut world = World::new(&["w1"], seed());
    world.pass();
    world.pass();
    world.edit(json!({"workerSoftware": ["curl"]}));
    let decision = world.pass();
    assert_ne!(decision.phase.map(|phase| phase.as_str()), Some("Ready"), "{:?}", world.ready());
    world.settle();
    assert_eq!((world.has("w1"), world.ready().0.as_str()), (vec!["curl=1".to_owned()], "Ready"));
}
