//! The certificate authority: made once, then only read. Every kubeconfig in the world that leads here trusts it, so
//! files that cannot be used are an error and never a reason to make others in their place.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{CA_DAYS, PkiError, read, set_validity, write};

/// The CA's certificate as PEM, and what signs with it.
pub(super) fn read_or_make(directory: &Path) -> Result<(String, Issuer<'static, KeyPair>), PkiError> {
    let (certificate_path, key_path) = (directory.join("ca.crt"), directory.join("ca.key"));
    match (read(&certificate_path)?, read(&key_path)?) {
        (Some(certificate), Some(key)) => use_files(directory, certificate, &key),
        // The key is written first: a certificate without one is no start that broke off.
        (Some(_), None) => Err(PkiError::Authority {
            directory: directory.to_owned(),
            problem: "ca.key is missing; put it back, or remove ca.crt too for a new authority, which no kubeconfig \
                      written before trusts"
                .to_owned(),
        }),
        (None, _) => make(&certificate_path, &key_path),
    }
}

fn use_files(directory: &Path, certificate: String, key: &str) -> Result<(String, Issuer<'static, KeyPair>), PkiError> {
    let refused = |problem: String| PkiError::Authority { directory: directory.to_owned(), problem };
    let key = KeyPair::from_pem(key).map_err(|error| refused(format!("ca.key holds no private key ({error})")))?;
    let unreadable = |error: &dyn std::fmt::Display| refused(format!("ca.crt holds no certificate ({error})"));
    let der = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| unreadable(&error))?;
    let (_, parsed) = X509Certificate::from_der(&der).map_err(|error| unreadable(&error))?;
    if parsed.public_key().subject_public_key.data.as_ref() != key.public_key_raw() {
        return Err(refused("ca.key is not the key of ca.crt".to_owned()));
    }
    let end = parsed.validity().not_after.timestamp();
    if end <= crate::clock::now().as_second() {
        let end = jiff::Timestamp::from_second(end).map_or_else(|_| end.to_string(), |end| end.to_string());
        let problem = format!(
            "ca.crt has expired at {end}, if the clock is right; remove the directory for a new authority, which no \
             kubeconfig written before trusts"
        );
        return Err(refused(problem));
    }
    let issuer = Issuer::from_ca_cert_pem(&certificate, key).map_err(|error| unreadable(&error))?;
    Ok((certificate, issuer))
}

fn make(certificate_path: &Path, key_path: &Path) -> Result<(String, Issuer<'static, KeyPair>), PkiError> {
    let make = |source| PkiError::Make { what: "CA", source };
    let key = KeyPair::generate().map_err(make)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, format!("hagane-ca-{}", uuid::Uuid::new_v4().simple()));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    set_validity(&mut params, CA_DAYS);
    let certificate = params.self_signed(&key).map_err(make)?.pem();
    write(key_path, &key.serialize_pem(), 0o600)?;
    write(certificate_path, &certificate, 0o644)?;
    Ok((certificate, Issuer::new(params, key)))
}

#[cfg(test)]
mod tests {
    use super::super::ensure;
    use super::*;

    fn refusal(directory: &Path) -> String {
        match ensure(directory, &[]) {
            Ok(_) => "it was taken".to_owned(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn says_which_file_of_it_cannot_be_used_and_replaces_none() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (directory, other) = (scratch.path().join("pki"), scratch.path().join("other"));
        let made = ensure(&directory, &[]).expect("made");
        ensure(&other, &[]).expect("made");
        let key_path = directory.join("ca.key");
        let key = std::fs::read(&key_path).expect("written before");

        std::fs::copy(other.join("ca.key"), &key_path).expect("copied");
        assert!(refusal(&directory).ends_with("ca.key is not the key of ca.crt"), "{}", refusal(&directory));
        std::fs::write(&key_path, "nonsense").expect("writable");
        assert!(refusal(&directory).contains("ca.key holds no private key"), "{}", refusal(&directory));
        std::fs::remove_file(&key_path).expect("removable");
        assert!(refusal(&directory).contains("ca.key is missing"), "{}", refusal(&directory));
        assert!(!key_path.exists());
        std::fs::write(&key_path, key).expect("writable");
        assert_eq!(ensure(&directory, &[]).expect("whole again").ca_pem(), made.ca_pem());
        std::fs::write(directory.join("ca.crt"), "nonsense").expect("writable");
        assert!(refusal(&directory).contains("ca.crt holds no certificate"), "{}", refusal(&directory));
    }

    #[test]
    fn says_when_it_has_expired() {
        let scratch = tempfile::tempdir().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(2011, 1, 1);
        let certificate = params.self_signed(&key).expect("signed").pem();
        write(&scratch.path().join("ca.key"), &key.serialize_pem(), 0o600).expect("written");
        write(&scratch.path().join("ca.crt"), &certificate, 0o644).expect("written");
        assert!(refusal(scratch.path()).contains("expired at 2011-01-01T00:00:00Z"), "{}", refusal(scratch.path()));
    }

    #[test]
    fn a_first_start_that_broke_off_after_the_key_is_begun_again() {
        let scratch = tempfile::tempdir().expect("a directory");
        let key = KeyPair::generate().expect("a key");
        write(&scratch.path().join("ca.key"), &key.serialize_pem(), 0o600).expect("written");
        let first = ensure(scratch.path(), &[]).expect("made");
        assert_eq!(ensure(scratch.path(), &[]).expect("read").ca_pem(), first.ca_pem());
    }
}
