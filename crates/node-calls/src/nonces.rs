//! The nonces of calls, so that each call counts once.

use std::collections::{HashSet, VecDeque};

use crate::statement::LEEWAY_SECONDS;

/// Number of nonces that are kept. A node that makes as many calls within two minutes is refused.
const MOST: usize = 500_000;

pub(crate) type Nonce = [u8; 16];

/// The nonces of the calls that were admitted, for as long as their times are accepted.
#[derive(Default)]
pub(crate) struct UsedNonces {
    used: HashSet<Nonce>,
    /// Each with the time in seconds until which it is kept. Calls come nearly in the order of their times.
    ends: VecDeque<(i64, Nonce)>,
}

/// Whether a nonce may be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NonceUse {
    First,
    Repeated,
    TooMany,
}

impl UsedNonces {
    /// Records the nonce of a call. The time of the call (`at`) and the present one (`now`) are in seconds since 1970.
    pub(crate) fn note(&mut self, nonce: Nonce, at: i64, now: i64) -> NonceUse {
        while let Some((end, ended)) = self.ends.front()
            && *end < now
        {
            self.used.remove(ended);
            self.ends.pop_front();
        }
        if self.used.contains(&nonce) {
            return NonceUse::Repeated;
        }
        if self.used.len() >= MOST {
            return NonceUse::TooMany;
        }
        self.used.insert(nonce);
        // A call whose time is accepted later than that of those behind it only keeps these for longer.
        self.ends.push_back((at + LEEWAY_SECONDS, nonce));
        NonceUse::First
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_used_once_while_its_time_is_accepted() {
        let mut nonces = UsedNonces::default();
        assert_eq!(nonces.note([1; 16], 1_000, 1_000), NonceUse::First);
        assert_eq!(nonces.note([2; 16], 1_060, 1_000), NonceUse::First);
        assert_eq!(nonces.note([1; 16], 1_000, 1_060), NonceUse::Repeated);
        assert_eq!(nonces.note([2; 16], 1_060, 1_120), NonceUse::Repeated);
        assert_eq!(nonces.note([3; 16], 1_121, 1_121), NonceUse::First);
        assert_eq!(nonces.used.len(), 1, "the others are forgotten");
    }

    #[test]
    fn there_is_a_bound() {
        let mut nonces = UsedNonces::default();
        for number in 0..MOST as u128 {
            assert_eq!(nonces.note(number.to_be_bytes(), 1_000, 1_000), NonceUse::First);
        }
        assert_eq!(nonces.note([0xff; 16], 1_000, 1_000), NonceUse::TooMany);
        assert_eq!(nonces.note([0xff; 16], 1_061, 1_061), NonceUse::First);
    }
}
