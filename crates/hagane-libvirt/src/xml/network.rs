//! Documents of networks, as far as address reservations need them.

use std::net::IpAddr;

use super::{Element, XmlError};

/// An address that a network keeps for one MAC address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Index of the `ip` element it is in.
    pub ip_index: i32,
    /// MAC address, lower case, where the entry has one.
    pub mac: Option<String>,
    /// Name the entry has.
    pub name: Option<String>,
    /// The address.
    pub address: IpAddr,
}

/// One `ip` element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subnet {
    /// Index among the network's `ip` elements.
    pub index: i32,
    /// The network's own address.
    pub address: IpAddr,
    /// Length of the prefix.
    pub prefix: u32,
    /// Whether libvirt's DHCP server serves it.
    pub dhcp: bool,
}

/// What we read of a network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkFacts {
    /// Name of the bridge on the hypervisor.
    pub bridge: Option<String>,
    /// Its subnets.
    pub subnets: Vec<Subnet>,
    /// Its reservations.
    pub reservations: Vec<Reservation>,
}

impl Subnet {
    /// Whether the address is a host's of this subnet.
    #[must_use]
    pub fn has_host(&self, address: IpAddr) -> bool {
        let (ours, theirs, width) = match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => (u128::from(u32::from(ours)), u128::from(u32::from(theirs)), 32),
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => (u128::from(ours), u128::from(theirs), 128),
            _ => return false,
        };
        let host_bits = width - self.prefix.min(width);
        let network = |bits: u128| bits.checked_shr(host_bits).unwrap_or(0);
        let host_mask = 1u128.checked_shl(host_bits).map_or(u128::MAX, |bit| bit - 1);
        let host = theirs & host_mask;
        let is_broadcast = width == 32 && host == host_mask;
        network(ours) == network(theirs) && host != 0 && !is_broadcast && ours != theirs
    }
}

impl std::fmt::Display for Subnet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.address, self.prefix)
    }
}

/// Writes the `host` element of a reservation.
#[must_use]
pub fn reservation_xml(mac: &str, name: &str, address: IpAddr) -> String {
    let host = Element::new("host");
    let host = match address {
        IpAddr::V4(_) => host.attribute("mac", mac).attribute("name", name),
        // DHCPv6 knows clients by name or DUID, not by MAC address.
        IpAddr::V6(_) => host.attribute("name", name),
    };
    host.attribute("ip", address).to_text()
}

/// Reads a network's document. Entries that make no sense are left out: they are somebody else's.
///
/// # Errors
/// [`XmlError`].
pub fn parse_network(text: &str) -> Result<NetworkFacts, XmlError> {
    let root = Element::parse(text)?;
    let bridge = root.first("bridge").and_then(|bridge| bridge.get("name")).map(str::to_owned);
    let mut facts = NetworkFacts { bridge, ..NetworkFacts::default() };
    for (index, ip) in (0..).zip(root.all("ip")) {
        let Some(address) = ip.get("address").and_then(|text| text.parse().ok()) else { continue };
        let dhcp = ip.first("dhcp");
        facts.subnets.push(Subnet { index, address, prefix: prefix(ip, address), dhcp: dhcp.is_some() });
        for host in dhcp.into_iter().flat_map(|dhcp| dhcp.all("host")) {
            let Some(address) = host.get("ip").and_then(|text| text.parse().ok()) else { continue };
            let mac = host.get("mac").map(str::to_ascii_lowercase);
            let name = host.get("name").map(str::to_owned);
            facts.reservations.push(Reservation { ip_index: index, mac, name, address });
        }
    }
    Ok(facts)
}

fn prefix(ip: &Element, address: IpAddr) -> u32 {
    if let Some(prefix) = ip.get("prefix").and_then(|text| text.parse().ok()) {
        return prefix;
    }
    let netmask = ip.get("netmask").and_then(|text| text.parse::<std::net::Ipv4Addr>().ok());
    match (netmask, address) {
        (Some(mask), _) => u32::from(mask).leading_ones(),
        (None, IpAddr::V4(address)) => classful_prefix(address.octets()[0]),
        (None, IpAddr::V6(_)) => 64,
    }
}

/// libvirt's default for an IPv4 network without mask: that of the address's old class.
fn classful_prefix(first: u8) -> u32 {
    match first {
        0..=127 => 8,
        128..=191 => 16,
        _ => 24,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETWORK: &str = "<network><name>n</name><bridge name='virbr7'/><ip family='ipv4' address='192.0.2.1' prefix='24'><dhcp>\
        <range start='192.0.2.100' end='192.0.2.200'/><host mac='52:54:00:AA:00:01' name='a' ip='192.0.2.12'/>\
        <host mac='x' ip='nonsense'/></dhcp></ip><ip address='10.0.0.1' netmask='255.255.0.0'/>\
        <ip family='ipv6' address='2001:db8::1' prefix='64'><dhcp><host name='b' ip='2001:db8::12'/></dhcp></ip></network>";

    fn address(text: &str) -> IpAddr {
        text.parse().expect(text)
    }

    #[test]
    fn reads_subnets_and_reservations() {
        let facts = parse_network(NETWORK).expect("well-formed");
        assert_eq!(facts.bridge.as_deref(), Some("virbr7"));
        let subnets: Vec<_> = facts.subnets.iter().map(|subnet| (subnet.to_string(), subnet.dhcp)).collect();
        assert_eq!(
            subnets,
            [("192.0.2.1/24".into(), true), ("10.0.0.1/16".into(), false), ("2001:db8::1/64".into(), true)]
        );
        let macs: Vec<_> = facts.reservations.iter().map(|entry| (entry.ip_index, entry.mac.as_deref())).collect();
        assert_eq!(macs, [(0, Some("52:54:00:aa:00:01")), (2, None)]);
    }

    #[test]
    fn only_hosts_of_the_subnet_can_be_reserved() {
        let facts = parse_network(NETWORK).expect("well-formed");
        let can = |index: usize, text: &str| facts.subnets[index].has_host(address(text));
        assert!(can(0, "192.0.2.12") && can(1, "10.0.255.254") && can(2, "2001:db8::ffff"));
        for wrong in ["192.0.2.0", "192.0.2.255", "192.0.2.1", "192.0.3.12", "2001:db8::12"] {
            assert!(!can(0, wrong), "{wrong}");
        }
    }

    #[test]
    fn writes_the_entry_by_mac_and_for_ipv6_by_name() {
        let v4 = reservation_xml("52:01:02:03:04:05", "m1", address("192.0.2.12"));
        assert_eq!(v4, "<host mac=\"52:01:02:03:04:05\" name=\"m1\" ip=\"192.0.2.12\"/>\n");
        let v6 = reservation_xml("52:01:02:03:04:05", "m1", address("2001:db8::12"));
        assert_eq!(v6, "<host name=\"m1\" ip=\"2001:db8::12\"/>\n");
    }
}
