//! A cluster in memory on which decisions are carried out.

use std::collections::BTreeMap;
use std::time::Duration;

use hagane_api::bpa::software::SoftwareSpec;
use hagane_api::bpa::software_reasons::{PackageManager, SoftwareReason};
use hagane_api::bpa::software_status::{SoftwareHost, SoftwareStatus};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::provisioning::Login;
use crate::software::{
    Action, Answer, Answered, ClusterFact, ClusterNode, Decision, DrainFact, Facts, NodeFact, Outcome, Question,
    UnitSeen, Work, decide,
};

/// A host: what is installed, and what its package manager does.
#[derive(Clone, Debug, Default)]
pub(super) struct SimHost {
    pub(super) packages: BTreeMap<String, String>,
    /// Versions that can be had; the first one is the newest.
    pub(super) offered: BTreeMap<String, Vec<String>>,
    pub(super) silent: Option<(SoftwareReason, String)>,
    pub(super) unit: Option<(String, Work)>,
    /// How units end; those that are not told end well.
    pub(super) ends: Vec<UnitSeen>,
    pub(super) output: Option<String>,
    pub(super) boots: usize,
    pub(super) comes_back: bool,
    pub(super) reboot_required: bool,
    pub(super) cordoned: bool,
    pub(super) pods: Vec<String>,
    pub(super) cluster_silent: bool,
}

pub(super) struct World {
    pub(super) facts: Facts,
    pub(super) hosts: BTreeMap<String, SimHost>,
    /// What was done, in order.
    pub(super) done: Vec<String>,
    /// Hosts that were worked on at the same time.
    pub(super) most_jobs: usize,
    pub(super) last: Option<Outcome>,
}

pub(super) fn node(name: &str, master: bool, worker: bool) -> ClusterNode {
    ClusterNode {
        node: name.to_owned(),
        master,
        worker,
        host: format!("host-{name}"),
        host_uid: name.to_owned(),
        unaskable: None,
    }
}

impl World {
    /// Nodes by name: those that begin with `m` are masters, with `b` both, others workers.
    pub(super) fn new(nodes: &[&str], spec: Value) -> Self {
        let nodes: Vec<ClusterNode> =
            nodes.iter().map(|name| node(name, name.starts_with(['m', 'b']), !name.starts_with('m'))).collect();
        let host = |node: &ClusterNode| {
            let offered = [("curl", "1"), ("jq", "1.7"), ("htop", "3")];
            let mut offered: BTreeMap<String, Vec<String>> =
                offered.iter().map(|(name, version)| ((*name).to_owned(), vec![(*version).to_owned()])).collect();
            offered.entry("jq".to_owned()).or_default().push("1.6-2.1".to_owned());
            (node.host_uid.clone(), SimHost { offered, comes_back: true, ..SimHost::default() })
        };
        let hosts = nodes.iter().map(host).collect();
        let facts = Facts {
            uid: "5f0c1d2e-0000-4000-8000-000000000001".to_owned(),
            generation: 1,
            retry: None,
            deleting: None,
            now: Timestamp::from_second(1_000_000).expect("a time"),
            spec: spec_of(spec),
            cluster: Some("edge".to_owned()),
            standing: ClusterFact::Stands { provisioning: "edge".to_owned(), busy: None, nodes },
            login: Login::Present,
            status: SoftwareStatus::default(),
            others: Vec::new(),
            answers: None,
        };
        Self { facts, hosts, done: Vec::new(), most_jobs: 0, last: None }
    }

    pub(super) fn host(&mut self, uid: &str) -> &mut SimHost {
        self.hosts.get_mut(uid).expect("a host of the world")
    }

    pub(super) fn edit(&mut self, spec: Value) {
        self.facts.spec = spec_of(spec);
        self.facts.generation += 1;
    }

    pub(super) fn pass_time(&mut self, time: Duration) {
        self.facts.now = self.facts.now.checked_add(time).expect("a time");
        if let Some(age) = &mut self.facts.deleting {
            *age += time;
        }
    }

    /// One pass, as the control loop makes it.
    pub(super) fn pass(&mut self) -> Decision {
        self.facts.answers = None;
        let mut outcome = decide(&self.facts);
        if let [Action::Ask(questions)] = &outcome.decision.actions[..] {
            let answers = questions.iter().map(|question| (question.host.clone(), self.answer(question)));
            self.facts.answers = Some(answers.collect());
            outcome = decide(&self.facts);
        }
        self.most_jobs = self.most_jobs.max(outcome.hosts.iter().filter(|host| host.job.is_some()).count());
        self.facts.status.hosts.clone_from(&outcome.hosts);
        self.facts.status.turn_since = outcome.turn_since;
        for action in &outcome.decision.actions {
            self.act(action);
        }
        let decision = outcome.decision.clone();
        self.last = Some(outcome);
        decision
    }

    /// Passes until nothing is done and said anew; time goes by.
    pub(super) fn settle(&mut self) -> Decision {
        for _ in 0..200 {
            let before = (self.facts.status.clone(), self.done.len());
            let decision = self.pass();
            self.pass_time(Duration::from_secs(2));
            let quiet = before.1 == self.done.len() && before.0.hosts.iter().all(|host| host.job.is_none());
            let ends = decision.actions.contains(&Action::RemoveFinalizer);
            if ends || (quiet && same(&before.0, &self.facts.status)) {
                return decision;
            }
        }
        unreachable!("it never comes to rest: {:?}", self.last)
    }

    fn answer(&mut self, question: &Question) -> Answer {
        let host = self.hosts.get_mut(&question.host).expect("a host of the world");
        if let Some((reason, message)) = &host.silent {
            return Answer::Refused(*reason, message.clone());
        }
        let mut answered = Answered { manager: Some(PackageManager::Apt), ..Answered::default() };
        let mut ended = true;
        if let Some(unit) = &question.unit {
            answered.unit = match &host.unit {
                Some((name, work)) if name == unit => {
                    let end = if host.ends.is_empty() { UnitSeen::Succeeded } else { host.ends.remove(0) };
                    let work = work.clone();
                    match &end {
                        UnitSeen::Succeeded => host.carry_out(&work),
                        UnitSeen::Absent => host.unit = None,
                        _ => {}
                    }
                    end
                }
                _ => UnitSeen::Absent,
            };
            ended = !matches!(answered.unit, UnitSeen::Running(_));
            answered.output.clone_from(&host.output);
        }
        // As hosts are really asked: who is asked about a node or a boot alone is not asked for packages.
        let alone = question.drain || question.boot || (question.state && question.packages.is_empty());
        if ended && !alone {
            let has = |name: &String| host.packages.get(name).map(|version| (name.clone(), version.clone()));
            answered.packages = Some(question.packages.iter().filter_map(has).collect());
            answered.reboot_required = host.reboot_required;
        }
        answered.boot = Some(format!("boot-{}", host.boots));
        if question.state && host.cluster_silent {
            answered.node = NodeFact::NoAnswer("the cluster does not answer".to_owned());
        } else if question.state {
            answered.node = NodeFact::There { ready: true, unschedulable: host.cordoned };
        }
        if question.drain {
            self.done.push(format!("drain {}", question.node));
            host.cordoned = true;
            answered.drain =
                if host.pods.is_empty() { DrainFact::Empty } else { DrainFact::Waiting(host.pods.clone()) };
        }
        Answer::Answered(Box::new(answered))
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Start { host, unit, work, .. } => {
                self.done.push(match work {
                    Work::Install(packages) => format!("install {} on {host}", said(packages)),
                    Work::Remove(names) => format!("remove {} on {host}", names.join(" ")),
                });
                self.host(host).unit = Some((unit.clone(), work.clone()));
            }
            Action::ForgetUnits { host } => self.host(host).unit = None,
            Action::Reboot { host } => {
                self.done.push(format!("reboot {host}"));
                let host = self.host(host);
                host.boots += 1;
                if !host.comes_back {
                    host.silent = Some((SoftwareReason::HostUnreachable, "no route".to_owned()));
                }
            }
            Action::Uncordon { node } => {
                self.done.push(format!("uncordon {node}"));
                self.host(node).cordoned = false;
            }
            Action::RemoveFinalizer => self.done.push("end".to_owned()),
            Action::Ask(_) => unreachable!("a second question in one pass"),
        }
    }

    pub(super) fn condition(&self, name: &str) -> (String, String) {
        let conditions = &self.last.as_ref().expect("a pass").decision.conditions;
        let found = conditions.iter().find(|condition| condition.r#type == name).expect("a condition of that type");
        (found.reason.to_owned(), found.message.clone())
    }

    pub(super) fn ready(&self) -> (String, String) {
        self.condition("Ready")
    }

    pub(super) fn record(&self, uid: &str) -> &SoftwareHost {
        self.facts.status.hosts.iter().find(|host| host.host_uid == uid).expect("a record of the host")
    }

    /// Packages of a host, by name.
    pub(super) fn has(&self, uid: &str) -> Vec<String> {
        self.hosts[uid].packages.iter().map(|(name, version)| format!("{name}={version}")).collect()
    }
}

impl SimHost {
    fn carry_out(&mut self, work: &Work) {
        match work {
            Work::Remove(names) => names.iter().for_each(|name| {
                self.packages.remove(name);
            }),
            Work::Install(packages) => {
                for (name, version) in packages {
                    let newest = self.offered.get(name).and_then(|versions| versions.first());
                    if let Some(version) = version.as_ref().or(newest) {
                        self.packages.insert(name.clone(), version.clone());
                    }
                }
            }
        }
    }
}

fn said(packages: &[(String, Option<String>)]) -> String {
    let one = |(name, version): &(String, Option<String>)| match version {
        Some(version) => format!("{name}={version}"),
        None => name.clone(),
    };
    packages.iter().map(one).collect::<Vec<_>>().join(" ")
}

/// Times of looking do not count.
fn same(before: &SoftwareStatus, after: &SoftwareStatus) -> bool {
    let timeless = |status: &SoftwareStatus| {
        let mut status = status.clone();
        status.hosts.iter_mut().for_each(|host| host.checked_at = None);
        status
    };
    timeless(before) == timeless(after)
}

pub(super) fn spec_of(spec: Value) -> SoftwareSpec {
    serde_json::from_value(spec).expect("a spec")
}

/// The founding file.
pub(super) fn seed() -> Value {
    json!({"masterSoftware": ["curl", {"jq": {"version": "1.6-2.1"}}], "workerSoftware": ["htop"]})
}
