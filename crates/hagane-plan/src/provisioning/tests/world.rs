//! A model of everything outside: what actions do to it, and what can be seen of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hagane_api::bpa::provisioning::{ProvisioningSpec, RolePlan};
use hagane_api::bpa::reasons::{RunVerb, RunWord};
use hagane_api::mac::MacAddress;
use hagane_api::quantity::{MemoryMib, MilliCpus};
use serde_json::{Value, json};

use super::super::{
    Action, Claim, Decision, Facts, Host, HostCheck, HostCheckResult, InstallOrder, KubeconfigFact, Login, NameOwner,
    RunEnd, RunRecord, RunSeen, SecretFact, StartFact, decide, installed,
};
use crate::decision::Next;
use crate::roles::{HostFacts, Nic};

pub(super) const US: &str = "here";

pub(super) fn spec(json: Value) -> ProvisioningSpec {
    serde_json::from_value(json).expect("the spec reads")
}

pub(super) fn mac(number: u8) -> MacAddress {
    format!("52:54:00:00:10:{number:02x}").parse().expect("a MAC address")
}

pub(super) fn host(number: u8, cpus: u64, gib: u64) -> Host {
    let address = Some(std::net::IpAddr::from([192, 0, 2, number]));
    let facts = HostFacts {
        name: format!("host-{number}"),
        cpus: Some(MilliCpus(cpus * 1000)),
        memory: Some(MemoryMib(gib * 1024)),
        nics: Some(vec![Nic { mac: mac(number), address }]),
        ..HostFacts::default()
    };
    Host { facts, uid: format!("uid-{number}"), claim: Claim::None, pinned: false }
}

pub(super) fn facts() -> Facts {
    Facts {
        namespace: "lab".to_owned(),
        name: "edge".to_owned(),
        uid: "u".to_owned(),
        generation: 1,
        deleting: false,
        finalizer: false,
        paused: false,
        retry: None,
        cancel: None,
        abandon: None,
        approved: None,
        renew: None,
        planned: None,
        cluster_version: None,
        certificates_end: None,
        cluster: "edge".to_owned(),
        spec: Ok(spec(
            json!({"master": {"cpu": 2, "memory": "4Gi"}, "worker": {"cpu": 4, "memory": "8Gi"}, "replicas": 2}),
        )),
        name_owner: NameOwner::Ours,
        hosts: vec![host(1, 2, 4), host(2, 4, 8), host(3, 4, 8), host(4, 8, 16)],
        plan: None,
        login: Login::Present,
        installer_missing: None,
        scans: None,
        checks: None,
        run: None,
        installed: None,
        seen: RunSeen::Absent,
        start: StartFact::NotTried,
        kubeconfig: KubeconfigFact::NotFetched,
        secret: SecretFact::Absent,
        holder: US.to_owned(),
    }
}

/// The world: what is stored is in `facts`, runs live beside it.
pub(super) struct World {
    pub(super) facts: Facts,
    /// Runs by id: passes until they end, or how they ended.
    pub(super) runs: BTreeMap<String, Result<u32, RunEnd>>,
    /// How runs end.
    pub(super) end: RunEnd,
    pub(super) log: Vec<String>,
    pub(super) started: u32,
    /// Orders of the runs that were started.
    pub(super) orders: Vec<InstallOrder>,
    /// Names of hosts that do not answer.
    pub(super) silent: BTreeSet<String>,
    /// What the cluster says of its version.
    pub(super) cluster_version: Option<String>,
}

impl World {
    pub(super) fn new(facts: Facts) -> Self {
        let (orders, silent) = (Vec::new(), BTreeSet::new());
        let runs = BTreeMap::new();
        Self { facts, runs, end: RunEnd::Succeeded, log: Vec::new(), started: 0, orders, silent, cluster_version: None }
    }

    /// Name of the host of a node.
    pub(super) fn host_of(&self, node: &str) -> String {
        let plan = self.facts.plan.iter().flat_map(|plan| &plan.assignments).find(|entry| entry.node == node);
        plan.map(|entry| entry.host.clone()).expect("the node is in the plan")
    }

    /// A host by its name.
    pub(super) fn host(&self, name: &str) -> &Host {
        self.facts.hosts.iter().find(|host| host.facts.name == name).expect("the host is there")
    }

    fn observe(&mut self) {
        let facts = &mut self.facts;
        (facts.scans, facts.checks, facts.cluster_version) = (None, None, None);
        (facts.start, facts.kubeconfig) = (StartFact::NotTried, KubeconfigFact::NotFetched);
        facts.seen = match facts.run.as_ref().and_then(|run| self.runs.get(&run.id)) {
            None => RunSeen::Absent,
            Some(Ok(_)) => RunSeen::Running { progress: "task 1 of 2".to_owned() },
            Some(Err(end)) => RunSeen::Finished(end.clone()),
        };
        if let Some(run) = &mut facts.run {
            run.state = match &facts.seen {
                RunSeen::Running { .. } => RunWord::Running,
                RunSeen::Finished(RunEnd::Succeeded) => RunWord::Succeeded,
                RunSeen::Finished(RunEnd::Cancelled) => RunWord::Cancelled,
                RunSeen::Finished(_) => RunWord::Failed,
                _ => run.state,
            };
        }
    }

    fn time_passes(&mut self) {
        for run in self.runs.values_mut() {
            match run {
                Ok(0) => *run = Err(self.end.clone()),
                Ok(left) => *left -= 1,
                Err(_) => {}
            }
        }
    }

    /// One pass. `crash_after`: the process ends after so many actions, before anything else is done.
    pub(super) fn pass(&mut self, crash_after: Option<usize>) -> Decision {
        self.time_passes();
        self.observe();
        let mut left = crash_after.unwrap_or(usize::MAX);
        for _ in 0..8 {
            let decision = decide(&self.facts);
            self.note(&decision);
            let again = decision.actions.iter().any(Action::asks_again);
            if left > 0 && !again {
                self.facts.installed = installed(&self.facts);
            }
            for action in &decision.actions {
                if left == 0 {
                    return decision;
                }
                left -= 1;
                self.apply(action);
            }
            if !again {
                return decision;
            }
        }
        unreachable!("a pass asks again without end: {:?}", self.log)
    }

    fn note(&mut self, decision: &Decision) {
        let ready = decision.conditions.iter().find(|condition| condition.r#type == "Ready");
        let reason = ready.map_or("-", |ready| ready.reason);
        let phase = decision.phase.map_or("-", |phase| phase.as_str());
        let actions: Vec<String> = decision.actions.iter().map(short).collect();
        let line = format!("{phase}/{reason}: {}", actions.join(", "));
        if self.log.last() != Some(&line) {
            self.log.push(line);
        }
    }

    fn apply(&mut self, action: &Action) {
        let facts = &mut self.facts;
        match action {
            Action::AddFinalizer => facts.finalizer = true,
            Action::RemoveFinalizer => facts.finalizer = false,
            Action::RecordPlan(plan) => facts.plan = Some(RolePlan::clone(plan)),
            Action::ClaimHosts(hosts) => self.claim(hosts, &Claim::None, &Claim::Ours),
            Action::ReleaseHosts(hosts) => self.claim(hosts, &Claim::Ours, &Claim::None),
            Action::PinHostKeys(hosts) => {
                for host in &mut facts.hosts {
                    host.pinned |= hosts.iter().any(|wanted| wanted.name == host.facts.name);
                }
                facts.scans = Some(Vec::new());
            }
            Action::CheckFacts(hosts) => {
                let answer = |name: &str| {
                    let host = facts.hosts.iter().find(|host| host.facts.name == name)?;
                    if self.silent.contains(name) {
                        return Some(HostCheckResult::Unreachable("no route to host".to_owned()));
                    }
                    Some(HostCheckResult::Answered { cpus: host.facts.cpus, memory: host.facts.memory })
                };
                let check = |host: &super::super::HostRef| {
                    Some(HostCheck { host: host.name.clone(), result: answer(&host.name)? })
                };
                facts.checks = Some(hosts.iter().filter_map(check).collect());
            }
            Action::RecordPlannedRun(planned) => facts.planned = planned.as_deref().cloned(),
            Action::RecordRunIntent { id, generation, retry, verb, nodes, lost, version, renews, settings } => {
                facts.planned = None;
                facts.run = Some(RunRecord {
                    id: id.clone(),
                    generation: *generation,
                    retry: retry.clone(),
                    verb: *verb,
                    nodes: nodes.clone(),
                    lost: lost.clone(),
                    version: version.clone(),
                    renews: renews.clone(),
                    settings: settings.clone(),
                    holder: US.to_owned(),
                    state: RunWord::Starting,
                    message: None,
                    attempt: 1,
                    ended: None,
                    age: Duration::ZERO,
                    limit: Duration::from_secs(3600),
                });
            }
            Action::RetryRun { id, attempt } => {
                let run = facts.run.as_mut().expect("a run that ended is recorded");
                (run.id, run.attempt, run.state) = (id.clone(), *attempt, RunWord::Starting);
            }
            Action::StartInstall(order) => self.start(order),
            Action::CancelRun { id } => {
                self.runs.insert(id.clone(), Err(RunEnd::Cancelled));
            }
            Action::FetchKubeconfig { .. } => {
                facts.kubeconfig = KubeconfigFact::Answers;
                facts.cluster_version.clone_from(&self.cluster_version);
            }
            Action::StoreKubeconfig { run } => facts.secret = SecretFact::Ours { run: Some(run.clone()) },
            Action::DeleteKubeconfigSecret => facts.secret = SecretFact::Absent,
            Action::ForgetRuns => {
                assert!(self.runs.values().all(Result::is_err), "a run that lives is forgotten");
                self.runs.clear();
            }
        }
    }

    fn start(&mut self, order: &InstallOrder) {
        let living = self.runs.values().filter(|run| run.is_ok()).count();
        assert!(living == 0 || self.runs.contains_key(&order.run), "a second run is started beside a living one");
        self.started += u32::from(!self.runs.contains_key(&order.run));
        self.orders.push(order.clone());
        self.runs.entry(order.run.clone()).or_insert(Ok(3));
        self.facts.seen = RunSeen::Running { progress: "started".to_owned() };
    }

    fn claim(&mut self, hosts: &[super::super::HostRef], from: &Claim, to: &Claim) {
        for host in &mut self.facts.hosts {
            if host.claim == *from && hosts.iter().any(|wanted| wanted.uid == host.uid) {
                host.claim = to.clone();
            }
        }
    }

    /// Passes until nothing is done any more and nothing is waited for.
    pub(super) fn settle(&mut self) -> Decision {
        for _ in 0..120 {
            let decision = self.pass(None);
            if decision.actions.is_empty() && decision.next == Next::AwaitChange {
                return decision;
            }
        }
        unreachable!("the world does not settle: {:#?}", self.log)
    }

    pub(super) fn is_clean(&self) -> bool {
        let unclaimed = self.facts.hosts.iter().all(|host| host.claim != Claim::Ours);
        unclaimed && self.facts.secret == SecretFact::Absent && self.runs.is_empty()
    }
}

fn short(action: &Action) -> String {
    match action {
        Action::RecordPlan(plan) => {
            let entry = |entry: &hagane_api::bpa::provisioning::Assignment| format!("{}={}", entry.node, entry.host);
            format!("RecordPlan[{}]", plan.assignments.iter().map(entry).collect::<Vec<_>>().join(" "))
        }
        Action::StartInstall(order) if order.verb == RunVerb::Install => format!("StartInstall[{}]", order.run),
        Action::RecordRunIntent { id, verb: RunVerb::Install, .. } => format!("RecordRunIntent[{id}]"),
        Action::StartInstall(order) => format!("StartInstall[{} {}]", order.verb.as_str(), order.concerned.join(" ")),
        Action::RecordRunIntent { verb, nodes, .. } => {
            format!("RecordRunIntent[{} {}]", verb.as_str(), nodes.join(" "))
        }
        Action::RecordPlannedRun(None) => "RecordPlannedRun[]".to_owned(),
        Action::RecordPlannedRun(Some(planned)) => {
            format!("RecordPlannedRun[{} {}]", planned.verb.as_str(), planned.nodes.join(" "))
        }
        Action::RetryRun { id, .. } => format!("RetryRun[{id}]"),
        Action::ClaimHosts(hosts)
        | Action::PinHostKeys(hosts)
        | Action::CheckFacts(hosts)
        | Action::ReleaseHosts(hosts) => {
            let name = format!("{action:?}");
            let name = name.split('(').next().unwrap_or_default().to_owned();
            format!("{name}[{}]", hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(" "))
        }
        other => format!("{other:?}").split([' ', '(']).next().unwrap_or_default().to_owned(),
    }
}
