//! Lists, old lists and watches agree with a plain model, also across restarts and compaction.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::{delete, key, open, put, rows};
use hagane_store::{Durability, EventKind, Expect, Keep, Key, Options, Store};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8),
    Delete(u8),
    PutTwo(u8, u8),
    Compact(u8),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0u8..8, any::<u8>()).prop_map(|(place, value)| Step::Put(place, value)),
        4 => (0u8..8).prop_map(Step::Delete),
        2 => (0u8..8, 0u8..8).prop_map(|(first, second)| Step::PutTwo(first, second)),
        1 => (1u8..20).prop_map(Step::Compact),
        1 => Just(Step::Restart),
    ]
}

/// No process is killed here, so nothing needs to wait for the disk.
fn relaxed() -> Options {
    Options { durability: Durability::Normal, ..Options::default() }
}

type Contents = BTreeMap<String, (String, u64)>;

fn place(number: u8) -> Key {
    key("things", if number.is_multiple_of(2) { "even" } else { "odd" }, &format!("o{number}"))
}

fn listed(snapshot: &hagane_store::Snapshot) -> Contents {
    rows(snapshot).into_iter().map(|(place, value, revision)| (place, (value, revision))).collect()
}

/// Applies what a watch tells to what it started from.
fn follow(store: &Store, from: u64, mut contents: Contents) -> Result<Contents, TestCaseError> {
    let mut watch = store.watch("things", None, from).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let mut last = from;
    while let Some(event) = watch.try_next().map_err(|error| TestCaseError::fail(error.to_string()))? {
        prop_assert!(event.revision > last);
        last = event.revision;
        let (place, value, revision) = common::row(&event.entry);
        let before = match event.kind {
            EventKind::Deleted => contents.remove(&place),
            _ => contents.insert(place, (value, revision)),
        };
        prop_assert_eq!(before.is_none(), event.kind == EventKind::Added);
        let previous = event.previous.as_ref().map(common::row).map(|(_, value, revision)| (value, revision));
        prop_assert_eq!(before, previous);
    }
    Ok(contents)
}

async fn run(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let directory = tempfile::tempdir().expect("directory is made");
    let mut store = open(&directory, relaxed());
    let mut history: BTreeMap<u64, Contents> = BTreeMap::from([(store.revision(), Contents::new())]);
    let mut contents = Contents::new();
    for step in steps {
        let writes = match step {
            Step::Put(at, value) => vec![put(&place(at), &value.to_string(), Expect::Any)],
            Step::Delete(at) => vec![delete(&place(at), Expect::Any)],
            Step::PutTwo(first, second) => {
                vec![put(&place(first), "one", Expect::Any), put(&place(second), "two", Expect::Any)]
            }
            Step::Compact(revisions) => {
                let keep = Keep { revisions: revisions.into(), age: Duration::ZERO };
                store.compact(keep).await.expect("compacts");
                continue;
            }
            Step::Restart => {
                store.close().await;
                store = open(&directory, relaxed());
                continue;
            }
        };
        let mut revision = store.revision();
        let Ok(last) = store.commit(writes.clone()).await else {
            let Step::Delete(at) = step else { return Err(TestCaseError::fail("a put was refused")) };
            let key = place(at);
            let place = format!("{}/{}", key.namespace, key.name);
            prop_assert!(!contents.contains_key(&place));
            continue;
        };
        for write in writes {
            revision += 1;
            let key = write.key();
            let place = format!("{}/{}", key.namespace, key.name);
            match write {
                hagane_store::Write::Put { value, .. } => {
                    contents.insert(place, (String::from_utf8_lossy(&value).into_owned(), revision));
                }
                hagane_store::Write::Delete { .. } => drop(contents.remove(&place)),
            }
        }
        prop_assert_eq!(last, revision);
        history.insert(last, contents.clone());
    }
    prop_assert_eq!(listed(&store.list("things", None)), contents.clone());
    let compacted = store.compacted();
    for (revision, past) in history {
        if revision < compacted {
            prop_assert!(store.list_at("things", None, revision).is_err());
            prop_assert!(store.watch("things", None, revision).is_err());
            continue;
        }
        // After a restart that follows a compaction the oldest kept events may lack what was before them.
        let Ok(old) = store.list_at("things", None, revision) else {
            prop_assert!(store.watch("things", None, revision).is_err());
            continue;
        };
        prop_assert_eq!(listed(&old), past.clone());
        prop_assert_eq!(follow(&store, revision, past)?, contents.clone());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn lists_and_watches_agree_with_the_model(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime starts");
        runtime.block_on(run(steps))?;
    }
}
