//! Tokens, sessions and invitations.

use super::Result;
use crate::entities::{Invitation, LastUse, Session, Token, User, UserKey};
use crate::values::{AccountId, InvitationId, SessionId, Timestamp, TokenId, UserKeyId};
use branchyard_auth::{HashedToken, RemoteKeyId};

/// The repository of API tokens.
pub trait TokenRepository {
    /// Adds a token.
    fn add(&mut self, token: &Token) -> Result<()>;
    /// Returns the token with this hash and its user, with one indexed read.
    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Token, User)>>;
    /// Returns a token by its id.
    fn get(&mut self, id: TokenId) -> Result<Option<Token>>;
    /// Lists the tokens of a user, newest first, after `after`.
    fn list(&mut self, user: AccountId, after: Option<TokenId>, limit: usize) -> Result<Vec<Token>>;
    /// Counts the unexpired tokens of a user.
    fn count_live(&mut self, user: AccountId, now: Timestamp) -> Result<u64>;
    /// Removes a token of a user and returns it.
    fn remove(&mut self, user: AccountId, token: TokenId) -> Result<Option<Token>>;
    /// Records the last use of a token.
    fn touch(&mut self, token: TokenId, last_use: &LastUse) -> Result<()>;
}

/// The repository of the keys of users.
pub trait UserKeyRepository {
    /// Adds a key. Returns `MetadataError::Taken` if a user has it already.
    fn add(&mut self, key: &UserKey) -> Result<()>;
    /// Returns the key with this id of clients and its user, with one indexed read.
    fn by_kid(&mut self, kid: &RemoteKeyId) -> Result<Option<(UserKey, User)>>;
    /// Lists the keys of a user, newest first, after `after`.
    fn list(&mut self, user: AccountId, after: Option<UserKeyId>, limit: usize) -> Result<Vec<UserKey>>;
    /// Counts the keys of a user.
    fn count(&mut self, user: AccountId) -> Result<u64>;
    /// Removes a key of a user and returns it.
    fn remove(&mut self, user: AccountId, key: UserKeyId) -> Result<Option<UserKey>>;
    /// Records when a key was used last.
    fn touch(&mut self, key: UserKeyId, at: Timestamp) -> Result<()>;
}

/// The repository of browser sessions.
pub trait SessionRepository {
    /// Adds a session.
    fn add(&mut self, session: &Session) -> Result<()>;
    /// Returns the session with this hash and its user, with one indexed read.
    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<(Session, User)>>;
    /// Returns a session by its id.
    fn get(&mut self, id: SessionId) -> Result<Option<Session>>;
    /// Lists all sessions of a user, newest first.
    fn list(&mut self, user: AccountId) -> Result<Vec<Session>>;
    /// Records the last use of a session and its new expiry.
    fn touch(&mut self, session: SessionId, last_use: &LastUse, expires_at: Timestamp) -> Result<()>;
    /// Records that the user entered the password in a session.
    fn confirm(&mut self, session: SessionId, at: Timestamp) -> Result<()>;
    /// Removes a session of a user. Returns `true` if it existed.
    fn remove(&mut self, user: AccountId, session: SessionId) -> Result<bool>;
    /// Removes sessions that expired at `now` or before. Returns how many.
    fn purge(&mut self, now: Timestamp) -> Result<u64>;
    /// Counts an attempt to sign in, and returns the window of its subject. A window that began at or before `ended` is over: the attempt
    /// begins another one at `now`. A transaction that counts several subjects counts them in one order, the same in all transactions.
    fn count_attempt(&mut self, subject: &str, ended: Timestamp, now: Timestamp) -> Result<AttemptWindow>;
    /// Removes up to 100 windows that began at or before `ended`. Leaves out those that another transaction counts in.
    fn purge_attempts(&mut self, ended: Timestamp) -> Result<()>;
}

/// The attempts to sign in of one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptWindow {
    /// The time of the first attempt.
    pub began_at: Timestamp,
    /// Number of attempts.
    pub attempts: u64,
}

/// The repository of invitations to sign up.
pub trait InvitationRepository {
    /// Adds an invitation.
    fn add(&mut self, invitation: &Invitation) -> Result<()>;
    /// Returns the invitation with this hash.
    fn by_hash(&mut self, hash: &HashedToken) -> Result<Option<Invitation>>;
    /// Lists all invitations, newest first.
    fn list(&mut self) -> Result<Vec<Invitation>>;
    /// Removes an invitation. Returns `true` if it existed.
    fn remove(&mut self, invitation: InvitationId) -> Result<bool>;
    /// Removes invitations that expired at `now` or before. Returns how many.
    fn purge(&mut self, now: Timestamp) -> Result<u64>;
}
