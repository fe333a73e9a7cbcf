//! Deterministic ids and secrets.

use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

use branchyard_domain::ports::Ids;
use branchyard_domain::values::Timestamp;

/// A deterministic generator: ids from the time and a counter, secrets from a hash of a seed and a counter.
#[derive(Debug)]
pub struct SeededIds {
    seed: u64,
    made: AtomicU64,
    filled: AtomicU64,
}

impl SeededIds {
    /// Creates a generator. Generators with the same seed return the same values.
    pub const fn new(seed: u64) -> Self {
        Self { seed, made: AtomicU64::new(0), filled: AtomicU64::new(0) }
    }
}

impl Ids for SeededIds {
    fn uuid(&self, now: Timestamp) -> Uuid {
        let millis = u64::try_from(now.as_micros().div_euclid(1_000)).unwrap_or(0);
        let counter = self.made.fetch_add(1, Ordering::SeqCst);
        let mut tail = [0; 10];
        tail[..2].copy_from_slice(&self.seed.to_be_bytes()[6..]);
        tail[2..].copy_from_slice(&counter.to_be_bytes());
        Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
    }

    fn fill(&self, buffer: &mut [u8]) {
        for chunk in buffer.chunks_mut(32) {
            let block = self.filled.fetch_add(1, Ordering::SeqCst);
            let bytes =
                Sha256::new().chain_update(self.seed.to_be_bytes()).chain_update(block.to_be_bytes()).finalize();
            let length = chunk.len();
            chunk.copy_from_slice(&bytes[..length]);
        }
    }
}
