//! The key under which nodes sign their calls.

use hmac::{Hmac, Mac};
use sha2::Sha256;

const LABEL: &[u8] = b"branchyard calls between nodes v1";

/// A key that all nodes of a cluster have, and nothing else.
#[derive(Clone)]
pub struct CallKey([u8; 32]);

impl std::fmt::Debug for CallKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallKey([redacted])")
    }
}

impl CallKey {
    /// Derives the key from the master key of the cluster.
    pub fn derive(master: &[u8; 32]) -> Self {
        Self(mac(master, LABEL).finalize().into_bytes().into())
    }

    /// Returns the code of a text.
    pub(crate) fn sign(&self, text: &str) -> [u8; 32] {
        mac(&self.0, text.as_bytes()).finalize().into_bytes().into()
    }

    /// Returns `true` if the code is that of the text. Compares in constant time.
    pub(crate) fn has_signed(&self, text: &str, code: &[u8]) -> bool {
        mac(&self.0, text.as_bytes()).verify_slice(code).is_ok()
    }
}

#[expect(clippy::expect_used, reason = "an HMAC takes a key of any length")]
fn mac(key: &[u8; 32], text: &[u8]) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("a key of any length");
    mac.update(text);
    mac
}
