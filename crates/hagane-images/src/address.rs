//! Which addresses a fetch may reach. Checked on the addresses that are connected to, so a name cannot be pointed
//! elsewhere between check and use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// The operator's choice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AddressPolicy {
    pub(crate) allow_loopback: bool,
    pub(crate) allow_link_local: bool,
}

/// An address that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {kind} and not allowed")]
pub(crate) struct ForbiddenAddress {
    address: IpAddr,
    kind: &'static str,
}

impl AddressPolicy {
    /// Checks one address.
    pub(crate) fn check(self, address: IpAddr) -> Result<(), ForbiddenAddress> {
        let kind = match embedded_v4(address) {
            IpAddr::V4(v4) => self.forbidden_v4(v4),
            IpAddr::V6(v6) => self.forbidden_v6(v6),
        };
        kind.map_or(Ok(()), |kind| Err(ForbiddenAddress { address, kind }))
    }

    /// Checks a URL whose host is an address: those are never looked up.
    pub(crate) fn check_url(self, url: &Url) -> Result<(), ForbiddenAddress> {
        match url.host() {
            Some(Host::Ipv4(address)) => self.check(address.into()),
            Some(Host::Ipv6(address)) => self.check(address.into()),
            Some(Host::Domain(_)) | None => Ok(()),
        }
    }

    fn forbidden_v4(self, address: Ipv4Addr) -> Option<&'static str> {
        match address.octets() {
            [0, ..] => Some("no host's address"),
            [127, ..] if !self.allow_loopback => Some("a loopback address"),
            [169, 254, ..] if !self.allow_link_local => Some("a link-local address"),
            [224..=255, ..] => Some("no host's address"),
            _ => None,
        }
    }

    fn forbidden_v6(self, address: Ipv6Addr) -> Option<&'static str> {
        /// Where a large cloud answers with credentials: link-local in all but its number.
        const METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254);
        if address.is_unspecified() || address.is_multicast() {
            Some("no host's address")
        } else if address.is_loopback() && !self.allow_loopback {
            Some("a loopback address")
        } else if (address.is_unicast_link_local() || address == METADATA) && !self.allow_link_local {
            Some("a link-local address")
        } else {
            None
        }
    }
}

/// The IPv4 address that an IPv6 address stands for, if any: mapped, compatible, NAT64 or 6to4.
fn embedded_v4(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let v4 = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

/// Looks names up by the system's resolver and hands on allowed addresses only.
#[derive(Debug)]
pub(crate) struct GuardedResolver {
    pub(crate) policy: AddressPolicy,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.policy;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let (mut allowed, mut forbidden): (Vec<SocketAddr>, _) = (Vec::new(), None);
            for address in found {
                match policy.check(address.ip()) {
                    Ok(()) => allowed.push(address),
                    Err(problem) => forbidden = Some(problem),
                }
            }
            match (allowed.is_empty(), forbidden) {
                (true, Some(problem)) => Err(problem.into()),
                (true, None) => Err("the name has no address".into()),
                (false, _) => Ok(Box::new(allowed.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(policy: AddressPolicy, text: &str) -> bool {
        policy.check(text.parse().expect("an address")).is_ok()
    }

    #[test]
    fn refuses_this_machine_and_the_link_in_every_spelling() {
        for text in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "169.254.169.254",
            "255.255.255.255",
            "224.0.0.1",
            "240.0.0.1",
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "2002:7f00:1::1",
            "2002:a9fe:a9fe::",
            "fd00:ec2::254",
        ] {
            assert!(!allowed(AddressPolicy::default(), text), "{text}");
        }
        for text in ["192.0.2.1", "10.0.0.1", "192.168.122.1", "2001:db8::1", "fd00::1", "::ffff:10.0.0.1"] {
            assert!(allowed(AddressPolicy::default(), text), "{text}");
        }
    }

    #[test]
    fn flags_allow_exactly_their_kind() {
        let loopback = AddressPolicy { allow_loopback: true, allow_link_local: false };
        let link = AddressPolicy { allow_loopback: false, allow_link_local: true };
        for (text, with_loopback, with_link) in [
            ("127.0.0.1", true, false),
            ("::1", true, false),
            ("::ffff:127.0.0.1", true, false),
            ("169.254.1.1", false, true),
            ("fe80::1", false, true),
            ("0.0.0.0", false, false),
            ("::", false, false),
        ] {
            assert_eq!((allowed(loopback, text), allowed(link, text)), (with_loopback, with_link), "{text}");
        }
    }

    #[test]
    fn odd_spellings_in_urls_are_the_same_addresses() {
        for text in
            ["http://127.1/", "http://0x7f000001/", "http://2130706433/", "http://[::1]/", "http://017700000001/"]
        {
            let url = Url::parse(text).expect("a URL");
            assert!(AddressPolicy::default().check_url(&url).is_err(), "{text}");
        }
    }

    #[tokio::test]
    async fn names_that_lead_to_loopback_are_refused() {
        let resolver = GuardedResolver { policy: AddressPolicy::default() };
        let answer = resolver.resolve("localhost".parse().expect("a name")).await;
        let error = answer.err().expect("localhost is loopback");
        assert!(error.downcast_ref::<ForbiddenAddress>().is_some(), "{error}");
    }
}
