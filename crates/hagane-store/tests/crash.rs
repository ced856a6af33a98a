//! A process killed in the middle of its commits leaves a whole database: every commit that was answered is there, and
//! the log tells the same as the current values.

mod common;

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{index, key, put};
use hagane_store::{Expect, Options, Store};

const DIRECTORY: &str = "HAGANE_STORE_CRASH_DIRECTORY";

/// Not a test of its own: the process that gets killed. Each commit writes the same number to two places.
#[test]
fn child_that_commits_until_it_is_killed() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let store = Store::open(Path::new(&directory).join("store.db"), Options::default(), index).expect("store opens");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime starts");
    runtime.block_on(async {
        let tasks = (0..16).map(|writer| {
            let store = store.clone();
            async move {
                for number in 0.. {
                    let value = format!("{number} {}", "x".repeat(700));
                    let places = ["left", "right"].map(|side| key("things", side, &format!("w{writer}")));
                    let writes = places.iter().map(|place| put(place, &value, Expect::Any)).collect();
                    let revision = store.commit(writes).await.expect("commits");
                    let mut output = std::io::stdout().lock();
                    writeln!(output, "done {writer} {number} {revision}").expect("parent reads");
                }
            }
        });
        let handles: Vec<_> = tasks.map(Box::pin).collect();
        join_all(handles).await;
    });
}

async fn join_all(mut futures: Vec<std::pin::Pin<Box<impl Future<Output = ()>>>>) {
    std::future::poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

#[test]
fn keeps_every_answered_commit_when_killed() {
    let directory = tempfile::tempdir().expect("directory is made");
    let mut acknowledged = vec![None; 16];
    for round in 0..5 {
        let mut child = Command::new(std::env::current_exe().expect("test has a path"))
            .args(["--exact", "child_that_commits_until_it_is_killed", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("child starts");
        let output = BufReader::new(child.stdout.take().expect("output is piped"));
        let mut lines = output.lines().map_while(Result::ok);
        let mut fresh = vec![None; 16];
        let mut read = |line: String| {
            let numbers: Vec<u64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
            if let (true, [writer, number, revision]) = (line.starts_with("done "), numbers.as_slice()) {
                fresh[usize::try_from(*writer).expect("small")] = Some((*number, *revision));
                return true;
            }
            false
        };
        let wanted = 150 + 37 * round;
        let seen = lines.by_ref().filter(|line| read(line.clone())).take(wanted).count();
        assert_eq!(seen, wanted, "child ended early");
        child.kill().expect("child is killed");
        // What was answered before the kill and still stands in the pipe counts too.
        for line in lines {
            read(line);
        }
        child.wait().expect("child has ended");
        for (kept, fresh) in acknowledged.iter_mut().zip(fresh) {
            *kept = fresh.or(*kept);
        }
        check(directory.path(), &acknowledged);
    }
}

fn check(directory: &Path, acknowledged: &[Option<(u64, u64)>]) {
    let store = Store::open(directory.join("store.db"), Options::default(), index).expect("store opens");
    for (writer, (number, revision)) in acknowledged.iter().enumerate().filter_map(|(at, seen)| Some((at, (*seen)?))) {
        let name = format!("w{writer}");
        let left = store.get(&key("things", "left", &name)).expect("left is there");
        let right = store.get(&key("things", "right", &name)).expect("right is there");
        assert_eq!(left.value, right.value, "a commit was torn");
        assert_eq!(left.revision + 1, right.revision);
        assert!(right.revision >= revision, "an answered commit is lost: {number}");
    }
    drop(store);
    let connection = open_when_free(&directory.join("store.db"));
    let differences: i64 = connection
        .query_row(
            "SELECT (SELECT count(*) FROM current LEFT JOIN log USING (revision) WHERE log.value IS NOT current.value)
                  + (SELECT count(*) FROM log l WHERE l.value IS NOT NULL
                       AND NOT EXISTS (SELECT 1 FROM log n WHERE (n.resource, n.namespace, n.name, n.previous_revision)
                                                             = (l.resource, l.namespace, l.name, l.revision))
                       AND NOT EXISTS (SELECT 1 FROM current c WHERE c.revision = l.revision))",
            (),
            |row| row.get(0),
        )
        .expect("tables are read");
    assert_eq!(differences, 0, "the log and the current values differ");
    let sound: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).expect("is checked");
    assert_eq!(sound, "ok");
}

/// The writer thread of a dropped store ends on its own time.
fn open_when_free(path: &Path) -> rusqlite::Connection {
    let connection = rusqlite::Connection::open(path).expect("file opens");
    connection.busy_timeout(std::time::Duration::from_secs(20)).expect("timeout is taken");
    connection
}
