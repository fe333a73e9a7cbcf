//! What a transaction that writes keeps to itself.

use std::collections::BTreeSet;

use crate::values::{AccountId, DatabaseId};

/// A row that a transaction keeps from other writers until it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum WriteKey {
    /// What belongs to no account: invitations, the last administrator, the turns of background work, webhooks and their deliveries,
    /// deployments.
    Server,
    /// A user or an organization, with what is limited or named for each of them: databases, members, credentials, uploads.
    Account(AccountId),
    /// A database, with its refs, pull requests, operations and events.
    Database(DatabaseId),
}

/// The keys of a transaction. Transactions that have a key in common run one after the other, and each sees what the earlier ones
/// wrote. Others may run at once.
///
/// A transaction takes its keys when it begins, in the order of [`WriteKey`], so that none waits for one that waits for it. What it
/// writes without holding the key is a fault of the program, which stores find in tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteKeys {
    keys: BTreeSet<WriteKey>,
    shared: BTreeSet<AccountId>,
    is_any: bool,
}

impl WriteKeys {
    /// Returns no keys, for changes that need none: those of single rows that depend on nothing else.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the key of the server.
    pub fn server() -> Self {
        Self::none().and(WriteKey::Server)
    }

    /// Returns the key of a user or an organization.
    pub fn account(id: AccountId) -> Self {
        Self::none().and(WriteKey::Account(id))
    }

    /// Returns the key of a database.
    pub fn database(id: DatabaseId) -> Self {
        Self::none().and(WriteKey::Database(id))
    }

    /// Returns keys that pass for all, but keep only the row of the server. For tests, which prepare their data one after the other.
    pub fn any() -> Self {
        Self { is_any: true, ..Self::server() }
    }

    /// Adds a key.
    #[must_use]
    pub fn and(mut self, key: WriteKey) -> Self {
        self.keys.insert(key);
        self
    }

    /// Adds keys.
    #[must_use]
    pub fn and_all(mut self, keys: impl IntoIterator<Item = WriteKey>) -> Self {
        self.keys.extend(keys);
        self
    }

    /// Adds accounts whose state and memberships the transaction relies on, without changing them. Transactions that share an account
    /// may run at once. One that has it to itself runs before them, or after.
    #[must_use]
    pub fn and_shared(mut self, accounts: impl IntoIterator<Item = AccountId>) -> Self {
        self.shared.extend(accounts);
        self
    }

    /// Returns the accounts that are only shared.
    pub fn shared(&self) -> impl Iterator<Item = AccountId> {
        self.shared.iter().copied().filter(|id| !self.keys.contains(&WriteKey::Account(*id)))
    }

    /// Returns whether a key is among them.
    pub fn contains(&self, key: WriteKey) -> bool {
        self.is_any || self.keys.contains(&key)
    }

    /// Panics unless a key is among them, for stores that find writes without their key.
    #[track_caller]
    pub fn require(&self, key: WriteKey) {
        assert!(self.contains(key), "a transaction writes without {key:?}; it holds {self:?}");
    }

    /// Adds keys, and returns those that were not among them. In builds with debug assertions, panics if one of them comes before a key
    /// that is held.
    #[track_caller]
    pub fn take_further(&mut self, keys: &[WriteKey]) -> Self {
        let further = Self::none().and_all(keys.iter().copied().filter(|key| !self.contains(*key)));
        let first = further.keys.first();
        debug_assert!(first >= self.keys.last() || first.is_none(), "{first:?} is taken too late; held are {self:?}");
        self.keys.extend(&further.keys);
        further
    }

    /// Returns the keys in the order in which they are taken, except for shared accounts.
    pub fn iter(&self) -> impl Iterator<Item = WriteKey> {
        self.keys.iter().copied()
    }
}
