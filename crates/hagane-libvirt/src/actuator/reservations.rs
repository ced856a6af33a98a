//! Fixed addresses: a reservation in the network's DHCP server, found again by the machine's MAC address (IPv4) or
//! the end of its name (IPv6), both of which follow from the owner's uid.

use std::net::IpAddr;

use hagane_ports::{ActuatorError, MachineKey};

use super::scope::Scope;
use crate::names;
use crate::rpc::{HostChange, NetworkRef, RpcError};
use crate::xml::network::{NetworkFacts, Reservation, Subnet, parse_network, reservation_xml};

/// A reservation to be made; none where it is there already.
#[derive(Debug)]
pub(super) struct ReservationPlan {
    wanted: Option<Reservation>,
    outdated: Vec<Reservation>,
}

impl Scope<'_> {
    /// Checks that the address can be had, without changing anything.
    pub(super) async fn plan_reservation(
        &self,
        key: &MachineKey,
        network: &NetworkRef,
        address: IpAddr,
    ) -> Result<ReservationPlan, ActuatorError> {
        let facts = self.network_facts(network, false).await?;
        let ip_index = served_subnet(&facts, network, address)?.index;
        let mac = names::mac(&key.uid);
        let name = host_name(&names::domain(key));
        let (ours, others): (Vec<_>, Vec<_>) =
            facts.reservations.into_iter().partition(|reservation| is_own_reservation(reservation, &key.uid));
        if let Some(other) = others.iter().find(|reservation| reservation.address == address) {
            let holder = other.name.clone().or_else(|| other.mac.clone()).unwrap_or_else(|| "a reservation".to_owned());
            return Err(ActuatorError::AddressInUse { address, holder });
        }
        self.check_leases(network, address, &mac).await?;
        let (kept, outdated): (Vec<_>, Vec<_>) = ours.into_iter().partition(|own| own.address == address);
        let wanted = Reservation { ip_index, mac: Some(mac), name: Some(name), address };
        Ok(ReservationPlan { wanted: kept.is_empty().then_some(wanted), outdated })
    }

    /// A lease of another domain counts. One of a machine that is gone does not: nobody answers at that address.
    async fn check_leases(&self, network: &NetworkRef, address: IpAddr, mac: &str) -> Result<(), ActuatorError> {
        let leases = match self.session.connection.leases(network, None).await {
            Err(RpcError::Remote { .. }) => return Ok(()),
            other => other.map_err(self.failed("read the network's leases"))?,
        };
        let holder = leases.iter().find(|lease| {
            lease.address.parse() == Ok(address)
                && lease.mac.as_deref().is_some_and(|found| !found.eq_ignore_ascii_case(mac))
        });
        let Some(holder) = holder.and_then(|lease| lease.mac.as_deref()) else { return Ok(()) };
        let domains = self.session.connection.domains().await.map_err(self.failed("list the domains"))?;
        for domain in domains {
            let facts = self.domain_facts(&domain).await?;
            let has_mac = facts.and_then(|facts| facts.mac).is_some_and(|found| found.eq_ignore_ascii_case(holder));
            if has_mac {
                return Err(ActuatorError::AddressInUse { address, holder: format!("domain {}", domain.name) });
            }
        }
        Ok(())
    }

    /// Carries the plan out.
    pub(super) async fn reserve(&self, network: &NetworkRef, plan: &ReservationPlan) -> Result<(), ActuatorError> {
        for outdated in &plan.outdated {
            self.release(network, outdated).await?;
        }
        let Some(wanted) = &plan.wanted else { return Ok(()) };
        match self.change(network, HostChange::Add, wanted, (true, true)).await {
            // A network that is not stored can only be changed as it runs.
            Err(RpcError::Remote { .. }) => match self.change(network, HostChange::Add, wanted, (true, false)).await {
                Err(error @ RpcError::Remote { .. }) => Err(self.refused(network, wanted, error).await?),
                other => other.map_err(self.failed("reserve the address")),
            },
            other => other.map_err(self.failed("reserve the address")),
        }
    }

    /// Why a reservation was refused: another machine was faster, or something else.
    async fn refused(
        &self,
        network: &NetworkRef,
        wanted: &Reservation,
        error: RpcError,
    ) -> Result<ActuatorError, ActuatorError> {
        let holder = self.reservations(network).await?.into_iter().find(|found| found.address == wanted.address);
        Ok(match holder {
            Some(found) => ActuatorError::AddressInUse {
                address: wanted.address,
                holder: found.name.or(found.mac).unwrap_or_else(|| "a reservation".to_owned()),
            },
            None => self.failed("reserve the address")(error),
        })
    }

    /// Removes a reservation from the running network and from its stored definition, wherever it is.
    pub(super) async fn release(&self, network: &NetworkRef, reservation: &Reservation) -> Result<(), ActuatorError> {
        let mut refusal = None;
        for place in [(true, false), (false, true)] {
            match self.change(network, HostChange::Remove, reservation, place).await {
                Ok(()) => {}
                // It may be in one of the two only, or the network may have only one.
                Err(error @ RpcError::Remote { .. }) => refusal = Some(error),
                Err(error) => return Err(self.failed("release the reserved address")(error)),
            }
        }
        let left = self.reservations(network).await?.into_iter().any(|found| found == *reservation);
        match refusal {
            Some(error) if left => Err(self.failed("release the reserved address")(error)),
            _ => Ok(()),
        }
    }

    async fn change(
        &self,
        network: &NetworkRef,
        change: HostChange,
        reservation: &Reservation,
        places: (bool, bool),
    ) -> Result<(), RpcError> {
        let mac = reservation.mac.as_deref().unwrap_or_default();
        let name = reservation.name.as_deref().unwrap_or_default();
        let host = reservation_xml(mac, name, reservation.address);
        self.session.connection.change_reservation(network, change, reservation.ip_index, &host, places).await
    }

    /// Reservations of a network, as it runs and as it is stored.
    pub(super) async fn reservations(&self, network: &NetworkRef) -> Result<Vec<Reservation>, ActuatorError> {
        let mut all = self.network_facts(network, false).await?.reservations;
        for stored in self.network_facts(network, true).await?.reservations {
            if !all.contains(&stored) {
                all.push(stored);
            }
        }
        Ok(all)
    }

    /// The machine's reservations in every network.
    pub(super) async fn own_reservations(
        &self,
        key: &MachineKey,
    ) -> Result<Vec<(NetworkRef, Reservation)>, ActuatorError> {
        let networks = self.session.connection.networks().await.map_err(self.failed("list the networks"))?;
        let mut own = Vec::new();
        for network in networks {
            for reservation in self.reservations(&network).await? {
                if is_own_reservation(&reservation, &key.uid) {
                    own.push((network.clone(), reservation));
                }
            }
        }
        Ok(own)
    }

    pub(super) async fn network_facts(
        &self,
        network: &NetworkRef,
        stored: bool,
    ) -> Result<NetworkFacts, ActuatorError> {
        match self.session.connection.network_xml(network, stored).await {
            Ok(text) => parse_network(&text).map_err(Self::unreadable("read the network")),
            // It was removed meanwhile, or is not stored: no reservations then.
            Err(RpcError::Remote { .. }) => Ok(NetworkFacts::default()),
            Err(error) => Err(self.failed("read the network")(error)),
        }
    }
}

/// Whether a reservation belongs to the machine of this uid: by MAC address, or, where it has none (IPv6), by the digits
/// at the end of its name.
pub(super) fn is_own_reservation(reservation: &Reservation, uid: &str) -> bool {
    match &reservation.mac {
        Some(found) => found.eq_ignore_ascii_case(&names::mac(uid)),
        None => reservation.name.as_deref().is_some_and(|name| name.ends_with(&names::domain_suffix(uid))),
    }
}

/// The subnet whose DHCP server can reserve the address.
fn served_subnet<'a>(
    facts: &'a NetworkFacts,
    network: &NetworkRef,
    address: IpAddr,
) -> Result<&'a Subnet, ActuatorError> {
    let served: Vec<_> = facts.subnets.iter().filter(|subnet| subnet.dhcp).collect();
    if let Some(subnet) = served.iter().find(|subnet| subnet.has_host(address)) {
        return Ok(subnet);
    }
    let ranges: Vec<_> = served.iter().map(ToString::to_string).collect();
    let allowed = match ranges.is_empty() {
        true => format!("none: network {:?} has no DHCP server of libvirt", network.name),
        false => format!("a host address of {} (network {:?})", ranges.join(" or "), network.name),
    };
    Err(ActuatorError::Invalid { field: "networkAddress", value: address.to_string(), allowed })
}

/// A domain's name as a single label of the DNS.
fn host_name(domain: &str) -> String {
    domain.replace('.', "-").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_a_served_subnet_can_be_reserved() {
        let network = NetworkRef { name: "cluster".into(), uuid: [0; 16] };
        let subnet = |text: &str, dhcp| Subnet { index: 0, address: text.parse().expect(text), prefix: 24, dhcp };
        let facts =
            NetworkFacts { subnets: vec![subnet("192.0.2.1", true), subnet("10.0.0.1", false)], ..Default::default() };
        let address = |text: &str| text.parse().expect(text);
        assert!(served_subnet(&facts, &network, address("192.0.2.12")).is_ok());
        for text in ["10.0.0.12", "192.0.2.255", "2001:db8::1"] {
            let error = served_subnet(&facts, &network, address(text)).expect_err(text);
            assert!(matches!(&error, ActuatorError::Invalid { field: "networkAddress", .. }), "{error}");
            assert!(error.to_string().contains("192.0.2.1/24"), "{error}");
        }
        let none = served_subnet(&NetworkFacts::default(), &network, address("192.0.2.12")).expect_err("no DHCP");
        assert!(none.to_string().contains("no DHCP server"), "{none}");
    }
}
