//! SSH key pairs and the `known_hosts` form of public keys.

use std::error::Error;

use hagane_ports::{HostKey, HostKeyMaker, ShellError, SshKeyPair};
use russh::keys::ssh_key::LineEnding;
use russh::keys::ssh_key::private::{Ed25519Keypair, KeypairData};
use russh::keys::{Algorithm, HashAlg, PrivateKey, PublicKey, decode_secret_key};

/// Makes ed25519 pairs from the operating system's random source.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyMaker;

impl HostKeyMaker for KeyMaker {
    fn generate(&self) -> Result<SshKeyPair, ShellError> {
        generate("")
    }
}

/// A new ed25519 pair; the comment is kept in the private key only (a host or user name helps people, nothing else).
///
/// # Errors
/// [`ShellError::KeyGeneration`].
pub fn generate(comment: &str) -> Result<SshKeyPair, ShellError> {
    let failed = |source: russh::keys::ssh_key::Error| ShellError::KeyGeneration { source: Box::new(source) };
    let pair = Ed25519Keypair::random(&mut russh::keys::key::safe_rng());
    let key = PrivateKey::new(KeypairData::Ed25519(pair), comment).map_err(failed)?;
    let private_openssh = key.to_openssh(LineEnding::LF).map_err(failed)?.to_string();
    Ok(SshKeyPair { private_openssh, public_line: public_line(key.public_key()).map_err(failed)? })
}

/// A `known_hosts` line: `host ssh-ed25519 AAAA…` for port 22, `[host]:port ssh-ed25519 AAAA…` for another port.
///
/// The host is a name or an address without brackets; IPv6 addresses need none for port 22.
#[must_use]
pub fn known_hosts_line(host: &str, port: u16, key: &HostKey) -> String {
    if port == 22 { format!("{host} {}", key.0) } else { format!("[{host}]:{port} {}", key.0) }
}

/// `SHA256:…`, as OpenSSH prints it.
pub(crate) fn fingerprint(key: &PublicKey) -> String {
    key.fingerprint(HashAlg::Sha256).to_string()
}

/// Algorithm and key without a comment.
pub(crate) fn public_line(key: &PublicKey) -> Result<String, russh::keys::ssh_key::Error> {
    PublicKey::new(key.key_data().clone(), "").to_openssh().map(|line| line.trim_end().to_owned())
}

/// Reads a private key to log in with.
pub(crate) fn read_private(text: &str) -> Result<PrivateKey, ShellError> {
    let invalid = |source: Box<dyn Error + Send + Sync>| ShellError::InvalidKey { source };
    let key = decode_secret_key(text, None).map_err(|error| match error {
        russh::keys::Error::UnsupportedKeyType { .. } if text.contains("RSA") => invalid(RSA.into()),
        russh::keys::Error::UnknownAlgorithm(id) if id.to_string() == RSA_OBJECT_ID => invalid(RSA.into()),
        russh::keys::Error::KeyIsEncrypted => invalid("it is protected by a passphrase; give one without".into()),
        other => invalid(Box::new(other)),
    })?;
    match key.algorithm() {
        Algorithm::Ed25519 | Algorithm::Ecdsa { .. } => Ok(key),
        Algorithm::Rsa { .. } => Err(invalid(RSA.into())),
        other => Err(invalid(format!("keys of type {other} are not supported; use ed25519 or ecdsa").into())),
    }
}

/// `rsaEncryption` (RFC 8017, appendix C).
const RSA_OBJECT_ID: &str = "1.2.840.113549.1.1.1";

const RSA: &str = "RSA keys are not supported; use ed25519 (ssh-keygen -t ed25519) or ecdsa";

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_new_pair_belongs_together_and_is_never_the_same() {
        let first = generate("node-1").expect("the system has random numbers");
        let second = KeyMaker.generate().expect("the system has random numbers");
        assert_ne!(first.public_line, second.public_line);
        let private = read_private(&first.private_openssh).expect("our own form is readable");
        assert_eq!(public_line(private.public_key()).expect("it can be written"), first.public_line);
        assert!(first.private_openssh.ends_with("-----END OPENSSH PRIVATE KEY-----\n"));
        assert_eq!(first.public_line.split(' ').count(), 2, "no comment: {}", first.public_line);
    }

    #[test]
    fn openssh_reads_our_private_keys() {
        use std::os::unix::fs::OpenOptionsExt as _;
        let pair = generate("a comment").expect("the system has random numbers");
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("key");
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).expect("a new file");
        std::io::Write::write_all(&mut file, pair.private_openssh.as_bytes()).expect("it can be written");
        let output =
            Command::new("ssh-keygen").arg("-y").arg("-f").arg(&path).output().expect("ssh-keygen is installed");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.starts_with(&pair.public_line), "{printed} {}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn debug_output_has_no_private_key() {
        let pair = generate("").expect("the system has random numbers");
        assert!(!format!("{pair:?}").contains("PRIVATE"));
    }

    #[test]
    fn known_hosts_lines_name_the_port_where_it_is_not_22() {
        let key = HostKey("ssh-ed25519 AAAA".to_owned());
        assert_eq!(known_hosts_line("node.example", 22, &key), "node.example ssh-ed25519 AAAA");
        assert_eq!(known_hosts_line("node.example", 2222, &key), "[node.example]:2222 ssh-ed25519 AAAA");
        assert_eq!(known_hosts_line("2001:db8::1", 22, &key), "2001:db8::1 ssh-ed25519 AAAA");
        assert_eq!(known_hosts_line("2001:db8::1", 2222, &key), "[2001:db8::1]:2222 ssh-ed25519 AAAA");
    }

    #[test]
    fn unusable_private_keys_are_refused_with_a_reason() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let make = |name: &str, arguments: &[&str]| {
            let path = directory.path().join(name);
            let status = Command::new("ssh-keygen").args(["-q", "-f"]).arg(&path).args(arguments).status();
            assert!(status.expect("ssh-keygen is installed").success());
            std::fs::read_to_string(&path).expect("ssh-keygen wrote it")
        };
        let reason = |text: &str| match read_private(text) {
            Err(ShellError::InvalidKey { source }) => source.to_string(),
            other => format!("{other:?}"),
        };
        for (name, arguments) in [
            ("rsa", &["-t", "rsa", "-b", "2048", "-N", ""] as &[&str]),
            ("rsa-pem", &["-t", "rsa", "-b", "2048", "-N", "", "-m", "PEM"]),
            ("rsa-pkcs8", &["-t", "rsa", "-b", "2048", "-N", "", "-m", "PKCS8"]),
        ] {
            assert!(reason(&make(name, arguments)).contains("RSA keys are not supported"), "{name}");
        }
        assert!(reason(&make("locked", &["-t", "ed25519", "-N", "passphrase"])).contains("passphrase"));
        assert!(matches!(read_private("nonsense"), Err(ShellError::InvalidKey { .. })));
        assert!(matches!(read_private(""), Err(ShellError::InvalidKey { .. })));
        for arguments in [&["-t", "ed25519", "-N", ""] as &[&str], &["-t", "ecdsa", "-N", ""]] {
            read_private(&make(arguments[1], arguments)).expect("both are usable");
        }
    }
}
