//! Caches of metadata lookups, valid for one version of the store.
//!
//! Consecutive requests repeat the same lookups: the user of a token, the role on a database, the commit of a ref. Cached
//! values stay valid as long as the [version](Metadata::version) of the store is the same, those that decide who may do
//! what as long as the [version of the rights](Metadata::rights_version) is. Failed lookups and lookups
//! without a result are not cached, so that requests for unknown names cannot fill the memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::RwLock;

use branchyard_auth::RemoteKeyId;

use super::grants::CheckedAccess;
use super::upstream::{CommitCount, CommitIn};
use crate::access::Caller;
use crate::entities::{Database, ObjectKind, Role, Token, User, UserKey};
use crate::ports::{DatabaseCounts, Metadata};
use crate::values::{AccountId, CommitHash, DatabaseId};

/// Maximum number of entries in one cache. A full cache is cleared.
const MOST: usize = 10_000;

/// Maximum length in bytes of names that are cached.
pub(super) const LONGEST_NAME: usize = 256;

/// The key of a role: the caller's id, and the owner and name of the database as written by the caller.
pub(super) type AccessKey = (Option<AccountId>, String, String);

/// Returns the key of a caller's role on `owner/name`.
pub(super) fn access_key(caller: &Caller, owner: &str, name: &str) -> AccessKey {
    (caller.user().map(|user| user.id), owner.to_owned(), name.to_owned())
}

/// All lookup caches.
pub(crate) struct Remembered {
    pub(super) tokens: LookupCache<[u8; 32], (Token, Arc<User>)>,
    pub(super) keys: LookupCache<RemoteKeyId, (UserKey, Arc<User>)>,
    pub(super) access_tokens: LookupCache<[u8; 32], CheckedAccess>,
    /// The databases are as of the last change of rights: what a write changes of them may be older than the store.
    pub(super) roles: LookupCache<AccessKey, (Database, Role)>,
    pub(super) refs: LookupCache<(DatabaseId, Option<String>), CommitHash>,
    /// The numbers of branches, tags, releases and open pull requests.
    pub(super) counts: LookupCache<DatabaseId, DatabaseCounts>,
    /// The merge base of two commits; `None` if they have no common ancestor.
    pub(super) merge_bases: LookupCache<(DatabaseId, CommitHash, CommitHash), Option<CommitHash>>,
    /// The numbers of commits that only one of two commits reaches: of the second one, and of the first one.
    pub(super) diverged: LookupCache<(DatabaseId, CommitHash, CommitHash), (usize, usize)>,
    /// The number of commits that the first commit reaches and the second one, which may be of another database, does not.
    pub(super) only_in: LookupCache<(CommitIn, CommitIn), CommitCount>,
    /// The kinds of objects that the second commit adds to those of the first.
    pub(super) brought: LookupCache<(DatabaseId, CommitHash, CommitHash), Vec<ObjectKind>>,
    /// The number of rows of a table at a commit that pass tests. The digest is of the table's name and the tests.
    pub(super) rows: LookupCache<(DatabaseId, CommitHash, [u8; 32]), u64>,
}

impl Default for Remembered {
    fn default() -> Self {
        Self {
            tokens: LookupCache::new(|metadata| metadata.rights_version()),
            keys: LookupCache::new(|metadata| metadata.rights_version()),
            access_tokens: LookupCache::new(|metadata| metadata.rights_version()),
            roles: LookupCache::new(|metadata| metadata.rights_version()),
            refs: LookupCache::new(|metadata| metadata.version()),
            counts: LookupCache::new(|metadata| metadata.version()),
            merge_bases: LookupCache::new(|_| None),
            diverged: LookupCache::new(|_| None),
            only_in: LookupCache::new(|_| None),
            brought: LookupCache::new(|_| None),
            rows: LookupCache::new(|_| None),
        }
    }
}

/// A cache of one kind of lookup. All entries belong to the same version.
pub(crate) struct LookupCache<K, V> {
    entries: RwLock<CachedEntries<K, V>>,
    version: fn(&dyn Metadata) -> Option<u64>,
}

struct CachedEntries<K, V> {
    version: u64,
    answers: HashMap<K, V>,
}

impl<K: Eq + Hash, V: Clone> LookupCache<K, V> {
    /// Creates a cache whose entries are valid for one version of the store.
    pub(super) fn new(version: fn(&dyn Metadata) -> Option<u64>) -> Self {
        Self { entries: RwLock::new(CachedEntries { version: 0, answers: HashMap::new() }), version }
    }

    /// Returns the cached value if it is still valid. Never blocks for long.
    pub(super) fn known(&self, metadata: &dyn Metadata, key: &K) -> Option<V> {
        self.get((self.version)(metadata)?, key)
    }

    /// Returns the cached value, or calls `look` and caches what it finds.
    pub(super) fn find<E>(
        &self,
        metadata: &dyn Metadata,
        key: K,
        look: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        let Some(before) = (self.version)(metadata) else { return look() };
        if let Some(known) = self.get(before, &key) {
            return Ok(Some(known));
        }
        let found = look()?;
        if let Some(value) = &found {
            self.note(Some(before), metadata, key, value.clone());
        }
        Ok(found)
    }

    /// Returns the cached value, or calls `look` and caches its result. For values that do not depend on the version of the
    /// store.
    pub(super) fn find_fixed<E>(&self, key: K, look: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        if let Some(known) = self.get(0, &key) {
            return Ok(known);
        }
        let found = look()?;
        self.put(0, key, found.clone());
        Ok(found)
    }

    /// Returns a cached value that does not depend on the version of the store.
    pub(super) fn known_fixed(&self, key: &K) -> Option<V> {
        self.get(0, key)
    }

    /// Caches a value that does not depend on the version of the store.
    pub(super) fn note_fixed(&self, key: K, value: V) {
        self.put(0, key, value);
    }

    /// Caches a value that was found while the store had version `before`, unless it has another one by now.
    pub(super) fn note(&self, before: Option<u64>, metadata: &dyn Metadata, key: K, value: V) {
        if let Some(before) = before
            && (self.version)(metadata) == Some(before)
        {
            self.put(before, key, value);
        }
    }

    fn get(&self, version: u64, key: &K) -> Option<V> {
        let known = self.entries.read();
        if known.version == version { known.answers.get(key).cloned() } else { None }
    }

    fn put(&self, version: u64, key: K, value: V) {
        let mut known = self.entries.write();
        if known.version != version || known.answers.len() >= MOST {
            known.answers.clear();
            known.version = version;
        }
        known.answers.insert(key, value);
    }
}
