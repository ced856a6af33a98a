//! Ethernet addresses, however they are spelled.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A unicast EUI-48 address. Printed in lower case with colons.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress([u8; 6]);

/// Why a text is no usable Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacProblem {
    /// Not six octets in a known spelling.
    #[error("must be six octets such as 52:54:00:aa:bb:01 (also with dashes, or as 5254.00aa.bb01)")]
    Syntax,
    /// A group address: no NIC has one of its own.
    #[error("must be a unicast address, not multicast or broadcast")]
    Multicast,
    /// All octets zero.
    #[error("must not be all zeros")]
    Zero,
}

impl MacAddress {
    /// The six octets.
    #[must_use]
    pub fn octets(self) -> [u8; 6] {
        self.0
    }
}

impl FromStr for MacAddress {
    type Err = MacProblem;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let octets =
            parse_groups(text, ':', 2).or_else(|| parse_groups(text, '-', 2)).or_else(|| parse_groups(text, '.', 4));
        let octets = octets.ok_or(MacProblem::Syntax)?;
        if octets == [0; 6] {
            return Err(MacProblem::Zero);
        }
        if octets[0] & 1 == 1 {
            return Err(MacProblem::Multicast);
        }
        Ok(Self(octets))
    }
}

fn parse_groups(text: &str, separator: char, digits: usize) -> Option<[u8; 6]> {
    let mut hex = String::with_capacity(12);
    for group in text.split(separator) {
        if group.len() != digits || !group.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        hex.push_str(group);
    }
    if hex.len() != 12 {
        return None;
    }
    let mut octets = [0; 6];
    for (index, octet) in octets.iter_mut().enumerate() {
        *octet = u8::from_str_radix(hex.get(index * 2..index * 2 + 2)?, 16).ok()?;
    }
    Some(octets)
}

impl fmt::Display for MacAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(formatter, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for MacAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for MacAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_every_spelling_as_one_address() {
        for text in ["52:54:00:AA:BB:02", "52:54:00:aa:bb:02", "52-54-00-aa-bb-02", "5254.00aa.bb02"] {
            assert_eq!(
                text.parse::<MacAddress>().map(|mac| mac.to_string()),
                Ok("52:54:00:aa:bb:02".to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn refuses_what_no_nic_can_have() {
        for (text, problem) in [
            ("52:54:00:aa:bb", MacProblem::Syntax),
            ("52:54:00:ff:fe:aa:bb:05", MacProblem::Syntax),
            ("52:54-00:aa:bb:02", MacProblem::Syntax),
            ("", MacProblem::Syntax),
            ("52:54:00:aa:bb:0g", MacProblem::Syntax),
            ("53:54:00:aa:bb:04", MacProblem::Multicast),
            ("ff:ff:ff:ff:ff:ff", MacProblem::Multicast),
            ("00:00:00:00:00:00", MacProblem::Zero),
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(problem), "{text}");
        }
    }
}
