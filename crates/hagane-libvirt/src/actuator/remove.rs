//! Removing a machine.
//!
//! The domain is stopped first and undefined last: its definition names the owner, the pool and the network, so that
//! whatever is cut off in between is found again.

use hagane_ports::{ActuatorError, MachineKey, Removal};

use super::scope::{Found, OwnDomain, Scope};
use crate::rpc::{DomainRef, code, found};

impl Scope<'_> {
    pub(super) async fn delete(&self, key: &MachineKey) -> Result<Removal, ActuatorError> {
        let own = match self.find_domain(key).await? {
            Found::Own(own) => Some(own),
            Found::Nothing | Found::Stranger { .. } => None,
        };
        if let Some(own) = &own {
            self.stop(&own.domain).await?;
            if let Some(wait) = self.hidden_volumes(own).await? {
                return Ok(Removal::Pending(wait));
            }
        }
        for volume in self.own_volumes(key).await? {
            let deleted = found(self.session.connection.delete_volume(&volume).await, code::NO_STORAGE_VOL);
            deleted.map_err(self.failed(&format!("remove volume {:?}", volume.name)))?;
        }
        self.release_leases(key, own.as_deref()).await?;
        for (network, reservation) in self.own_reservations(key).await? {
            self.release(&network, &reservation).await?;
        }
        if let Some(own) = &own {
            let undefined = found(self.session.connection.undefine_domain(&own.domain).await, code::NO_DOMAIN);
            undefined.map_err(self.failed(&format!("undefine domain {:?}", own.domain.name)))?;
        }
        self.actuator.uploads.clear_away(&self.session).await.map_err(self.failed("clear away cut-off uploads"))?;
        Ok(Removal::Done)
    }

    async fn stop(&self, domain: &DomainRef) -> Result<(), ActuatorError> {
        match found(self.session.connection.destroy_domain(domain).await, code::NO_DOMAIN) {
            // It does not run.
            Err(error) if error.is(code::OPERATION_INVALID) => Ok(()),
            other => other.map(drop).map_err(self.failed(&format!("stop domain {:?}", domain.name))),
        }
    }

    /// Volumes in a pool that is there but not active cannot be removed, and must not be forgotten.
    async fn hidden_volumes(&self, own: &OwnDomain) -> Result<Option<String>, ActuatorError> {
        let connection = &self.session.connection;
        let failed = self.failed("look up the storage pool");
        let pool = found(connection.pool_by_name(&own.owner.pool).await, code::NO_STORAGE_POOL).map_err(&failed)?;
        let Some(pool) = pool else { return Ok(None) };
        if connection.pool_is_active(&pool).await.map_err(&failed)? {
            return Ok(None);
        }
        Ok(Some(format!(
            "storage pool {:?} is inactive; the volumes in it cannot be removed until it is started",
            pool.name
        )))
    }
}
