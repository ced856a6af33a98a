//! Runs that break: which are tried again by themselves, which wait for a person, and what a person can ask for.

use std::time::Duration;

use hagane_api::bpa::provisioning::RunPolicy;
use hagane_api::bpa::reasons::{ProvisioningWait, RunVerb};

use super::super::{Action, Claim, RunEnd, RunSeen, retry_pause};
use super::steps::{broken, ready, with_run};
use super::world::{World, facts};
use crate::decision::Next;
use crate::provisioning::{Facts, decide};
use hagane_api::bpa::reasons::RunWord;

fn ended(end: RunEnd) -> Facts {
    with_run(RunWord::Running, RunSeen::Finished(end))
}

/// A world in which every run ends like this.
fn world(end: RunEnd) -> World {
    let mut world = World::new(facts());
    world.end = end;
    world
}

#[test]
fn hosts_that_cannot_be_reached_are_tried_again_up_to_the_bound() {
    for (retries, runs) in [(None, 3), (Some(0), 1), (Some(1), 2), (Some(4), 5)] {
        let mut world = world(broken(true));
        if let Ok(spec) = &mut world.facts.spec {
            spec.run_policy = retries.map(|count| RunPolicy { retries: Some(count), ..RunPolicy::default() });
        }
        let decision = world.settle();
        assert_eq!((world.started, ready(&decision).0), (runs, "InstallFailed"), "{retries:?}");
        let tells = ready(&decision).1.contains(&format!("at try {runs}"));
        assert_eq!(tells, runs > 1, "{}", ready(&decision).1);
    }
}

#[test]
fn a_try_that_succeeds_ends_it_and_every_try_was_recorded_first() {
    let mut world = world(broken(true));
    while world.facts.run.as_ref().is_none_or(|run| run.attempt == 1) {
        world.pass(None);
    }
    world.end = RunEnd::Succeeded;
    assert_eq!(ready(&world.settle()).0, "Ready");
    let begun: Vec<&String> = world.log.iter().filter(|line| line.contains("Run") || line.contains("Start")).collect();
    let wanted = [
        "Installing/Starting: RecordRunIntent[u-1]",
        "Installing/Starting: StartInstall[u-1]",
        "Installing/RetryingRun: RetryRun[u-1-try2]",
        "Installing/Starting: StartInstall[u-1-try2]",
    ];
    assert_eq!(begun, wanted);
}

#[test]
fn what_fails_again_or_was_wanted_is_not_tried_again() {
    for end in [
        broken(false),
        RunEnd::Killed { signal: 9 },
        RunEnd::TimedOut,
        RunEnd::Stalled { limit: Duration::from_secs(60), task: None },
        RunEnd::Cancelled,
        RunEnd::Lost,
        RunEnd::NotStarted { message: "no such file".to_owned() },
    ] {
        let mut world = world(end.clone());
        let decision = world.settle();
        assert_eq!((world.started, decision.next), (1, Next::AwaitChange), "{end:?}");
    }
    let mut world = world(RunEnd::Interrupted);
    world.settle();
    assert_eq!(world.started, 3, "a machine that went down comes back");
}

#[test]
fn pauses_grow_and_are_bounded() {
    let seconds: Vec<u64> = (1..8).map(|attempt| retry_pause(attempt).as_secs()).collect();
    assert_eq!(seconds, [30, 60, 120, 240, 480, 600, 600]);
    assert_eq!(retry_pause(u32::MAX).as_secs(), 600);
    let mut facts = ended(broken(true));
    for (ended, left) in [(0, Some(30)), (29, Some(1)), (30, None), (u64::MAX, None)] {
        if let Some(run) = &mut facts.run {
            run.ended = Some(Duration::from_secs(ended));
        }
        let decision = decide(&facts);
        let waits = left.map(|left| Next::After(Duration::from_secs(left), ProvisioningWait::Retry));
        assert_eq!(decision.next, waits.unwrap_or(Next::Now), "{ended}");
        assert_eq!(decision.actions.len(), usize::from(left.is_none()));
    }
}

#[test]
fn nothing_is_tried_again_where_the_ground_has_changed() {
    let unchanged = ended(broken(true));
    assert_eq!(decide(&unchanged).actions, [Action::RetryRun { id: "u-1-try2".to_owned(), attempt: 2 }]);
    let retried = |change: fn(&mut Facts)| {
        let mut facts = unchanged.clone();
        change(&mut facts);
        decide(&facts).actions.iter().any(|action| matches!(action, Action::RetryRun { .. }))
    };
    assert!(!retried(|facts| facts.hosts[0].claim = Claim::Other("another".to_owned())));
    assert!(!retried(|facts| facts.generation = 2));
    assert!(!retried(|facts| facts.retry = Some("asked".to_owned())));
    assert!(!retried(|facts| facts.spec = Err("unreadable".to_owned())));
    assert!(!retried(|facts| facts.holder = "another process".to_owned()));
    assert!(!retried(|facts| facts.cancel = Some("u-1".to_owned())), "a person asked for its end");
    assert!(retried(|facts| facts.cancel = Some("u-0".to_owned())), "of another run");
    assert!(!retried(|facts| {
        if let Some(run) = &mut facts.run {
            run.verb = RunVerb::RecoverControlPlane;
        }
    }));
}

#[test]
fn a_person_ends_a_run_by_its_id() {
    let mut facts = with_run(RunWord::Running, RunSeen::Running { progress: "task 3".to_owned() });
    facts.cancel = Some("u-0".to_owned());
    assert_eq!(ready(&decide(&facts)).0, "Installing", "another run is meant");
    facts.cancel = Some("u-1".to_owned());
    let decision = decide(&facts);
    assert_eq!((ready(&decision).0, decision.actions.len()), ("CancellingRun", 1));
    assert_eq!(decision.actions, [Action::CancelRun { id: "u-1".to_owned() }]);

    let mut facts = with_run(RunWord::Starting, RunSeen::Absent);
    facts.cancel = Some("u-1".to_owned());
    let decision = decide(&facts);
    assert_eq!((ready(&decision).0, decision.actions.len()), ("InstallInterrupted", 0), "it is not begun");
    facts.retry = Some("now".to_owned());
    assert!(matches!(decide(&facts).actions[..], [Action::CheckFacts(_)]), "and another one may be asked for");
}

#[test]
fn a_cancelled_run_ends_and_stays_ended() {
    let mut world = world(RunEnd::Succeeded);
    while !matches!(world.facts.seen, RunSeen::Running { .. }) {
        world.pass(None);
    }
    world.facts.cancel = Some("u-1".to_owned());
    assert_eq!((ready(&world.settle()).0, world.started), ("InstallInterrupted", 1));
    world.facts.retry = Some("again".to_owned());
    assert_eq!((ready(&world.settle()).0, world.started), ("Ready", 2));
}

#[test]
fn a_person_who_knows_that_the_other_machine_is_gone_need_not_wait() {
    let mut facts = with_run(RunWord::Running, RunSeen::Absent);
    facts.holder = "another process".to_owned();
    let held = decide(&facts);
    assert_eq!(ready(&held).0, "RunHeldElsewhere");
    assert!(ready(&held).1.contains("hagane.dev/abandon-run=u-1"), "{}", ready(&held).1);
    facts.abandon = Some("u-0".to_owned());
    assert_eq!(ready(&decide(&facts)).0, "RunHeldElsewhere");
    facts.abandon = Some("u-1".to_owned());
    assert_eq!(ready(&decide(&facts)).0, "RunLost");
    facts.retry = Some("go on".to_owned());
    assert!(matches!(decide(&facts).actions[..], [Action::CheckFacts(_)]));
    let finished = Facts { seen: RunSeen::Running { progress: String::new() }, ..facts };
    assert_eq!(ready(&decide(&finished)).0, "Installing", "what is seen to live is not given up");
}

#[test]
fn what_was_told_is_told_on_when_the_directory_is_gone() {
    let mut facts = with_run(RunWord::Failed, RunSeen::Absent);
    if let Some(run) = &mut facts.run {
        run.message = Some("failed in task \"Join\" on w1: no space".to_owned());
    }
    assert!(ready(&decide(&facts)).1.starts_with("run u-1 failed in task \"Join\" on w1: no space; "));
    facts.seen = RunSeen::Finished(RunEnd::TimedOut);
    assert!(ready(&decide(&facts)).1.starts_with("run u-1 took longer than spec.timeLimitMinutes"));
}
