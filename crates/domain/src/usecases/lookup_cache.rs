//! What was looked up and is still true, because nobody has changed anything since.
//!
//! A request asks the same few things as the one before it: whose token this is, what they may do here, where a branch is. While the
//! [version](Metadata::version) of the store stays the same, so do the answers. Whatever is refused or missing is looked up each time, so that
//! names nobody knows cannot fill the memory.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, PoisonError, RwLock};

use crate::entities::{Database, ObjectKind, Role, Token, User};
use crate::ports::Metadata;
use crate::values::{AccountId, CommitHash, DatabaseId};

/// Answers of one kind that are kept at most; then they are forgotten together.
const MOST: usize = 10_000;

/// Longer names than this are not worth their place.
pub(super) const LONGEST_NAME: usize = 256;

/// What a caller asks for: their id, and the owner and the name of a database as they wrote them.
pub(super) type AccessKey = (Option<AccountId>, String, String);

/// All that is remembered.
#[derive(Default)]
pub(crate) struct Remembered {
    pub(super) tokens: LookupCache<[u8; 32], (Token, Arc<User>)>,
    pub(super) roles: LookupCache<AccessKey, (Database, Role)>,
    pub(super) refs: LookupCache<(DatabaseId, Option<String>), CommitHash>,
    /// Where two commits parted; `None` = they have nothing in common.
    pub(super) merge_bases: LookupCache<(DatabaseId, CommitHash, CommitHash), Option<CommitHash>>,
    /// Kinds of objects that the second commit has beyond the first.
    pub(super) brought: LookupCache<(DatabaseId, CommitHash, CommitHash), Vec<ObjectKind>>,
}

/// Answers of one kind, all of the same version of the store.
pub(crate) struct LookupCache<K, V>(RwLock<CachedEntries<K, V>>);

struct CachedEntries<K, V> {
    version: u64,
    answers: HashMap<K, V>,
}

impl<K, V> Default for LookupCache<K, V> {
    fn default() -> Self {
        Self(RwLock::new(CachedEntries { version: 0, answers: HashMap::new() }))
    }
}

impl<K: Eq + Hash, V: Clone> LookupCache<K, V> {
    /// The answer if it is remembered and still true. Never blocks for long.
    pub(super) fn known(&self, metadata: &dyn Metadata, key: &K) -> Option<V> {
        self.get(metadata.version()?, key)
    }

    /// The answer, remembered or looked up.
    pub(super) fn find<E>(
        &self,
        metadata: &dyn Metadata,
        key: K,
        look: impl FnOnce() -> Result<Option<V>, E>,
    ) -> Result<Option<V>, E> {
        let Some(before) = metadata.version() else { return look() };
        if let Some(known) = self.get(before, &key) {
            return Ok(Some(known));
        }
        let found = look()?;
        // Looked up in a state that is neither older nor newer than the version says.
        if let Some(value) = &found
            && metadata.version() == Some(before)
        {
            self.put(before, key, value.clone());
        }
        Ok(found)
    }

    /// Returns the answer, remembered or looked up, of a kind that stays true whatever changes in the store.
    pub(super) fn find_fixed<E>(&self, key: K, look: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        if let Some(known) = self.get(0, &key) {
            return Ok(known);
        }
        let found = look()?;
        self.put(0, key, found.clone());
        Ok(found)
    }

    fn get(&self, version: u64, key: &K) -> Option<V> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.version == version { known.answers.get(key).cloned() } else { None }
    }

    fn put(&self, version: u64, key: K, value: V) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.version != version || known.answers.len() >= MOST {
            known.answers.clear();
            known.version = version;
        }
        known.answers.insert(key, value);
    }
}
