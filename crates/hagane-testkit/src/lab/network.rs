//! Addresses of a lab and the bridge of its container hosts.
//!
//! Every lab is its own world without uplink, so all labs use the same addresses; only MAC addresses differ.

use std::net::Ipv4Addr;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::namespace::Namespace;

/// Bridge of the container hosts.
pub const HOST_BRIDGE: &str = "br-hosts";
/// Address of the lab on the bridge of the container hosts, their default gateway.
pub const HOST_GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 199, 0, 1);
/// Address of the lab on libvirt's network `default`, the virtual machines' gateway and name server.
pub const MACHINE_GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 168, 122, 1);
/// First and last address handed to virtual machines.
pub const MACHINE_RANGE: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(192, 168, 122, 100), Ipv4Addr::new(192, 168, 122, 254));
/// Most container hosts one lab can have.
pub const MOST_HOSTS: usize = 100;

/// Address of the container host with this index, counted from 0.
///
/// # Errors
/// When there are more hosts than addresses.
pub fn host_address(index: usize) -> Result<Ipv4Addr> {
    let last = u8::try_from(index).ok().filter(|index| usize::from(*index) < MOST_HOSTS);
    let last = last.with_context(|| format!("a lab has at most {MOST_HOSTS} container hosts"))? + 11;
    Ok(Ipv4Addr::new(10, 199, 0, last))
}

/// A locally administered MAC address that carries the lab's id; index 0 is the lab itself.
pub fn mac(id: &str, index: u8) -> String {
    let digest = Sha256::digest(id.as_bytes());
    format!("02:{:02x}:{:02x}:{:02x}:00:{index:02x}", digest[0], digest[1], digest[2])
}

/// Makes the container hosts' bridge and lets the lab route between it and the machines' network.
///
/// # Errors
/// When a link can not be made.
pub(crate) fn create(namespace: &Namespace, id: &str) -> Result<()> {
    let gateway = format!("{HOST_GATEWAY}/24");
    let address = mac(id, 0);
    namespace.run(["ip", "link", "set", "lo", "up"])?;
    namespace.run(["ip", "link", "add", HOST_BRIDGE, "address", &address, "type", "bridge"])?;
    namespace.run(["ip", "address", "add", &gateway, "dev", HOST_BRIDGE])?;
    namespace.run(["ip", "link", "set", HOST_BRIDGE, "up"])?;
    // The setting belongs to the network namespace: the machine's own stays as it is.
    namespace.run(["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_labs_never_share_a_mac_and_every_mac_is_local_unicast() {
        let (one, other) = (mac("a", 1), mac("b", 1));
        assert_ne!(one, other);
        assert!(one.starts_with("02:") && one.len() == 17, "{one}");
    }

    #[test]
    fn hosts_get_addresses_behind_the_gateway_until_they_run_out() {
        assert_eq!(host_address(0).expect("first"), Ipv4Addr::new(10, 199, 0, 11));
        assert!(host_address(MOST_HOSTS).is_err());
    }
}
