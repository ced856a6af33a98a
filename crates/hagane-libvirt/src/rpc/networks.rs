//! Calls about networks.

use super::connection::Connection;
use super::error::RpcError;
use super::procedure;
use super::types::{Lease, NetworkRef};
use super::xdr::{Decoder, Encoder};

/// Longest lists of networks and leases the protocol allows.
const NETWORKS_MAX: usize = 16384;
const LEASES_MAX: usize = 65536;

/// What to do with a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostChange {
    /// Add it.
    Add,
    /// Remove it.
    Remove,
}

impl Connection {
    /// Looks a network up by name.
    ///
    /// # Errors
    /// Code [`super::code::NO_NETWORK`] where there is none; any [`RpcError`].
    pub async fn network_by_name(&self, name: &str) -> Result<NetworkRef, RpcError> {
        let reply = self.call(procedure::NETWORK_LOOKUP_BY_NAME, Encoder::new().string(name).finish()).await?;
        self.decode(&reply, NetworkRef::decode)
    }

    /// All networks, active or not.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn networks(&self) -> Result<Vec<NetworkRef>, RpcError> {
        let reply = self.call(procedure::CONNECT_LIST_ALL_NETWORKS, Encoder::new().i32(1).u32(0).finish()).await?;
        self.decode(&reply, |decoder| {
            let networks = decoder.list(NETWORKS_MAX, NetworkRef::decode)?;
            let _count = decoder.u32()?;
            Ok(networks)
        })
    }

    /// Whether the network is active.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn network_is_active(&self, network: &NetworkRef) -> Result<bool, RpcError> {
        let reply = self.call(procedure::NETWORK_IS_ACTIVE, network.encode(Encoder::new()).finish()).await?;
        Ok(self.decode(&reply, Decoder::i32)? != 0)
    }

    /// The network's definition as XML: as it runs, or, where `stored` is set, as it will run after a restart.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn network_xml(&self, network: &NetworkRef, stored: bool) -> Result<String, RpcError> {
        let flags = if stored { procedure::XML_INACTIVE_NETWORK } else { 0 };
        let reply =
            self.call(procedure::NETWORK_GET_XML_DESC, network.encode(Encoder::new()).u32(flags).finish()).await?;
        self.decode(&reply, Decoder::string)
    }

    /// Adds or removes an address reservation, given as a `host` element, in the running network, its stored
    /// definition, or both. `ip_index` says in which of the network's `ip` elements.
    ///
    /// # Errors
    /// Any [`RpcError`].
    pub async fn change_reservation(
        &self,
        network: &NetworkRef,
        change: HostChange,
        ip_index: i32,
        host: &str,
        (live, stored): (bool, bool),
    ) -> Result<(), RpcError> {
        let command = match change {
            HostChange::Add => procedure::UPDATE_ADD_LAST,
            HostChange::Remove => procedure::UPDATE_DELETE,
        };
        let (first, second) = if self.network_update_swapped() {
            (procedure::SECTION_IP_DHCP_HOST, command)
        } else {
            (command, procedure::SECTION_IP_DHCP_HOST)
        };
        let flags = if live { procedure::AFFECT_LIVE } else { 0 } | if stored { procedure::AFFECT_CONFIG } else { 0 };
        let arguments =
            network.encode(Encoder::new()).u32(first).u32(second).i32(ip_index).string(host).u32(flags).finish();
        self.call(procedure::NETWORK_UPDATE, arguments).await.map(drop)
    }

    /// Leases the network's DHCP server has given out, to one MAC address or to all.
    ///
    /// # Errors
    /// Code [`super::code::NO_SUPPORT`] where the driver keeps none; any [`RpcError`].
    pub async fn leases(&self, network: &NetworkRef, mac: Option<&str>) -> Result<Vec<Lease>, RpcError> {
        let arguments = network.encode(Encoder::new()).optional_string(mac).i32(1).u32(0).finish();
        let reply = self.call(procedure::NETWORK_GET_DHCP_LEASES, arguments).await?;
        self.decode(&reply, |decoder: &mut Decoder<'_>| {
            let leases = decoder.list(LEASES_MAX, Lease::decode)?;
            let _count = decoder.u32()?;
            Ok(leases)
        })
    }
}
