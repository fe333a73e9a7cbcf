//! Bearer tokens of any kind: API tokens of users, and access tokens of applications.

use std::sync::Arc;

use branchyard_auth::BearerHash;

use super::{CheckedAccess, Hub};
use crate::entities::{LastUse, Token, User};
use crate::errors::PortError;
use crate::ports::RequestTarget;
use crate::values::{Scope, Timestamp};

/// A token that is valid.
#[derive(Debug, Clone)]
pub enum ValidToken {
    /// An API token, with its user.
    Api(Token, Arc<User>),
    /// An access token of an application.
    Access(CheckedAccess),
}

impl ValidToken {
    /// Returns the user that the token acts for.
    pub fn user(&self) -> &Arc<User> {
        match self {
            Self::Api(_, user) => user,
            Self::Access(checked) => &checked.user,
        }
    }

    /// Returns what the token allows. An API token allows all that its user may do.
    pub fn scope(&self) -> Scope {
        match self {
            Self::Api(..) => Scope::ReadWrite,
            Self::Access(checked) => checked.access.scope,
        }
    }

    /// Returns when the token expires.
    pub fn expires_at(&self) -> Timestamp {
        match self {
            Self::Api(token, _) => token.expires_at,
            Self::Access(checked) => checked.access.expires_at,
        }
    }

    /// Returns the recorded last use, of an access token that of its grant.
    pub fn last_use(&self) -> Option<&LastUse> {
        match self {
            Self::Api(token, _) => token.last_use.as_ref(),
            Self::Access(checked) => checked.grant.last_use.as_ref(),
        }
    }
}

impl Hub {
    /// Returns a token if it is valid. May read what the current call needs next, about `target`, in the same statement.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn check_token(
        &self,
        token: &BearerHash,
        target: Option<&RequestTarget>,
    ) -> Result<Option<ValidToken>, PortError> {
        Ok(match token {
            BearerHash::Api(hash) => {
                self.tokens().check_for(hash, target)?.map(|(token, user)| ValidToken::Api(token, user))
            }
            BearerHash::Access(hash) => self.grants().check(hash)?.map(ValidToken::Access),
        })
    }

    /// Returns a valid token if it is in the cache. Never blocks. `None` does not mean that the token is invalid.
    pub fn known_token(&self, token: &BearerHash) -> Option<ValidToken> {
        match token {
            BearerHash::Api(hash) => self.tokens().known(hash).map(|(token, user)| ValidToken::Api(token, user)),
            BearerHash::Access(hash) => self.grants().known(hash).map(ValidToken::Access),
        }
    }

    /// Records the last use of a token, of an access token that of its grant. Callers do this in batches, off the request path.
    ///
    /// # Errors
    /// [`PortError`] if the store fails.
    pub fn touch_token(&self, token: &ValidToken, last_use: &LastUse) -> Result<(), PortError> {
        match token {
            ValidToken::Api(token, _) => self.tokens().touch(token.id, last_use),
            ValidToken::Access(checked) => self.grants().touch(checked.grant.id, last_use),
        }
    }
}
