//! The key by which limits group requests.

use std::net::{IpAddr, Ipv6Addr};

use branchyard_domain::values::AccountId;

/// A caller, as limits count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallerKey {
    /// A user, from any address.
    User(AccountId),
    /// All anonymous callers of an address group ([`crate::address_group`]).
    Address(u128),
}

impl CallerKey {
    /// Returns the key that all anonymous callers at an address share.
    pub fn of_address(address: Option<IpAddr>) -> Self {
        Self::Address(address.map_or(0, address_group))
    }
}

/// Returns the group of an address that limits count as one: a single IPv4 address, or an IPv6 /64.
pub fn address_group(address: IpAddr) -> u128 {
    const UPPER_HALF: u128 = u128::MAX << 64;
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => Ipv6Addr::to_bits(v6) & UPPER_HALF,
    }
}

#[cfg(test)]
mod tests {
    use super::address_group;

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let key = |text: &str| address_group(text.parse().unwrap());
        assert_eq!(key("2001:db8::1"), key("2001:db8::ffff:1"));
        assert_ne!(key("2001:db8::1"), key("2001:db8:0:1::1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
        assert_eq!(key("2001:db8:0:1::"), key("2001:db8:0:1:ffff:ffff:ffff:ffff"));
    }
}
