use std::time::Duration;

use hagane_api::bpa::software_reasons::SoftwareReason;
use serde_json::json;

use super::world::{World, seed};
use crate::provisioning::Login;
use crate::software::{ClusterFact, Other, UnitSeen};

fn installed(nodes: &[&str]) -> World {
    let mut world = World::new(nodes, seed());
    world.settle();
    world
}

fn delete(world: &mut World) {
    world.facts.deleting = Some(Duration::ZERO);
    world.done.clear();
    world.settle();
}

fn left(world: &World) -> Option<&str> {
    world.last.as_ref().and_then(|outcome| outcome.left.as_deref())
}

#[test]
fn removes_what_came_for_it_and_nothing_else() {
    let mut world = World::new(&["m1", "w1"], seed());
    world.host("m1").packages.insert("curl".to_owned(), "1".to_owned());
    world.settle();
    delete(&mut world);
    assert_eq!(world.done, ["remove jq on m1", "remove htop on w1", "end"]);
    assert_eq!((world.has("m1"), left(&world)), (vec!["curl=1".to_owned()], None));
}

#[test]
fn keeps_everything_where_asked() {
    let mut world = installed(&["m1", "w1"]);
    let mut spec = seed();
    spec["keepOnDelete"] = json!(true);
    world.edit(spec);
    delete(&mut world);
    assert_eq!((world.done, world.hosts["w1"].packages.len()), (vec!["end".to_owned()], 1));
}

#[test]
fn ends_at_once_where_the_cluster_or_the_key_is_gone_and_tells_what_stays() {
    let mut world = installed(&["m1", "w1"]);
    world.facts.standing = ClusterFact::Missing;
    delete(&mut world);
    assert_eq!(world.done, ["end"]);
    let told =
        "packages stay on m1: curl, jq (nothing is known of its host now), w1: htop (nothing is known of its host now)";
    assert_eq!(left(&world), Some(told));
    let mut world = installed(&["m1"]);
    world.facts.login = Login::Missing { secret: "s".to_owned() };
    delete(&mut world);
    assert!(left(&world).is_some_and(|told| told.contains("curl, jq")), "{:?}", left(&world));
    assert_eq!(world.ready().0, "PackagesLeft");
}

#[test]
fn tries_dead_hosts_for_a_while_and_cleans_the_others() {
    let mut world = installed(&["m1", "w1"]);
    world.host("w1").silent = Some((SoftwareReason::HostUnreachable, "no route".to_owned()));
    world.facts.deleting = Some(Duration::ZERO);
    for _ in 0..20 {
        world.pass();
        world.pass_time(Duration::from_secs(2));
    }
    assert_eq!((world.has("m1"), world.ready().0.as_str()), (Vec::new(), "RemovingPackages"));
    world.pass_time(Duration::from_secs(180));
    world.settle();
    assert_eq!(left(&world), Some("packages stay on w1: htop (no route)"));
}

#[test]
fn gives_up_a_package_that_others_need() {
    let mut world = installed(&["w1"]);
    world.host("w1").ends = vec![UnitSeen::Failed(1, false); 20];
    world.host("w1").output = Some("dpkg: error processing package htop: dependency problems\n".to_owned());
    delete(&mut world);
    assert_eq!(world.done.iter().filter(|done| done.starts_with("remove")).count(), 3);
    assert!(left(&world).is_some_and(|told| told.contains("w1: htop (dpkg: error")), "{:?}", left(&world));
}

#[test]
fn lets_work_that_was_begun_end_first() {
    let mut world = World::new(&["w1"], seed());
    world.pass();
    world.pass();
    assert_eq!(world.done, ["install htop on w1"]);
    world.host("w1").ends = vec![UnitSeen::Running(None); 3];
    delete(&mut world);
    assert_eq!(
        (world.done.clone(), world.has("w1")),
        (vec!["remove htop on w1".to_owned(), "end".to_owned()], Vec::new())
    );
}

#[test]
fn gives_a_drained_node_back_before_it_ends() {
    let mut world = World::new(&["w1"], json!({"workerSoftware": ["htop"], "drain": true}));
    world.host("w1").pods = vec!["default/db".to_owned()];
    for _ in 0..4 {
        world.pass();
    }
    assert!(world.hosts["w1"].cordoned);
    world.host("w1").pods.clear();
    delete(&mut world);
    assert!(!world.hosts["w1"].cordoned && world.has("w1").is_empty(), "{:?}", world.done);
}

#[test]
fn waits_for_its_turn_but_not_for_ever() {
    let mut world = installed(&["w1"]);
    world.facts.others = vec![Other { name: "tools".to_owned(), turn: true, works: true, ..Other::default() }];
    world.facts.deleting = Some(Duration::ZERO);
    world.done.clear();
    world.pass();
    assert_eq!((world.ready().0.as_str(), world.done.len()), ("WaitingForTurn", 0));
    world.pass_time(Duration::from_secs(300));
    world.settle();
    assert_eq!(world.done, ["remove htop on w1", "end"]);
}

#[test]
fn of_an_object_that_never_did_anything_ends_at_once() {
    let mut world = World::new(&["w1"], seed());
    world.facts.standing = ClusterFact::Missing;
    world.pass();
    delete(&mut world);
    assert_eq!((world.done.clone(), left(&world)), (vec!["end".to_owned()], None));
}
