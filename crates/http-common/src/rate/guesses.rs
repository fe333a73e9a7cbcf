//! Counts rejected credentials by address, to prevent brute-force attacks on tokens.

use std::net::IpAddr;

use branchyard_domain::values::Timestamp;

use super::{accepted::Accepted, key, table::WindowTable};

/// Counts rejected credentials. A process needs one instance, shared by all workers.
pub struct Guesses {
    rejected: WindowTable,
    accepted: Accepted,
}

impl Guesses {
    /// Creates counters that allow `quota` rejected credentials per address (IPv6: per /64) in `window_seconds`. Both must be at
    /// least 1.
    pub fn new(quota: u32, window_seconds: i64) -> Self {
        Self { rejected: WindowTable::new(quota, window_seconds), accepted: Accepted::default() }
    }

    /// Returns the seconds to wait before this credential may be checked, or `None` if it may be checked now. `hash` is the token's
    /// hash if the credential is a token. A recently valid token never waits, so that other clients behind the same address cannot
    /// lock its user out.
    pub fn wait(&self, address: Option<IpAddr>, hash: Option<&[u8; 32]>, now: Timestamp) -> Option<i64> {
        if hash.is_some_and(|hash| self.accepted.holds(hash)) {
            return None;
        }
        let standing = self.rejected.look(key(address), now.as_seconds());
        standing.over.then_some(standing.reset)
    }

    /// Counts a rejected credential.
    pub fn reject(&self, address: Option<IpAddr>, now: Timestamp) {
        self.rejected.count(key(address), now.as_seconds());
    }

    /// Remembers a valid token.
    pub fn accept(&self, hash: [u8; 32]) {
        self.accepted.remember(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_waits_after_too_many_and_a_good_token_does_not() {
        let guesses = Guesses::new(3, 10);
        let (one, other) = (Some(IpAddr::from([192, 0, 2, 1])), Some(IpAddr::from([192, 0, 2, 2])));
        let at = Timestamp::from_seconds;
        guesses.accept([1; 32]);
        for _ in 0..3 {
            assert_eq!(guesses.wait(one, None, at(100)), None);
            guesses.reject(one, at(100));
        }
        assert_eq!(guesses.wait(one, None, at(104)), Some(6));
        assert_eq!(guesses.wait(one, Some(&[2; 32]), at(104)), Some(6));
        assert_eq!(guesses.wait(one, Some(&[1; 32]), at(104)), None);
        assert_eq!(guesses.wait(other, None, at(104)), None);
        assert_eq!(guesses.wait(one, None, at(110)), None, "a new window");
    }
}
