//! The certificate of a running server, which follows its files.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use sha2::{Digest as _, Sha256};

use crate::certificate::{CertificateError, CertificateFiles};
use crate::machine_time::machine_time;
use crate::validity::Validity;

/// Interval at which [`Certificates::follow`] looks at the files.
const INTERVAL: Duration = Duration::from_secs(2);

/// The certificate in use, and where it comes from. New connections use the newest one that is usable; open connections keep
/// theirs.
#[derive(Debug)]
pub struct Certificates {
    files: CertificateFiles,
    config: RwLock<Arc<ServerConfig>>,
    seen: Mutex<Seen>,
}

/// Digests of what was found in the files.
#[derive(Debug)]
struct Seen {
    in_use: [u8; 32],
    /// The pair that could not be used when it was last looked at, and whether that was logged.
    unusable: Option<([u8; 32], bool)>,
}

impl Certificates {
    /// Loads the certificate. Logs a warning if the certificate has expired or is not yet valid.
    ///
    /// # Errors
    /// Returns an error that names the setting and the file.
    pub fn load(files: CertificateFiles) -> Result<Self, CertificateError> {
        let pair = files.read()?;
        let loaded = files.load(&pair)?;
        warn_if_invalid(&files, loaded.validity);
        let seen = Mutex::new(Seen { in_use: pair.digest(), unusable: None });
        Ok(Self { files, config: RwLock::new(loaded.config), seen })
    }

    /// Returns the TLS configuration for a new connection.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read())
    }

    /// Looks at the files, and uses a changed pair from now on. A pair that cannot be used changes nothing. It is logged as an
    /// error once, if it is still there at the next look: the two files cannot be replaced in one step.
    pub fn refresh(&self) {
        let mut seen = self.seen.lock();
        let pair = self.files.read();
        let digest = match &pair {
            Ok(pair) => pair.digest(),
            Err(error) => Sha256::digest(error.to_string()).into(),
        };
        if digest == seen.in_use {
            seen.unusable = None;
            return;
        }
        if seen.unusable == Some((digest, true)) {
            return;
        }
        match pair.and_then(|pair| self.files.load(&pair)) {
            Ok(loaded) => {
                *self.config.write() = loaded.config;
                *seen = Seen { in_use: digest, unusable: None };
                tracing::info!(path = %self.files.cert.display(), "new connections use the changed certificate");
                warn_if_invalid(&self.files, loaded.validity);
            }
            Err(error) => {
                let is_still_there = seen.unusable == Some((digest, false));
                if is_still_there {
                    let error: &(dyn std::error::Error + 'static) = &error;
                    tracing::error!(error, "the changed certificate cannot be used; keeping the one in use");
                }
                seen.unusable = Some((digest, is_still_there));
            }
        }
    }

    /// Looks at the files every two seconds, until the task is dropped.
    pub async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let certificates = Arc::clone(&self);
            if tokio::task::spawn_blocking(move || certificates.refresh()).await.is_err() {
                tracing::error!("the look at the files of the certificate panicked");
            }
        }
    }
}

fn warn_if_invalid(files: &CertificateFiles, validity: Option<Validity>) {
    let Some(validity) = validity else { return };
    let now = machine_time().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let path = files.cert.display();
    if now > validity.not_after {
        tracing::warn!(%path, "the certificate in tls.cert has expired; clients will refuse it until it is renewed");
    } else if now < validity.not_before {
        tracing::warn!(%path, "the certificate in tls.cert is not valid yet; check the clock of this machine");
    }
}
