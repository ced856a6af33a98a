//! Giving leases back.
//!
//! A machine that is removed cannot give its lease back itself, and libvirt has no call for it. Its DHCP server would
//! keep the address for the dead machine until the lease runs out, and refuse it to the next machine that has it
//! reserved. So the release is sent in the machine's name (RFC 2131, section 4.4.6), over the network's bridge. That
//! works where this program runs on the hypervisor; elsewhere the lease runs out by itself.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};

use hagane_ports::{ActuatorError, MachineKey};
use tokio::net::UdpSocket;

use super::scope::{OwnDomain, Scope};
use crate::names;
use crate::rpc::{NetworkRef, RpcError};

/// Port of DHCP servers.
const SERVER_PORT: u16 = 67;
/// Size of the fixed part of a DHCP message.
const FIXED_PART: usize = 236;
/// What options begin with.
const MAGIC: [u8; 4] = [99, 130, 83, 99];
/// Shortest message that every server takes.
const MESSAGE_MIN: usize = 300;

impl Scope<'_> {
    /// Releases the machine's IPv4 leases.
    pub(super) async fn release_leases(&self, key: &MachineKey, own: Option<&OwnDomain>) -> Result<(), ActuatorError> {
        let mac = names::mac(&key.uid);
        let networks = self.session.connection.networks().await.map_err(self.failed("list the networks"))?;
        for network in networks {
            if own.is_some_and(|own| own.owner.network != network.name) {
                continue;
            }
            for address in self.leased(&network, &mac).await? {
                if let IpAddr::V4(address) = address {
                    self.release_lease(&network, &mac, address).await?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn leased(&self, network: &NetworkRef, mac: &str) -> Result<Vec<IpAddr>, ActuatorError> {
        match self.session.connection.leases(network, Some(mac)).await {
            Ok(leases) => Ok(leases.iter().filter_map(|lease| lease.address.parse().ok()).collect()),
            // Networks without libvirt's own DHCP server have no leases to tell.
            Err(RpcError::Remote { .. }) => Ok(Vec::new()),
            Err(error) => Err(self.failed("read the network's leases")(error)),
        }
    }

    /// A lease that cannot be released is no reason to keep the machine.
    async fn release_lease(&self, network: &NetworkRef, mac: &str, address: Ipv4Addr) -> Result<(), ActuatorError> {
        let facts = self.network_facts(network, false).await?;
        let server = facts.subnets.iter().find(|subnet| subnet.dhcp && subnet.has_host(IpAddr::V4(address)));
        let (Some(bridge), Some(IpAddr::V4(server))) = (facts.bridge, server.map(|subnet| subnet.address)) else {
            return Ok(());
        };
        if let Err(error) = send_release(&bridge, server, mac, address).await {
            tracing::info!(%bridge, %address, %error, "the lease was not released and runs out by itself");
        }
        Ok(())
    }
}

async fn send_release(bridge: &str, server: Ipv4Addr, mac: &str, address: Ipv4Addr) -> std::io::Result<()> {
    let Some(mac) = parse_mac(mac) else { return Ok(()) };
    let socket = UdpSocket::bind(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)).await?;
    // The server looks at the interface a message comes in by.
    socket.bind_device(Some(bridge.as_bytes()))?;
    socket.send_to(&release_message(server, mac, address), SocketAddrV4::new(server, SERVER_PORT)).await.map(drop)
}

fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let octets: Vec<u8> = text.split(':').map_while(|octet| u8::from_str_radix(octet, 16).ok()).collect();
    octets.try_into().ok()
}

/// The message: a request from Ethernet hardware, its address, the address given back, and the options "release" and
/// "to this server".
fn release_message(server: Ipv4Addr, mac: [u8; 6], address: Ipv4Addr) -> Vec<u8> {
    let mut message = vec![0; FIXED_PART];
    message[..3].copy_from_slice(&[1, 1, 6]);
    // Any transaction number does: nothing answers a release.
    message[4..8].copy_from_slice(&mac[2..]);
    message[12..16].copy_from_slice(&address.octets());
    message[28..34].copy_from_slice(&mac);
    message.extend(MAGIC);
    message.extend([53, 1, 7]);
    message.extend([54, 4]);
    message.extend(server.octets());
    message.push(255);
    message.resize(MESSAGE_MIN.max(message.len()), 0);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_names_client_server_and_address() {
        let mac = parse_mac("52:01:02:03:04:05").expect("a MAC");
        let message = release_message(Ipv4Addr::new(192, 0, 2, 1), mac, Ipv4Addr::new(192, 0, 2, 12));
        assert_eq!(message.len(), 300);
        assert_eq!(message[12..16], [192, 0, 2, 12]);
        assert_eq!(message[28..34], mac);
        assert_eq!(message[236..250], [99, 130, 83, 99, 53, 1, 7, 54, 4, 192, 0, 2, 1, 255]);
    }

    #[test]
    fn only_whole_mac_addresses_are_taken() {
        for text in ["", "52:01", "52:01:02:03:04:zz", "52:01:02:03:04:05:06"] {
            assert_eq!(parse_mac(text), None, "{text}");
        }
    }
}
