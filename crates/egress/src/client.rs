//! Clients for requests to addresses that users name.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::{Certificate, Client, ClientBuilder, redirect};
use url::Url;

use crate::address::{AddressPolicy, Verdict, literal};
use crate::checked::{CheckedNames, CheckedPeer, Reach};
use crate::names::Names;

/// The file of root certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the certificates in {path}")]
pub struct RootsError {
    /// Path of the file.
    pub path: PathBuf,
    /// The reason.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// What the clients of a server have in common: a policy, a resolver, and certificates that are trusted.
#[derive(Clone)]
pub struct Egress {
    policy: Arc<AddressPolicy>,
    names: Arc<dyn Names>,
    roots: Vec<Certificate>,
}

impl Egress {
    /// Returns the way out under a policy. `extra_roots` is a PEM file with root certificates in addition to those of the system.
    ///
    /// # Errors
    /// [`RootsError`].
    pub fn new(policy: AddressPolicy, names: Arc<dyn Names>, extra_roots: Option<&Path>) -> Result<Self, RootsError> {
        let roots = extra_roots.map(roots).transpose()?.unwrap_or_default();
        Ok(Self { policy: Arc::new(policy), names, roots })
    }

    /// Returns the policy.
    #[must_use]
    pub fn policy(&self) -> &Arc<AddressPolicy> {
        &self.policy
    }

    /// Returns the resolver.
    #[must_use]
    pub fn names(&self) -> &Arc<dyn Names> {
        &self.names
    }

    /// Returns the settings of a client for `https` or for `http`: HTTP/1.1 without redirects and proxies, over TLS 1.2 or later.
    /// Literal addresses are not resolved, so [`Egress::admits`] has to be asked before each request.
    pub fn client(&self, encrypted: bool) -> ClientBuilder {
        let reach = Reach { policy: Arc::clone(&self.policy), encrypted };
        Client::builder()
            .dns_resolver(Arc::new(CheckedNames { names: Arc::clone(&self.names), reach: reach.clone() }))
            .connector_layer(CheckedPeer(reach))
            .redirect(redirect::Policy::none())
            .no_proxy()
            .referer(false)
            .https_only(encrypted)
            .http1_only()
            .tls_version_min(reqwest::tls::Version::TLS_1_2)
            .tls_certs_merge(self.roots.iter().cloned())
    }

    /// Returns `true` unless the host of a URL is a literal address that must not be reached. Names are checked when they are
    /// resolved.
    #[must_use]
    pub fn admits(&self, url: &Url) -> bool {
        match literal(url).map(|address| self.policy.verdict(address)) {
            Some(Verdict::Refused) => false,
            Some(Verdict::Public) => url.scheme() == "https",
            Some(Verdict::Opened) | None => true,
        }
    }

    /// Returns `true` if a URL may use `http`, which is allowed only in networks that the operator opened. Whether a name resolves
    /// into such a network is not looked up.
    #[must_use]
    pub fn may_be_plain(&self, url: &Url) -> bool {
        match literal(url) {
            Some(address) => self.policy.verdict(address) == Verdict::Opened,
            None => self.policy.opens_any(),
        }
    }
}

fn roots(path: &Path) -> Result<Vec<Certificate>, RootsError> {
    let wrong = |source: Box<dyn std::error::Error + Send + Sync>| RootsError { path: path.to_owned(), source };
    let pem = std::fs::read(path).map_err(|error| wrong(error.into()))?;
    let found = Certificate::from_pem_bundle(&pem).map_err(|error| wrong(error.into()))?;
    if found.is_empty() { Err(wrong("it holds no certificate".into())) } else { Ok(found) }
}
