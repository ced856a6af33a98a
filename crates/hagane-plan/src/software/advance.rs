//! The work on one host: what comes after what the host says.

use std::time::Duration;

use hagane_api::bpa::software::RebootPolicy;
use hagane_api::bpa::software_reasons::{
    JobStep as Step, PackageManager, PackageState, SoftwareHostState as State, SoftwareReason as Reason,
};
use hagane_api::bpa::software_status::{HostJob, SoftwareHost};
use jiff::Timestamp;

use super::desired::{Desired, compared, mark_ours};
use super::facts::{Answer, Answered, ClusterNode, DrainFact, Facts, NodeFact, UnitSeen};
use super::{Action, Work};

/// Time for a host to come back from a reboot.
const REBOOT_LIMIT: Duration = Duration::from_secs(15 * 60);
/// A host that still shows the old boot after this time is asked to reboot again.
const REBOOT_AGAIN: Duration = Duration::from_secs(60);
/// Time for a node to become ready and schedulable again.
const NODE_LIMIT: Duration = Duration::from_secs(10 * 60);
/// What a unit gets beyond its own time limit to be seen ended.
const SLACK: Duration = Duration::from_secs(120);
/// So often a lost or locked package manager is started.
const LOSSES_MAX: i64 = 5;
/// Seconds to wait before it is started again, for each time before.
const PAUSE_SECONDS: i64 = 10;

/// A host, its node, and what it should have.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) host: SoftwareHost,
    pub(super) node: Option<ClusterNode>,
    pub(super) desired: Desired,
}

/// Brings the record of a host forward and says what is to be done on it.
pub(super) struct Advance<'a> {
    facts: &'a Facts,
    actions: Vec<Action>,
}

impl<'a> Advance<'a> {
    pub(super) fn new(facts: &'a Facts) -> Self {
        Self { facts, actions: Vec::new() }
    }

    pub(super) fn into_actions(self) -> Vec<Action> {
        self.actions
    }

    /// Takes what an idle host said. What it has is recorded; nothing begins.
    pub(super) fn hear(&self, view: &mut View, answer: &Answer) {
        let host = &mut view.host;
        match answer {
            Answer::Refused(reason, message) => {
                if host.state != State::Failed {
                    host.reason = Some(reason.as_str().to_owned());
                    host.message = Some(message.clone());
                }
            }
            Answer::Answered(answered) => {
                host.manager = answered.manager.or(host.manager);
                if host.state != State::Failed {
                    (host.reason, host.message) = (None, None);
                }
                self.compare(view, answered);
            }
        }
    }

    fn compare(&self, view: &mut View, answered: &Answered) {
        if let (Some(node), Some(installed)) = (&view.node, &answered.packages) {
            view.host.packages = compared(&view.host, node, &view.desired, installed, &self.facts.others);
            view.host.checked_at = Some(self.facts.now);
        }
    }

    /// Begins work on an idle host that has just said what it has. Says whether it did.
    pub(super) fn begin(&mut self, view: &mut View, answered: &Answered) -> bool {
        let host = &mut view.host;
        if !has_work(host) {
            return false;
        }
        let mut cordoned = false;
        let mut drain = self.drains();
        if drain {
            match &answered.node {
                NodeFact::NotAsked => return false,
                NodeFact::NoAnswer(why) | NodeFact::NoKubeconfig(why) => {
                    host.reason = Some(Reason::ClusterNotAnswering.as_str().to_owned());
                    host.message = Some(why.clone());
                    return false;
                }
                NodeFact::Absent => drain = false,
                NodeFact::There { unschedulable, .. } => cordoned = !unschedulable,
            }
        }
        mark_ours(host, &self.facts.others);
        host.state = State::Working;
        (host.reason, host.message, host.output) = (None, None, None);
        if self.facts.deleting.is_none() {
            host.losses = 0;
        }
        let job = HostJob {
            step: Step::Draining,
            unit: String::new(),
            begun: false,
            since: self.facts.now,
            deadline: self.facts.now,
            cordoned: cordoned && drain,
            boot: None,
            failed: None,
        };
        if drain {
            self.enter(host, job, Step::Draining)
        } else {
            self.change(host, job)
        }
        true
    }

    /// Goes on with the work on a host.
    pub(super) fn follow(&mut self, view: &mut View, answer: Option<&Answer>) {
        let Some(mut job) = view.host.job.take() else { return };
        let expired = self.facts.now >= job.deadline;
        let answered = match answer {
            Some(Answer::Answered(answered)) => answered,
            Some(Answer::Refused(reason, message)) => {
                return self.unanswered(&mut view.host, job, (*reason, message.clone()), expired);
            }
            None => {
                let why = view.node.as_ref().and_then(|node| node.unaskable.clone());
                let why = why.unwrap_or_else(|| "nothing is known of its host now".to_owned());
                return self.unanswered(&mut view.host, job, (Reason::HostKeyUnknown, why), expired);
            }
        };
        if let Some(output) = &answered.output {
            view.host.output = Some(output.clone());
        }
        self.compare(view, answered);
        let host = &mut view.host;
        match job.step {
            Step::Draining => self.draining(host, job, &answered.drain, expired),
            Step::Removing | Step::Installing => {
                job.begun |= !matches!(answered.unit, UnitSeen::Absent | UnitSeen::NotAsked);
                self.changing(host, job, answered, expired);
            }
            Step::Rebooting => self.rebooting(host, job, answered, expired),
            Step::Uncordoning => self.uncordoning(host, job, &answered.node, expired),
        }
    }

    fn unanswered(&mut self, host: &mut SoftwareHost, job: HostJob, why: (Reason, String), expired: bool) {
        let (reason, message) = why;
        match (job.step, expired) {
            (Step::Rebooting, true) => {
                Self::failed(
                    host,
                    &job,
                    Reason::RebootFailed,
                    format!("it did not come back from a reboot: {message}"),
                );
            }
            (Step::Rebooting, false) => Self::stays(host, job, "reboots"),
            (_, true) => Self::failed(host, &job, reason, message),
            (_, false) => Self::stays(host, job, message),
        }
    }

    fn draining(&mut self, host: &mut SoftwareHost, job: HostJob, drain: &DrainFact, expired: bool) {
        let (reason, why) = match drain {
            DrainFact::Empty => return self.change(host, job),
            DrainFact::NotAsked => (Reason::Draining, "its pods are moved away".to_owned()),
            DrainFact::NoAnswer(why) => (Reason::ClusterNotAnswering, why.clone()),
            DrainFact::Waiting(pods) => (Reason::DrainFailed, crate::decision::names(pods)),
        };
        if expired {
            return self.give_back(host, job, Some((reason, format!("the node was not drained in time: {why}"))));
        }
        Self::stays(host, job, format!("drains: {why}"));
    }

    /// The first change of packages that is due, or what comes after all of them.
    fn change(&mut self, host: &mut SoftwareHost, job: HostJob) {
        if host.packages.iter().any(|package| package.state == PackageState::Leaving) {
            self.enter(host, job, Step::Removing);
        } else {
            self.enter(host, job, Step::Installing);
        }
    }

    fn changing(&mut self, host: &mut SoftwareHost, job: HostJob, answered: &Answered, expired: bool) {
        let removing = job.step == Step::Removing;
        let failure = if removing { Reason::RemovalFailed } else { Reason::InstallFailed };
        match &answered.unit {
            UnitSeen::NotAsked => Self::stays(host, job, "starts"),
            UnitSeen::Running(None) => {
                let line = last_line(host).unwrap_or_else(|| "the package manager works".to_owned());
                Self::stays(host, job, line);
            }
            UnitSeen::Running(Some(lock)) => {
                host.reason = Some(Reason::PackageManagerBusy.as_str().to_owned());
                Self::keeps(host, job, lock.clone());
            }
            UnitSeen::Succeeded => self.changed(host, job, answered),
            UnitSeen::TimedOut => {
                let message = format!("the package manager took longer than {} min", self.limit().as_secs() / 60);
                self.give_back(host, job, Some((Reason::TimedOut, message)));
            }
            UnitSeen::Failed(_, true) => self.once_more(host, job, Reason::PackageManagerBusy, "is locked"),
            UnitSeen::Failed(status, false) => {
                let message = last_words(host).unwrap_or_else(|| format!("exit status {status}"));
                self.give_back(host, job, Some((failure, message)));
            }
            UnitSeen::Killed => self.once_more(host, job, Reason::RunLost, "was killed"),
            UnitSeen::Absent if job.begun => self.once_more(host, job, Reason::RunLost, "vanished while it worked"),
            UnitSeen::Absent if expired => {
                let message = "the package manager could not be started".to_owned();
                self.give_back(host, job, Some((Reason::TimedOut, message)));
            }
            UnitSeen::Absent => {
                if self.seconds_since(job.since) >= host.losses * PAUSE_SECONDS {
                    self.start(host, &job);
                }
                Self::stays(host, job, "starts");
            }
        }
    }

    /// A change ended well; what the host has now says whether it did what it should.
    fn changed(&mut self, host: &mut SoftwareHost, job: HostJob, answered: &Answered) {
        let removing = job.step == Step::Removing;
        let left: Vec<String> = host
            .packages
            .iter()
            .filter(|package| (package.state == PackageState::Leaving) == removing)
            .filter(|package| package.state != PackageState::Installed)
            .map(|package| match (&package.installed, &package.wanted) {
                (Some(there), Some(wanted)) => format!("{} is {there}, not {wanted}", package.name),
                (Some(_), None) => format!("{} is still there", package.name),
                (None, _) => format!("{} is not there: no package has exactly this name", package.name),
            })
            .collect();
        if !left.is_empty() {
            let reason = if removing { Reason::RemovalFailed } else { Reason::InstallFailed };
            let message = format!("the package manager ended well, but {}", crate::decision::names(&left));
            return self.give_back(host, job, Some((reason, message)));
        }
        self.actions.push(Action::ForgetUnits { host: host.host_uid.clone() });
        if removing && has_work(host) {
            return self.enter(host, job, Step::Installing);
        }
        let policy = self.facts.spec.reboot.unwrap_or(RebootPolicy::Never);
        let wanted = match policy {
            RebootPolicy::Never => false,
            RebootPolicy::IfRequired => answered.reboot_required,
            RebootPolicy::Always => true,
        };
        if wanted && self.facts.deleting.is_none() {
            let job = HostJob { boot: answered.boot.clone(), ..job };
            return self.enter(host, job, Step::Rebooting);
        }
        self.give_back(host, job, None);
    }

    fn rebooting(&mut self, host: &mut SoftwareHost, job: HostJob, answered: &Answered, expired: bool) {
        let same = answered.boot.is_none() || answered.boot == job.boot;
        if !same {
            return self.enter(host, job, Step::Uncordoning);
        }
        if expired {
            let message = "it still runs as before the reboot".to_owned();
            return Self::failed(host, &job, Reason::RebootFailed, message);
        }
        let age = self.seconds_since(job.since);
        let again = i64::try_from(REBOOT_AGAIN.as_secs()).unwrap_or(i64::MAX);
        if age >= again && age % again < 2 {
            self.actions.push(Action::Reboot { host: host.host_uid.clone() });
        }
        Self::stays(host, job, "reboots");
    }

    fn uncordoning(&mut self, host: &mut SoftwareHost, job: HostJob, node: &NodeFact, expired: bool) {
        let why = match node {
            NodeFact::Absent => return Self::ended(host, &job),
            // Nothing was asked of its cluster, and nothing can be.
            NodeFact::NoKubeconfig(_) if !job.cordoned => return Self::ended(host, &job),
            NodeFact::There { ready: true, unschedulable } if !(*unschedulable && job.cordoned) => {
                return Self::ended(host, &job);
            }
            NodeFact::There { ready, .. } => {
                if job.cordoned {
                    self.actions.push(Action::Uncordon { node: host.node.clone() });
                }
                if *ready { "becomes schedulable" } else { "the node is not ready yet" }.to_owned()
            }
            NodeFact::NotAsked => "the node is looked at".to_owned(),
            NodeFact::NoAnswer(why) | NodeFact::NoKubeconfig(why) => why.clone(),
        };
        if expired {
            let (reason, message) = match (&job.boot, &job.failed) {
                (Some(_), _) => (Reason::RebootFailed, format!("after its reboot: {why}")),
                (None, _) => (Reason::ClusterNotAnswering, format!("the node is left unschedulable: {why}")),
            };
            return Self::failed(host, &job, reason, message);
        }
        Self::stays(host, job, why);
    }

    /// Ends the job, for good or not; a node that was cordoned for it is given back first.
    fn give_back(&mut self, host: &mut SoftwareHost, job: HostJob, failed: Option<(Reason, String)>) {
        if failed.is_some() {
            self.actions.push(Action::ForgetUnits { host: host.host_uid.clone() });
        }
        let told = failed.map(|(reason, message)| format!("{}: {message}", reason.as_str()));
        let job = HostJob { failed: told, ..job };
        if job.cordoned { self.enter(host, job, Step::Uncordoning) } else { Self::ended(host, &job) }
    }

    fn ended(host: &mut SoftwareHost, job: &HostJob) {
        match job.failed.as_deref().and_then(|told| told.split_once(": ")) {
            Some((reason, message)) => {
                host.state = State::Failed;
                host.losses += 1;
                (host.reason, host.message) = (Some(reason.to_owned()), Some(message.to_owned()));
            }
            None => {
                host.state = State::Done;
                host.losses = 0;
                (host.reason, host.message) = (None, None);
                // What did not come after all, and what went, is not ours.
                host.packages.iter_mut().for_each(|package| package.ours &= package.installed.is_some());
            }
        }
    }

    fn failed(host: &mut SoftwareHost, job: &HostJob, reason: Reason, message: String) {
        let before = job.failed.as_deref().map(|told| format!("; before that {told}")).unwrap_or_default();
        let told = format!("{}: {message}{before}", reason.as_str());
        Self::ended(host, &HostJob { failed: Some(told), ..job.clone() });
    }

    fn once_more(&mut self, host: &mut SoftwareHost, job: HostJob, reason: Reason, what: &str) {
        host.losses += 1;
        if host.losses >= LOSSES_MAX {
            let words = last_words(host).map(|words| format!(": {words}")).unwrap_or_default();
            let message = format!("the package manager {what}, {LOSSES_MAX} times in a row{words}");
            return self.give_back(host, job, Some((reason, message)));
        }
        self.actions.push(Action::ForgetUnits { host: host.host_uid.clone() });
        let step = job.step;
        let job = self.prepared(host, job, step);
        host.reason = Some(reason.as_str().to_owned());
        Self::keeps(host, job, format!("the package manager {what}; it is started again"));
    }

    fn enter(&mut self, host: &mut SoftwareHost, job: HostJob, step: Step) {
        let job = self.prepared(host, job, step);
        match step {
            Step::Removing | Step::Installing => self.start(host, &job),
            Step::Rebooting => self.actions.push(Action::Reboot { host: host.host_uid.clone() }),
            Step::Draining | Step::Uncordoning => {}
        }
        let word = match step {
            Step::Draining => "drains",
            Step::Removing => "packages are removed",
            Step::Installing => "packages are installed",
            Step::Rebooting => "reboots",
            Step::Uncordoning => "the node is given back",
        };
        Self::stays(host, job, word);
    }

    fn prepared(&self, host: &mut SoftwareHost, job: HostJob, step: Step) -> HostJob {
        let (limit, unit) = match step {
            Step::Draining => (self.drain_limit(), String::new()),
            Step::Removing | Step::Installing => {
                host.jobs += 1;
                (self.limit() + SLACK, unit_name(&self.facts.uid, host.jobs))
            }
            Step::Rebooting => (REBOOT_LIMIT, String::new()),
            Step::Uncordoning => (NODE_LIMIT, String::new()),
        };
        let since = self.facts.now;
        let deadline = since.checked_add(limit).unwrap_or(Timestamp::MAX);
        HostJob { step, unit, begun: false, since, deadline, ..job }
    }

    fn start(&mut self, host: &SoftwareHost, job: &HostJob) {
        let of = |wanted: &dyn Fn(PackageState) -> bool| {
            host.packages.iter().filter(|package| wanted(package.state)).cloned().collect::<Vec<_>>()
        };
        let work = if job.step == Step::Removing {
            Work::Remove(of(&|state| state == PackageState::Leaving).into_iter().map(|package| package.name).collect())
        } else {
            let missing = of(&|state| matches!(state, PackageState::Missing | PackageState::OtherVersion));
            Work::Install(missing.into_iter().map(|package| (package.name, package.wanted)).collect())
        };
        self.actions.push(Action::Start {
            host: host.host_uid.clone(),
            unit: job.unit.clone(),
            manager: host.manager.unwrap_or(PackageManager::Apt),
            work,
            seconds: self.limit().as_secs(),
        });
    }

    fn stays(host: &mut SoftwareHost, job: HostJob, message: impl Into<String>) {
        host.reason = None;
        Self::keeps(host, job, message);
    }

    fn keeps(host: &mut SoftwareHost, job: HostJob, message: impl Into<String>) {
        host.message = Some(message.into());
        host.job = Some(job);
    }

    fn drains(&self) -> bool {
        self.facts.spec.drain == Some(true) && self.facts.deleting.is_none()
    }

    fn limit(&self) -> Duration {
        minutes(self.facts.spec.time_limit_minutes, 30)
    }

    fn drain_limit(&self) -> Duration {
        minutes(self.facts.spec.drain_minutes, 10)
    }

    fn seconds_since(&self, then: Timestamp) -> i64 {
        self.facts.now.duration_since(then).as_secs()
    }
}

/// A spec's number of minutes, or the usual one.
pub(super) fn minutes(given: Option<i64>, usual: u64) -> Duration {
    Duration::from_secs(given.and_then(|given| u64::try_from(given).ok()).unwrap_or(usual) * 60)
}

/// Whether packages are to be installed or removed.
pub(super) fn has_work(host: &SoftwareHost) -> bool {
    host.packages.iter().any(|package| {
        matches!(package.state, PackageState::Missing | PackageState::OtherVersion | PackageState::Leaving)
    })
}

fn unit_name(uid: &str, number: i64) -> String {
    format!("{}{number}", super::unit_prefix(uid))
}

fn last_line(host: &SoftwareHost) -> Option<String> {
    let lines = host.output.as_deref()?.lines().rev();
    lines.map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

/// The lines in which a package manager says what is wrong; else the last one.
fn last_words(host: &SoftwareHost) -> Option<String> {
    const MARKS: [&str; 4] = ["E: ", "dpkg: error", "Error: ", "error: "];
    let lines = host.output.as_deref()?.lines().map(str::trim);
    let told: Vec<&str> = lines.filter(|line| MARKS.iter().any(|mark| line.starts_with(mark))).collect();
    let newest = told.len().saturating_sub(3);
    if told.is_empty() { last_line(host) } else { Some(told[newest..].join("; ")) }
}
