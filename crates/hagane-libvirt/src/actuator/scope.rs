//! What every operation starts from: the open connection, error mapping, look-ups.

use std::sync::Arc;

use hagane_ports::{ActuatorError, MachineKey};

use super::LibvirtActuator;
use crate::names;
use crate::rpc::{DomainRef, NetworkRef, PoolRef, RpcError, code, found};
use crate::supervisor::{ProfileError, Session};
use crate::xml::XmlError;
use crate::xml::domain::{DomainFacts, Owner, parse_domain};
use crate::xml::storage::parse_pool_kind;

/// One operation over one connection.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub(super) actuator: &'a LibvirtActuator,
    pub(super) session: Arc<Session>,
}

/// A domain that carries our owner's uid.
#[derive(Debug)]
pub(super) struct OwnDomain {
    pub(super) domain: DomainRef,
    pub(super) owner: Owner,
    pub(super) facts: DomainFacts,
}

/// What answers under a machine's UUID.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    Own(Box<OwnDomain>),
    /// A domain with the UUID and another owner or none.
    Stranger {
        name: String,
        owner: Option<String>,
    },
}

impl Scope<'_> {
    /// Maps an error of the connection to "unreachable", every other one to "failed to `operation`".
    pub(super) fn failed(&self, operation: &str) -> impl Fn(RpcError) -> ActuatorError + use<> {
        let uri = self.actuator.uri.text.clone();
        let operation = operation.to_owned();
        move |error| {
            if error.is_connection() {
                ActuatorError::Unreachable { uri: uri.clone(), source: Box::new(error) }
            } else {
                ActuatorError::Failed { operation: operation.clone(), source: Box::new(error) }
            }
        }
    }

    pub(super) fn unreadable(operation: &str) -> impl Fn(XmlError) -> ActuatorError + use<> {
        let operation = operation.to_owned();
        move |error| ActuatorError::Failed { operation: operation.clone(), source: Box::new(error) }
    }

    pub(super) fn profile_failed(&self, error: ProfileError) -> ActuatorError {
        match error {
            ProfileError::Ask(error) => self.failed("ask what the host can do")(error),
            error @ ProfileError::Read(_) => {
                ActuatorError::Failed { operation: "ask what the host can do".to_owned(), source: Box::new(error) }
            }
        }
    }

    /// Looks for the machine's domain by its UUID, and makes sure whose it is.
    pub(super) async fn find_domain(&self, key: &MachineKey) -> Result<Found, ActuatorError> {
        let connection = &self.session.connection;
        let failed = self.failed("look up the domain");
        let uuid = names::domain_uuid(&key.uid);
        let Some(domain) = found(connection.domain_by_uuid(uuid.as_bytes()).await, code::NO_DOMAIN).map_err(&failed)?
        else {
            return Ok(Found::Nothing);
        };
        let Some(facts) = self.domain_facts(&domain).await? else { return Ok(Found::Nothing) };
        match &facts.owner {
            Some(owner) if owner.uid == key.uid => {
                Ok(Found::Own(Box::new(OwnDomain { domain, owner: owner.clone(), facts })))
            }
            owner => Ok(Found::Stranger { name: domain.name, owner: owner.as_ref().map(|owner| owner.uid.clone()) }),
        }
    }

    /// Reads a domain's document; nothing where the domain has gone meanwhile.
    pub(super) async fn domain_facts(&self, domain: &DomainRef) -> Result<Option<DomainFacts>, ActuatorError> {
        let text = found(self.session.connection.domain_xml(domain).await, code::NO_DOMAIN);
        let Some(text) = text.map_err(self.failed("read the domain"))? else { return Ok(None) };
        parse_domain(&text).map(Some).map_err(Self::unreadable("read the domain"))
    }

    /// The pool, where it is there, active and of a kind that holds files.
    pub(super) async fn usable_pool(&self, name: &str) -> Result<PoolRef, ActuatorError> {
        let connection = &self.session.connection;
        let failed = self.failed(&format!("look up storage pool {name:?}"));
        let unavailable = |state| ActuatorError::NotAvailable { kind: "storage pool", name: name.to_owned(), state };
        let pool = found(connection.pool_by_name(name).await, code::NO_STORAGE_POOL).map_err(&failed)?;
        let pool = pool.ok_or_else(|| unavailable("missing"))?;
        if !connection.pool_is_active(&pool).await.map_err(&failed)? {
            return Err(unavailable("inactive"));
        }
        let kind = parse_pool_kind(&connection.pool_xml(&pool).await.map_err(&failed)?);
        let kind = kind.map_err(Self::unreadable("read the storage pool"))?;
        if !matches!(kind.as_str(), "dir" | "fs" | "netfs") {
            return Err(ActuatorError::Invalid {
                field: "poolName",
                value: format!("{name} (a pool of type {kind})"),
                allowed: "pools of type dir, fs or netfs".to_owned(),
            });
        }
        Ok(pool)
    }

    /// The network, where it is there and active.
    pub(super) async fn usable_network(&self, name: &str) -> Result<NetworkRef, ActuatorError> {
        let connection = &self.session.connection;
        let failed = self.failed(&format!("look up network {name:?}"));
        let unavailable = |state| ActuatorError::NotAvailable { kind: "network", name: name.to_owned(), state };
        let network = found(connection.network_by_name(name).await, code::NO_NETWORK).map_err(&failed)?;
        let network = network.ok_or_else(|| unavailable("missing"))?;
        if !connection.network_is_active(&network).await.map_err(&failed)? {
            return Err(unavailable("inactive"));
        }
        Ok(network)
    }
}
