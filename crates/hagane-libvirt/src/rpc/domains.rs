//! Calls about domains and the connection itself.

use super::connection::{Connection, SLOW_CALL_LIMIT};
use super::error::{RpcError, code};
use super::procedure;
use super::types::{DomainRef, DomainState};
use super::xdr::{Decoder, Encoder};

/// Longest lists of interfaces and addresses the protocol allows.
const INTERFACES_MAX: usize = 2048;
/// Longest list of domains the protocol allows.
const DOMAINS_MAX: usize = 16384;

impl Connection {
    /// Version of libvirt the daemon runs, as major, minor, release.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn version(&self) -> Result<(u64, u64, u64), RpcError> {
        let reply = self.call(procedure::CONNECT_GET_LIB_VERSION, Vec::new()).await?;
        let number = self.decode(&reply, Decoder::u64)?;
        Ok((number / 1_000_000, number / 1000 % 1000, number % 1000))
    }

    /// The host's capabilities as XML.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn capabilities(&self) -> Result<String, RpcError> {
        let reply = self.call(procedure::CONNECT_GET_CAPABILITIES, Vec::new()).await?;
        self.decode(&reply, Decoder::string)
    }

    /// What domains of this type (`kvm`, `qemu`) can be on this host, as XML; an error where none can be.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn domain_capabilities(&self, kind: &str, machine: Option<&str>) -> Result<String, RpcError> {
        let arguments = Encoder::new()
            .optional_string(None)
            .optional_string(None)
            .optional_string(machine)
            .optional_string(Some(kind))
            .u32(0)
            .finish();
        // The first question makes libvirtd start the emulator to see what it can do.
        let reply = self.call_within(SLOW_CALL_LIMIT, procedure::CONNECT_GET_DOMAIN_CAPABILITIES, arguments).await?;
        self.decode(&reply, Decoder::string)
    }

    /// All domains, running or not.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn domains(&self) -> Result<Vec<DomainRef>, RpcError> {
        let reply = self.call(procedure::CONNECT_LIST_ALL_DOMAINS, Encoder::new().i32(1).u32(0).finish()).await?;
        self.decode(&reply, |decoder| {
            let domains = decoder.list(DOMAINS_MAX, DomainRef::decode)?;
            let _count = decoder.u32()?;
            Ok(domains)
        })
    }

    /// Looks a domain up by name.
    ///
    /// # Errors
    /// Code [`super::code::NO_DOMAIN`] where there is none; any [`RpcError`].
    pub async fn domain_by_name(&self, name: &str) -> Result<DomainRef, RpcError> {
        let reply = self.call(procedure::DOMAIN_LOOKUP_BY_NAME, Encoder::new().string(name).finish()).await?;
        self.decode(&reply, DomainRef::decode)
    }

    /// Looks a domain up by UUID.
    ///
    /// # Errors
    /// Code [`super::code::NO_DOMAIN`] where there is none; any [`RpcError`].
    pub async fn domain_by_uuid(&self, uuid: &[u8; 16]) -> Result<DomainRef, RpcError> {
        let reply = self.call(procedure::DOMAIN_LOOKUP_BY_UUID, Encoder::new().fixed(uuid).finish()).await?;
        self.decode(&reply, DomainRef::decode)
    }

    /// The domain's definition as XML, as it will be at its next start.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn domain_xml(&self, domain: &DomainRef) -> Result<String, RpcError> {
        let arguments = domain.encode(Encoder::new()).u32(procedure::XML_INACTIVE_DOMAIN).finish();
        let reply = self.call(procedure::DOMAIN_GET_XML_DESC, arguments).await?;
        self.decode(&reply, Decoder::string)
    }

    /// The domain's state.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn domain_state(&self, domain: &DomainRef) -> Result<DomainState, RpcError> {
        let reply = self.call(procedure::DOMAIN_GET_STATE, domain.encode(Encoder::new()).u32(0).finish()).await?;
        self.decode(&reply, |decoder| {
            let state = decoder.i32()?;
            let _reason = decoder.i32()?;
            Ok(DomainState(state))
        })
    }

    /// Defines a domain from XML.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn define_domain(&self, xml: &str) -> Result<DomainRef, RpcError> {
        let arguments = Encoder::new().string(xml).u32(0).finish();
        // libvirtd may have to start the emulator first to see what it can do.
        let reply = self.call_within(SLOW_CALL_LIMIT, procedure::DOMAIN_DEFINE_XML_FLAGS, arguments).await?;
        self.decode(&reply, DomainRef::decode)
    }

    /// Starts a defined domain.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn start_domain(&self, domain: &DomainRef) -> Result<DomainRef, RpcError> {
        let arguments = domain.encode(Encoder::new()).u32(0).finish();
        let reply = self.call_within(SLOW_CALL_LIMIT, procedure::DOMAIN_CREATE_WITH_FLAGS, arguments).await?;
        self.decode(&reply, DomainRef::decode)
    }

    /// Sets whether the domain starts with the host.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn set_autostart(&self, domain: &DomainRef, autostart: bool) -> Result<(), RpcError> {
        let arguments = domain.encode(Encoder::new()).i32(i32::from(autostart)).finish();
        self.call(procedure::DOMAIN_SET_AUTOSTART, arguments).await.map(drop)
    }

    /// Stops a domain as pulling the plug would.
    ///
    /// # Errors
    /// Code [`super::code::OPERATION_INVALID`] where it does not run; any [`RpcError`].
    pub async fn destroy_domain(&self, domain: &DomainRef) -> Result<(), RpcError> {
        let arguments = domain.encode(Encoder::new()).u32(0).finish();
        self.call_within(SLOW_CALL_LIMIT, procedure::DOMAIN_DESTROY_FLAGS, arguments).await.map(drop)
    }

    /// Removes a domain's definition with all that libvirt keeps beside it. Volumes stay.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn undefine_domain(&self, domain: &DomainRef) -> Result<(), RpcError> {
        let mut refusal = None;
        for flags in procedure::UNDEFINE_FLAGS {
            let arguments = domain.encode(Encoder::new()).u32(flags).finish();
            match self.call(procedure::DOMAIN_UNDEFINE_FLAGS, arguments).await {
                Err(error) if error.is(code::INVALID_ARG) => refusal = Some(error),
                other => return other.map(drop),
            }
        }
        Err(refusal.unwrap_or_else(|| RpcError::Disconnected("nothing was tried".to_owned())))
    }

    /// Addresses of a running domain's interfaces from leases, or else from the host's neighbour table, as pairs of
    /// MAC and address.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn domain_addresses(
        &self,
        domain: &DomainRef,
        neighbours: bool,
    ) -> Result<Vec<(String, String)>, RpcError> {
        let source = if neighbours { procedure::ADDRESSES_FROM_ARP } else { procedure::ADDRESSES_FROM_LEASES };
        let arguments = domain.encode(Encoder::new()).u32(source).u32(0).finish();
        let reply = self.call(procedure::DOMAIN_INTERFACE_ADDRESSES, arguments).await?;
        let interfaces = self.decode(&reply, |decoder| {
            decoder.list(INTERFACES_MAX, |decoder| {
                let _name = decoder.string()?;
                let mac = decoder.optional_string()?.unwrap_or_default();
                let addresses = decoder.list(INTERFACES_MAX, |decoder| {
                    let _family = decoder.i32()?;
                    let address = decoder.string()?;
                    let _prefix = decoder.u32()?;
                    Ok(address)
                })?;
                Ok((mac, addresses))
            })
        })?;
        let pairs = interfaces
            .into_iter()
            .flat_map(|(mac, addresses)| addresses.into_iter().map(move |address| (mac.clone(), address)));
        Ok(pairs.collect())
    }
}
