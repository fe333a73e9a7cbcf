//! A certificate chain and its key, from two PEM files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{InconsistentKeys, ServerConfig};
use sha2::{Digest as _, Sha256};

use crate::validity::Validity;

/// Maximum size of each file in bytes.
const LONGEST: u64 = 1 << 20;

/// The places of a certificate chain and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateFiles {
    /// PEM file of the chain, the server's own certificate first.
    pub cert: PathBuf,
    /// PEM file of the private key.
    pub key: PathBuf,
}

/// What is wrong with a certificate. Messages name the setting and its file.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what each case means")]
pub enum CertificateError {
    #[error("{setting} {}: {source}", file.display())]
    Unreadable { setting: &'static str, file: PathBuf, source: io::Error },
    #[error("{setting} {} is longer than 1 MiB; write the PEM file of the certificate chain or the key", file.display())]
    TooLong { setting: &'static str, file: PathBuf },
    #[error("{setting} {} is damaged: {source}", file.display())]
    Damaged { setting: &'static str, file: PathBuf, source: pem::Error },
    #[error("tls.cert {} holds no certificate; it must be a PEM file with the server's own certificate first", file.display())]
    NoCertificate { file: PathBuf },
    #[error("tls.cert {} holds no certificate that can be used: {source}", file.display())]
    BadCertificate { file: PathBuf, source: rustls::Error },
    #[error("tls.key {} holds no private key; it must be a PEM file in PKCS#8, PKCS#1 or SEC1 form", file.display())]
    NoKey { file: PathBuf },
    #[error("tls.key {} is encrypted; store the key without a passphrase, readable by the server alone", file.display())]
    EncryptedKey { file: PathBuf },
    #[error("tls.key {} cannot be used: {source}", file.display())]
    BadKey { file: PathBuf, source: rustls::Error },
    #[error("tls.key {} does not belong to the certificate in tls.cert {}", key.display(), cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("TLS cannot be set up: {source}")]
    Provider { source: rustls::Error },
}

/// The contents of the two files.
pub(crate) struct FilePair {
    cert: Vec<u8>,
    key: Vec<u8>,
}

/// A certificate that the server can present.
pub(crate) struct Loaded {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) validity: Option<Validity>,
}

impl CertificateFiles {
    /// Reads both files.
    pub(crate) fn read(&self) -> Result<FilePair, CertificateError> {
        Ok(FilePair { cert: read("tls.cert", &self.cert)?, key: read("tls.key", &self.key)? })
    }

    /// Makes a TLS configuration of the contents of both files.
    pub(crate) fn load(&self, files: &FilePair) -> Result<Loaded, CertificateError> {
        let chain = self.chain(&files.cert)?;
        let key = self.key(&files.key)?;
        let validity = chain.first().and_then(|own| Validity::of(own));
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = provider.key_provider.load_private_key(key);
        let key = key.map_err(|source| CertificateError::BadKey { file: self.key.clone(), source })?;
        let certified = CertifiedKey::new(chain, key);
        certified.keys_match().or_else(|error| match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::Unknown) => Ok(()),
            rustls::Error::InconsistentKeys(_) => {
                Err(CertificateError::Mismatch { cert: self.cert.clone(), key: self.key.clone() })
            }
            source => Err(CertificateError::BadCertificate { file: self.cert.clone(), source }),
        })?;
        let provided = |source| CertificateError::Provider { source };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])
            .map_err(provided)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Tickets keep sessions at the clients. A new certificate comes with new keys of tickets.
        config.ticketer = aws_lc_rs::Ticketer::new().map_err(provided)?;
        Ok(Loaded { config: Arc::new(config), validity })
    }

    fn chain(&self, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
        let chain = chain.map_err(|source| CertificateError::Damaged {
            setting: "tls.cert",
            file: self.cert.clone(),
            source,
        })?;
        if chain.is_empty() {
            return Err(CertificateError::NoCertificate { file: self.cert.clone() });
        }
        Ok(chain)
    }

    fn key(&self, text: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateError> {
        let file = || self.key.clone();
        PrivateKeyDer::from_pem_slice(text).map_err(|source| match source {
            pem::Error::NoItemsFound if is_encrypted(text) => CertificateError::EncryptedKey { file: file() },
            pem::Error::NoItemsFound => CertificateError::NoKey { file: file() },
            source => CertificateError::Damaged { setting: "tls.key", file: file(), source },
        })
    }
}

impl FilePair {
    /// Returns a digest by which a changed pair is recognized.
    pub(crate) fn digest(&self) -> [u8; 32] {
        let lengths = self.cert.len().to_le_bytes();
        Sha256::new().chain_update(lengths).chain_update(&self.cert).chain_update(&self.key).finalize().into()
    }
}

fn is_encrypted(text: &[u8]) -> bool {
    const MARK: &[u8] = b"ENCRYPTED PRIVATE KEY";
    text.windows(MARK.len()).any(|window| window == MARK)
}

fn read(setting: &'static str, file: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut bytes = Vec::new();
    let contents = File::open(file).and_then(|opened| opened.take(LONGEST + 1).read_to_end(&mut bytes));
    contents.map_err(|source| CertificateError::Unreadable { setting, file: file.to_owned(), source })?;
    if bytes.len() as u64 > LONGEST {
        return Err(CertificateError::TooLong { setting, file: file.to_owned() });
    }
    Ok(bytes)
}
