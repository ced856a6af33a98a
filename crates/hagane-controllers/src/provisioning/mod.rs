//! Provisionings: hosts in, a Kubernetes cluster out.
//!
//! Order of a life: plan stored, hosts claimed, host keys pinned, facts compared, run intent stored, run started, run
//! followed, kubeconfig checked, kubeconfig kept. `hagane_plan::provisioning` decides; here is what it looks at
//! ([`observe`]), what is done ([`act`]) and what is written ([`record`]).

mod act;
pub(crate) mod hosts;
pub(crate) mod kubeconfig;
pub(crate) mod login;
pub(crate) mod observe;
mod record;
mod secret;
mod watch;

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use hagane_api::bpa::GROUP;
use hagane_api::bpa::provisioning::{ProvisioningSpec, ProvisioningStatus};
use hagane_api::keys::PROVISIONING_FINALIZER;
use hagane_plan::decision::Next as Decided;
use hagane_plan::provisioning::{Action, decide};
use tracing::warn;

use crate::runtime::{Controller, EventDraft, Next, Pass, PassError, Resource, Seen, Severity, Watch};

/// A decision asks again at most as often as there are things to find out; more is a bug.
const ROUNDS_MAX: usize = 8;

/// The control loop of Provisionings.
#[derive(Debug, Default)]
pub struct ProvisioningController {
    watched: observe::Watched,
}

/// A Provisioning as a pass sees it.
type SeenProvisioning = Seen<ProvisioningSpec, ProvisioningStatus>;

#[async_trait]
impl Controller for ProvisioningController {
    type Spec = ProvisioningSpec;
    type Status = ProvisioningStatus;

    fn name(&self) -> &'static str {
        "provisioning"
    }

    fn resources(&self) -> Vec<Resource> {
        Resource::of(GROUP, "provisionings").into_iter().collect()
    }

    fn finalizer(&self) -> Option<&'static str> {
        Some(PROVISIONING_FINALIZER)
    }

    fn watches(&self) -> Vec<Watch> {
        watch::watches()
    }

    async fn reconcile(&self, seen: SeenProvisioning, pass: &Pass) -> Result<Next, PassError> {
        if let Some(problem) = unreadable(&seen) {
            // Without it nobody knows whether a run lives: nothing is decided, and nothing overwritten.
            let message = format!("the status cannot be read, perhaps a newer version wrote it: {problem}");
            warn!(problem = message, "left alone");
            let event = EventDraft { severity: Severity::Warning, reason: "StatusUnreadable".to_owned(), message };
            pass.recorder(&seen).events(&[event]).await;
            return Ok(Next::AwaitChange);
        }
        let mut observed = observe::observe(&seen, &self.watched, pass).await?;
        let mut decision = decide(&observed.facts);
        for round in 0.. {
            if !decision.actions.iter().any(Action::asks_again) {
                break;
            }
            if round == ROUNDS_MAX {
                warn!(actions = ?decision.actions, "the decision asks without end");
                break;
            }
            for action in &decision.actions {
                act::find_out(action, &mut observed, &seen, pass).await?;
            }
            decision = decide(&observed.facts);
        }
        let mut recorder = record::record(&seen, &observed, &decision, pass).await?;
        if !act::act(&decision.actions, &observed, &seen, pass).await? {
            return Ok(Next::Retry);
        }
        if decision.actions.contains(&Action::RemoveFinalizer) {
            recorder.remove_finalizer(PROVISIONING_FINALIZER).await?;
        }
        Ok(match decision.next {
            Decided::AwaitChange => Next::AwaitChange,
            Decided::After(wait, _) => Next::After(wait),
            Decided::Now => Next::Stale,
        })
    }
}

/// Why the recorded status cannot be relied on. Deletion does not need it.
fn unreadable(seen: &SeenProvisioning) -> Option<String> {
    let status = seen.raw_status();
    if status.is_null() || seen.is_deleting() {
        return None;
    }
    serde_json::from_value::<ProvisioningStatus>(status.clone()).err().map(|error| error.to_string())
}
