//! API tokens.

use std::sync::Arc;

use branchyard_auth::{HashedToken, PlainToken};

use super::{IdempotencyRecord, Inner, idempotency};
use crate::access::visibility::role_of_user;
use crate::call_context::{self, Foreseen};
use crate::entities::{LastUse, Token, User};
use crate::errors::{PortError, TokenError};
use crate::ports::{Durability, RequestFacts, RequestTarget, TargetDatabase, WriteKeys};
use crate::values::{TokenExpiry, TokenId, TokenName};

/// A new token with its secret, which is readable only now.
#[derive(Debug)]
pub struct MintedToken {
    /// The stored token.
    pub token: Token,
    /// The secret, which the caller sends with requests.
    pub secret: PlainToken,
}

/// Use cases of API tokens.
pub struct Tokens<'a>(&'a Inner);

impl<'a> Tokens<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Creates a token for a user.
    ///
    /// # Errors
    /// [`TokenError::Invalid`] if the name is not 1–100 characters long; [`TokenError::TooMany`] with the number of
    /// unexpired tokens.
    pub fn create(
        &self,
        user: &User,
        name: &str,
        expiry: TokenExpiry,
        secret: PlainToken,
        once: Option<&IdempotencyRecord<'_, MintedToken>>,
    ) -> Result<MintedToken, TokenError> {
        let name = TokenName::parse(name)?;
        let now = self.0.now();
        let token = Token {
            id: TokenId::from_uuid(self.0.ports.ids.uuid(now)),
            user_id: user.id,
            name: name.into_string(),
            hash: secret.hash(),
            created_at: now,
            expires_at: now.plus_seconds(i64::from(expiry.days()) * 86_400),
            last_use: None,
        };
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let live = tx.tokens().count_live(user.id, now)?;
        if live >= self.0.limits.tokens_per_user {
            return Err(TokenError::TooMany(live));
        }
        tx.tokens().add(&token)?;
        let minted = MintedToken { token, secret };
        idempotency::keep(self.0, tx.as_mut(), once, &minted, now)?;
        tx.commit(Durability::Synced)?;
        Ok(minted)
    }

    /// Returns a new secret for [`Tokens::create`], from the hub's source of randomness.
    pub fn mint(&self) -> PlainToken {
        PlainToken::mint_from(&mut |buffer| self.0.ports.ids.fill(buffer))
    }

    /// Returns up to `limit` tokens of a user, newest first, starting after `after`.
    ///
    /// # Errors
    /// [`TokenError::Port`].
    pub fn list(&self, user: &User, after: Option<TokenId>, limit: usize) -> Result<Vec<Token>, TokenError> {
        Ok(self.0.ports.metadata.read()?.tokens().list(user.id, after, limit)?)
    }

    /// Deletes a token of a user and returns it. It is rejected from the next request on.
    ///
    /// # Errors
    /// [`TokenError::NoSuchToken`], also if the token belongs to another user.
    pub fn delete(&self, user: &User, id: TokenId) -> Result<Token, TokenError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let token = tx.tokens().remove(user.id, id)?.ok_or(TokenError::NoSuchToken)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(token)
    }

    /// Returns a token and its user, or `None` if the token is unknown, deleted or expired, or its user is suspended.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn check(&self, hash: &HashedToken) -> Result<Option<(Token, Arc<User>)>, PortError> {
        self.check_for(hash, None)
    }

    /// Works like [`Tokens::check`]. May read what the current call needs next, about `target`, in the same statement.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn check_for(
        &self,
        hash: &HashedToken,
        target: Option<&RequestTarget>,
    ) -> Result<Option<(Token, Arc<User>)>, PortError> {
        let metadata = self.0.ports.metadata.as_ref();
        let look = || -> Result<_, PortError> {
            Ok(metadata.request_facts(hash, target)?.map(|facts| foresee(facts, target)))
        };
        let found = self.0.remembered.tokens.find(metadata, *hash.as_bytes(), look)?;
        Ok(self.live(found))
    }

    /// Returns a token and its user if they are in the cache. Never blocks. `None` does not mean that the token is invalid.
    pub fn known(&self, hash: &HashedToken) -> Option<(Token, Arc<User>)> {
        self.live(self.0.remembered.tokens.known(self.0.ports.metadata.as_ref(), hash.as_bytes()))
    }

    fn live(&self, found: Option<(Token, Arc<User>)>) -> Option<(Token, Arc<User>)> {
        let now = self.0.now();
        found.filter(|(token, user)| !token.expired(now) && user.suspended_at.is_none())
    }

    /// Records the last use of a token. Callers do this in batches, off the request path.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn touch(&self, id: TokenId, last_use: &LastUse) -> Result<(), PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        tx.tokens().touch(id, last_use)?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }
}

/// Keeps what was read with a token for the next look-ups of the call.
fn foresee(facts: RequestFacts, target: Option<&RequestTarget>) -> (Token, Arc<User>) {
    let RequestFacts { token, user, database } = facts;
    if let (Some(found), Some(target)) = (database, target) {
        let role = role_of_user(&user, &found);
        let TargetDatabase { database, head, .. } = found;
        let mut foreseen = Foreseen::now();
        foreseen.head = head.map(|head| (database.id, target.branch.clone(), head));
        foreseen.format = Some((database.id, database.engine_format));
        foreseen.access = role.map(|role| (user.id, database, role));
        call_context::foresee(foreseen);
    }
    (token, Arc::new(user))
}
