//! A Software: packages on the hosts of a cluster that stands.
//!
//! # Order on a host
//! Pods moved away (where asked), packages removed, packages installed, reboot (where asked), node given back. Each step is
//! stored in status before it begins and followed by what the host says of it, so a crash between any two of them goes on where it
//! stopped. The package manager runs on the host by itself: nothing here waits for it.
//!
//! # What is removed
//! Only packages that were not there before and that were recorded as ours before they came.
//!
//! # Asking again
//! [`Action::Ask`] finds something out. The answers go into [`Facts::answers`], and [`decide`] is asked again in the same pass.

mod advance;
mod decide;
mod desired;
mod facts;
mod gate;
mod say;
#[cfg(test)]
mod tests;

pub use decide::{Outcome, decide};
pub use facts::{Answer, Answered, ClusterFact, ClusterNode, DrainFact, Facts, NodeFact, Other, Question, UnitSeen};
pub use say::done;

use hagane_api::bpa::software_reasons::{PackageManager, SoftwarePhase, SoftwareWait};

/// What to do about a Software.
pub type Decision = crate::decision::Decision<Action, SoftwarePhase, SoftwareWait>;

/// One thing to do. Hosts are named by the uid of their host object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask hosts; the answers go into [`Facts::answers`].
    Ask(Vec<Question>),
    /// Start the package manager of a host in a unit of its own. One of that name that is there already is the same.
    Start {
        /// The host.
        host: String,
        /// Name of the unit.
        unit: String,
        /// The package manager.
        manager: PackageManager,
        /// What it does.
        work: Work,
        /// Most seconds it may take.
        seconds: u64,
    },
    /// Forget the units of this Software on a host, which have ended.
    ForgetUnits {
        /// The host.
        host: String,
    },
    /// Reboot a host.
    Reboot {
        /// The host.
        host: String,
    },
    /// Make a node schedulable.
    Uncordon {
        /// Its name.
        node: String,
    },
    /// Take our finalizer off the object.
    RemoveFinalizer,
}

/// What a package manager does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Installs packages, each in the exact version where one is given.
    Install(Vec<(String, Option<String>)>),
    /// Removes packages, and fails where others need them.
    Remove(Vec<String>),
}

/// How the names of a Software's units begin.
#[must_use]
pub fn unit_prefix(uid: &str) -> String {
    let short: String = uid.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    format!("hagane-software-{short}-")
}
