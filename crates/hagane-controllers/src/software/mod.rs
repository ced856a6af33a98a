//! Softwares: packages on the hosts of clusters that stand.
//!
//! `hagane_plan::software` decides; here is what it looks at ([`observe`]), how hosts are asked ([`ask`]) and in which words
//! ([`commands`]), what is done ([`act`]) and what is written ([`record`]). What is about to be done is recorded before.

mod act;
mod ask;
mod commands;
mod observe;
mod record;
mod watch;

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use hagane_api::bpa::GROUP;
use hagane_api::bpa::software::SoftwareSpec;
use hagane_api::bpa::software_status::SoftwareStatus;
use hagane_api::keys::SOFTWARE_FINALIZER;
use hagane_plan::decision::Next as Decided;
use hagane_plan::software::{Action, decide};

use crate::runtime::{Controller, EventDraft, Next, Pass, PassError, Resource, Seen, Severity, Watch};

/// The control loop of Softwares.
pub struct SoftwareController;

/// A Software as a pass sees it.
type SeenSoftware = Seen<SoftwareSpec, SoftwareStatus>;

#[async_trait]
impl Controller for SoftwareController {
    type Spec = SoftwareSpec;
    type Status = SoftwareStatus;

    fn name(&self) -> &'static str {
        "software"
    }

    fn resources(&self) -> Vec<Resource> {
        Resource::of(GROUP, "softwares").into_iter().collect()
    }

    fn finalizer(&self) -> Option<&'static str> {
        Some(SOFTWARE_FINALIZER)
    }

    fn watches(&self) -> Vec<Watch> {
        watch::watches()
    }

    async fn reconcile(&self, seen: SeenSoftware, pass: &Pass) -> Result<Next, PassError> {
        if let Some(message) = unreadable(&seen) {
            // Without it nobody knows what was installed for it: nothing is decided, and nothing overwritten.
            let event = EventDraft { severity: Severity::Warning, reason: "StatusUnreadable".to_owned(), message };
            pass.recorder(&seen).events(&[event]).await;
            return Ok(Next::AwaitChange);
        }
        let mut observed = observe::observe(&seen, pass).await?;
        let mut outcome = decide(&observed.facts);
        if let [Action::Ask(questions)] = &outcome.decision.actions[..] {
            observed.facts.answers = Some(ask::ask(questions, &observed, pass).await);
            outcome = decide(&observed.facts);
        }
        let mut recorder = record::record(&seen, &outcome, pass).await?;
        let troubles = act::act(&outcome.decision.actions, &observed, pass).await;
        recorder.events(&troubles).await;
        if outcome.decision.actions.contains(&Action::RemoveFinalizer) {
            recorder.remove_finalizer(SOFTWARE_FINALIZER).await?;
            return Ok(Next::AwaitChange);
        }
        Ok(match outcome.decision.next {
            Decided::AwaitChange => Next::AwaitChange,
            Decided::After(wait, _) => Next::After(wait),
            Decided::Now => Next::Stale,
        })
    }
}

/// Why the recorded status cannot be relied on. Deletion does not need it.
fn unreadable(seen: &SeenSoftware) -> Option<String> {
    let status = seen.raw_status();
    if status.is_null() || seen.is_deleting() {
        return None;
    }
    let problem = serde_json::from_value::<SoftwareStatus>(status.clone()).err()?;
    Some(format!("the status cannot be read, perhaps a newer version wrote it: {problem}"))
}
