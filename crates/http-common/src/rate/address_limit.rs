//! Counts requests of each address.

use std::net::IpAddr;

use branchyard_domain::values::Timestamp;

use super::key;
use super::table::WindowTable;

/// A limit for each address (IPv6: for each /64). A process needs one instance, shared by all workers.
pub struct AddressLimit(WindowTable);

impl AddressLimit {
    /// Allows `quota` requests of an address in `window_seconds`. Both must be at least 1.
    pub fn new(quota: u32, window_seconds: i64) -> Self {
        Self(WindowTable::new(quota, window_seconds))
    }

    /// Counts a request. Returns the seconds to wait if it exceeds the limit.
    pub fn count(&self, address: Option<IpAddr>, now: Timestamp) -> Option<i64> {
        let state = self.0.count(key(address), now.as_seconds());
        state.over.then_some(state.reset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_own_limit() {
        let limit = AddressLimit::new(2, 10);
        let (one, other) = (Some(IpAddr::from([192, 0, 2, 1])), Some(IpAddr::from([192, 0, 2, 2])));
        let at = Timestamp::from_seconds;
        assert_eq!([limit.count(one, at(100)), limit.count(one, at(101))], [None, None]);
        assert_eq!(limit.count(one, at(104)), Some(6));
        assert_eq!(limit.count(other, at(104)), None);
        assert_eq!(limit.count(one, at(110)), None, "a new window");
    }
}
