//! The keys of users.

use branchyard_auth::RemoteKeyId;

use super::{MemoryTransaction, Result, count, missing, page};
use branchyard_domain::entities::{User, UserKey};
use branchyard_domain::ports::{MetadataError, UserKeyRepository, WriteKey};
use branchyard_domain::values::{AccountId, Timestamp, UserKeyId};

impl UserKeyRepository for MemoryTransaction<'_> {
    fn add(&mut self, key: &UserKey) -> Result<()> {
        self.needs(WriteKey::Account(key.user_id));
        if !self.state.users.contains_key(&key.user_id) {
            return Err(missing("add a key"));
        }
        if self.state.user_keys.values().any(|other| other.public_key == key.public_key) {
            return Err(MetadataError::Taken);
        }
        self.change()?.user_keys.insert(key.id, key.clone());
        Ok(())
    }

    fn by_kid(&mut self, kid: &RemoteKeyId) -> Result<Option<(UserKey, User)>> {
        let Some(key) = self.state.user_keys.values().find(|key| key.kid == *kid) else { return Ok(None) };
        let is_deleted = self.state.retired.contains_key(&key.user_id);
        Ok(self.state.users.get(&key.user_id).filter(|_| !is_deleted).map(|user| (key.clone(), user.clone())))
    }

    fn list(&mut self, user: AccountId, after: Option<UserKeyId>, limit: usize) -> Result<Vec<UserKey>> {
        let of_user = self.state.user_keys.values().rev().filter(|key| key.user_id == user);
        Ok(page(of_user.filter(|key| after.is_none_or(|after| key.id < after)).cloned(), limit))
    }

    fn count(&mut self, user: AccountId) -> Result<u64> {
        Ok(count(self.state.user_keys.values().filter(|key| key.user_id == user).count()))
    }

    fn remove(&mut self, user: AccountId, key: UserKeyId) -> Result<Option<UserKey>> {
        self.needs(WriteKey::Account(user));
        if self.state.user_keys.get(&key).is_none_or(|key| key.user_id != user) {
            return Ok(None);
        }
        Ok(self.change()?.user_keys.remove(&key))
    }

    fn touch(&mut self, key: UserKeyId, at: Timestamp) -> Result<()> {
        if let Some(key) = self.change()?.user_keys.get_mut(&key) {
            key.last_used_at = Some(at);
        }
        Ok(())
    }
}
