//! Tokens, sessions and invitations.

use super::Result;
use crate::entities::{Invitation, LastUse, Session, Token, User};
use crate::values::{AccountId, InvitationId, SessionId, Timestamp, TokenId};
use branchyard_auth::HashedToken;

/// API tokens.
pub trait TokenRepository {
    /// Adds a token.
    fn add(&mut self, token: &Token) -> Result<()>;
    /// The token of this hash and its user: one indexed read.
    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Token, User)>>;
    /// Tokens of a user, newest first, after `after`.
    fn list(&mut self, user: AccountId, after: Option<TokenId>, limit: usize) -> Result<Vec<Token>>;
    /// How many unexpired tokens a user has.
    fn count_live(&mut self, user: AccountId, now: Timestamp) -> Result<u64>;
    /// Removes a token of a user; gives it as it was.
    fn remove(&mut self, user: AccountId, token: TokenId) -> Result<Option<Token>>;
    /// Notes the last use of a token.
    fn touch(&mut self, token: TokenId, last_use: &LastUse) -> Result<()>;
}

/// Sessions of browsers.
pub trait SessionRepository {
    /// Adds a session.
    fn add(&mut self, session: &Session) -> Result<()>;
    /// The session of this hash and its user: one indexed read.
    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Session, User)>>;
    /// All sessions of a user, newest first.
    fn list(&mut self, user: AccountId) -> Result<Vec<Session>>;
    /// Notes the last use of a session and when it ends now.
    fn touch(&mut self, session: SessionId, last_use: &LastUse, expires_at: Timestamp) -> Result<()>;
    /// Removes a session of a user; gives whether there was one.
    fn remove(&mut self, user: AccountId, session: SessionId) -> Result<bool>;
    /// Removes sessions that ended at `now` or before; gives how many.
    fn purge(&mut self, now: Timestamp) -> Result<u64>;
}

/// Invitations to sign up.
pub trait InvitationRepository {
    /// Adds an invitation.
    fn add(&mut self, invitation: &Invitation) -> Result<()>;
    /// The invitation of this hash.
    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<Invitation>>;
    /// All invitations, newest first.
    fn list(&mut self) -> Result<Vec<Invitation>>;
    /// Removes an invitation; gives whether there was one.
    fn remove(&mut self, invitation: InvitationId) -> Result<bool>;
    /// Removes invitations that expired at `now` or before; gives how many.
    fn purge(&mut self, now: Timestamp) -> Result<u64>;
}
