//! The program on a data directory that is not all its own.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

fn up(directory: &Path, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hagane"));
    command.args(["up", "--listen=127.0.0.1:0", "--controllers=none"]);
    command.arg(format!("--tls-name={name}")).arg("--data-dir").arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn a_second_process_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut first = up(directory.path(), "first.example.com").spawn().expect("the program starts");
    let mut lines = BufReader::new(first.stderr.take().expect("it is piped")).lines().map_while(Result::ok);
    let ready = lines.any(|line| line.contains("ready"));
    let read = || {
        ["pki/server.crt", "pki/admin.crt", "admin.kubeconfig"]
            .map(|name| std::fs::read_to_string(directory.path().join(name)).expect("the first has written it"))
    };
    let before = ready.then(read);
    let second = up(directory.path(), "second.example.com").output().expect("the program starts");
    let after = ready.then(read);
    first.kill().expect("it runs");
    first.wait().expect("it has ended");
    assert!(ready, "the first has ended early");
    assert!(!second.status.success());
    let words = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(words.contains("is in use by another process"), "{words}");
    assert_eq!(before, after);
}
