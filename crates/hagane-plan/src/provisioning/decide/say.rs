//! What is said: conditions, phase and when to look again.

use hagane_api::bpa::reasons::{
    ProvisioningCondition as Type, ProvisioningPhase as Phase, ProvisioningReason as Reason, ProvisioningWait as Wait,
};
use hagane_api::condition::{ConditionDraft, ConditionStatus};
use hagane_api::field::FieldError;

use super::super::demands::Wanted;
use super::super::{Action, Decision};
use crate::decision::{Next, draft, names, one_line};

/// Collects conditions on the way to a decision.
pub(super) struct Say {
    conditions: Vec<ConditionDraft>,
    /// Whether a cluster stands, whatever is still to be done about it.
    stands: bool,
}

impl Say {
    pub(super) fn paused() -> Decision {
        let paused = condition(Type::Paused, ConditionStatus::True, Reason::Paused, "");
        Decision { conditions: vec![paused], ..Decision::nothing() }
    }

    pub(super) fn spec(wanted: &Result<Wanted, Vec<FieldError>>, plugins: &[String], stands: bool) -> Self {
        let spec = match wanted {
            Ok(_) => condition(Type::SpecValid, ConditionStatus::True, Reason::Valid, ""),
            Err(errors) => condition(Type::SpecValid, ConditionStatus::False, Reason::InvalidSpec, one_line(errors)),
        };
        let paused = condition(Type::Paused, ConditionStatus::False, Reason::NotPaused, "");
        Self { conditions: vec![spec, ignored(plugins), paused], stands }
    }

    pub(super) fn deleting() -> Self {
        Self { conditions: Vec::new(), stands: false }
    }

    pub(super) fn with(
        mut self,
        r#type: Type,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        // What stands stays installed while more is installed.
        if !(self.stands && matches!(r#type, Type::Installed) && status != ConditionStatus::True) {
            self.conditions.push(condition(r#type, status, reason, message));
        }
        self
    }

    /// Not ready, for this reason. A cluster that stands stays ready, and is not up to date.
    pub(super) fn ends(
        mut self,
        phase: Phase,
        reason: Reason,
        message: impl Into<String>,
        next: Next<Wait>,
    ) -> Decision {
        if !self.stands {
            self.conditions.insert(0, condition(Type::Ready, ConditionStatus::False, reason, message));
            return Decision { actions: Vec::new(), conditions: self.conditions, phase: Some(phase), next };
        }
        let phase = if phase == Phase::Failed { phase } else { Phase::Updating };
        let decision = self.with(Type::UpToDate, ConditionStatus::False, reason, message).ready();
        Decision { phase: Some(phase), next, ..decision }
    }

    /// The cluster stands as it is, though something else is asked for.
    pub(super) fn stays(self, reason: Reason, message: String) -> Decision {
        self.with(Type::UpToDate, ConditionStatus::False, reason, message).ready()
    }

    /// A person must act.
    pub(super) fn failed(self, reason: Reason, message: impl Into<String>) -> Decision {
        self.ends(Phase::Failed, reason, message, Next::AwaitChange)
    }

    /// Something is done, and the rest follows.
    pub(super) fn does(
        self,
        phase: Phase,
        reason: Reason,
        message: impl Into<String>,
        actions: Vec<Action>,
    ) -> Decision {
        Decision { actions, ..self.ends(phase, reason, message, Next::Now) }
    }

    /// The cluster stands.
    pub(super) fn ready(mut self) -> Decision {
        self.conditions.insert(0, condition(Type::Ready, ConditionStatus::True, Reason::Ready, ""));
        Decision {
            actions: Vec::new(),
            conditions: self.conditions,
            phase: Some(Phase::Ready),
            next: Next::AwaitChange,
        }
    }
}

/// What an unknown add-on must not do is stop a cluster; what it must do is be told.
fn ignored(plugins: &[String]) -> ConditionDraft {
    if plugins.is_empty() {
        return condition(Type::PluginIgnored, ConditionStatus::False, Reason::NoPluginIgnored, "");
    }
    let message = format!("spec.KUDPlugins: the installer brings no add-on of these names: {}", names(plugins));
    condition(Type::PluginIgnored, ConditionStatus::True, Reason::PluginUnknown, message)
}

fn condition(r#type: Type, status: ConditionStatus, reason: Reason, message: impl Into<String>) -> ConditionDraft {
    draft(r#type.as_str(), status, reason.as_str(), message)
}
