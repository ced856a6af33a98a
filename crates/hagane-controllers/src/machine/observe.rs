//! What is known of a Machine: its spec resolved, its record, and what the actuator says.

use hagane_api::field::FieldError;
use hagane_api::machine::reasons::MachinePhase;
use hagane_api::machine::{LibvirtMachineProviderStatus, MachineSpec, MachineStatus, ProviderSpec};
use hagane_plan::machine::{
    Attempt, Defaults, Facts, Image, Instance, Power, Presence, Removal, ResolvedSpec, SpecFact, Trouble, TroubleKind,
    resolve,
};
use hagane_ports::{ActuatorError, ImageState, LocalImage, MachineFacts, MachineKey, PowerState};

use super::host_key;
use crate::runtime::{Caches, ObjectKey, Pass, PassError, Resource, Seen, chain};

/// A Machine as a pass sees it.
pub(super) type SeenMachine = Seen<MachineSpec, MachineStatus>;

/// What a pass knows, and what it found out while it acted.
pub(super) struct Observed {
    /// Names the machine for the actuator.
    pub(super) key: MachineKey,
    /// What the decision looks at.
    pub(super) facts: Facts,
    /// The machine, where it is there.
    pub(super) instance: Option<MachineFacts>,
    /// The root disk's image, once it is here.
    pub(super) image: Option<LocalImage>,
    /// The seed image, once it is here.
    pub(super) seed: Option<LocalImage>,
    /// Whether the actuator's create came to its end in this pass.
    pub(super) created: bool,
    /// Public SSH host key that was put into the machine in this pass.
    pub(super) host_key: Option<String>,
}

/// Reads everything a decision needs. What the actuator cannot say is a fact of its own; only our own API can fail.
pub(super) async fn observe(seen: &SeenMachine, pass: &Pass) -> Result<Observed, PassError> {
    let key =
        MachineKey { namespace: seen.key.namespace.clone(), name: seen.key.name.clone(), uid: seen.uid().to_owned() };
    let made_from = made_from(seen.status.provider_status.as_ref());
    let defaults = match &made_from {
        // The operator may name another default image later: that is no change of this machine's spec.
        Some(made) => Defaults { image_uri: made.image_uri.clone(), image_checksum: made.image_checksum.clone() },
        None => Defaults { image_uri: pass.context.settings.default_image.clone(), image_checksum: None },
    };
    let spec = spec_fact(seen, &pass.caches, &defaults);
    let seed = match &spec {
        SpecFact::Valid(resolved) if resolved.user_data_uri.is_some() => Image::NotAsked,
        _ => Image::Ready,
    };
    let facts = Facts {
        deleting: seen.is_deleting(),
        finalizer: true,
        paused: false,
        spec,
        provider_id: seen.spec.provider_id.clone().filter(|id| !id.is_empty()),
        made_from,
        begun: seen.status.phase.is_some_and(|phase| phase != MachinePhase::Pending),
        image: Image::NotAsked,
        seed,
        presence: Presence::Unknown("not asked yet".to_owned()),
        attempt: Attempt::NotTried,
        removal: Removal::NotTried,
    };
    let mut observed = Observed { key, facts, instance: None, image: None, seed: None, created: false, host_key: None };
    observed.ask_presence(pass).await;
    let recorded = seen.status.provider_status.as_ref().is_some_and(|status| status.ssh_host_key.is_some());
    if observed.instance.is_some() && !recorded && observed.facts.seed == Image::Ready {
        // An earlier pass made the machine and ended before it wrote down the key.
        observed.host_key = host_key::recorded(&pass.context.client, &seen.key, seen.uid()).await?;
    }
    Ok(observed)
}

impl Observed {
    async fn ask_presence(&mut self, pass: &Pass) {
        match pass.context.ports.actuator.exists(&self.key).await {
            Ok(hagane_ports::Presence::Absent) => self.facts.presence = Presence::Absent,
            Ok(hagane_ports::Presence::Leftovers(names)) => self.facts.presence = Presence::Leftovers(names),
            Ok(hagane_ports::Presence::Present(facts)) => self.found(facts),
            Err(error) => self.facts.presence = Presence::Unknown(chain(&error)),
        }
    }

    /// The machine is there.
    pub(super) fn found(&mut self, facts: MachineFacts) {
        self.facts.presence = Presence::Present(Instance {
            provider_id: facts.provider_id.clone(),
            power: match facts.power {
                PowerState::Running => Power::Running,
                PowerState::Off => Power::Off,
                PowerState::Paused => Power::Paused,
                PowerState::Crashed => Power::Crashed,
            },
            has_address: !facts.addresses.is_empty(),
        });
        self.instance = Some(facts);
    }

    /// The spec, where it can be acted on.
    pub(super) fn resolved(&self) -> Option<&ResolvedSpec> {
        match &self.facts.spec {
            SpecFact::Valid(resolved) => Some(resolved),
            SpecFact::Missing | SpecFact::ClassMissing(_) | SpecFact::Invalid(_) => None,
        }
    }
}

/// The spec that the machine was made from; nothing before it was there.
fn made_from(status: Option<&LibvirtMachineProviderStatus>) -> Option<ResolvedSpec> {
    let status = status.filter(|status| status.instance_id.is_some())?;
    status.resolved.as_ref().map(ResolvedSpec::from_status)
}

fn spec_fact(seen: &SeenMachine, caches: &Caches, defaults: &Defaults) -> SpecFact {
    let Some(provider) = &seen.spec.provider_spec else { return SpecFact::Missing };
    let class = provider.value_from.as_ref().and_then(|source| source.machine_class.as_ref());
    let class = match class {
        None => None,
        Some(reference) => match read_class(&seen.key, &reference.name, caches) {
            None => return SpecFact::ClassMissing(reference.name.clone()),
            Some(Err(error)) => return SpecFact::Invalid(vec![error]),
            Some(Ok(class)) => Some(class),
        },
    };
    match resolve(provider, class.as_ref(), defaults) {
        Ok(resolved) => SpecFact::Valid(resolved),
        Err(errors) => SpecFact::Invalid(errors),
    }
}

fn read_class(machine: &ObjectKey, name: &str, caches: &Caches) -> Option<Result<ProviderSpec, FieldError>> {
    let resource = Resource::of(machine.resource.group, "machineclasses")?;
    let class = caches.get(&ObjectKey::new(resource, &machine.namespace, name))?;
    let spec = class.data.get("providerSpec").cloned().unwrap_or_default();
    Some(
        serde_json::from_value(spec).map_err(|error| {
            FieldError::invalid(format!("providerSpec of MachineClass {name}"), "", error.to_string())
        }),
    )
}

/// How an image stands, for the decision; the image itself where it is here.
pub(super) fn image_fact(state: ImageState) -> (Image, Option<LocalImage>) {
    match state {
        ImageState::Ready(image) => (Image::Ready, Some(image)),
        ImageState::Fetching(progress) => {
            let fact = Image::Fetching { what: progress.what, done: progress.done, total: progress.total };
            (fact, None)
        }
        ImageState::Failed { message, retry_after, .. } => (Image::Failed { message, retry_after }, None),
    }
}

/// An actuator's error, for the decision.
pub(super) fn trouble(error: &ActuatorError) -> Trouble {
    let kind = match error {
        ActuatorError::Unreachable { .. } => TroubleKind::Unreachable,
        ActuatorError::NameTaken { .. } => TroubleKind::NameTaken,
        ActuatorError::NotAvailable { kind: "network", .. } => TroubleKind::NetworkNotAvailable,
        ActuatorError::NotAvailable { .. } => TroubleKind::PoolNotAvailable,
        ActuatorError::AddressInUse { .. } => TroubleKind::AddressInUse,
        ActuatorError::Invalid { .. } => TroubleKind::Invalid,
        ActuatorError::Failed { .. } => TroubleKind::Failed,
    };
    Trouble { kind, message: chain(error) }
}
