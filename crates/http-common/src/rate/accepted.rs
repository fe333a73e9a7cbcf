//! A cache of tokens that were recently valid.

use std::collections::HashSet;

use parking_lot::Mutex;

/// Maximum number of tokens. When it is reached, the cache is cleared. At worst, a token is then refused until its address has
/// quota again.
const MOST: usize = 10_000;

/// The hashes of recently valid tokens.
#[derive(Default)]
pub(super) struct Accepted(Mutex<HashSet<[u8; 32]>>);

impl Accepted {
    pub(super) fn remember(&self, token: [u8; 32]) {
        let mut accepted = self.0.lock();
        if accepted.len() >= MOST && !accepted.contains(&token) {
            accepted.clear();
        }
        accepted.insert(token);
    }

    pub(super) fn holds(&self, token: &[u8; 32]) -> bool {
        self.0.lock().contains(token)
    }
}
