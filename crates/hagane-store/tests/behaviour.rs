//! What a caller of the store may rely on.

mod common;

use std::time::Duration;

use common::{delete, index, key, open, put, row, rows};
use hagane_store::{CommitError, Compacted, EventKind, Expect, Keep, OpenError, Options, Store, WatchError};

#[tokio::test]
async fn answers_with_revisions_above_zero_and_reads_its_own_writes() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    assert!(store.revision() > 0);
    let one = key("things", "ns", "one");
    let first = store.commit(vec![put(&one, "a", Expect::Absent)]).await.expect("commits");
    let entry = store.get(&one).expect("is there");
    assert_eq!((entry.revision, entry.value.as_ref()), (first, b"a".as_ref()));
    let second = store.commit(vec![put(&one, "b", Expect::Revision(first))]).await.expect("commits");
    assert!(second > first);
    let third = store.commit(vec![delete(&one, Expect::Any)]).await.expect("commits");
    assert!(third > second);
    assert_eq!(store.get(&one), None);
    assert_eq!(store.list("things", None).revision, third);
}

#[tokio::test]
async fn refuses_a_commit_as_a_whole_and_names_the_current_revision() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let (one, two) = (key("things", "", "one"), key("things", "", "two"));
    let first = store.commit(vec![put(&one, "a", Expect::Absent)]).await.expect("commits");
    let refused = store.commit(vec![put(&two, "b", Expect::Absent), put(&one, "c", Expect::Absent)]).await;
    assert!(
        matches!(refused, Err(CommitError::Conflict { ref key, current }) if *key == one && current == Some(first))
    );
    assert_eq!(store.get(&two), None);
    assert_eq!(store.revision(), first);
    let refused = store.commit(vec![delete(&two, Expect::Any)]).await;
    assert!(matches!(refused, Err(CommitError::Conflict { current: None, .. })));
    let both = vec![put(&two, "b", Expect::Absent), delete(&one, Expect::Revision(first))];
    assert_eq!(store.commit(both).await.expect("commits"), first + 2);
    assert_eq!(rows(&store.list("things", None)), [("/two".to_owned(), "b".to_owned(), first + 1)]);
}

#[tokio::test]
async fn lets_one_of_many_racing_writers_win() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let one = key("things", "", "one");
    let tasks: Vec<_> = (0..50)
        .map(|number| {
            let (store, write) = (store.clone(), put(&one, &number.to_string(), Expect::Absent));
            tokio::spawn(async move { store.commit(vec![write]).await })
        })
        .collect();
    let mut won = 0;
    for task in tasks {
        won += usize::from(task.await.expect("task ends").is_ok());
    }
    assert_eq!(won, 1);
}

#[tokio::test]
async fn lists_in_order_by_namespace_and_after_a_place() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let places = [("b", "2"), ("a", "1"), ("b", "1"), ("c", "0")];
    let writes = places.map(|(namespace, name)| put(&key("things", namespace, name), "x", Expect::Absent));
    store.commit(writes.into()).await.expect("commits");
    let names = |rows: Vec<(String, String, u64)>| rows.into_iter().map(|row| row.0).collect::<Vec<_>>();
    assert_eq!(names(rows(&store.list("things", None))), ["a/1", "b/1", "b/2", "c/0"]);
    let snapshot = store.list("things", Some("b"));
    assert_eq!((snapshot.len(), names(rows(&snapshot))), (2, vec!["b/1".to_owned(), "b/2".to_owned()]));
    assert_eq!(snapshot.after("b", "1").map(|entry| row(entry).0).collect::<Vec<_>>(), ["b/2"]);
    assert_eq!(snapshot.after("a", "9").count(), 2);
    assert_eq!(snapshot.after("b", "2").count(), 0);
    assert_eq!(store.list("things", None).after("b", "2").map(|entry| row(entry).0).collect::<Vec<_>>(), ["c/0"]);
    assert!(store.list("others", None).is_empty());
    assert_eq!(store.resources(), ["things".into()]);
}

#[tokio::test]
async fn finds_by_uid_and_owner_also_after_a_restart() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let (one, two) = (key("things", "", "one"), key("others", "n", "two"));
    let revision = store
        .commit(vec![put(&one, "uid=u1", Expect::Absent), put(&two, "uid=u2;owner=u1;owner=u9", Expect::Absent)])
        .await
        .expect("commits");
    store.close().await;
    for _ in 0..2 {
        let store = open(&directory, Options::default());
        let owned: Vec<_> = store.by_owner("u1").into_iter().map(|entry| entry.key.clone()).collect();
        assert_eq!(owned, std::slice::from_ref(&two));
        assert_eq!(store.by_uid("u1").map(|entry| entry.key.clone()), Some(one.clone()));
        assert_eq!(store.revision(), revision);
        store.close().await;
    }
    let store = open(&directory, Options::default());
    store.commit(vec![put(&two, "uid=u2;owner=u9", Expect::Any)]).await.expect("commits");
    assert!(store.by_owner("u1").is_empty());
    store.commit(vec![delete(&two, Expect::Any)]).await.expect("commits");
    assert!(store.by_owner("u9").is_empty());
    assert_eq!(store.by_uid("u2"), None);
}

#[tokio::test]
async fn tells_changes_once_in_order_with_what_was_before() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let start = store.revision();
    let (one, other) = (key("things", "a", "one"), key("things", "b", "other"));
    let mut watch = store.watch("things", Some("a".to_owned()), start).expect("watches");
    store.commit(vec![put(&one, "1", Expect::Absent), put(&other, "x", Expect::Absent)]).await.expect("commits");
    store.commit(vec![put(&one, "2", Expect::Any)]).await.expect("commits");
    let last = store.commit(vec![delete(&one, Expect::Any)]).await.expect("commits");
    let mut seen = Vec::new();
    for _ in 0..3 {
        let event = watch.next().await.expect("an event comes");
        let previous = event.previous.as_ref().map(|entry| entry.revision);
        assert_eq!(event.entry.revision, event.revision);
        seen.push((event.kind, row(&event.entry).1, event.revision, previous));
    }
    assert_eq!(
        seen,
        [
            (EventKind::Added, "1".to_owned(), start + 1, None),
            (EventKind::Modified, "2".to_owned(), start + 3, Some(start + 1)),
            (EventKind::Deleted, "2".to_owned(), last, Some(start + 3)),
        ]
    );
    assert_eq!(watch.try_next(), Ok(None));
    store.commit(vec![put(&other, "y", Expect::Any)]).await.expect("commits");
    assert_eq!(watch.progress(), last + 1);
}

#[tokio::test]
async fn never_tells_progress_beyond_an_event_not_yet_taken() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let start = store.revision();
    let mut watch = store.watch("things", None, start).expect("watches");
    store.commit(vec![put(&key("things", "", "one"), "1", Expect::Any)]).await.expect("commits");
    assert_eq!(watch.progress(), start);
    assert_eq!(watch.next().await.expect("an event comes").revision, start + 1);
    assert_eq!(watch.progress(), start + 1);
}

#[tokio::test]
async fn tells_a_slow_watcher_that_events_are_gone() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options { ring_events: 4, ..Options::default() });
    let start = store.revision();
    let mut watch = store.watch("things", None, start).expect("watches");
    let one = key("things", "", "one");
    for number in 0..6 {
        store.commit(vec![put(&one, &number.to_string(), Expect::Any)]).await.expect("commits");
    }
    assert_eq!(watch.next().await, Err(WatchError::Lagged { after: start }));
    let refused = store.watch("things", None, start).err();
    assert_eq!(refused, Some(Compacted { requested: start, oldest: start + 2 }));
    assert!(store.watch("things", None, start + 2).is_ok());
}

#[tokio::test]
async fn lists_the_past_exactly_until_it_is_compacted() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let (one, two) = (key("things", "", "one"), key("things", "", "two"));
    let first = store.commit(vec![put(&one, "1", Expect::Absent)]).await.expect("commits");
    let then = rows(&store.list("things", None));
    store.commit(vec![put(&one, "2", Expect::Any), put(&two, "1", Expect::Any)]).await.expect("commits");
    let last = store.commit(vec![delete(&one, Expect::Any)]).await.expect("commits");
    let past = store.list_at("things", None, first).expect("is known");
    assert_eq!((past.revision, rows(&past)), (first, then));
    let nothing = store.list_at("things", None, first - 1).expect("is known");
    assert!(nothing.is_empty());

    let compacted = store.compact(Keep { revisions: 1, age: Duration::ZERO }).await.expect("compacts");
    assert_eq!(compacted, last - 1);
    assert_eq!(store.compacted(), compacted);
    let refused = store.list_at("things", None, first).err();
    assert_eq!(refused, Some(Compacted { requested: first, oldest: compacted }));
    assert!(store.list_at("others", None, first).is_err());
    assert!(store.watch("others", None, first).is_err());
    assert!(store.list_at("things", None, compacted).is_ok());
    assert_eq!(rows(&store.list("things", None)).len(), 1);

    store.close().await;
    let store = open(&directory, Options::default());
    assert_eq!((store.compacted(), store.revision()), (compacted, last));
    assert!(store.watch("things", None, first).is_err());
}

#[tokio::test]
async fn keeps_young_revisions() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options { clock: || 10_000, ..Options::default() });
    let compacted = store.compacted();
    for _ in 0..5 {
        store.commit(vec![put(&key("things", "", "one"), "1", Expect::Any)]).await.expect("commits");
    }
    let kept = store.compact(Keep { revisions: 1, age: Duration::from_secs(1) }).await.expect("compacts");
    assert_eq!(kept, compacted);
}

#[tokio::test]
async fn goes_on_watching_after_a_restart() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let start = store.revision();
    let (one, two) = (key("things", "", "one"), key("others", "", "two"));
    store.commit(vec![put(&one, "1", Expect::Any), put(&two, "1", Expect::Any)]).await.expect("commits");
    store.commit(vec![put(&one, "2", Expect::Any)]).await.expect("commits");
    store.commit(vec![delete(&one, Expect::Any)]).await.expect("commits");
    let told = async |store: &Store| {
        let mut watch = store.watch("things", None, start).expect("watches");
        let mut events = Vec::new();
        while let Some(event) = watch.try_next().expect("is told") {
            events.push(event.as_ref().clone());
        }
        events
    };
    let before = told(&store).await;
    store.close().await;
    let store = open(&directory, Options::default());
    assert_eq!(before.len(), 3);
    assert_eq!(told(&store).await, before);
    store.close().await;
    let store = open(&directory, Options { resume_events: 1, ..Options::default() });
    assert!(store.watch("things", None, start).is_err());
}

#[tokio::test]
async fn ends_watches_and_refuses_commits_when_closed() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let mut watch = store.watch("things", None, store.revision()).expect("watches");
    let waiting = tokio::spawn(async move { watch.next().await });
    store.close().await;
    assert_eq!(waiting.await.expect("task ends"), Err(WatchError::Closed));
    let refused = store.commit(vec![put(&key("things", "", "one"), "1", Expect::Any)]).await;
    assert!(matches!(refused, Err(CommitError::Closed)));
    store.wait_for(u64::MAX).await;
}

#[tokio::test]
async fn wakes_who_waits_for_a_revision() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let wanted = store.revision() + 2;
    let waiting = tokio::spawn({
        let store = store.clone();
        async move {
            store.wait_for(wanted).await;
            store.revision()
        }
    });
    for _ in 0..2 {
        store.commit(vec![put(&key("things", "", "one"), "1", Expect::Any)]).await.expect("commits");
    }
    assert_eq!(waiting.await.expect("task ends"), wanted);
}

#[tokio::test]
async fn is_one_process_only_private_and_refuses_newer_files() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("directory is made");
    let path = directory.path().join("store.db");
    let store = open(&directory, Options::default());
    store.commit(vec![put(&key("things", "", "one"), "1", Expect::Any)]).await.expect("commits");
    for file in ["store.db", "store.db-wal"] {
        let mode = directory.path().join(file).metadata().expect("file is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    assert!(matches!(Store::open(&path, Options::default(), index), Err(OpenError::InUse { .. })));
    store.close().await;
    let connection = rusqlite::Connection::open(&path).expect("file opens");
    connection.execute("UPDATE meta SET value = 999 WHERE key = 'schema_version'", ()).expect("is written");
    drop(connection);
    assert!(matches!(Store::open(&path, Options::default(), index), Err(OpenError::TooNew { found: 999, .. })));
    std::fs::write(directory.path().join("junk.db"), "this is not a database at all".repeat(100)).expect("is written");
    let refused = Store::open(directory.path().join("junk.db"), Options::default(), index);
    assert!(matches!(refused, Err(OpenError::Database { .. })), "{refused:?}");
}

#[tokio::test]
async fn opens_after_a_crash_without_room_for_further_files() {
    let directory = tempfile::tempdir().expect("directory is made");
    let store = open(&directory, Options::default());
    let one = key("things", "", "one");
    store.commit(vec![put(&one, "kept", Expect::Any)]).await.expect("commits");
    let crashed = tempfile::tempdir().expect("directory is made");
    for file in ["store.db", "store.db-wal"] {
        std::fs::copy(directory.path().join(file), crashed.path().join(file)).expect("file is copied");
    }
    // SQLite cannot make its shared-memory file where a directory stands: as on a disk that is full.
    std::fs::create_dir(crashed.path().join("store.db-shm")).expect("directory is made");
    let store = open(&crashed, Options::default());
    assert_eq!(store.get(&one).map(|entry| entry.value.clone()), Some("kept".into()));
}

#[tokio::test]
async fn goes_on_when_the_disk_has_space_again() {
    let directory = tempfile::tempdir().expect("directory is made");
    let path = directory.path().join("store.db");
    let store = open(&directory, Options::default());
    let one = key("things", "", "one");
    let first = store.commit(vec![put(&one, "small", Expect::Any)]).await.expect("commits");
    store.close().await;
    // A file that may not grow answers like a disk that is full.
    let store = Store::open(&path, Options { max_pages: Some(20), ..Options::default() }, index).expect("opens");
    let big = "x".repeat(400 * 1024);
    let refused = store.commit(vec![put(&one, &big, Expect::Any)]).await;
    assert!(matches!(refused, Err(CommitError::Storage(_))), "{refused:?}");
    assert_eq!(store.get(&one).map(|entry| entry.revision), Some(first));
    let second = store.commit(vec![put(&one, "fits", Expect::Revision(first))]).await.expect("commits");
    store.close().await;
    let store = open(&directory, Options::default());
    assert_eq!(rows(&store.list("things", None)), [("/one".to_owned(), "fits".to_owned(), second)]);
}
