//! Counts failed attempts to redeem codes and tokens of OAuth, by address and by application.

use std::net::IpAddr;

use branchyard_domain::values::{ApplicationId, Timestamp};
use sha2::{Digest as _, Sha256};

use super::key;
use super::table::WindowTable;

/// Length of a window in seconds.
const WINDOW_SECONDS: i64 = 60;

/// Failed attempts in a window. A process needs one instance, shared by all workers. Valid codes and tokens pass whatever was counted, so
/// that no client can lock out the users of another one.
pub struct FailedAttempts {
    by_address: WindowTable,
    by_application: WindowTable,
}

impl Default for FailedAttempts {
    fn default() -> Self {
        Self {
            by_address: WindowTable::new(Self::PER_ADDRESS, WINDOW_SECONDS),
            by_application: WindowTable::new(Self::PER_APPLICATION, WINDOW_SECONDS),
        }
    }
}

impl FailedAttempts {
    /// Maximum number of failed attempts of one address (IPv6: of its /64) in a minute.
    pub const PER_ADDRESS: u32 = 20;

    /// Number of failed attempts with the client identifier of one application in a minute from which on each address has only
    /// [`FailedAttempts::PER_ADDRESS_UNDER_ATTACK`] attempts with it.
    pub const PER_APPLICATION: u32 = 600;

    /// Maximum number of failed attempts of one address with an application that many addresses guess for. A client whose access has ended
    /// still learns of it.
    pub const PER_ADDRESS_UNDER_ATTACK: u32 = 3;

    /// Counts a failed attempt. Returns the seconds to wait if it exceeds a limit.
    pub fn count(&self, address: Option<IpAddr>, application: &ApplicationId, now: Timestamp) -> Option<i64> {
        let mut name = [0; 16];
        name.copy_from_slice(&Sha256::digest(application.as_str())[..16]);
        let of_address = self.by_address.count(key(address), now.as_seconds());
        let of_application = self.by_application.count(u128::from_be_bytes(name), now.as_seconds());
        let attempts = Self::PER_ADDRESS - of_address.left;
        if of_address.over {
            Some(of_address.reset)
        } else if of_application.over && attempts > Self::PER_ADDRESS_UNDER_ATTACK {
            Some(of_application.reset)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_an_application_have_a_limit_each() {
        let attempts = FailedAttempts::default();
        let (one, other) = (ApplicationId::parse("one").unwrap(), ApplicationId::parse("other").unwrap());
        let address = |n: u32| Some(IpAddr::from(n.to_be_bytes()));
        let at = Timestamp::from_seconds;
        for _ in 0..FailedAttempts::PER_ADDRESS {
            assert_eq!(attempts.count(address(1), &one, at(100)), None);
        }
        assert_eq!(attempts.count(address(1), &other, at(110)), Some(50));
        assert_eq!(attempts.count(address(2), &one, at(110)), None);
        assert_eq!(attempts.count(address(1), &one, at(160)), None, "a new window");
        let attempts = FailedAttempts::default();
        for n in 0..FailedAttempts::PER_APPLICATION {
            assert_eq!(attempts.count(address(n), &one, at(100)), None);
        }
        for _ in 0..FailedAttempts::PER_ADDRESS_UNDER_ATTACK {
            assert_eq!(attempts.count(address(1_000_000), &one, at(101)), None);
            assert_eq!(attempts.count(address(1_000_001), &other, at(101)), None);
        }
        assert_eq!(attempts.count(address(1_000_000), &one, at(101)), Some(59));
        assert_eq!(attempts.count(address(1_000_001), &other, at(101)), None);
    }
}
