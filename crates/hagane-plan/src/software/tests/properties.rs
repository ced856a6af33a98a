//! What holds for every order of specs, faults and packages that were there before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::world::World;
use crate::software::UnitSeen;

const NODES: [&str; 4] = ["m1", "b1", "w1", "w2"];
const PACKAGES: [&str; 3] = ["curl", "htop", "jq"];

/// One package: whether masters and workers get it, and in which version.
type Wish = (bool, bool, Option<&'static str>);

fn wish() -> impl Strategy<Value = Wish> {
    (any::<bool>(), any::<bool>(), prop::option::of(prop::sample::select(vec!["1.6-2.1", "1.7"])))
}

#[derive(Clone, Debug)]
struct Wishes {
    packages: Vec<Wish>,
    drain: bool,
    reboot: &'static str,
}

fn wishes() -> impl Strategy<Value = Wishes> {
    let reboot = prop::sample::select(vec!["Never", "IfRequired", "Always"]);
    (prop::collection::vec(wish(), PACKAGES.len()), any::<bool>(), reboot)
        .prop_map(|(packages, drain, reboot)| Wishes { packages, drain, reboot })
}

impl Wishes {
    fn spec(&self) -> Value {
        let list = |wanted: &dyn Fn(&Wish) -> bool| {
            let items = PACKAGES.iter().zip(&self.packages).filter(|(_, wish)| wanted(wish));
            let item = |(name, wish): (&&str, &Wish)| match wish.2 {
                Some(version) => json!({*name: {"version": version}}),
                None => json!(name),
            };
            items.map(item).collect::<Vec<_>>()
        };
        json!({
            "masterSoftware": list(&|wish| wish.0), "workerSoftware": list(&|wish| wish.1),
            "drain": self.drain, "reboot": self.reboot,
        })
    }

    fn careful(&self) -> bool {
        self.drain || self.reboot != "Never"
    }

    /// What a node has to have: names, each with the version where one is asked for.
    fn of(&self, node: &str) -> Vec<(&'static str, Option<&'static str>)> {
        let (master, worker) = (node.starts_with(['m', 'b']), !node.starts_with('m'));
        let packages = PACKAGES.iter().zip(&self.packages);
        packages
            .filter(|(_, wish)| (master && wish.0) || (worker && wish.1))
            .map(|(name, wish)| (*name, wish.2))
            .collect()
    }
}

fn ends() -> impl Strategy<Value = Vec<UnitSeen>> {
    let end = prop_oneof![
        Just(UnitSeen::Succeeded),
        Just(UnitSeen::Running(None)),
        Just(UnitSeen::Absent),
        Just(UnitSeen::Killed),
        Just(UnitSeen::TimedOut),
        Just(UnitSeen::Failed(100, false)),
        Just(UnitSeen::Failed(100, true)),
    ];
    prop::collection::vec(end, 0..4)
}

fn names(world: &World, node: &str) -> BTreeSet<String> {
    world.hosts[node].packages.keys().cloned().collect()
}

fn check(before: &[BTreeSet<&'static str>], steps: &[(Wishes, Vec<Vec<UnitSeen>>)]) {
    let mut world = World::new(&NODES, json!({}));
    for (node, names) in NODES.iter().zip(before) {
        let packages: BTreeMap<String, String> =
            names.iter().map(|name| ((*name).to_owned(), "0".to_owned())).collect();
        world.host(node).packages = packages;
    }
    for (number, (wishes, ends)) in steps.iter().enumerate() {
        world.most_jobs = 0;
        world.edit(wishes.spec());
        for (node, ends) in NODES.iter().zip(ends) {
            world.host(node).ends.clone_from(ends);
        }
        world.settle();
        // Whatever failed is tried again when told to, and then nothing is in the way.
        for node in NODES {
            world.host(node).ends.clear();
        }
        world.facts.retry = Some(number.to_string());
        world.settle();
        assert_eq!(world.ready().0, "Ready");
        assert!(!wishes.careful() || world.most_jobs <= 1, "{} at once", world.most_jobs);
        for node in NODES {
            for (name, version) in wishes.of(node) {
                let found = world.hosts[node].packages.get(name);
                assert!(found.is_some_and(|found| version.is_none_or(|wanted| wanted == found)), "{name} on {node}");
            }
            assert!(!world.hosts[node].cordoned, "{node} is given back");
        }
        let done = world.done.len();
        for _ in 0..3 {
            world.pass();
            world.pass_time(Duration::from_secs(60));
        }
        assert_eq!(world.done.len(), done, "nothing is done where nothing changes");
    }
    world.facts.deleting = Some(Duration::ZERO);
    world.settle();
    assert_eq!(world.done.last().map(String::as_str), Some("end"));
    for (node, before) in NODES.iter().zip(before) {
        let before: BTreeSet<String> = before.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(names(&world, node), before, "what was there stays on {node}, what came goes");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn specs_are_reached_stay_and_leave_nothing_behind(
        before in prop::collection::vec(prop::collection::btree_set(prop::sample::select(PACKAGES.to_vec()), 0..3), NODES.len()),
        steps in prop::collection::vec((wishes(), prop::collection::vec(ends(), NODES.len())), 1..4),
    ) {
        check(&before, &steps);
    }
}
