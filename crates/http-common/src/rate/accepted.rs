//! Tokens that were good a short time ago.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

/// Tokens remembered as good; beyond that all are forgotten, and each is at worst refused until its address may ask again.
const MOST: usize = 10_000;

/// The hashes of such tokens.
#[derive(Default)]
pub(super) struct Accepted(Mutex<HashSet<[u8; 32]>>);

impl Accepted {
    pub(super) fn remember(&self, token: [u8; 32]) {
        let mut accepted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if accepted.len() >= MOST && !accepted.contains(&token) {
            accepted.clear();
        }
        accepted.insert(token);
    }

    pub(super) fn holds(&self, token: &[u8; 32]) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(token)
    }
}
