//! Addresses of management controllers: which driver, and where.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::spec::Bmc;

/// Longest address that is taken.
const LENGTH_MAX: usize = 2048;
/// Schemes that Metal3 had once, which no driver is left for.
const REMOVED: [&str; 3] = ["ilo4", "ilo5", "irmc"];
const ALLOWED: &str = "redfish, redfish-virtualmedia, redfish-uefihttp, idrac-redfish, idrac-virtualmedia, ilo5-redfish, \
                       ilo5-virtualmedia (each also with +http or +https), ipmi, libvirt";

/// What drives a management controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BmcDriver {
    /// Redfish, over TLS unless `+http` is asked for.
    Redfish,
    /// IPMI.
    Ipmi,
    /// IPMI against the virtual controller of a libvirt domain.
    Libvirt,
}

impl BmcDriver {
    /// Whether the boot MAC address must be given, since the driver cannot ask for it.
    #[must_use]
    pub fn needs_boot_mac(self) -> bool {
        self == Self::Libvirt
    }

    /// Whether it can switch secure boot on.
    #[must_use]
    pub fn can_secure_boot(self) -> bool {
        self == Self::Redfish
    }

    /// Whether it can make RAID volumes of a hardware controller.
    #[must_use]
    pub fn can_raid(self) -> bool {
        self == Self::Redfish
    }
}

/// A management controller's address, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BmcAddress {
    /// Scheme in lower case; `ipmi` where there was none.
    pub scheme: String,
    /// What drives it.
    pub driver: BmcDriver,
    /// Host name or address, without brackets, in lower case.
    pub host: String,
    /// TCP or UDP port.
    pub port: u16,
    /// Path of the system, without empty parts: `/redfish/v1/Systems/1`, or empty.
    pub path: String,
}

/// Why a text is no address of a management controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BmcAddressProblem {
    /// A character that ends a line or a word, or too many of them.
    #[error("must be a URL such as redfish://192.0.2.7/redfish/v1/Systems/1, or HOST[:PORT] for IPMI, without spaces")]
    Syntax,
    /// The scheme names no driver.
    #[error("{0:?} is no scheme of a driver: the schemes are {ALLOWED}")]
    Scheme(String),
    /// The scheme named a driver once.
    #[error("{0:?} has no driver any more: the schemes are {ALLOWED}")]
    Removed(String),
    /// User or password.
    #[error("must hold no user and no password: they stand in the Secret that spec.bmc.credentialsName names")]
    Credentials,
    /// An IPv6 address without brackets.
    #[error("an IPv6 address must stand in brackets, as in redfish://[2001:db8::7]:8443/redfish/v1/Systems/1")]
    Unbracketed,
    /// Neither a name nor an address.
    #[error("{0:?} is neither a host name nor an IP address")]
    Host(String),
    /// No port.
    #[error("{0:?} is no port: a whole number from 1 to 65535")]
    Port(String),
}

impl FromStr for BmcAddress {
    type Err = BmcAddressProblem;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let strange = |byte: u8| byte <= b' ' || byte >= 0x7f || byte == b'\\';
        if text.is_empty() || text.len() > LENGTH_MAX || text.bytes().any(strange) {
            return Err(BmcAddressProblem::Syntax);
        }
        let (scheme, rest) = text.split_once("://").unwrap_or(("ipmi", text));
        let scheme = scheme.to_ascii_lowercase();
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        // First of all, and wherever it stands, since a password may hold a slash: nothing may print one.
        if rest.contains('@') {
            return Err(BmcAddressProblem::Credentials);
        }
        let driver = driver_of(&scheme)?;
        let (host, port) = split_port(authority)?;
        let port = match port {
            None => default_port(&scheme, driver),
            Some(text) => {
                let port = text.parse::<u16>().ok().filter(|port| *port > 0 && !text.starts_with('+'));
                port.ok_or_else(|| BmcAddressProblem::Port(text.to_owned()))?
            }
        };
        let path = path.split(['?', '#']).next().unwrap_or_default();
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let path = parts.iter().fold(String::new(), |whole, part| whole + "/" + part);
        Ok(Self { scheme, driver, host, port, path })
    }
}

impl fmt::Display for BmcAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scheme, host, port, path, .. } = self;
        if host.contains(':') {
            write!(formatter, "{scheme}://[{host}]:{port}{path}")
        } else {
            write!(formatter, "{scheme}://{host}:{port}{path}")
        }
    }
}

fn driver_of(scheme: &str) -> Result<BmcDriver, BmcAddressProblem> {
    let bare = scheme.strip_suffix("+https").or_else(|| scheme.strip_suffix("+http")).unwrap_or(scheme);
    match bare {
        "redfish"
        | "redfish-virtualmedia"
        | "redfish-uefihttp"
        | "idrac-redfish"
        | "idrac-virtualmedia"
        | "ilo5-redfish"
        | "ilo5-virtualmedia" => Ok(BmcDriver::Redfish),
        "ipmi" if bare == scheme => Ok(BmcDriver::Ipmi),
        "libvirt" if bare == scheme => Ok(BmcDriver::Libvirt),
        old if REMOVED.contains(&old) => Err(BmcAddressProblem::Removed(scheme.to_owned())),
        _ => Err(BmcAddressProblem::Scheme(scheme.to_owned())),
    }
}

fn default_port(scheme: &str, driver: BmcDriver) -> u16 {
    match driver {
        BmcDriver::Redfish if scheme.ends_with("+http") => 80,
        BmcDriver::Redfish => 443,
        BmcDriver::Ipmi | BmcDriver::Libvirt => 623,
    }
}

/// Host and port of an authority. Addresses are written in their shortest form, names in lower case.
fn split_port(authority: &str) -> Result<(String, Option<&str>), BmcAddressProblem> {
    let no_host = || BmcAddressProblem::Host(authority.to_owned());
    if let Some(rest) = authority.strip_prefix('[') {
        let (address, port) = rest.split_once(']').ok_or_else(no_host)?;
        let address: Ipv6Addr = address.parse().map_err(|_| no_host())?;
        let port = match port {
            "" => None,
            port => Some(port.strip_prefix(':').ok_or_else(no_host)?),
        };
        return Ok((address.to_string(), port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((_, rest)) if rest.contains(':') => return Err(BmcAddressProblem::Unbracketed),
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    if !is_host(host) {
        return Err(no_host());
    }
    let host = host.parse::<IpAddr>().map_or_else(|_| host.to_ascii_lowercase(), |address| address.to_string());
    Ok((host, port))
}

/// A name of letters, digits and dashes, or an IPv4 address: a name that ends in a number is nothing else.
fn is_host(host: &str) -> bool {
    let label = |label: &str| {
        let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=63).contains(&label.len()) && label.bytes().all(inside) && !label.starts_with('-') && !label.ends_with('-')
    };
    let number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
    let last = host.rsplit('.').next().unwrap_or_default();
    if number(last) { host.parse::<Ipv4Addr>().is_ok() } else { host.len() <= 253 && host.split('.').all(label) }
}

impl Bmc {
    /// What its address leads to, so that two spellings of one controller's address are equal; nothing for an address
    /// that leads nowhere.
    #[must_use]
    pub fn identity(&self) -> Option<String> {
        let BmcAddress { host, port, path, .. } = self.address.parse().ok()?;
        Some(format!("{host} {port} {path}"))
    }
}

/// The address without what may be secret in it, to be shown.
#[must_use]
pub fn shown_bmc_address(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or((None, address), |(scheme, rest)| (Some(scheme), rest));
    // The last `@`: a password may hold a slash, and more than one of these.
    let Some((_, kept)) = rest.rsplit_once('@') else { return address.to_owned() };
    scheme.map_or_else(|| format!("***@{kept}"), |scheme| format!("{scheme}://***@{kept}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<BmcAddress, BmcAddressProblem> {
        text.parse()
    }

    #[test]
    fn reads_the_usual_spellings_of_one_system() {
        for text in [
            "redfish+http://127.0.0.1:8000/redfish/v1/Systems/abc",
            "redfish+http://127.0.0.1:8000/redfish/v1/Systems/abc/",
            "redfish+http://127.0.0.1:8000/redfish/v1//Systems//abc",
            "REDFISH+HTTP://127.0.0.1:8000/redfish/v1/Systems/abc?x=1",
        ] {
            let whole = parsed(text).map(|address| address.to_string());
            assert_eq!(whole, Ok("redfish+http://127.0.0.1:8000/redfish/v1/Systems/abc".to_owned()), "{text}");
        }
        for (text, whole) in [
            ("redfish+http://127.0.0.1:8000", "redfish+http://127.0.0.1:8000"),
            ("redfish+http://127.0.0.1:8000/", "redfish+http://127.0.0.1:8000"),
            ("redfish://[2001:DB8:0:0:0:0:0:7]/x", "redfish://[2001:db8::7]:443/x"),
            ("redfish-uefihttp+https://LOCALHOST/x", "redfish-uefihttp+https://localhost:443/x"),
            ("192.0.2.7", "ipmi://192.0.2.7:623"),
            ("bmc-1.test:6230", "ipmi://bmc-1.test:6230"),
            ("libvirt://192.168.122.1:6233/", "libvirt://192.168.122.1:6233"),
            (
                "ilo5-virtualmedia://bmc.test/redfish/v1/Systems/1",
                "ilo5-virtualmedia://bmc.test:443/redfish/v1/Systems/1",
            ),
        ] {
            assert_eq!(parsed(text).map(|address| address.to_string()), Ok(whole.to_owned()), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong_with_an_address() {
        use BmcAddressProblem as Problem;
        let host = |text: &str| Problem::Host(text.to_owned());
        for (text, problem) in [
            ("redfish://host name/", Problem::Syntax),
            ("", Problem::Syntax),
            ("redfish://bmc\n.test/", Problem::Syntax),
            ("notascheme://192.0.2.9", Problem::Scheme("notascheme".to_owned())),
            ("ipmi+http://192.0.2.9", Problem::Scheme("ipmi+http".to_owned())),
            ("ilo4://192.0.2.9", Problem::Removed("ilo4".to_owned())),
            ("irmc://192.0.2.9", Problem::Removed("irmc".to_owned())),
            ("redfish+http://user:pw@127.0.0.1:8000/x", Problem::Credentials),
            ("user:pw@127.0.0.1", Problem::Credentials),
            ("redfish://user:p/w@127.0.0.1/x", Problem::Credentials),
            ("redfish+http://::1/redfish/v1/Systems/abc", Problem::Unbracketed),
            ("2001:db8::7", Problem::Unbracketed),
            ("redfish://[2001:db8::zz]:8000/x", host("[2001:db8::zz]:8000")),
            ("redfish://[2001:db8::7/x", host("[2001:db8::7")),
            ("redfish://[::1]8000/x", host("[::1]8000")),
            ("redfish://:443/x", host(":443")),
            ("redfish:///x", host("")),
            ("redfish://192.0.2.300/x", host("192.0.2.300")),
            ("redfish://bmc_1.test/x", host("bmc_1.test")),
            ("redfish://-bmc.test/x", host("-bmc.test")),
            ("redfish://192.0.2.7:99999/x", Problem::Port("99999".to_owned())),
            ("redfish://192.0.2.7:/x", Problem::Port(String::new())),
            ("ipmi://bmc.test:0", Problem::Port("0".to_owned())),
            ("ipmi://bmc.test:+7", Problem::Port("+7".to_owned())),
        ] {
            assert_eq!(parsed(text), Err(problem), "{text}");
        }
    }

    #[test]
    fn shows_no_password() {
        for address in
            ["redfish://admin:s3cret@bmc.test/x", "admin:s3cret@bmc.test", "redfish://a:s3@cret/p@bmc.test/x"]
        {
            let shown = shown_bmc_address(address);
            assert!(!shown.contains("s3") && !shown.contains("cret") && shown.contains("***@bmc.test"), "{shown}");
        }
        assert_eq!(shown_bmc_address("redfish://bmc.test/x"), "redfish://bmc.test/x");
    }

    #[test]
    fn knows_a_management_controller_in_other_spellings() {
        let identity = |address: &str| Bmc { address: address.to_owned(), ..Bmc::default() }.identity();
        let first = identity("redfish+http://BMC.test:8000/redfish/v1/Systems/a");
        assert_eq!(first, identity("redfish-virtualmedia+http://bmc.test:8000/redfish//v1/Systems/a/"));
        for other in
            ["redfish+http://bmc.test:8000/redfish/v1/Systems/A", "redfish+http://bmc.test:8001/redfish/v1/Systems/a"]
        {
            assert_ne!(first, identity(other), "{other}");
        }
        assert_eq!(identity("redfish://bmc.test/x"), identity("redfish+https://bmc.test:443/x"));
        assert_eq!(identity("redfish+http://[fd00:0:0::7]/x"), identity("redfish+http://[FD00::7]:80/x"));
        assert_eq!(identity("ipmi://10.0.0.7"), identity("10.0.0.7:623"));
        assert_ne!(identity("redfish://bmc.test/x"), identity("redfish+http://bmc.test/x"));
        assert_eq!((identity(""), identity("redfish:///x")), (None, None));
    }
}
