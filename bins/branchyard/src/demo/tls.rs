//! The certificates of a demo over TLS: a local authority, and what it signs for this machine.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType};

/// The files of the certificates.
pub(super) struct DemoCertificates {
    /// The certificate of the authority, which clients trust.
    pub(super) authority: PathBuf,
    /// The certificate of the server.
    pub(super) cert: PathBuf,
    /// The private key of the server.
    pub(super) key: PathBuf,
}

/// Makes new certificates in the folder of the demo. The key of the authority is not kept, so no one can sign with it.
///
/// # Errors
/// Fails if a file cannot be written.
pub(super) fn make(data_dir: &Path) -> anyhow::Result<DemoCertificates> {
    let dir = data_dir.join("tls");
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let made = DemoCertificates { authority: dir.join("ca.pem"), cert: dir.join("cert.pem"), key: dir.join("key.pem") };
    let mut authority = CertificateParams::default();
    authority.distinguished_name.push(DnType::CommonName, "Branchyard demo");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;
    let mut server = CertificateParams::new(vec!["localhost".to_owned()])?;
    server.distinguished_name.push(DnType::CommonName, "Branchyard demo server");
    let own = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
    server.subject_alt_names.extend(own.map(SanType::IpAddress));
    let key = KeyPair::generate()?;
    let certificate = server.signed_by(&key, &Issuer::new(authority, authority_key))?;
    for (path, text) in [
        (&made.authority, authority_certificate.pem()),
        (&made.cert, certificate.pem()),
        (&made.key, key.serialize_pem()),
    ] {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(made)
}
