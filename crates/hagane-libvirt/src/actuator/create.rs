//! Bringing a machine into being.
//!
//! The order is: everything that can be refused is refused first; then the base volume (in the background), the
//! reservation, root volume and seed, the definition, the start. Each step finds what an earlier attempt left, so it
//! does not matter where that one was cut off. A domain is defined only once all it refers to is there: a defined
//! domain needs nothing but a start.

use hagane_ports::{ActuatorError, CreateMachine, Creation, MachineFacts, MachineKey, PowerState, Seed};

use super::facts::power;
use super::scope::{Found, OwnDomain, Scope};
use super::volumes::SeedContent;
use crate::names;
use crate::rpc::{DomainRef, RpcError, VolumeRef, code, found};
use crate::seed::{SeedError, USER_DATA_MAX, seed_image, with_network_config};
use crate::upload::{Base, BaseError};
use crate::xml::domain::{DomainSpec, Owner, domain_xml};
use crate::xml::host::HostProfile;

impl Scope<'_> {
    pub(super) async fn create(&self, request: &CreateMachine) -> Result<Creation, ActuatorError> {
        match self.find_domain(&request.key).await? {
            Found::Own(own) => return self.run(&request.key, *own).await.map(Creation::Running),
            Found::Stranger { name, owner } => {
                return Err(ActuatorError::NameTaken { kind: "domain", name, found: owner });
            }
            Found::Nothing => self.check_name(&request.key).await?,
        }
        let host = self.check_host(request).await?;
        let capacity = Self::root_capacity(request)?;
        let seed = SeedContent::prepare(&request.key, &request.seed)?;
        let pool = self.usable_pool(&request.shape.pool).await?;
        let network = self.usable_network(&request.shape.network).await?;
        let address = request.shape.address;
        let reservation = match address {
            Some(address) => Some(self.plan_reservation(&request.key, &network, address).await?),
            None => None,
        };
        self.check_volumes(&request.key, &pool).await?;
        let base = match self.actuator.uploads.ensure(&self.session, &pool, &request.image, &request.key.uid).await {
            Ok(Base::Ready(base)) => base,
            Ok(Base::Uploading(progress)) => return Ok(Creation::Preparing(progress)),
            Err(BaseError::Rpc(error)) => return Err(self.failed("upload the image into the storage pool")(error)),
            Err(error) => {
                let operation = "use the image in the storage pool".to_owned();
                return Err(ActuatorError::Failed { operation, source: Box::new(error) });
            }
        };
        if let Some(reservation) = reservation {
            self.reserve(&network, &reservation).await?;
        }
        let root = self.ensure_root(&request.key, &pool, &base, &request.image, capacity).await?;
        let seed = self.write_seed(&request.key, &pool, &seed).await?;
        let own = self.define(request, host, &root, &seed).await?;
        self.run(&request.key, own).await.map(Creation::Running)
    }

    /// Starts the domain where it is off, and says how it is.
    async fn run(&self, key: &MachineKey, mut own: OwnDomain) -> Result<MachineFacts, ActuatorError> {
        let connection = &self.session.connection;
        let state = connection.domain_state(&own.domain).await.map_err(self.failed("read the domain's state"))?;
        // A paused domain is left alone: a person or the hypervisor paused it for a reason.
        if matches!(power(state), PowerState::Off | PowerState::Crashed) {
            match connection.start_domain(&own.domain).await {
                Ok(started) => own.domain = started,
                // It was started by someone else in between.
                Err(error) if error.is(code::OPERATION_INVALID) => {}
                Err(error) => return Err(self.failed(&format!("start domain {:?}", own.domain.name))(error)),
            }
        }
        self.facts(key, &own).await
    }

    /// The name must be free, or a domain of the same name would be changed instead of a new one made.
    async fn check_name(&self, key: &MachineKey) -> Result<(), ActuatorError> {
        let name = names::domain(key);
        let taken = found(self.session.connection.domain_by_name(&name).await, code::NO_DOMAIN);
        let Some(taken) = taken.map_err(self.failed("look up the domain"))? else { return Ok(()) };
        Err(self.taken(taken).await?)
    }

    async fn taken(&self, domain: DomainRef) -> Result<ActuatorError, ActuatorError> {
        let owner = self.domain_facts(&domain).await?.and_then(|facts| facts.owner);
        Ok(ActuatorError::NameTaken { kind: "domain", name: domain.name, found: owner.map(|owner| owner.uid) })
    }

    async fn check_host(&self, request: &CreateMachine) -> Result<HostProfile, ActuatorError> {
        let profile = self.session.profile(self.actuator.options.acceleration).await;
        let profile = profile.map_err(|error| self.profile_failed(error))?;
        let vcpus = request.shape.vcpus;
        let most = profile.vcpus_max.unwrap_or(u32::MAX);
        if vcpus == 0 || vcpus > most {
            let allowed = format!("1 to {most} on this hypervisor");
            return Err(ActuatorError::Invalid { field: "vcpu", value: vcpus.to_string(), allowed });
        }
        Ok(profile)
    }

    async fn define(
        &self,
        request: &CreateMachine,
        host: HostProfile,
        root: &VolumeRef,
        seed: &VolumeRef,
    ) -> Result<OwnDomain, ActuatorError> {
        let connection = &self.session.connection;
        let name = names::domain(&request.key);
        let path_failed = self.failed("look up the paths of the volumes");
        let owner = Owner {
            uid: request.key.uid.clone(),
            namespace: request.key.namespace.clone(),
            name: request.key.name.clone(),
            pool: request.shape.pool.clone(),
            network: request.shape.network.clone(),
        };
        let logs = self.actuator.options.console_log_dir.as_ref();
        let spec = DomainSpec {
            owner: owner.clone(),
            uuid: names::domain_uuid(&request.key.uid),
            host,
            vcpus: request.shape.vcpus,
            memory: request.shape.memory,
            mac: names::mac(&request.key.uid),
            root_path: connection.volume_path(root).await.map_err(&path_failed)?,
            seed_path: connection.volume_path(seed).await.map_err(&path_failed)?,
            console_log: logs.map(|directory| format!("{}/{name}-console.log", directory.trim_end_matches('/'))),
            name: name.clone(),
        };
        let domain = match connection.define_domain(&domain_xml(&spec)).await {
            Ok(domain) => domain,
            Err(error @ RpcError::Remote { .. }) => {
                // Somebody may have taken the name since it was checked.
                self.check_name(&request.key).await?;
                return Err(self.failed(&format!("define domain {name:?}"))(error));
            }
            Err(error) => return Err(self.failed(&format!("define domain {name:?}"))(error)),
        };
        // The machine comes back with its host. A driver that cannot do this still runs it now.
        match connection.set_autostart(&domain, true).await {
            Err(error @ RpcError::Remote { .. }) => {
                tracing::debug!(domain = %domain.name, %error, "the domain will not start with the host");
            }
            other => other.map_err(self.failed("let the domain start with the host"))?,
        }
        let facts = self.domain_facts(&domain).await?.ok_or_else(|| ActuatorError::Failed {
            operation: format!("define domain {name:?}"),
            source: "it was removed again at once".into(),
        })?;
        Ok(OwnDomain { domain, owner, facts })
    }

    /// Size of the root disk in bytes: what was asked for, in whole sectors, and never less than the image needs.
    fn root_capacity(request: &CreateMachine) -> Result<u64, ActuatorError> {
        const SECTOR: u64 = 512;
        const GIB: u64 = 1 << 30;
        let needed = request.image.virtual_size.0.next_multiple_of(SECTOR);
        let Some(asked) = request.shape.disk else { return Ok(needed) };
        let invalid = |allowed| {
            let value = if asked.0.is_multiple_of(GIB) { (asked.0 / GIB).to_string() } else { format!("{asked}") };
            Err(ActuatorError::Invalid { field: "diskInGB", value, allowed })
        };
        if asked.0 < request.image.virtual_size.0 {
            return invalid(format!("at least {} (the image is {})", needed.div_ceil(GIB), request.image.virtual_size));
        }
        match asked.0.checked_next_multiple_of(SECTOR) {
            Some(capacity) if i64::try_from(capacity).is_ok() => Ok(capacity),
            _ => invalid("less than 8 EiB".to_owned()),
        }
    }
}

/// The seed of a request, whichever kind it is.
impl SeedContent {
    fn prepare(key: &MachineKey, seed: &Seed) -> Result<Self, ActuatorError> {
        match seed {
            Seed::Files(files) => match seed_image(&with_network_config(files, &names::mac(&key.uid))) {
                Ok(image) => Ok(Self::Bytes(image.into())),
                Err(SeedError::TooLarge { size }) => Err(ActuatorError::Invalid {
                    field: "userDataURI",
                    value: format!("user-data of {size} bytes"),
                    allowed: format!("at most {USER_DATA_MAX} bytes"),
                }),
                Err(error) => Err(ActuatorError::Failed {
                    operation: format!("make the seed of machine {:?}", key.name),
                    source: Box::new(error),
                }),
            },
            Seed::Image(image) => Self::from_image(image),
        }
    }
}
