//! Why nothing new is begun.

use hagane_api::bpa::software::validate_spec;
use hagane_api::bpa::software_reasons::SoftwareReason as Reason;

use super::desired;
use super::facts::{ClusterFact, ClusterNode, Facts};
use crate::decision::one_line;
use crate::provisioning::Login;

/// What is in the way of all hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Closed {
    pub(super) reason: Reason,
    pub(super) message: String,
}

impl Closed {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// Whether a person must change the spec.
    pub(super) const fn is_invalid(&self) -> bool {
        matches!(self.reason, Reason::InvalidSpec | Reason::ClusterUnnamed | Reason::PackageConflict)
    }
}

/// Says why no host may be begun on, if that is so.
pub(super) fn closed(facts: &Facts) -> Option<Closed> {
    let errors = validate_spec(&facts.spec);
    if !errors.is_empty() {
        return Some(Closed::new(Reason::InvalidSpec, one_line(&errors)));
    }
    let Some(cluster) = &facts.cluster else {
        return Some(Closed::new(
            Reason::ClusterUnnamed,
            "metadata.labels: the label \"cluster\" must name the cluster",
        ));
    };
    let nodes = match &facts.standing {
        ClusterFact::Missing => {
            let message = format!("no Provisioning of this namespace is for cluster {cluster:?}");
            return Some(Closed::new(Reason::ClusterMissing, message));
        }
        ClusterFact::NotInstalled { provisioning } => {
            let message = format!("waits for Provisioning {provisioning} to install the cluster");
            return Some(Closed::new(Reason::ClusterNotInstalled, message));
        }
        ClusterFact::Stands { nodes, .. } => nodes,
    };
    if let Some(message) = desired::conflict(facts, nodes) {
        return Some(Closed::new(Reason::PackageConflict, message));
    }
    login(facts).or_else(|| match &facts.standing {
        ClusterFact::Stands { busy: Some(busy), .. } => Some(Closed::new(Reason::ClusterBusy, busy.clone())),
        _ => None,
    })
}

fn login(facts: &Facts) -> Option<Closed> {
    match &facts.login {
        Login::Present => None,
        Login::Missing { secret } => Some(Closed::new(Reason::SshKeyMissing, format!("Secret {secret:?} is missing"))),
        Login::Invalid { secret, problem } => {
            Some(Closed::new(Reason::SshKeyInvalid, format!("Secret {secret:?}: {problem}")))
        }
    }
}

/// The nodes of the cluster; nothing where they are not known.
pub(super) fn nodes(facts: &Facts) -> Option<&[ClusterNode]> {
    match &facts.standing {
        ClusterFact::Stands { nodes, .. } => Some(nodes),
        ClusterFact::Missing | ClusterFact::NotInstalled { .. } => None,
    }
}
