//! What is kept of earlier runs of an owner.

use std::fs;

use hagane_ports::installer::{ClusterInstaller, InstallRequest, RunExit, RunState};

use crate::bed::{Bed, request};

const TASKS: &str = "    - name: Say nothing\n      ansible.builtin.debug:\n";

async fn run(bed: &Bed, id: &str, owner: &str) {
    let wanted = InstallRequest { run_id: id.to_owned(), owner_uid: owner.to_owned(), ..request() };
    bed.start_with(&wanted).await;
    loop {
        let seen = bed.installer.observe(id).await.expect("observable");
        if let RunState::Finished(exit) = seen.state {
            assert!(matches!(exit, RunExit::NotStarted { .. }), "{exit:?}");
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// A bed whose program cannot be started: runs end at once.
fn quick_bed() -> Bed {
    let directory = tempfile::tempdir().expect("a directory");
    let program = directory.path().join("ansible-playbook");
    fs::write(&program, "not executable").expect("a file");
    let shim = env!("CARGO_BIN_EXE_hagane-installers-lab").into();
    let options = hagane_installers::EngineOptions::new(directory.path().join("runs"), program, shim);
    Bed::with_options(directory, options, "connection: local", TASKS)
}

fn kept(bed: &Bed) -> Vec<String> {
    let entries = fs::read_dir(&bed.options.runs).expect("a directory").flatten();
    let runs = entries.filter(|entry| entry.path().join("intent.json").exists());
    let mut names: Vec<String> = runs.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn the_newest_runs_of_an_owner_are_kept_and_those_of_others_too() {
    let bed = quick_bed();
    run(&bed, "other-1", "0ther").await;
    for number in 1..=7 {
        run(&bed, &format!("mine-{number}"), "m1ne").await;
    }
    assert_eq!(kept(&bed), ["mine-3", "mine-4", "mine-5", "mine-6", "mine-7", "other-1"]);
}

#[tokio::test]
async fn large_runs_go_before_their_number_is_reached() {
    let bed = quick_bed();
    for number in 1..=3 {
        run(&bed, &format!("mine-{number}"), "m1ne").await;
        // Sparse: it counts its length, and takes no room of this machine.
        let large = fs::File::create(bed.options.runs.join(format!("mine-{number}/work/large"))).expect("a file");
        large.set_len(150 * 1024 * 1024).expect("a length");
    }
    run(&bed, "mine-4", "m1ne").await;
    assert_eq!(kept(&bed), ["mine-3", "mine-4"]);
}

#[tokio::test]
async fn a_run_that_goes_on_is_never_removed() {
    let bed = Bed::with_tasks(
        "    - name: Wait\n      ansible.builtin.shell: \"touch {{ directory }}/waits; exec sleep 300\"\n",
    );
    bed.start().await;
    bed.wait_for("waits").await;
    for number in 1..=6 {
        let wanted = InstallRequest { run_id: format!("later-{number}"), ..request() };
        bed.start_with(&wanted).await;
        bed.installer.cancel(&wanted.run_id).await.expect("cancelled");
    }
    assert_eq!(bed.observe().await.state, RunState::Running);
    assert!(kept(&bed).contains(&"run-1".to_owned()) && kept(&bed).len() <= 6, "{:?}", kept(&bed));
    bed.installer.cancel("run-1").await.expect("cancelled");
}
