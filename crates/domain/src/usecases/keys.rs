//! Keys of users, with which clients of the engine sign their requests.

use std::sync::Arc;

use branchyard_auth::{PublicKey, RemoteKeyId};

use super::{IdempotencyRecord, Inner, idempotency};
use crate::entities::{User, UserKey};
use crate::errors::{KeyError, PortError};
use crate::ports::{Durability, MetadataError, WriteKeys};
use crate::values::{Timestamp, TokenName, UserKeyId};

/// Use cases of the keys of users.
pub struct Keys<'a>(&'a Inner);

impl<'a> Keys<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Adds a key of a user.
    ///
    /// # Errors
    /// [`KeyError::Invalid`] if the name is not 1–100 characters long; [`KeyError::Taken`] if a user has the key, maybe another
    /// one; [`KeyError::TooMany`] with the limit.
    pub fn add(
        &self,
        user: &User,
        name: &str,
        public_key: PublicKey,
        once: Option<&IdempotencyRecord<'_, UserKey>>,
    ) -> Result<UserKey, KeyError> {
        let name = TokenName::parse(name)?;
        let now = self.0.now();
        let key = UserKey {
            id: UserKeyId::from_uuid(self.0.ports.ids.uuid(now)),
            user_id: user.id,
            name: name.into_string(),
            public_key,
            kid: public_key.id(),
            created_at: now,
            last_used_at: None,
        };
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let limit = self.0.limits.keys_per_user;
        if tx.user_keys().count(user.id)? >= limit {
            return Err(KeyError::TooMany(limit));
        }
        match tx.user_keys().add(&key) {
            Err(MetadataError::Taken) => return Err(KeyError::Taken),
            other => other?,
        }
        idempotency::keep(self.0, tx.as_mut(), once, &key, now)?;
        tx.commit(Durability::Synced)?;
        Ok(key)
    }

    /// Returns up to `limit` keys of a user, newest first, starting after `after`.
    ///
    /// # Errors
    /// [`KeyError::Port`].
    pub fn list(&self, user: &User, after: Option<UserKeyId>, limit: usize) -> Result<Vec<UserKey>, KeyError> {
        Ok(self.0.ports.metadata.read()?.user_keys().list(user.id, after, limit)?)
    }

    /// Removes a key of a user and returns it. It is refused from the next request on.
    ///
    /// # Errors
    /// [`KeyError::NoSuchKey`], also if the key belongs to another user.
    pub fn remove(&self, user: &User, id: UserKeyId) -> Result<UserKey, KeyError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let key = tx.user_keys().remove(user.id, id)?.ok_or(KeyError::NoSuchKey)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(key)
    }

    /// Returns a key and its user by the id that a client names, or `None` if the key is unknown or removed, or its user is
    /// suspended. Whether the client has the private half is for the caller to find out.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn find(&self, kid: &RemoteKeyId) -> Result<Option<(UserKey, Arc<User>)>, PortError> {
        let metadata = self.0.ports.metadata.as_ref();
        let look = || -> Result<_, PortError> {
            let found = metadata.read()?.user_keys().by_kid(kid)?;
            Ok(found.map(|(key, user)| (key, Arc::new(user))))
        };
        let found = self.0.remembered.keys.find(metadata, kid.clone(), look)?;
        Ok(found.filter(|(_, user)| user.suspended_at.is_none()))
    }

    /// Records the last use of a key. Callers do this in batches, off the request path.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn touch(&self, id: UserKeyId, at: Timestamp) -> Result<(), PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        tx.user_keys().touch(id, at)?;
        Ok(tx.commit(Durability::Synced)?)
    }
}
