//! Whose requests limits count together.

use std::net::IpAddr;

use branchyard_domain::access::Caller;
use branchyard_domain::values::AccountId;

use crate::address::address_group;

/// A caller, as limits count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CallerKey {
    /// A user, wherever the requests come from.
    User(AccountId),
    /// Those without a credential, by address ([`crate::address_group`]).
    Address(u128),
}

impl CallerKey {
    /// The key of a caller whose requests come from an address.
    pub(crate) fn new(caller: &Caller, address: Option<IpAddr>) -> Self {
        caller.user().map_or_else(|| Self::of_address(address), |user| Self::User(user.id))
    }

    /// The key of those without a credential at an address.
    pub(crate) fn of_address(address: Option<IpAddr>) -> Self {
        Self::Address(address.map_or(0, address_group))
    }
}
