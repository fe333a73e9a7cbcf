//! Digests of bytes that pass by.

use branchyard_domain::ports::ObjectDigest;
use sha2::{Digest as _, Sha256};

/// Computes the digest of an object from its pieces.
#[derive(Default)]
pub(crate) struct Hasher {
    length: u64,
    sha256: Sha256,
}

impl Hasher {
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.length += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        self.sha256.update(piece);
    }

    pub(crate) fn finish(self) -> ObjectDigest {
        ObjectDigest { length: self.length, sha256: self.sha256.finalize().into() }
    }
}
