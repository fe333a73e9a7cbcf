//! The messages of DoltLite's remote protocol, for servers and for clients: branches and tags as one blob, chunks, and the change of
//! a ref. The protocol is that of DoltLite 0.51.6, whose clients are the authority on it.
//!
//! Integers are little-endian unless it is said otherwise.

mod chunks;
mod credential;
mod input;
pub mod layout;
mod ref_update;
mod refs;

pub use chunks::{
    HASH_BYTES, MOST_HASHES, Record, encode_hashes, encode_record, found_chunks, parse_hashes, parse_records,
};
pub use credential::{Credential, CredentialError, LONGEST_CREDENTIAL};
pub use input::Malformed;
pub use ref_update::{RefUpdate, Scope};
pub use refs::{BranchEntry, Refs, TagEntry};

/// The hash of a chunk: the first 20 bytes of the BLAKE3 hash of its content.
pub type Hash = [u8; HASH_BYTES];

/// Stands for the absence of a chunk.
pub const NO_HASH: Hash = [0; HASH_BYTES];

/// Returns the hash of a chunk with this content.
#[must_use]
pub fn hash_of(content: &[u8]) -> Hash {
    let hash = blake3::hash(content);
    // A hash has 32 bytes.
    hash.as_bytes().first_chunk().copied().unwrap_or_default()
}

/// Returns a hash as hexadecimal digits.
#[must_use]
pub fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
