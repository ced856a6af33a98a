//! Making and removing machines (VMs today; claimed hosts later) behind one contract.
//!
//! # Contract
//! - Every call is idempotent and keyed by [`MachineKey::uid`]; "already so" is success.
//! - Everything a machine owns (domain, root volume, seed, address reservation) carries the owner's uid and is found
//!   again by it alone, so a crash between any two steps leaks nothing.
//! - A resource of the same name that does not carry the uid is somebody else's: never changed, reported as
//!   [`ActuatorError::NameTaken`].
//! - No call waits for slow work: a long upload is started and reported as [`Creation::Preparing`].

use std::net::IpAddr;

use async_trait::async_trait;
use hagane_api::quantity::{ByteSize, MemoryMib};

use crate::{LocalImage, Progress};

/// Identifies a machine for ever. Equal names in other namespaces, groups or times have other uids.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MachineKey {
    /// Namespace of the Machine object.
    pub namespace: String,
    /// Name of the Machine object.
    pub name: String,
    /// `metadata.uid` of the Machine object.
    pub uid: String,
}

/// What the machine is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineShape {
    /// Number of virtual CPUs, at least 1.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory: MemoryMib,
    /// Size of the root disk; `None` means the image's own virtual size.
    pub disk: Option<ByteSize>,
    /// Storage pool for base image, root disk and seed.
    pub pool: String,
    /// Network the one NIC is attached to.
    pub network: String,
    /// Fixed address to reserve in the network, where asked for.
    pub address: Option<IpAddr>,
}

/// The `NoCloud` files of a machine, byte for byte.
#[derive(Clone, PartialEq, Eq)]
pub struct CloudInitFiles {
    /// `user-data`; may be secret, so [`std::fmt::Debug`] leaves it out.
    pub user_data: Vec<u8>,
    /// `meta-data`, with `instance-id` and `local-hostname`.
    pub meta_data: Vec<u8>,
    /// `network-config`; where not given the actuator writes one for the NIC it makes.
    pub network_config: Option<Vec<u8>>,
}

impl std::fmt::Debug for CloudInitFiles {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CloudInitFiles").field("user_data_bytes", &self.user_data.len()).finish_non_exhaustive()
    }
}

/// Where the machine gets its first-boot configuration from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seed {
    /// Files from which the actuator makes a `cidata` image.
    Files(CloudInitFiles),
    /// A ready-made seed image that the user named (`userDataURI`).
    Image(LocalImage),
}

/// Everything needed to create a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateMachine {
    /// Whose machine it is.
    pub key: MachineKey,
    /// What it is made of.
    pub shape: MachineShape,
    /// The verified image its root disk starts as.
    pub image: LocalImage,
    /// First-boot configuration.
    pub seed: Seed,
}

/// Power state as the hypervisor reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerState {
    /// The machine runs.
    Running,
    /// The machine is defined but off.
    Off,
    /// The machine is paused (by a person, or by the hypervisor after an I/O error).
    Paused,
    /// The machine crashed.
    Crashed,
}

/// What is known of an existing machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// The node-facing id, `libvirt:///<domain uuid>`.
    pub provider_id: String,
    /// Name of the domain.
    pub domain: String,
    /// UUID of the domain.
    pub uuid: String,
    /// Power state.
    pub power: PowerState,
    /// Addresses the machine has now (leases and reservations), without link-local ones.
    pub addresses: Vec<IpAddr>,
    /// MAC address of the NIC.
    pub mac: String,
    /// Size of the root disk, when known.
    pub disk: Option<ByteSize>,
    /// vCPUs as defined.
    pub vcpus: u32,
    /// Memory as defined.
    pub memory: MemoryMib,
}

/// Answer to [`Actuator::create`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Creation {
    /// Slow work goes on in the background; call again.
    Preparing(Progress),
    /// The machine is defined and started.
    Running(MachineFacts),
}

/// Answer to [`Actuator::exists`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Nothing with this uid is there.
    Absent,
    /// No domain, but side resources (volume, seed, reservation) of this uid, named here.
    Leftovers(Vec<String>),
    /// The domain is there.
    Present(MachineFacts),
}

/// Answer to [`Actuator::delete`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Nothing of this uid is left.
    Done,
    /// Removal goes on; says what is waited for. Call again.
    Pending(String),
}

/// Why a machine could not be made, looked up or removed.
#[derive(Debug, thiserror::Error)]
pub enum ActuatorError {
    /// The hypervisor's daemon does not answer; try again later.
    #[error("the hypervisor at {uri} does not answer")]
    Unreachable {
        /// Connection URI.
        uri: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A resource with the wanted name belongs to somebody else.
    #[error("{kind} {name:?} exists and is not ours (owner uid {found:?})")]
    NameTaken {
        /// Domain, volume, …
        kind: &'static str,
        /// Its name.
        name: String,
        /// The owner uid it carries, if any.
        found: Option<String>,
    },
    /// A pool or network that the machine needs is not there or not active.
    #[error("{kind} {name:?} is {state}")]
    NotAvailable {
        /// `storage pool` or `network`.
        kind: &'static str,
        /// Its name.
        name: String,
        /// `missing` or `inactive`.
        state: &'static str,
    },
    /// Another machine holds the address.
    #[error("address {address} is in use by {holder}")]
    AddressInUse {
        /// The address asked for.
        address: IpAddr,
        /// Who holds it.
        holder: String,
    },
    /// The request can never work as it is.
    #[error("{field}: {value:?} is not possible: {allowed}")]
    Invalid {
        /// Field of the provider spec.
        field: &'static str,
        /// The value given.
        value: String,
        /// What is allowed.
        allowed: String,
    },
    /// The hypervisor refused or failed an operation.
    #[error("failed to {operation}")]
    Failed {
        /// What was tried, as a phrase after "failed to".
        operation: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Makes, finds and removes machines. See the module's contract.
#[async_trait]
pub trait Actuator: Send + Sync {
    /// Brings the machine into being, or goes on with an earlier attempt.
    ///
    /// # Errors
    /// Any [`ActuatorError`]; nothing half-made stays behind that a later call does not find again by uid.
    async fn create(&self, request: &CreateMachine) -> Result<Creation, ActuatorError>;

    /// Looks the machine up by uid.
    ///
    /// # Errors
    /// [`ActuatorError::Unreachable`] or [`ActuatorError::Failed`]; never an error for "not there".
    async fn exists(&self, key: &MachineKey) -> Result<Presence, ActuatorError>;

    /// Removes the domain, then volumes, seed and reservation: whatever carries the uid.
    ///
    /// # Errors
    /// [`ActuatorError::Unreachable`] or [`ActuatorError::Failed`]; the next call goes on where this one stopped.
    async fn delete(&self, key: &MachineKey) -> Result<Removal, ActuatorError>;

    /// Uids of machines whose state may have changed, as the hypervisor reports them. An empty string means "any of
    /// them" (after a reconnect).
    fn changes(&self) -> tokio::sync::broadcast::Receiver<String>;
}
