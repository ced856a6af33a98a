//! What is known of a machine: state, addresses, size of its disk.

use std::net::IpAddr;

use hagane_api::quantity::ByteSize;
use hagane_ports::{ActuatorError, MachineFacts, MachineKey, PowerState, Presence};

use super::reservations::is_own_reservation;
use super::scope::{Found, OwnDomain, Scope};
use crate::names;
use crate::rpc::{DomainState, RpcError, code, found};

/// libvirt's numbers of the states that are told apart.
mod state {
    pub(super) const RUNNING: i32 = 1;
    pub(super) const BLOCKED: i32 = 2;
    pub(super) const PAUSED: i32 = 3;
    pub(super) const SHUTDOWN: i32 = 4;
    pub(super) const CRASHED: i32 = 6;
    pub(super) const SUSPENDED: i32 = 7;
}

pub(super) fn power(state: DomainState) -> PowerState {
    match state.0 {
        // A guest that is shutting down still runs.
        state::RUNNING | state::BLOCKED | state::SHUTDOWN => PowerState::Running,
        state::PAUSED | state::SUSPENDED => PowerState::Paused,
        state::CRASHED => PowerState::Crashed,
        _ => PowerState::Off,
    }
}

impl Scope<'_> {
    pub(super) async fn exists(&self, key: &MachineKey) -> Result<Presence, ActuatorError> {
        if let Found::Own(own) = self.find_domain(key).await? {
            return self.facts(key, &own).await.map(Presence::Present);
        }
        let leftovers = self.leftovers(key).await?;
        Ok(if leftovers.is_empty() { Presence::Absent } else { Presence::Leftovers(leftovers) })
    }

    /// Names of what is there of a machine without a domain.
    async fn leftovers(&self, key: &MachineKey) -> Result<Vec<String>, ActuatorError> {
        let volumes = self.own_volumes(key).await?;
        let mut leftovers: Vec<_> =
            volumes.iter().map(|volume| format!("volume {}/{}", volume.pool, volume.name)).collect();
        for (network, reservation) in self.own_reservations(key).await? {
            leftovers.push(format!("reservation of {} in network {}", reservation.address, network.name));
        }
        Ok(leftovers)
    }

    pub(super) async fn facts(&self, key: &MachineKey, own: &OwnDomain) -> Result<MachineFacts, ActuatorError> {
        let state = self.session.connection.domain_state(&own.domain).await;
        let power = power(state.map_err(self.failed("read the domain's state"))?);
        let mac = own.facts.mac.clone().unwrap_or_else(|| names::mac(&key.uid));
        let uuid = uuid::Uuid::from_bytes(own.domain.uuid).to_string();
        Ok(MachineFacts {
            provider_id: format!("libvirt:///{uuid}"),
            domain: own.domain.name.clone(),
            uuid,
            power,
            addresses: self.addresses(key, own, &mac).await?,
            mac,
            disk: self.root_size(key, own).await?,
            vcpus: own.facts.vcpus,
            memory: own.facts.memory,
        })
    }

    /// Size of the root disk; nothing while its pool cannot be asked.
    async fn root_size(&self, key: &MachineKey, own: &OwnDomain) -> Result<Option<ByteSize>, ActuatorError> {
        let connection = &self.session.connection;
        let size = async {
            let pool = connection.pool_by_name(&own.owner.pool).await?;
            let volume = connection.volume_by_name(&pool, &names::root_volume(&key.uid)).await?;
            connection.volume_info(&volume).await
        };
        match size.await {
            Ok(info) => Ok(Some(ByteSize(info.capacity))),
            Err(RpcError::Remote { .. }) => Ok(None),
            Err(error) => Err(self.failed("read the size of the root volume")(error)),
        }
    }

    /// Reserved address first, then leased ones, then what the host has seen; without link-local ones.
    async fn addresses(&self, key: &MachineKey, own: &OwnDomain, mac: &str) -> Result<Vec<IpAddr>, ActuatorError> {
        let failed = self.failed("read the machine's addresses");
        let network = self.session.connection.network_by_name(&own.owner.network).await;
        let mut addresses = Vec::new();
        if let Some(network) = found(network, code::NO_NETWORK).map_err(&failed)? {
            for reservation in self.reservations(&network).await? {
                if is_own_reservation(&reservation, &key.uid) {
                    addresses.push(reservation.address);
                }
            }
            addresses.extend(self.leased(&network, mac).await?);
        }
        for neighbours in [false, true] {
            if !addresses.is_empty() || own.domain.id < 0 {
                break;
            }
            addresses.extend(self.seen(own, mac, neighbours).await?);
        }
        let mut distinct = Vec::new();
        for address in addresses {
            if is_usable(address) && !distinct.contains(&address) {
                distinct.push(address);
            }
        }
        Ok(distinct)
    }

    async fn seen(&self, own: &OwnDomain, mac: &str, neighbours: bool) -> Result<Vec<IpAddr>, ActuatorError> {
        match self.session.connection.domain_addresses(&own.domain, neighbours).await {
            Ok(pairs) => Ok(pairs
                .iter()
                .filter(|(found, _)| found.eq_ignore_ascii_case(mac))
                .filter_map(|(_, address)| address.parse().ok())
                .collect()),
            Err(RpcError::Remote { .. }) => Ok(Vec::new()),
            Err(error) => Err(self.failed("read the machine's addresses")(error)),
        }
    }
}

fn is_usable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_unspecified() && !v4.is_loopback(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local() && !v6.is_unspecified() && !v6.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_shuts_down_still_runs() {
        let powers: Vec<_> = (0..9).map(|number| power(DomainState(number))).collect();
        use PowerState::{Crashed, Off, Paused, Running};
        assert_eq!(powers, [Off, Running, Running, Paused, Running, Off, Crashed, Paused, Off]);
    }

    #[test]
    fn link_local_addresses_are_of_no_use() {
        for (text, usable) in
            [("192.0.2.9", true), ("169.254.1.1", false), ("fe80::1", false), ("2001:db8::1", true), ("::", false)]
        {
            assert_eq!(is_usable(text.parse().expect(text)), usable, "{text}");
        }
    }
}
