//! Settings of TLS.

use std::path::PathBuf;

use anyhow::bail;
use branchyard_https::CertificateFiles;
use serde::{Deserialize, Serialize};

/// TLS of the server's own listener. Off unless both files are set.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TlsConfig {
    /// PEM file of the certificate chain, the server's own certificate first.
    pub cert: Option<PathBuf>,
    /// PEM file of the private key.
    pub key: Option<PathBuf>,
}

impl TlsConfig {
    /// Returns the files of the certificate and its key, or `None` if TLS is off.
    ///
    /// # Errors
    /// Fails if only one of them is set.
    pub fn files(&self) -> anyhow::Result<Option<CertificateFiles>> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Some(CertificateFiles { cert: cert.clone(), key: key.clone() })),
            (None, None) => Ok(None),
            (Some(_), None) => bail!("configuration: tls.cert is set, but tls.key is not; TLS needs both"),
            (None, Some(_)) => bail!("configuration: tls.key is set, but tls.cert is not; TLS needs both"),
        }
    }
}
