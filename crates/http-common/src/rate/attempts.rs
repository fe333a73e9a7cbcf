//! Counts attempts to sign in by account and by address, to prevent brute-force attacks on passwords.

use sha2::{Digest as _, Sha256};
use std::net::IpAddr;

use branchyard_domain::values::Timestamp;

use super::{key, table::WindowTable};

/// Limits on attempts to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignInLimits {
    /// Maximum attempts for one account from all addresses; 0 disables the limit.
    pub per_account: u32,
    /// Maximum attempts from one address (IPv6: per /64) for all accounts; 0 disables the limit.
    pub per_address: u32,
    /// Length of the window in seconds.
    pub window_seconds: i64,
}

impl Default for SignInLimits {
    fn default() -> Self {
        Self { per_account: 20, per_address: 60, window_seconds: 900 }
    }
}

/// Counts attempts per account and per address.
pub struct SignInAttempts {
    accounts: Option<WindowTable>,
    addresses: Option<WindowTable>,
}

impl SignInAttempts {
    /// Creates counters at zero.
    pub fn new(limits: SignInLimits) -> Self {
        let table = |quota: u32| (quota > 0).then(|| WindowTable::new(quota, limits.window_seconds));
        Self { accounts: table(limits.per_account), addresses: table(limits.per_address) }
    }

    /// Counts an attempt. Returns the seconds to wait if the attempt exceeds a limit. The account need not exist.
    pub fn count(&self, account: &str, address: Option<IpAddr>, now: Timestamp) -> Option<i64> {
        let digest: [u8; 32] = Sha256::digest(account.to_ascii_lowercase()).into();
        let account = digest.iter().take(16).fold(0_u128, |key, byte| key << 8 | u128::from(*byte));
        let now = now.as_seconds();
        let count = |table: &Option<WindowTable>, key| table.as_ref().map(|table| table.count(key, now));
        // The address is counted first. Once it is over its limit, its attempts do not use up the account's limit.
        let address = count(&self.addresses, key(address)).filter(|standing| standing.over);
        let standing = address.or_else(|| count(&self.accounts, account).filter(|standing| standing.over));
        standing.map(|standing| standing.reset)
    }
}

#[cfg(test)]
mod tests {
    use super::{SignInAttempts, SignInLimits};
    use branchyard_domain::values::Timestamp;
    use std::net::{IpAddr, Ipv4Addr};

    fn from(last: u8) -> Option<IpAddr> {
        Some(Ipv4Addr::new(192, 0, 2, last).into())
    }

    #[test]
    fn accounts_and_addresses_are_counted_apart() {
        let attempts = SignInAttempts::new(SignInLimits { per_account: 2, per_address: 3, window_seconds: 60 });
        let at = Timestamp::from_seconds;
        assert_eq!(attempts.count("ann", from(1), at(0)), None);
        assert_eq!(attempts.count("ANN", from(2), at(10)), None);
        assert_eq!(attempts.count("ann", from(3), at(20)), Some(40), "the account, from wherever");
        assert_eq!(attempts.count("bob", from(1), at(20)), None);
        assert_eq!(attempts.count("cyn", from(1), at(20)), None);
        assert_eq!(attempts.count("dan", from(1), at(20)), Some(40), "the address, whatever the account");
        assert_eq!(attempts.count("dan", from(4), at(20)), None);
        assert_eq!(attempts.count("ann", from(1), at(60)), None, "a new window");
    }

    #[test]
    fn zero_is_no_limit() {
        let attempts = SignInAttempts::new(SignInLimits { per_account: 0, per_address: 0, window_seconds: 60 });
        assert!((0..100).all(|n| attempts.count("ann", from(1), Timestamp::from_seconds(n)).is_none()));
    }
}
