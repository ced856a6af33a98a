//! The server's own certificates: a CA, what the server shows, and what the administrator shows.
//!
//! Keys are ECDSA P-256 and never leave their files, which only the owner can read.

use std::collections::BTreeSet;
use std::io::Write;
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hagane_api::names::dns_subdomain_problem;
use jiff::ToSpan;
use jiff::tz::TimeZone;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose, SanType};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::identity::MASTERS;

mod authority;

/// Names that the serving certificate always has.
const FIXED_NAMES: [&str; 2] = ["localhost", "127.0.0.1"];
/// A certificate with less time left than this, in seconds, is made anew at the start.
const RENEW_BEFORE: i64 = 60 * 24 * 3600;
const CA_DAYS: i64 = 3650;
const LEAF_DAYS: i64 = 365;
const ADMIN: &str = "hagane-admin";

/// Certificates and keys, as PEM.
#[derive(Clone)]
pub struct Pki {
    ca: String,
    server: Pair,
    admin: Pair,
}

#[derive(Clone)]
struct Pair {
    certificate: String,
    key: String,
}

/// Why certificates could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// A file or directory could not be read or written.
    #[error("cannot {operation} {}", path.display())]
    File {
        /// What was being done.
        operation: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The files of the CA cannot be used. They are never replaced: clients know the CA by them.
    #[error("the certificate authority in {} cannot be used: {problem}", directory.display())]
    Authority {
        /// The directory of the files.
        directory: PathBuf,
        /// Which file, what is wrong with it, and what helps.
        problem: String,
    },
    /// A certificate or key could not be made.
    #[error("cannot make the {what} certificate")]
    Make {
        /// Which one.
        what: &'static str,
        /// The cause.
        #[source]
        source: rcgen::Error,
    },
    /// A name of the server is neither a DNS name nor an address.
    #[error("{name:?} cannot be a name of the server: {problem}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The TLS library refuses the certificates.
    #[error("the certificates cannot be used for TLS")]
    Tls(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// What the `hagane up` listener shows and accepts, from files below `directory`; what is missing, expires soon or has
/// other names than `names` is made anew.
///
/// # Errors
///
/// When the files cannot be read or written, or a name is none.
pub fn ensure(directory: &Path, names: &[String]) -> Result<Pki, PkiError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(file("make", directory))?;
    let (ca, issuer) = authority::read_or_make(directory)?;
    let names: BTreeSet<String> = FIXED_NAMES.iter().map(ToString::to_string).chain(names.iter().cloned()).collect();
    let server = leaf(
        directory,
        "server",
        &ca,
        |certificate| names_of(certificate) == names,
        || {
            let mut params = server_params(&names)?;
            params.distinguished_name.push(DnType::CommonName, "hagane");
            sign("server", params, &issuer)
        },
    )?;
    let admin = leaf(
        directory,
        "admin",
        &ca,
        |_| true,
        || {
            let mut params = CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, MASTERS);
            params.distinguished_name.push(DnType::CommonName, ADMIN);
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
            sign("admin", params, &issuer)
        },
    )?;
    Ok(Pki { ca, server, admin })
}

fn file(operation: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> PkiError {
    let path = path.to_owned();
    move |source| PkiError::File { operation, path, source }
}

fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(file("read", path)(source)),
    }
}

/// Writes a file whole or not at all. One that is so already is left alone: a full disk does not hinder a start.
fn write(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    if is_written(path, text, mode) {
        return Ok(());
    }
    let fresh = path.with_extension("new");
    let attempt = || -> std::io::Result<()> {
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut target = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&fresh)?;
        target.write_all(text.as_bytes())?;
        target.sync_all()?;
        std::fs::rename(&fresh, path)
    };
    attempt().map_err(|error| {
        // What was written of it is of no use; the next attempt begins by removing it too.
        let _ = std::fs::remove_file(&fresh);
        file("write", path)(error)
    })
}

fn is_written(path: &Path, text: &str, mode: u32) -> bool {
    let permissions = std::fs::symlink_metadata(path).map(|found| found.permissions().mode() & 0o777);
    permissions.is_ok_and(|found| found == mode) && std::fs::read_to_string(path).is_ok_and(|found| found == text)
}

fn server_params(names: &BTreeSet<String>) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for name in names {
        let san = match name.parse::<IpAddr>() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName(dns_name(name)?),
        };
        params.subject_alt_names.push(san);
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn dns_name(name: &str) -> Result<rcgen::string::Ia5String, PkiError> {
    let refused = |problem: String| PkiError::Name { name: name.to_owned(), problem };
    if let Some(problem) = dns_subdomain_problem(&name.to_lowercase()) {
        return Err(refused(problem));
    }
    name.try_into().map_err(|error: rcgen::Error| refused(error.to_string()))
}

fn sign(what: &'static str, mut params: CertificateParams, issuer: &Issuer<'_, KeyPair>) -> Result<Pair, PkiError> {
    let make = |source| PkiError::Make { what, source };
    let key = KeyPair::generate().map_err(make)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, LEAF_DAYS);
    let certificate = params.signed_by(&key, issuer).map_err(make)?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn set_validity(params: &mut CertificateParams, days: i64) {
    let today = crate::clock::now().to_zoned(TimeZone::UTC).date();
    let date = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(i32::from(date.year()), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    // A day of the past, for machines whose clock is behind.
    params.not_before = date(today.checked_sub(1.day()).unwrap_or(today));
    params.not_after = date(today.checked_add(days.days()).unwrap_or(jiff::civil::Date::MAX));
}

/// A certificate from its files, or made anew.
fn leaf(
    directory: &Path,
    name: &'static str,
    ca: &str,
    fits: impl Fn(&X509Certificate<'_>) -> bool,
    make: impl FnOnce() -> Result<Pair, PkiError>,
) -> Result<Pair, PkiError> {
    let (certificate_path, key_path) = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
    if let (Some(certificate), Some(key)) = (read(&certificate_path)?, read(&key_path)?)
        && is_good(&certificate, &key, ca, fits)
    {
        return Ok(Pair { certificate, key });
    }
    let pair = make()?;
    write(&key_path, &pair.key, 0o600)?;
    write(&certificate_path, &pair.certificate, 0o644)?;
    Ok(pair)
}

fn is_good(certificate: &str, key: &str, ca: &str, fits: impl Fn(&X509Certificate<'_>) -> bool) -> bool {
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).ok();
    let (Some(certificate), Some(ca), Ok(key)) = (der(certificate), der(ca), KeyPair::from_pem(key)) else {
        return false;
    };
    let (Ok((_, certificate)), Ok((_, ca))) = (X509Certificate::from_der(&certificate), X509Certificate::from_der(&ca))
    else {
        return false;
    };
    let left = certificate.validity().not_after.timestamp() - crate::clock::now().as_second();
    left > RENEW_BEFORE
        && certificate.issuer().as_raw() == ca.subject().as_raw()
        && certificate.public_key().subject_public_key.data.as_ref() == key.public_key_raw()
        && fits(&certificate)
}

fn names_of(certificate: &X509Certificate<'_>) -> BTreeSet<String> {
    let Ok(Some(names)) = certificate.subject_alternative_name() else { return BTreeSet::new() };
    let text = |name: &GeneralName<'_>| match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address = <[u8; 4]>::try_from(*bytes)
                .map(IpAddr::from)
                .or_else(|_| <[u8; 16]>::try_from(*bytes).map(IpAddr::from));
            address.ok().map(|address| address.to_string())
        }
        _ => None,
    };
    names.value.general_names.iter().filter_map(text).collect()
}

impl Pki {
    /// Certificate of the CA, as PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// How the listener talks TLS: client certificates of the CA are checked, but not demanded.
    ///
    /// # Errors
    ///
    /// When the files hold no usable certificates.
    pub fn server_config(&self) -> Result<Arc<rustls::ServerConfig>, PkiError> {
        fn refused(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> PkiError {
            PkiError::Tls(error.into())
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.ca.as_bytes()).map_err(refused)?).map_err(refused)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .allow_unauthenticated()
            .build()
            .map_err(refused)?;
        let chain = vec![CertificateDer::from_pem_slice(self.server.certificate.as_bytes()).map_err(refused)?];
        let key = PrivateKeyDer::from_pem_slice(self.server.key.as_bytes()).map_err(refused)?;
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain, key)
            .map_err(refused)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// A kubeconfig of the administrator for the server at `url`.
    #[must_use]
    pub fn admin_kubeconfig(&self, url: &str) -> String {
        let encode = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1\nkind: Config\nclusters:\n- name: hagane\n  cluster:\n    server: {url}\n    \
             certificate-authority-data: {}\nusers:\n- name: {ADMIN}\n  user:\n    client-certificate-data: {}\n    \
             client-key-data: {}\ncontexts:\n- name: hagane\n  context:\n    cluster: hagane\n    user: {ADMIN}\n\
             current-context: hagane\n",
            encode(&self.ca),
            encode(&self.admin.certificate),
            encode(&self.admin.key),
        )
    }

    /// Writes that kubeconfig, whole or not at all, readable by the owner only.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn write_admin_kubeconfig(&self, path: &Path, url: &str) -> Result<(), PkiError> {
        write(path, &self.admin_kubeconfig(url), 0o600)
    }
}

impl std::fmt::Debug for Pki {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Pki")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_stay_until_the_names_change() {
        let scratch = tempfile::tempdir().expect("a directory");
        let directory = scratch.path().join("pki");
        let first = ensure(&directory, &["10.0.0.1".to_owned()]).expect("made");
        let again = ensure(&directory, &["10.0.0.1".to_owned()]).expect("read");
        assert_eq!(first.server.certificate, again.server.certificate);
        let other = ensure(&directory, &["10.0.0.1".to_owned(), "api.example.com".to_owned()]).expect("made");
        assert_eq!((&first.ca, &first.admin.certificate), (&other.ca, &other.admin.certificate));
        assert_ne!(first.server.certificate, other.server.certificate);
        assert!(other.server_config().is_ok());
    }

    #[test]
    fn a_kubeconfig_that_says_the_same_already_is_not_written_again() {
        let scratch = tempfile::tempdir().expect("a directory");
        let pki = ensure(&scratch.path().join("pki"), &[]).expect("made");
        let kubeconfig = scratch.path().join("admin.kubeconfig");
        pki.write_admin_kubeconfig(&kubeconfig, "https://127.0.0.1:6440").expect("written");
        // What is in the way of the temporary file stands for a disk that takes no more.
        let obstacle = scratch.path().join("admin.new");
        std::fs::create_dir(&obstacle).expect("made");
        pki.write_admin_kubeconfig(&kubeconfig, "https://127.0.0.1:6440").expect("nothing to write");
        assert!(pki.write_admin_kubeconfig(&kubeconfig, "https://127.0.0.1:6441").is_err());
        std::fs::set_permissions(&kubeconfig, std::fs::Permissions::from_mode(0o644)).expect("changed");
        assert!(pki.write_admin_kubeconfig(&kubeconfig, "https://127.0.0.1:6440").is_err(), "its mode is part of it");
    }

    #[test]
    fn keys_are_for_the_owner_only() {
        let scratch = tempfile::tempdir().expect("a directory");
        let pki = ensure(scratch.path(), &[]).expect("made");
        let kubeconfig = scratch.path().join("admin.kubeconfig");
        pki.write_admin_kubeconfig(&kubeconfig, "https://127.0.0.1:6440").expect("written");
        for name in ["ca.key", "server.key", "admin.key", "admin.kubeconfig"] {
            let mode = std::fs::metadata(scratch.path().join(name)).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{name}");
        }
        assert!(ensure(scratch.path(), &["not a name".to_owned()]).is_err());
    }
}
