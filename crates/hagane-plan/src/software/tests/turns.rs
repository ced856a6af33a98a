use std::collections::BTreeSet;

use serde_json::json;

use super::world::{World, seed, spec_of};
use crate::software::Other;

fn other(name: &str, older: bool) -> Other {
    Other { name: name.to_owned(), older, ..Other::default() }
}

#[test]
fn takes_its_turn_before_anything_begins() {
    let mut world = World::new(&["m1"], seed());
    world.pass();
    assert!(world.facts.status.turn_since.is_some() && world.done.is_empty());
    world.pass();
    assert_eq!(world.done, ["install curl jq=1.6-2.1 on m1"]);
}

#[test]
fn waits_while_another_one_works_and_says_for_whom() {
    for older in [true, false] {
        let mut world = World::new(&["m1"], seed());
        world.facts.others = vec![Other { turn: true, works: true, ..other("tools", older) }];
        world.settle();
        let told = ("WaitingForTurn".to_owned(), "waits for Software tools to end its work".to_owned());
        assert_eq!((world.ready(), world.done.len(), world.facts.status.turn_since), (told, 0, None));
        world.facts.others[0].turn = false;
        world.settle();
        assert_eq!(world.ready().0, "Ready");
    }
}

#[test]
fn of_two_that_took_the_turn_at_once_the_younger_gives_it_back() {
    for (older, kept) in [(true, false), (false, true)] {
        let mut world = World::new(&["m1"], seed());
        world.pass();
        world.facts.others = vec![Other { turn: true, ..other("tools", older) }];
        world.pass();
        assert_eq!(
            (world.facts.status.turn_since.is_some(), world.done.len()),
            (kept, 0),
            "the other is older: {older}"
        );
    }
}

#[test]
fn a_version_that_an_older_one_asks_for_otherwise_is_told_by_the_younger() {
    let elder = spec_of(json!({"masterSoftware": [{"jq": {"version": "1.7"}}]}));
    let mut world = World::new(&["m1"], seed());
    world.facts.others = vec![Other { spec: elder.clone(), ..other("tools", true) }];
    world.settle();
    let told = "package \"jq\" on node m1: \"1.6-2.1\" is asked for, and \"1.7\" by Software tools".to_owned();
    assert_eq!((world.ready(), world.done.len()), (("PackageConflict".to_owned(), told), 0));
    world.facts.others[0].older = false;
    world.settle();
    assert_eq!(world.ready().0, "Ready", "the older one goes on");
}

#[test]
fn a_package_of_two_goes_with_the_last_of_them() {
    let mut world = World::new(&["m1"], json!({"masterSoftware": ["curl", {"jq": {"version": "1.7"}}]}));
    world.host("m1").packages.insert("curl".to_owned(), "1".to_owned());
    let owns = BTreeSet::from([("m1".to_owned(), "curl".to_owned())]);
    world.facts.others =
        vec![Other { spec: spec_of(json!({"masterSoftware": ["curl"]})), owns, ..other("tools", true) }];
    world.settle();
    world.edit(json!({}));
    world.settle();
    assert_eq!(world.has("m1"), ["curl=1"], "the other one still wants it");
    world.edit(json!({"masterSoftware": ["curl", "jq"]}));
    world.settle();
    world.facts.others[0].deleting = true;
    world.edit(json!({}));
    world.settle();
    assert_eq!(world.has("m1"), Vec::<String>::new());
}
