//! The effects of a pass over a Machine. Each is idempotent and keyed by uid; answers go back into the facts.

use hagane_plan::machine::{Action, Attempt, Image, Removal, ResolvedSpec, Trouble, TroubleKind};
use hagane_ports::{Checksum, CreateMachine, Creation, ImagePurpose, ImageRequest, LocalImage, MachineShape, Seed};

use super::cloud_init::CloudInit;
use super::host_key;
use super::observe::{Observed, SeenMachine, image_fact, trouble};
use crate::runtime::{Pass, PassError};

/// Does what finds something out. Writes to the Machine itself wait for the record.
pub(super) async fn act(
    action: &Action,
    observed: &mut Observed,
    seen: &SeenMachine,
    pass: &Pass,
) -> Result<(), PassError> {
    match action {
        Action::EnsureImage => {
            let request = observed.resolved().and_then(root_disk);
            let (fact, image) = ensure(request, pass).await;
            (observed.facts.image, observed.image) = (fact, image);
        }
        Action::EnsureSeed => {
            let request = observed.resolved().and_then(seed_image);
            let (fact, image) = ensure(request, pass).await;
            (observed.facts.seed, observed.seed) = (fact, image);
        }
        Action::Create => create(observed, seen, pass).await?,
        Action::Delete => {
            observed.facts.removal = match pass.context.ports.actuator.delete(&observed.key).await {
                Ok(hagane_ports::Removal::Done) => Removal::Done,
                Ok(hagane_ports::Removal::Pending(what)) => Removal::Pending(what),
                Err(error) => Removal::Failed(trouble(&error)),
            };
        }
        Action::AddFinalizer | Action::SetProviderId(_) | Action::RemoveFinalizer => {}
    }
    Ok(())
}

async fn ensure(request: Option<ImageRequest>, pass: &Pass) -> (Image, Option<LocalImage>) {
    match request {
        Some(request) => image_fact(pass.context.ports.images.ensure(&request).await),
        None => (Image::Failed { message: "no image is named".to_owned(), retry_after: None }, None),
    }
}

fn root_disk(resolved: &ResolvedSpec) -> Option<ImageRequest> {
    Some(ImageRequest {
        uri: resolved.image_uri.clone()?,
        checksum: resolved.image_checksum.as_deref().and_then(checksum),
        purpose: ImagePurpose::RootDisk,
    })
}

fn seed_image(resolved: &ResolvedSpec) -> Option<ImageRequest> {
    Some(ImageRequest { uri: resolved.user_data_uri.clone()?, checksum: None, purpose: ImagePurpose::Seed })
}

/// The digest, in the form that validation let pass.
fn checksum(text: &str) -> Option<Checksum> {
    match text.split_once(':')? {
        ("sha256", hex) => Some(Checksum::Sha256(hex.to_ascii_lowercase())),
        ("sha512", hex) => Some(Checksum::Sha512(hex.to_ascii_lowercase())),
        _ => None,
    }
}

async fn create(observed: &mut Observed, seen: &SeenMachine, pass: &Pass) -> Result<(), PassError> {
    let (Some(resolved), Some(image)) = (observed.resolved().cloned(), observed.image.clone()) else {
        observed.facts.attempt = failed(TroubleKind::Failed, "the image is not at hand");
        return Ok(());
    };
    let Some(seed) = seed(observed, &resolved, seen, pass).await? else {
        let name = host_key::secret_name(&seen.key.name, seen.uid());
        let message = format!("Secret {name:?} exists and does not belong to this Machine");
        observed.facts.attempt = failed(TroubleKind::NameTaken, &message);
        return Ok(());
    };
    let request = CreateMachine { key: observed.key.clone(), shape: shape(&resolved), image, seed };
    match pass.context.ports.actuator.create(&request).await {
        Ok(Creation::Running(facts)) => {
            observed.found(facts);
            observed.created = true;
            observed.facts.made_from = Some(resolved);
        }
        Ok(Creation::Preparing(progress)) => {
            let total = progress.total.map(|total| format!(" of {total}")).unwrap_or_default();
            observed.facts.attempt = Attempt::Preparing(format!("{}: {}{total}", progress.what, progress.done));
        }
        Err(error) => observed.facts.attempt = Attempt::Failed(trouble(&error)),
    }
    Ok(())
}

/// Where the machine gets its configuration from; nothing where the Secret for its host key is somebody else's.
async fn seed(
    observed: &mut Observed,
    resolved: &ResolvedSpec,
    seen: &SeenMachine,
    pass: &Pass,
) -> Result<Option<Seed>, PassError> {
    if let Some(image) = &observed.seed {
        return Ok(Some(Seed::Image(image.clone())));
    }
    let maker = pass.context.ports.host_keys.as_ref();
    let Some(pair) = host_key::ensure(&pass.context.client, maker, &seen.key, seen.uid()).await? else {
        return Ok(None);
    };
    let files = CloudInit {
        name: &seen.key.name,
        uid: seen.uid(),
        authorized_keys: &resolved.ssh_authorized_keys,
        host_key: &pair,
        versions: seen.spec.versions.as_ref(),
    }
    .render();
    observed.host_key = Some(pair.public_line);
    Ok(Some(Seed::Files(files)))
}

fn failed(kind: TroubleKind, message: &str) -> Attempt {
    Attempt::Failed(Trouble { kind, message: message.to_owned() })
}

fn shape(resolved: &ResolvedSpec) -> MachineShape {
    MachineShape {
        vcpus: resolved.vcpus,
        memory: resolved.memory,
        disk: resolved.disk,
        pool: resolved.pool.clone(),
        network: resolved.network.clone(),
        address: resolved.address,
    }
}
