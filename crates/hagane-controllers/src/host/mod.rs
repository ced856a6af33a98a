//! `BareMetalHost`s, thin: facts from the annotation, and what state a host is in. No power and no disks yet.

use async_trait::async_trait;
use hagane_api::condition::merge_conditions;
use hagane_api::keys::{HARDWARE_DETAILS_ANNOTATION, HOST_PAUSED_ANNOTATION, HOST_UNHEALTHY_ANNOTATIONS};
use hagane_api::metal3::{BareMetalHostSpec, BareMetalHostStatus, Bmc, GROUP, HardwareDetails, validate_host_spec};
use hagane_plan::decision::Next as Decided;
use hagane_plan::host::{Action, Annotation, Facts, consumer_name, decide};
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::runtime::{Caches, Change, Controller, Next, ObjectKey, Pass, PassError, Resource, Seen, Watch};

/// Finalizer of the Metal3 project's own operator: a host that carries it is that operator's.
const METAL3_FINALIZER: &str = "baremetalhost.metal3.io";

/// The control loop of hosts.
pub struct HostController;

type SeenHost = Seen<BareMetalHostSpec, BareMetalHostStatus>;

#[cfg(test)]
mod tests;

#[async_trait]
impl Controller for HostController {
    type Spec = BareMetalHostSpec;
    type Status = BareMetalHostStatus;

    fn name(&self) -> &'static str {
        "host"
    }

    fn resources(&self) -> Vec<Resource> {
        Resource::of(GROUP, "baremetalhosts").into_iter().collect()
    }

    fn finalizer(&self) -> Option<&'static str> {
        None
    }

    fn watches(&self) -> Vec<Watch> {
        self.resources().into_iter().map(|resource| Watch::new(resource, alike)).collect()
    }

    async fn reconcile(&self, seen: SeenHost, pass: &Pass) -> Result<Next, PassError> {
        let decision = decide(&observe(&seen, &pass.caches));
        let next = match decision.next {
            Decided::AwaitChange => Next::AwaitChange,
            Decided::After(wait, _) => Next::After(wait),
            Decided::Now => Next::Stale,
        };
        let Some(draft) = decision.status else { return Ok(next) };
        let mut recorder = pass.recorder(&seen);
        let mut status = seen.status.clone();
        for action in decision.actions {
            let Action::RecordHardware(hardware) = action;
            status.hardware = Some(*hardware);
        }
        draft.state.clone_into(&mut status.provisioning.state);
        draft.operational_status.clone_into(&mut status.operational_status);
        status.error_type = draft.error_type.map(str::to_owned);
        status.error_message = draft.error_message;
        status.error_count = if status.error_type.is_some() { seen.status.error_count.max(1) } else { 0 };
        status.conditions = merge_conditions(&seen.status.conditions, &draft.conditions, pass.now, seen.generation());
        if status != seen.status {
            status.last_updated = Some(pass.now.to_string());
        }
        recorder.status(&seen.status, &status).await?;
        Ok(next)
    }
}

fn observe(seen: &SeenHost, caches: &Caches) -> Facts {
    let annotation = match seen.annotation(HARDWARE_DETAILS_ANNOTATION) {
        None => Annotation::Absent,
        Some(text) => match serde_json::from_str::<HardwareDetails>(text) {
            Ok(details) => Annotation::checked(details),
            Err(error) => Annotation::Broken(error.to_string()),
        },
    };
    let finalizers = seen.meta().finalizers.as_deref().unwrap_or_default();
    let foreign = finalizers.iter().find(|finalizer| *finalizer == METAL3_FINALIZER);
    Facts {
        deleting: seen.is_deleting(),
        paused: seen.annotation(HOST_PAUSED_ANNOTATION).is_some(),
        foreign: foreign.map(|finalizer| format!("finalizer {finalizer}")),
        errors: validate_host_spec(&seen.spec),
        annotation,
        recorded: seen.status.hardware.clone(),
        externally_provisioned: seen.spec.externally_provisioned.unwrap_or(false),
        consumer: seen.spec.consumer_ref.as_ref().map(consumer_name),
        unhealthy: HOST_UNHEALTHY_ANNOTATIONS
            .iter()
            .find(|key| seen.annotation(key).is_some())
            .map(|key| (*key).to_owned()),
        duplicate_of: earlier_with_same(seen, caches, boot_mac),
        same_bmc_as: earlier_with_same(seen, caches, bmc),
    }
}

/// An earlier host of the namespace that has the same of something that only one can have.
fn earlier_with_same<T: PartialEq>(
    seen: &SeenHost,
    caches: &Caches,
    what: impl Fn(&DynamicObject) -> Option<T>,
) -> Option<String> {
    let own = what(&seen.raw)?;
    let hosts = caches.list(seen.key.resource, &seen.key.namespace);
    let mut earlier: Vec<_> = hosts
        .iter()
        .filter(|host| what(host).as_ref() == Some(&own) && creation_order(host) < creation_order(&seen.raw))
        .collect();
    earlier.sort_by_key(|host| creation_order(host));
    earlier.first().map(|host| host.name_any())
}

/// Order in which hosts were made; equal moments by name.
pub(crate) fn creation_order(object: &DynamicObject) -> (Option<jiff::Timestamp>, String) {
    (object.metadata.creation_timestamp.as_ref().map(|time| time.0), object.name_any())
}

fn boot_mac(object: &DynamicObject) -> Option<hagane_api::mac::MacAddress> {
    object.data.pointer("/spec/bootMACAddress")?.as_str()?.parse().ok()
}

fn bmc(object: &DynamicObject) -> Option<String> {
    let address = object.data.pointer("/spec/bmc/address")?.as_str()?.to_owned();
    Bmc { address, ..Bmc::default() }.identity()
}

/// Other hosts of the namespace with the changed host's boot MAC address or management controller, before or after the
/// change.
fn alike(change: &Change<'_>, caches: &Caches) -> Vec<ObjectKey> {
    let mut concerned = concerned(change, caches, boot_mac);
    concerned.extend(self::concerned(change, caches, bmc));
    concerned
}

fn concerned<T: PartialEq>(
    change: &Change<'_>,
    caches: &Caches,
    what: impl Fn(&DynamicObject) -> Option<T>,
) -> Vec<ObjectKey> {
    let sides = [change.old, change.new].map(|side| side.and_then(&what));
    if sides[0] == sides[1] {
        return Vec::new();
    }
    let hosts = caches.list(change.key.resource, &change.key.namespace);
    let concerned = hosts.iter().filter(|host| {
        let same = what(host);
        same.is_some() && sides.contains(&same) && host.name_any() != change.key.name
    });
    concerned.map(|host| ObjectKey::of(change.key.resource, host)).collect()
}
