//! One decision at a time: what is said and done in every situation.

use std::collections::BTreeSet;
use std::time::Duration;

use hagane_api::bpa::reasons::{ProvisioningReason, ProvisioningWait, RunVerb, RunWord};
use hagane_api::quantity::{MemoryMib, MilliCpus};
use serde_json::json;

use super::super::{
    Action, Claim, Decision, Facts, HostCheck, HostCheckResult, KubeconfigFact, Login, NameOwner, RunEnd, RunRecord,
    RunSeen, SecretFact, StartFact, StartFailure, decide,
};
use super::world::{US, World, facts, spec};
use crate::decision::Next;

pub(super) fn ready(decision: &Decision) -> (&'static str, &str) {
    let found = decision.conditions.iter().find(|condition| condition.r#type == "Ready");
    found.map_or(("", ""), |condition| (condition.reason, condition.message.as_str()))
}

fn condition<'a>(decision: &'a Decision, r#type: &str) -> (&'static str, &'a str) {
    let found = decision.conditions.iter().find(|condition| condition.r#type == r#type);
    found.map_or(("", ""), |condition| (condition.reason, condition.message.as_str()))
}

/// Facts after so many passes of an undisturbed road.
fn after(passes: usize) -> Facts {
    let mut world = World::new(facts());
    for _ in 0..passes {
        world.pass(None);
    }
    world.facts
}

/// Hosts claimed and pinned, nothing checked yet.
fn reachable() -> Facts {
    let mut facts = after(3);
    for host in &mut facts.hosts {
        host.pinned = host.claim == Claim::Ours;
    }
    assert!(facts.run.is_none() && facts.hosts.iter().filter(|host| host.pinned).count() == 3);
    facts
}

pub(super) fn with_run(state: RunWord, seen: RunSeen) -> Facts {
    let run = RunRecord {
        id: "u-1".to_owned(),
        generation: 1,
        retry: None,
        verb: RunVerb::Install,
        nodes: Vec::new(),
        lost: Vec::new(),
        version: None,
        renews: None,
        settings: None,
        holder: US.to_owned(),
        state,
        message: None,
        attempt: 1,
        ended: None,
        age: Duration::from_secs(5),
        limit: Duration::from_secs(3600),
    };
    Facts { run: Some(run), seen, ..reachable() }
}

pub(super) fn broken_in(task: Option<(String, String)>) -> RunEnd {
    RunEnd::Failed { status: 2, task, message: String::new(), unreachable: false }
}

pub(super) fn broken(unreachable: bool) -> RunEnd {
    let task = Some(("Join".to_owned(), "edge-worker-1".to_owned()));
    RunEnd::Failed { status: 2, task, message: "no route".to_owned(), unreachable }
}

fn ended_just_now() -> Option<RunRecord> {
    let run = with_run(RunWord::Running, RunSeen::Absent).run;
    run.map(|run| RunRecord { ended: Some(Duration::from_secs(1)), ..run })
}

fn checked(result: HostCheckResult) -> Facts {
    Facts { checks: Some(vec![HostCheck { host: "host-1".to_owned(), result }]), ..reachable() }
}

#[test]
fn a_taken_cluster_name_stops_everything() {
    let mut facts = after(1);
    facts.name_owner = NameOwner::Taken("Provisioning lab2/p3".to_owned());
    let decision = decide(&facts);
    assert_eq!(ready(&decision), ("ClusterNameTaken", "the cluster name \"edge\" belongs to Provisioning lab2/p3"));
    assert!(decision.actions.is_empty());
}

#[test]
fn names_the_node_and_the_other_owner_of_its_host() {
    let mut facts = after(1);
    facts.spec = Ok(spec(json!({"masters": [{"master-1": {"mac-address": "52:54:00:00:10:01"}}]})));
    facts.hosts[0].claim = Claim::Other("Provisioning lab/p1".to_owned());
    let decision = decide(&facts);
    let (reason, message) = ready(&decision);
    assert_eq!(reason, "NoSuitableHosts");
    assert!(message.contains("master-1 (MAC address 52:54:00:00:10:01)"), "{message}");
    assert!(message.contains("host-1: is claimed by Provisioning lab/p1"), "{message}");
}

#[test]
fn a_host_without_an_address_is_not_chosen() {
    let mut facts = after(1);
    facts.hosts[0].facts.nics = None;
    let decision = decide(&facts);
    let Some(Action::RecordPlan(plan)) = decision.actions.first() else { unreachable!("{decision:?}") };
    assert!(plan.assignments.iter().all(|entry| entry.host != "host-1" && !entry.address.is_empty()));
    assert!(plan.rejected.iter().any(|entry| entry.reasons[0].contains("no address is known")), "{:?}", plan.rejected);
}

#[test]
fn a_host_that_another_object_of_the_same_name_replaced_is_not_the_planned_one() {
    let mut facts = after(2);
    facts.hosts[0].uid = "new".to_owned();
    let decision = decide(&facts);
    assert!(matches!(decision.actions[..], [Action::RecordPlan(_)]), "{decision:?}");
}

#[test]
fn declared_facts_may_differ_by_a_tenth() {
    let answer = |milli, mib| HostCheckResult::Answered { cpus: Some(MilliCpus(milli)), memory: Some(MemoryMib(mib)) };
    let decision = decide(&checked(answer(2200, 4096 * 9 / 10 + 1)));
    assert_eq!(condition(&decision, "FactsDiffer").0, "FactsAgree");
    let decision = decide(&checked(answer(2201, 3000)));
    let (reason, message) = condition(&decision, "FactsDiffer");
    assert_eq!(reason, "FactsDiffer");
    assert_eq!(message, "host-1: 2 CPUs declared, 2201m found, host-1: 4096 MiB of memory declared, 3000 MiB found");
    assert!(
        matches!(decision.actions[..], [Action::RecordRunIntent { .. }]),
        "a difference is said, and stops nothing"
    );
}

#[test]
fn the_order_carries_what_the_user_asked_for_as_data() {
    let mut facts = with_run(RunWord::Starting, RunSeen::Absent);
    facts.spec = Ok(spec(json!({
        "master": {"cpu": 2, "memory": "4Gi"}, "worker": {"cpu": 4, "memory": "8Gi"}, "replicas": 2,
        "PodSubnet": "{{ lookup('pipe','touch X') }}", "serviceSubnet": "", "KUDPlugins": ["multus"],
        "ssh": {"user": "lab", "port": 2222}, "timeLimitMinutes": 7, "variables": {"dns_domain": "x.test"},
    })));
    // A CIDR that is none is refused before any order is made.
    assert_eq!(ready(&decide(&facts)).0, "InvalidSpec");
    if let Ok(spec) = &mut facts.spec {
        spec.pod_subnet = Some("10.9.0.0/16".to_owned());
    }
    let decision = decide(&facts);
    let Some(Action::StartInstall(order)) = decision.actions.first() else { unreachable!("{decision:?}") };
    assert_eq!(order.variables.len(), 2, "an empty subnet is no variable: {:?}", order.variables);
    assert_eq!(order.variables["kube_pods_subnet"], "10.9.0.0/16");
    assert_eq!((order.user.as_str(), order.nodes[0].ssh_port, order.time_limit.as_secs()), ("lab", 2222, 420));
    assert!(!order.variables.contains_key("kube_network_plugin_multus"), "kubeadm has no such variable");
    assert_eq!((order.addons.as_slice(), order.nodes.len()), (&["multus".to_owned()][..], 3));
}

#[test]
fn an_add_on_that_is_not_known_is_told_and_stops_nothing() {
    let mut facts = after(1);
    assert_eq!(condition(&decide(&facts), "PluginIgnored"), ("NoPluginIgnored", ""));
    if let Ok(spec) = &mut facts.spec {
        spec.kud_plugins = vec!["multus".to_owned(), "onap4k8s".to_owned()];
    }
    let decision = decide(&facts);
    let told = "spec.KUDPlugins: the installer brings no add-on of these names: multus (comes with the installer kubespray), onap4k8s";
    assert_eq!(condition(&decision, "PluginIgnored"), ("PluginUnknown", told));
    if let Ok(spec) = &mut facts.spec {
        spec.installer = Some(hagane_api::bpa::provisioning::Installer::Kubespray);
    }
    let told = "spec.KUDPlugins: the installer brings no add-on of these names: onap4k8s";
    assert_eq!(condition(&decide(&facts), "PluginIgnored"), ("PluginUnknown", told));
    assert!(matches!(decision.actions[..], [Action::RecordPlan(_)]), "{decision:?}");
}

#[test]
fn a_run_of_another_holder_is_left_alone_until_it_must_be_dead() {
    let mut facts = with_run(RunWord::Running, RunSeen::Absent);
    if let Some(run) = &mut facts.run {
        run.holder = "elsewhere".to_owned();
    }
    let decision = decide(&facts);
    assert_eq!((ready(&decision).0, decision.actions.len()), ("RunHeldElsewhere", 0));
    facts.retry = Some("again".to_owned());
    assert_eq!(ready(&decide(&facts)).0, "RunHeldElsewhere", "asking again starts no second run");
    facts.deleting = true;
    assert_eq!(ready(&decide(&facts)).0, "RunHeldElsewhere");
    facts.deleting = false;
    if let Some(run) = &mut facts.run {
        run.age = Duration::from_secs(3600 + 601);
    }
    assert!(matches!(decide(&facts).actions[..], [Action::CheckFacts(_)]), "and then a new one may start");
}

#[test]
fn a_running_run_is_followed_whatever_the_spec_says_now() {
    let mut facts = with_run(RunWord::Running, RunSeen::Running { progress: "task 3".to_owned() });
    facts.spec = Err("no spec".to_owned());
    facts.generation = 2;
    let decision = decide(&facts);
    assert_eq!(ready(&decision), ("Installing", "task 3"));
    assert_eq!(condition(&decision, "SpecValid").0, "InvalidSpec");
}

#[test]
fn what_was_installed_by_an_earlier_version_counts_as_this_spec_only_in_its_generation() {
    let mut facts = with_run(RunWord::Succeeded, RunSeen::Absent);
    facts.secret = SecretFact::Ours { run: Some("u-1".to_owned()) };
    assert_eq!(condition(&decide(&facts), "UpToDate").0, "UpToDate");
    facts.generation = 2;
    let decision = decide(&facts);
    assert_eq!((ready(&decision).0, condition(&decision, "UpToDate").0), ("Ready", "SpecChanged"));
    assert!(decision.actions.is_empty());
}

#[test]
fn a_kubeconfig_of_an_earlier_run_is_replaced() {
    let mut facts = with_run(RunWord::Succeeded, RunSeen::Finished(RunEnd::Succeeded));
    facts.secret = SecretFact::Ours { run: Some("u-0".to_owned()) };
    assert_eq!(decide(&facts).actions, [Action::FetchKubeconfig { run: "u-1".to_owned() }]);
    facts.kubeconfig = KubeconfigFact::Answers;
    assert_eq!(decide(&facts).actions, [Action::StoreKubeconfig { run: "u-1".to_owned() }]);
}

/// Situations that together give every reason and every wait.
fn situations() -> Vec<Facts> {
    let ended = |end: RunEnd| with_run(RunWord::Running, RunSeen::Finished(end));
    let start = |failure: StartFailure| Facts {
        start: StartFact::Failed(failure),
        ..with_run(RunWord::Starting, RunSeen::Absent)
    };
    let kubeconfig = |kubeconfig: KubeconfigFact| Facts { kubeconfig, ..ended(RunEnd::Succeeded) };
    let text = || "why".to_owned();
    let mut short = after(1);
    short.hosts.truncate(1);
    let mut elsewhere = with_run(RunWord::Running, RunSeen::Absent);
    elsewhere.holder = "other".to_owned();
    let mut no_address = with_run(RunWord::Starting, RunSeen::Absent);
    no_address.plan.iter_mut().flat_map(|plan| &mut plan.assignments).for_each(|entry| entry.address.clear());
    let kept = SecretFact::Ours { run: Some("u-1".to_owned()) };
    let mut with_plugin = after(1);
    if let Ok(spec) = &mut with_plugin.spec {
        spec.kud_plugins = vec![text()];
    }
    vec![
        facts(),
        after(1),
        Facts { paused: true, ..after(1) },
        with_plugin,
        Facts { spec: Err(text()), ..after(1) },
        Facts { name_owner: NameOwner::Taken(text()), ..after(1) },
        short,
        after(2),
        after(3),
        Facts { installer_missing: Some(text()), ..reachable() },
        Facts { login: Login::Missing { secret: text() }, ..reachable() },
        Facts { login: Login::Invalid { secret: text(), problem: text() }, ..reachable() },
        reachable(),
        checked(HostCheckResult::Unreachable(text())),
        checked(HostCheckResult::HostKeyChanged(text())),
        checked(HostCheckResult::LoginRefused(text())),
        checked(HostCheckResult::Answered { cpus: None, memory: None }),
        checked(HostCheckResult::Answered { cpus: Some(MilliCpus(1)), memory: None }),
        no_address,
        with_run(RunWord::Starting, RunSeen::Absent),
        start(StartFailure::Prerequisite(text())),
        start(StartFailure::Invalid(text())),
        start(StartFailure::HeldElsewhere),
        start(StartFailure::Other(text())),
        with_run(RunWord::Running, RunSeen::Running { progress: text() }),
        with_run(RunWord::Running, RunSeen::Unreadable(text())),
        elsewhere,
        with_run(RunWord::Running, RunSeen::Absent),
        ended(broken(false)),
        ended(broken(true)),
        Facts { run: ended_just_now(), ..ended(broken(true)) },
        ended(RunEnd::Killed { signal: 9 }),
        ended(RunEnd::TimedOut),
        ended(RunEnd::Stalled { limit: Duration::from_secs(60), task: None }),
        ended(RunEnd::PlayTimedOut { play: text(), limit: Duration::from_secs(61) }),
        ended(RunEnd::Cancelled),
        ended(RunEnd::NotStarted { message: text() }),
        kubeconfig(KubeconfigFact::NotFetched),
        kubeconfig(KubeconfigFact::NotAnswering(text())),
        kubeconfig(KubeconfigFact::Invalid(text())),
        Facts { secret: SecretFact::Foreign(text()), ..ended(RunEnd::Succeeded) },
        Facts { secret: kept.clone(), ..ended(RunEnd::Succeeded) },
        Facts { secret: kept, generation: 2, ..ended(RunEnd::Succeeded) },
        Facts { deleting: true, ..with_run(RunWord::Running, RunSeen::Running { progress: text() }) },
        Facts { deleting: true, ..reachable() },
        Facts { deleting: true, ..after(1) },
    ]
}

#[test]
fn every_reason_and_every_wait_is_given_by_some_situation() {
    let all_situations = situations().into_iter().chain(super::verbs::situations());
    let decisions: Vec<Decision> = all_situations.map(|facts| decide(&facts)).collect();
    let given: BTreeSet<&str> =
        decisions.iter().flat_map(|decision| &decision.conditions).map(|condition| condition.reason).collect();
    let all: BTreeSet<&str> = ProvisioningReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_eq!(given, all);
    let waits = decisions.iter().filter_map(|decision| match decision.next {
        Next::After(_, wait) => Some(wait),
        _ => None,
    });
    let waits: BTreeSet<ProvisioningWait> = waits.collect();
    assert_eq!(waits, ProvisioningWait::ALL.iter().copied().collect());
}

#[test]
fn whatever_is_not_ready_says_why() {
    for facts in situations() {
        let decision = decide(&facts);
        let (reason, _) = ready(&decision);
        let silent = decision.phase.is_none();
        assert!(silent || !reason.is_empty(), "{decision:?}");
    }
}

#[test]
fn recorded_words_are_enough_where_the_run_directory_is_gone() {
    for (word, reason) in [
        (RunWord::Failed, "InstallFailed"),
        (RunWord::Killed, "InstallInterrupted"),
        (RunWord::TimedOut, "InstallTimedOut"),
        (RunWord::Cancelled, "InstallInterrupted"),
        (RunWord::Lost, "RunLost"),
        (RunWord::NotStarted, "InstallNotStarted"),
        (RunWord::Succeeded, "FetchingKubeconfig"),
    ] {
        assert_eq!(ready(&decide(&with_run(word, RunSeen::Absent))).0, reason, "{word}");
    }
}
