//! TLS to Postgres: what the URL asks for, and the handshake.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

use super::conninfo::{Conninfo, Host};

/// The message that asks a server for TLS: its length, and a number that no version has.
const REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// Parameters of TLS that are not supported, the variables of libpq for them, and the one value that asks for nothing.
const UNSUPPORTED: [(&str, &str, &str); 10] = [
    ("sslcert", "PGSSLCERT", ""),
    ("sslkey", "PGSSLKEY", ""),
    ("sslpassword", "", ""),
    ("sslcertmode", "PGSSLCERTMODE", "disable"),
    ("sslcrl", "PGSSLCRL", ""),
    ("sslcrldir", "PGSSLCRLDIR", ""),
    ("sslsni", "PGSSLSNI", "1"),
    ("ssl_min_protocol_version", "PGSSLMINPROTOCOLVERSION", "TLSv1.2"),
    ("ssl_max_protocol_version", "PGSSLMAXPROTOCOLVERSION", "TLSv1.3"),
    ("sslnegotiation", "PGSSLNEGOTIATION", "postgres"),
];

/// Why there is no connection over TLS. The text says what to do.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error(
        "{host} does not offer TLS, which sslmode={mode} requires, so nothing was sent to it; set `ssl = on` in its postgresql.conf, or use \
         sslmode=disable on a network that only the servers use"
    )]
    NotOffered { host: String, mode: &'static str },
    #[error(
        "the certificate of {host} is not valid for this name{}; use a name of the certificate in the metadata URL (with hostaddr=ADDRESS if the \
         name has another address here), or sslmode=verify-ca", presented(.names)
    )]
    WrongName { host: String, names: Vec<String> },
    #[error(
        "the certificate of {host} is not issued by {roots}; set sslrootcert to the PEM file of the authority that issued it"
    )]
    UnknownIssuer { host: String, roots: String },
    #[error(
        "the certificate of {host} has expired, or is not valid yet by the clock of this machine; renew it, or set the clock"
    )]
    OutOfDate { host: String },
    #[error("the certificate of {host} cannot be used: {reason}")]
    Certificate { host: String, reason: String },
    #[error("the TLS handshake with {host} failed: {source}")]
    Handshake { host: String, source: io::Error },
    #[error("'{host}' is not a name that a certificate can have; use a DNS name or an address in the metadata URL")]
    NotAName { host: String },
}

fn presented(names: &[String]) -> String {
    match names {
        [] => " (it has no subject alternative names, and the common name does not count)".into(),
        names => format!(", but for {}", names.join(", ")),
    }
}

/// What a URL asks for.
pub(super) enum Encryption {
    Disable,
    /// TLS if the server refuses a plain connection.
    Allow(TlsClient),
    /// TLS if the server offers it.
    Prefer(TlsClient),
    /// TLS, or no connection.
    Require(TlsClient),
}

/// What is verified of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verification {
    Nothing,
    Issuer,
    IssuerAndName,
}

impl Encryption {
    /// Takes the parameters of TLS, and leaves those for a libpq without TLS.
    pub(super) fn read(
        parameters: &mut Conninfo,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, String> {
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let roots = parameters.take("sslrootcert").or_else(|| variable("PGSSLROOTCERT"));
        let roots = roots.filter(|roots| !roots.is_empty());
        let from_system = roots.as_deref() == Some("system");
        let mode = parameters.take("sslmode").or_else(|| variable("PGSSLMODE"));
        let mode = mode.unwrap_or_else(|| if from_system { "verify-full" } else { "prefer" }.to_owned());
        let verification = match (mode.as_str(), &roots) {
            ("verify-full", _) => Verification::IssuerAndName,
            ("verify-ca", None) => {
                return Err(
                    "sslmode=verify-ca needs sslrootcert=PATH; to rely on the authorities of this system, use sslmode=verify-full"
                        .into(),
                );
            }
            ("disable", _) => Verification::Nothing,
            // Any authority issues certificates to anyone for their own names.
            (_, Some(_)) if from_system => {
                return Err("sslrootcert=system needs sslmode=verify-full, because names are all that public authorities verify".into());
            }
            // As libpq does.
            ("verify-ca" | "require" | "prefer" | "allow", Some(_)) => Verification::Issuer,
            ("require" | "prefer" | "allow", None) => Verification::Nothing,
            (other, _) => {
                return Err(format!(
                    "sslmode={other} is unknown; use disable, allow, prefer, require, verify-ca or verify-full"
                ));
            }
        };
        // Where TLS is not required, variables of the environment that ask for more do not stop the start.
        let is_required = verification != Verification::Nothing || mode == "require";
        let take = |parameters: &mut Conninfo, name: &str, its_variable: &str| {
            parameters.take(name).or_else(|| is_required.then(|| variable(its_variable)).flatten())
        };
        let mut unsupported = Vec::new();
        for (name, its_variable, nothing) in UNSUPPORTED {
            let value = take(parameters, name, its_variable);
            if value.is_some_and(|value| !value.is_empty() && value != nothing) {
                unsupported.push(name);
            }
        }
        if take(parameters, "channel_binding", "PGCHANNELBINDING").as_deref() == Some("require") {
            unsupported.push("channel_binding");
        }
        parameters.take("sslcompression");
        // Stated, so that libpq does not take them from the environment.
        for (name, value) in [
            ("sslmode", "disable"),
            ("sslnegotiation", "postgres"),
            ("sslcertmode", "disable"),
            ("channel_binding", "disable"),
        ] {
            parameters.set(name, value.into());
        }
        match unsupported.first() {
            Some(&"channel_binding") => {
                return Err("channel_binding=require is not supported; remove it, and use sslmode=verify-full".into());
            }
            _ if mode == "disable" => return Ok(Self::Disable),
            Some(name) => return Err(format!("{name} is not supported; remove it")),
            None => {}
        }
        if parameters.get("load_balance_hosts").is_some_and(|value| value != "disable") {
            return Err("load_balance_hosts is not supported with TLS; remove it".into());
        }
        let mode_name = match mode.as_str() {
            "verify-full" => "verify-full",
            "verify-ca" => "verify-ca",
            "require" => "require",
            "allow" => return TlsClient::new(verification, roots, "allow").map(Self::Allow),
            _ => return TlsClient::new(verification, roots, "prefer").map(Self::Prefer),
        };
        TlsClient::new(verification, roots, mode_name).map(Self::Require)
    }

    pub(super) fn is_required(&self) -> bool {
        matches!(self, Self::Require(_))
    }
}

/// Opens TLS as a URL asks for it.
pub(super) struct TlsClient {
    config: Arc<ClientConfig>,
    mode: &'static str,
    verification: Verification,
    /// Whose certificates are accepted, for messages.
    roots: String,
}

/// A connection on which the server has proved who it is, as far as the URL asks for it.
pub(super) struct TlsStream {
    pub(super) tcp: TcpStream,
    pub(super) tls: ClientConnection,
}

impl TlsClient {
    fn new(verification: Verification, roots: Option<String>, mode: &'static str) -> Result<Self, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let file = roots.filter(|roots| roots != "system");
        let failed = |error: rustls::Error| format!("TLS cannot be set up: {error}");
        let verifier: Arc<dyn ServerCertVerifier> = match (verification, &file) {
            (Verification::Nothing, _) => Arc::new(FileVerifier::none(&provider)),
            (_, Some(file)) => Arc::new(FileVerifier::open(file, verification, &provider)?),
            (_, None) => Arc::new(Verifier::new(Arc::clone(&provider)).map_err(failed)?),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let roots = file.map_or("an authority of this system".to_owned(), |file| format!("an authority of {file}"));
        Ok(Self { config: Arc::new(config), mode, verification, roots })
    }

    /// Returns a client that accepts every certificate.
    #[cfg(test)]
    pub(super) fn unverified() -> Self {
        Self::new(Verification::Nothing, None, "require").unwrap()
    }

    /// Asks the server for TLS, and negotiates it.
    pub(super) fn handshake(&self, host: &Host, mut tcp: TcpStream, limit: Duration) -> Result<TlsStream, TlsError> {
        let failed = |source| TlsError::Handshake { host: host.to_string(), source };
        let peer = tcp.peer_addr().map_err(failed)?.ip();
        let name = match ServerName::try_from(host.name.clone()) {
            Ok(name) => name,
            Err(_) if self.verification == Verification::IssuerAndName => {
                return Err(TlsError::NotAName { host: host.name.clone() });
            }
            Err(_) => ServerName::from(peer),
        };
        tcp.set_read_timeout(Some(limit)).map_err(failed)?;
        tcp.set_write_timeout(Some(limit)).map_err(failed)?;
        tcp.write_all(&REQUEST).map_err(failed)?;
        // One byte only: what comes after it belongs to TLS.
        let mut answer = [0];
        tcp.read_exact(&mut answer).map_err(failed)?;
        if answer != *b"S" {
            return Err(TlsError::NotOffered { host: host.to_string(), mode: self.mode });
        }
        let mut tls = ClientConnection::new(Arc::clone(&self.config), name)
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
        while tls.is_handshaking() {
            tls.complete_io(&mut tcp).map_err(|source| self.refusal(host, source))?;
        }
        Ok(TlsStream { tcp, tls })
    }

    fn refusal(&self, host: &Host, source: io::Error) -> TlsError {
        use CertificateError as E;
        let cause = source.get_ref().and_then(|cause| cause.downcast_ref::<rustls::Error>());
        let Some(rustls::Error::InvalidCertificate(cause)) = cause else {
            return TlsError::Handshake { host: host.to_string(), source };
        };
        let host = host.to_string();
        match cause {
            E::NotValidForName => TlsError::WrongName { host, names: Vec::new() },
            E::NotValidForNameContext { presented, .. } => TlsError::WrongName { host, names: presented.clone() },
            // An authority that has another key under the same name.
            E::UnknownIssuer | E::BadSignature => TlsError::UnknownIssuer { host, roots: self.roots.clone() },
            E::Expired | E::ExpiredContext { .. } | E::NotValidYet | E::NotValidYetContext { .. } => {
                TlsError::OutOfDate { host }
            }
            other => TlsError::Certificate { host, reason: other.to_string() },
        }
    }
}

/// Verifies certificates by those of a file, or accepts all of them. In any case, the server has to own the key of its certificate.
#[derive(Debug)]
struct FileVerifier {
    roots: RootCertStore,
    /// The same certificates. A server may have one of them itself, as is usual for a certificate that was made for one server.
    certificates: Vec<CertificateDer<'static>>,
    verification: Verification,
    provider: Arc<CryptoProvider>,
}

impl FileVerifier {
    fn none(provider: &Arc<CryptoProvider>) -> Self {
        Self {
            roots: RootCertStore::empty(),
            certificates: Vec::new(),
            verification: Verification::Nothing,
            provider: Arc::clone(provider),
        }
    }

    fn open(file: &str, verification: Verification, provider: &Arc<CryptoProvider>) -> Result<Self, String> {
        let certificates: Result<Vec<_>, _> =
            CertificateDer::pem_file_iter(file).and_then(|found| found.collect::<Result<Vec<_>, _>>());
        let certificates = certificates.map_err(|error| format!("sslrootcert {file} cannot be read: {error}"))?;
        let mut roots = RootCertStore::empty();
        let (usable, _) = roots.add_parsable_certificates(certificates.iter().cloned());
        if usable == 0 {
            return Err(format!("sslrootcert {file} holds no certificate; it must be a PEM file of authorities"));
        }
        Ok(Self { roots, certificates, verification, provider: Arc::clone(provider) })
    }
}

impl ServerCertVerifier for FileVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.verification == Verification::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        // A certificate that the file has itself needs no issuer.
        if !self.certificates.contains(end_entity) {
            let algorithms = self.provider.signature_verification_algorithms.all;
            verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        }
        if self.verification == Verification::IssuerAndName {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    #[test]
    fn a_certificate_that_was_made_for_one_server_is_its_own_authority() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("server.crt").display().to_string();
        for is_ca in [IsCa::NoCa, IsCa::Ca(BasicConstraints::Unconstrained)] {
            let mut params = CertificateParams::new(["db.test".to_owned()]).unwrap();
            params.is_ca = is_ca;
            let made = || params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            let (own, other) = (made(), made());
            std::fs::write(&file, own.pem()).unwrap();
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier = FileVerifier::open(&file, Verification::IssuerAndName, &provider).unwrap();
            let verify = |certificate: &rcgen::Certificate, name: &'static str| {
                let name = ServerName::try_from(name).unwrap();
                verifier.verify_server_cert(certificate.der(), &[], &name, &[], UnixTime::now())
            };
            verify(&own, "db.test").unwrap();
            verify(&own, "other.test").unwrap_err();
            verify(&other, "db.test").unwrap_err();
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots.pem").display().to_string();
        std::fs::write(&file, "nothing").unwrap();
        let provider = Arc::new(aws_lc_rs::default_provider());
        let refused = FileVerifier::open(&file, Verification::Issuer, &provider).unwrap_err();
        assert!(refused.contains(&file) && refused.contains("PEM"), "{refused}");
    }
}
