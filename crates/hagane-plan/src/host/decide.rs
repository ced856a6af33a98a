//! What the thin host controller says of a host: no power and no disks yet, only facts and state.

use hagane_api::condition::{ConditionDraft, ConditionStatus};
use hagane_api::field::FieldError;
use hagane_api::metal3::reasons::{HostCondition as Type, HostReason as Reason, HostWait};
use hagane_api::metal3::{HardwareDetails, validate_hardware};

use crate::decision::{Next, draft, one_line};

/// What to do about a host, and what to say of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// What to do.
    pub actions: Vec<Action>,
    /// The status; `None` leaves it alone.
    pub status: Option<Draft>,
    /// When to look again.
    pub next: Next<HostWait>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Copy the annotation's facts to `status.hardware`.
    RecordHardware(Box<HardwareDetails>),
}

/// Status of a host, as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Draft {
    /// `status.provisioning.state`.
    pub state: &'static str,
    /// `status.operationalStatus`.
    pub operational_status: &'static str,
    /// `status.errorType`.
    pub error_type: Option<&'static str>,
    /// `status.errorMessage`.
    pub error_message: String,
    /// What holds.
    pub conditions: Vec<ConditionDraft>,
}

/// The facts annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum Annotation {
    /// There is none.
    Absent,
    /// It reads.
    Read(Box<HardwareDetails>),
    /// It cannot be read, or says what cannot be.
    Broken(String),
}

impl Annotation {
    /// An annotation that reads, with facts that may still be none.
    #[must_use]
    pub fn checked(hardware: HardwareDetails) -> Self {
        let errors = validate_hardware(&hardware);
        if errors.is_empty() { Self::Read(Box::new(hardware)) } else { Self::Broken(one_line(&errors)) }
    }
}

/// Everything a decision looks at.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Whether `metadata.deletionTimestamp` is set.
    pub deleting: bool,
    /// Whether the pause annotation is there.
    pub paused: bool,
    /// Which other operator manages the host (its finalizer that we did not set, or its live lease).
    pub foreign: Option<String>,
    /// What is wrong with the spec ([`hagane_api::metal3::validate_host_spec`]).
    pub errors: Vec<FieldError>,
    /// The facts annotation.
    pub annotation: Annotation,
    /// `status.hardware`.
    pub recorded: Option<HardwareDetails>,
    /// Whether `spec.externallyProvisioned` is set.
    pub externally_provisioned: bool,
    /// Who uses it: kind, namespace and name.
    pub consumer: Option<String>,
    /// Which annotation marks it as never to be chosen.
    pub unhealthy: Option<String>,
    /// Earlier host with the same boot MAC address.
    pub duplicate_of: Option<String>,
    /// Earlier host with the same management controller.
    pub same_bmc_as: Option<String>,
}

/// Decides what a host needs next.
#[must_use]
pub fn decide(facts: &Facts) -> Decision {
    let nothing = Decision { actions: Vec::new(), status: None, next: Next::AwaitChange };
    if facts.foreign.is_some() {
        return nothing;
    }
    let mut actions = Vec::new();
    let mut hardware = facts.recorded.as_ref();
    if let (Annotation::Read(read), false) = (&facts.annotation, facts.deleting || facts.paused) {
        if hardware != Some(&**read) {
            actions.push(Action::RecordHardware(read.clone()));
        }
        hardware = Some(read);
    }
    let known = hardware_condition(&facts.annotation, hardware);
    let standing = standing(facts, &known);
    let available = matches!(standing.reason, Reason::Available | Reason::NotProvisioned);
    let ready = available || standing.reason == Reason::InUse;
    let status = |yes: bool| if yes { ConditionStatus::True } else { ConditionStatus::False };
    let conditions = vec![
        condition(Type::Ready, status(ready), standing.reason, &standing.message),
        condition(Type::AvailableForProvisioning, status(available), standing.reason, &standing.message),
        known,
    ];
    let draft = Draft {
        state: if facts.externally_provisioned { "externally provisioned" } else { "unmanaged" },
        operational_status: match (standing.error, facts.externally_provisioned) {
            (Some(_), _) => "error",
            (None, true) => "OK",
            (None, false) => "discovered",
        },
        error_type: standing.error,
        error_message: standing.error.map(|_| standing.message.clone()).unwrap_or_default(),
        conditions,
    };
    let next = if facts.deleting && facts.consumer.is_some() {
        Next::After(std::time::Duration::from_secs(30), HostWait::Consumer)
    } else {
        Next::AwaitChange
    };
    Decision { actions, status: Some(draft), next }
}

struct Standing {
    reason: Reason,
    message: String,
    error: Option<&'static str>,
}

/// The first thing that stands against choosing the host.
fn standing(facts: &Facts, known: &ConditionDraft) -> Standing {
    let plain = |reason: Reason, message: String| Standing { reason, message, error: None };
    let broken =
        |reason: Reason, message: String, error: &'static str| Standing { reason, message, error: Some(error) };
    if facts.deleting {
        return plain(Reason::Deleting, "it is being deleted".to_owned());
    }
    if !facts.errors.is_empty() {
        return broken(Reason::InvalidSpec, one_line(&facts.errors), "registration error");
    }
    if let Some(other) = &facts.duplicate_of {
        let message = format!("host {other} has the same boot MAC address");
        return broken(Reason::DuplicateMac, message, "registration error");
    }
    if let Some(other) = &facts.same_bmc_as {
        let message = format!("host {other} has the same management controller (spec.bmc.address)");
        return broken(Reason::DuplicateBmc, message, "registration error");
    }
    if let Annotation::Broken(_) = facts.annotation {
        return broken(Reason::FactsInvalid, known.message.clone(), "inspection error");
    }
    if facts.paused {
        return plain(Reason::Paused, "it is paused".to_owned());
    }
    if let Some(annotation) = &facts.unhealthy {
        return plain(Reason::Unhealthy, format!("annotation {annotation} marks it as never to be chosen"));
    }
    if let Some(consumer) = &facts.consumer {
        return plain(Reason::InUse, format!("{consumer} uses it"));
    }
    if known.status != ConditionStatus::True {
        return plain(Reason::FactsMissing, known.message.clone());
    }
    if !facts.externally_provisioned {
        let message = "spec.externallyProvisioned is not set: it is taken as it is, if it answers by SSH";
        return plain(Reason::NotProvisioned, message.to_owned());
    }
    plain(Reason::Available, String::new())
}

fn hardware_condition(annotation: &Annotation, hardware: Option<&HardwareDetails>) -> ConditionDraft {
    match (annotation, hardware) {
        (Annotation::Broken(problem), _) => {
            let message =
                format!("the annotation {} cannot be used: {problem}", hagane_api::keys::HARDWARE_DETAILS_ANNOTATION);
            condition(Type::HardwareKnown, ConditionStatus::False, Reason::FactsInvalid, message)
        }
        (_, Some(_)) => condition(Type::HardwareKnown, ConditionStatus::True, Reason::Inspected, ""),
        (_, None) => {
            let message = format!("there is no annotation {} yet", hagane_api::keys::HARDWARE_DETAILS_ANNOTATION);
            condition(Type::HardwareKnown, ConditionStatus::False, Reason::FactsMissing, message)
        }
    }
}

fn condition(r#type: Type, status: ConditionStatus, reason: Reason, message: impl Into<String>) -> ConditionDraft {
    draft(r#type.as_str(), status, reason.as_str(), message)
}
