//! The key by which limits group requests.

use std::net::IpAddr;

use branchyard_domain::values::AccountId;

use crate::address::address_group;

/// A caller, as limits count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallerKey {
    /// A user, wherever the requests come from.
    User(AccountId),
    /// All anonymous callers of an address ([`crate::address_group`]).
    Address(u128),
}

impl CallerKey {
    /// Returns the key that all anonymous callers at an address share.
    pub(crate) fn of_address(address: Option<IpAddr>) -> Self {
        Self::Address(address.map_or(0, address_group))
    }
}
