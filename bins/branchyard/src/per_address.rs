//! Limits on connections or requests in flight per client address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use branchyard_executor::address_group;
use parking_lot::Mutex;

/// Counts open connections or requests per address and rejects those above a limit. IPv6 addresses are counted per /64 network.
/// Addresses with nothing open are not stored.
#[derive(Clone)]
pub(crate) struct PerAddress(Arc<AddressCounts>);

struct AddressCounts {
    /// Limit per address; 0 means no limit.
    most: usize,
    open: Mutex<HashMap<u128, usize>>,
}

/// A permit for one open connection or request. Dropping the permit releases it.
pub(crate) struct AddressPermit {
    counts: PerAddress,
    group: u128,
}

impl PerAddress {
    /// Creates a limiter that allows `most` permits per address; 0 means no limit.
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(AddressCounts { most, open: Mutex::default() }))
    }

    /// Takes a permit. Returns `None` if the address is at its limit.
    pub(crate) fn enter(&self, address: IpAddr) -> Option<AddressPermit> {
        let group = address_group(address.to_canonical());
        let mut open = self.0.open.lock();
        let count = open.entry(group).or_default();
        if self.0.most > 0 && *count >= self.0.most {
            return None;
        }
        *count += 1;
        Some(AddressPermit { counts: self.clone(), group })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut open = self.counts.0.open.lock();
        if let Some(count) = open.get_mut(&self.group) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.group);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::PerAddress;

    fn at(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_has_its_number_and_an_ipv6_network_counts_as_one() {
        let counts = PerAddress::new(2);
        for [first, second, third, other] in [
            ["192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"],
            ["2001:db8::1", "2001:db8::ffff:1", "2001:db8::2", "2001:db8:0:1::1"],
        ] {
            let held = [counts.enter(at(first)), counts.enter(at(second))];
            assert!(held.iter().all(Option::is_some), "at the limit");
            assert!(counts.enter(at(third)).is_none(), "past the limit");
            assert!(counts.enter(at(other)).is_some(), "another address");
            drop(held);
            assert!(counts.enter(at(third)).is_some(), "places come back");
        }
        assert!(counts.0.open.lock().is_empty());
    }

    #[test]
    fn zero_is_no_limit() {
        let counts = PerAddress::new(0);
        let held: Vec<_> = (0..1_000).map(|_| counts.enter(at("192.0.2.1"))).collect();
        assert!(held.iter().all(Option::is_some));
    }
}
