//! The provider spec as it is acted on: given fields, the class's fields, the operator's defaults.

use std::net::IpAddr;

use hagane_api::field::FieldError;
use hagane_api::machine::{LibvirtMachineProviderSpec, ProviderSpec, validate_provider_spec};
use hagane_api::quantity::{ByteSize, MemoryMib};

/// What the operator sets for machines that do not say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    /// Image of the root disk.
    pub image_uri: Option<String>,
    /// Digest of that image.
    pub image_checksum: Option<String>,
}

/// A provider spec with nothing left open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedSpec {
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory.
    pub memory: MemoryMib,
    /// Size of the root disk; the image's size where `None`.
    pub disk: Option<ByteSize>,
    /// Image of the root disk; the machine waits without one.
    pub image_uri: Option<String>,
    /// Digest the image must have.
    pub image_checksum: Option<String>,
    /// A ready seed image.
    pub user_data_uri: Option<String>,
    /// Storage pool.
    pub pool: String,
    /// Network.
    pub network: String,
    /// A fixed address.
    pub address: Option<IpAddr>,
    /// SSH public keys.
    pub ssh_authorized_keys: Vec<String>,
}

/// Resolves a provider spec. Fields under `value` win over flat ones, those over the class's, those over `defaults`.
///
/// # Errors
/// Every field that cannot be acted on, with its path below `spec.providerSpec`.
pub fn resolve(
    spec: &ProviderSpec,
    class: Option<&ProviderSpec>,
    defaults: &Defaults,
) -> Result<ResolvedSpec, Vec<FieldError>> {
    let mut errors = validate_provider_spec(spec, "spec.providerSpec");
    if let Some(class) = class {
        errors.extend(validate_provider_spec(class, "providerSpec of the MachineClass"));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let layers: Vec<&LibvirtMachineProviderSpec> = [Some(spec), class]
        .into_iter()
        .flatten()
        .flat_map(|layer| layer.value.iter().chain(std::iter::once(&layer.flat)))
        .collect();
    Ok(merge(&layers, defaults))
}

fn merge(layers: &[&LibvirtMachineProviderSpec], defaults: &Defaults) -> ResolvedSpec {
    const CPUS: u32 = 2;
    const MEMORY_GIB: u64 = 2;
    let number = |get: fn(&LibvirtMachineProviderSpec) -> Option<i64>| {
        layers.iter().find_map(|layer| get(layer)).and_then(|number| u64::try_from(number).ok())
    };
    let text =
        |get: fn(&LibvirtMachineProviderSpec) -> Option<&String>| layers.iter().find_map(|layer| get(layer)).cloned();
    let image_uri = text(|layer| layer.image_uri.as_ref());
    let image_checksum = text(|layer| layer.image_checksum.as_ref());
    let default_image = image_uri.is_none();
    ResolvedSpec {
        vcpus: number(|layer| layer.vcpu).and_then(|cpus| u32::try_from(cpus).ok()).unwrap_or(CPUS),
        memory: MemoryMib(number(|layer| layer.memory_in_gb).unwrap_or(MEMORY_GIB).saturating_mul(1024)),
        disk: number(|layer| layer.disk_in_gb).and_then(ByteSize::from_gib),
        image_uri: image_uri.or_else(|| defaults.image_uri.clone()),
        image_checksum: image_checksum.or_else(|| default_image.then(|| defaults.image_checksum.clone()).flatten()),
        user_data_uri: text(|layer| layer.user_data_uri.as_ref()),
        pool: text(|layer| layer.pool_name.as_ref()).unwrap_or_else(|| "default".to_owned()),
        network: text(|layer| layer.network_name.as_ref()).unwrap_or_else(|| "default".to_owned()),
        address: text(|layer| layer.network_address.as_ref()).and_then(|text| text.parse().ok()),
        ssh_authorized_keys: layers
            .iter()
            .map(|layer| &layer.ssh_authorized_keys)
            .find(|keys| !keys.is_empty())
            .cloned()
            .unwrap_or_default(),
    }
}

impl ResolvedSpec {
    /// In the form that status shows and later passes read back by [`ResolvedSpec::from_status`].
    #[must_use]
    pub fn to_status(&self) -> LibvirtMachineProviderSpec {
        LibvirtMachineProviderSpec {
            api_version: None,
            kind: None,
            vcpu: Some(i64::from(self.vcpus)),
            memory_in_gb: i64::try_from(self.memory.0 / 1024).ok(),
            disk_in_gb: self.disk.and_then(|disk| i64::try_from(disk.0 >> 30).ok()),
            image_uri: self.image_uri.clone(),
            image_checksum: self.image_checksum.clone(),
            user_data_uri: self.user_data_uri.clone(),
            pool_name: Some(self.pool.clone()),
            network_name: Some(self.network.clone()),
            network_address: self.address.map(|address| address.to_string()),
            ssh_authorized_keys: self.ssh_authorized_keys.clone(),
        }
    }

    /// Reads back what [`ResolvedSpec::to_status`] wrote.
    #[must_use]
    pub fn from_status(status: &LibvirtMachineProviderSpec) -> Self {
        merge(&[status], &Defaults::default())
    }
}
