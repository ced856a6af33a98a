//! Everything about a machine that follows from its owner's uid: UUID, MAC address, names of domain and volumes.
//!
//! The full uid is part of every volume's name, so that the uid alone finds it again. Names that begin with `hagane-`
//! are ours by convention; whether a volume of such a name really is ours is decided in [`crate::volumes`].

use hagane_ports::MachineKey;
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

/// Longest name of a domain. Longer ones break tools that make file or host names of it.
const DOMAIN_NAME_MAX: usize = 63;
/// Hex digits of the uid's digest in a domain's name.
const DOMAIN_SUFFIX: usize = 8;
/// Hex digits of the image's digest in a base volume's name.
const BASE_DIGEST: usize = 32;
/// Ending of the marker that says that a base volume is complete.
const MARKER: &str = ".ok";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn digest(purpose: &str, text: &str) -> [u8; 32] {
    Sha256::new().chain_update(purpose).chain_update([0]).chain_update(text).finalize().into()
}

/// The domain's UUID: the uid itself where that is a UUID (as with Kubernetes), else one made from it. Another object,
/// also one of the same name, has another uid and so another UUID.
#[must_use]
pub fn domain_uuid(uid: &str) -> Uuid {
    match Uuid::try_parse(uid) {
        Ok(uuid) if !uuid.is_nil() => uuid,
        _ => {
            let mut bytes = [0; 16];
            bytes.copy_from_slice(&digest("uuid", uid)[..16]);
            Builder::from_custom_bytes(bytes).into_uuid()
        }
    }
}

/// The NIC's MAC address: `52:` for "local, unicast", then 40 bits of the uid's digest. QEMU's own prefix 52:54:00
/// would leave 24 bits, with which one network of 5000 machines has a clash more often than not.
#[must_use]
pub fn mac(uid: &str) -> String {
    let digest = digest("mac", uid);
    format!("52:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", digest[0], digest[1], digest[2], digest[3], digest[4])
}

/// The digits at the end of a domain's name that follow from the uid alone.
#[must_use]
pub fn domain_suffix(uid: &str) -> String {
    hex(&digest("domain", uid)[..DOMAIN_SUFFIX / 2])
}

/// The domain's name: the machine's name, cut where it is too long, and a few digits of the uid's digest, because
/// other namespaces and earlier machines may have the same name.
#[must_use]
pub fn domain(key: &MachineKey) -> String {
    let suffix = domain_suffix(&key.uid);
    let keep = DOMAIN_NAME_MAX - DOMAIN_SUFFIX - 1;
    let name: String = key.name.chars().map(|letter| if plain(letter) { letter } else { '-' }).take(keep).collect();
    match name.trim_matches(['-', '.']) {
        "" => format!("machine-{suffix}"),
        name => format!("{name}-{suffix}"),
    }
}

fn plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '-' || letter == '.'
}

/// The uid as it may stand in a file name: as it is where it is plain (as with Kubernetes), else its digest.
fn file_part(uid: &str) -> String {
    let plain = !uid.is_empty() && uid.len() <= 64 && uid.chars().all(|letter| plain(letter) && letter != '.');
    if plain { uid.to_owned() } else { hex(&digest("volume", uid)) }
}

/// Name of the root volume.
#[must_use]
pub fn root_volume(uid: &str) -> String {
    format!("hagane-{}-root.qcow2", file_part(uid))
}

/// Name of the seed volume.
#[must_use]
pub fn seed_volume(uid: &str) -> String {
    format!("hagane-{}-seed.iso", file_part(uid))
}

/// First part of the names of all base volumes of an image.
#[must_use]
pub fn base_prefix(sha256: &str) -> String {
    format!("hagane-base-{}-", &sha256[..sha256.len().min(BASE_DIGEST)])
}

/// Name of one upload of an image. Each attempt has its own, so that two of them never write into one file.
#[must_use]
pub fn base_volume(sha256: &str, holder: &str, attempt: &str, ending: &str) -> String {
    format!("{}{}-{attempt}.{ending}", base_prefix(sha256), holder_part(holder))
}

/// The part of a base volume's name that says whose upload it is.
#[must_use]
pub fn holder_part(holder: &str) -> String {
    hex(&digest("holder", holder)[..4])
}

/// Name of the marker beside a complete base volume.
#[must_use]
pub fn marker(base_volume: &str) -> String {
    format!("{base_volume}{MARKER}")
}

/// Whether a volume of this name is a base volume (not a marker).
#[must_use]
pub fn is_base_volume(name: &str) -> bool {
    name.starts_with("hagane-base-") && !name.ends_with(MARKER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, uid: &str) -> MachineKey {
        MachineKey { namespace: "lab".into(), name: name.into(), uid: uid.into() }
    }

    const UID: &str = "6c1f2b1e-8a44-4f0e-9d53-0f6f6f1d2a11";

    #[test]
    fn the_uuid_is_the_uid_and_new_for_a_new_object() {
        assert_eq!(domain_uuid(UID).to_string(), UID);
        let other = domain_uuid("not a uuid");
        assert_eq!(other, domain_uuid("not a uuid"));
        assert_ne!(other, domain_uuid("not a uuid "));
        assert!(!domain_uuid("00000000-0000-0000-0000-000000000000").is_nil());
    }

    #[test]
    fn macs_are_local_unicast_and_differ() {
        let macs: std::collections::BTreeSet<_> = (0..2000).map(|number| mac(&format!("uid-{number}"))).collect();
        assert_eq!(macs.len(), 2000);
        let first = mac(UID);
        let octet = u8::from_str_radix(&first[..2], 16).expect("hex");
        assert_eq!(octet & 0b11, 0b10, "{first} is local and unicast");
    }

    #[test]
    fn domain_names_are_short_plain_and_apart() {
        assert_eq!(domain(&key("m1", UID)), format!("m1-{}", hex(&digest("domain", UID)[..4])));
        assert_ne!(domain(&key("m1", UID)), domain(&key("m1", "other")));
        for name in ["x".repeat(253), "a/../b".to_owned(), "..".to_owned(), String::new(), "1234".to_owned()] {
            let made = domain(&key(&name, UID));
            assert!(made.len() <= 63 && made.chars().all(plain) && !made.starts_with(['-', '.']), "{made}");
        }
    }

    #[test]
    fn volume_names_carry_the_whole_uid_and_no_path() {
        assert_eq!(root_volume(UID), format!("hagane-{UID}-root.qcow2"));
        assert_eq!(seed_volume(UID), format!("hagane-{UID}-seed.iso"));
        assert!(!root_volume("../../etc/passwd").contains('/'));
        assert!(!root_volume("base-x.ok").contains("base-x"));
    }

    #[test]
    fn markers_are_no_base_volumes() {
        let name = base_volume(&"ab".repeat(32), "host-a", "1f", "qcow2");
        assert!(name.starts_with(&base_prefix(&"ab".repeat(32))));
        assert!(is_base_volume(&name));
        assert!(!is_base_volume(&marker(&name)));
        assert!(!is_base_volume(&root_volume(UID)));
    }
}
