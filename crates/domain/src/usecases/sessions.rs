//! Sign-in, and the sessions that result.

use branchyard_auth::{HashedToken, PasswordHash, PlainPassword, PlainSecret};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use super::Inner;
use crate::entities::{LastUse, Session, User};
use crate::errors::{PortError, SignInError};
use crate::ports::{Durability, Transaction, WriteKeys};
use crate::values::{OwnerName, SessionId, Timestamp};

/// A new session with its secret, which is readable only now.
#[derive(Debug)]
pub struct OpenedSession {
    /// The stored session.
    pub session: Session,
    /// The secret, for the cookie.
    pub secret: PlainSecret,
    /// The user who is signed in.
    pub user: User,
}

/// The origin of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Network address.
    pub address: String,
    /// Value of the `User-Agent` header.
    pub user_agent: String,
}

impl Client {
    pub(super) fn at(self, at: Timestamp) -> LastUse {
        LastUse { at, address: self.address, user_agent: self.user_agent }
    }
}

/// Limits on attempts to sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignInLimits {
    /// Maximum attempts for one account from all addresses; 0 disables the limit.
    pub per_account: u32,
    /// Maximum attempts from one network for all accounts; 0 disables the limit.
    pub per_address: u32,
    /// Length of the window in seconds.
    pub window_seconds: i64,
}

impl Default for SignInLimits {
    fn default() -> Self {
        Self { per_account: 20, per_address: 60, window_seconds: 900 }
    }
}

/// Use cases of sessions.
pub struct Sessions<'a>(&'a Inner);

/// Returns what attempts are counted by. It does not show the name of the account, nor the address.
fn subject(kind: &str, name: &str) -> String {
    let digest = Sha256::new().chain_update(kind).chain_update([0]).chain_update(name).finalize();
    HEXLOWER.encode(&digest[..16])
}

impl<'a> Sessions<'a> {
    /// Maximum number of sessions per user. Another sign-in ends the oldest one.
    pub const PER_USER: usize = 50;

    /// Minimum number of seconds between two recorded uses of a session.
    pub const NOTED_EVERY_SECONDS: i64 = 60;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Counts an attempt to sign in, on all servers with the same metadata store together. Returns the seconds to wait if the attempt
    /// exceeds a limit. The account need not exist. `network` identifies the network of the client.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn count_attempt(&self, account: &str, network: u128) -> Result<Option<i64>, PortError> {
        let limits = self.0.limits.sign_ins;
        // The network is counted first. Once it is over its limit, its attempts do not use up the account's limit.
        let subjects = [
            ("network", network.to_string(), limits.per_address),
            ("account", account.to_ascii_lowercase(), limits.per_account),
        ];
        let counted = subjects.iter().filter(|(_, _, limit)| *limit > 0);
        let mut tx = None;
        let (mut wait, mut is_new) = (None, false);
        let now = self.0.now();
        let ended = now.plus_seconds(-limits.window_seconds);
        for (kind, name, limit) in counted {
            let tx = match &mut tx {
                Some(tx) => tx,
                none => none.insert(self.0.ports.metadata.write(&WriteKeys::none())?),
            };
            let window = tx.sessions().count_attempt(&subject(kind, name), ended, now)?;
            is_new |= window.attempts == 1;
            if window.attempts > u64::from(*limit) {
                let left = window.began_at.as_micros() - ended.as_micros();
                wait = Some(left.unsigned_abs().div_ceil(1_000_000).try_into().unwrap_or(limits.window_seconds));
                break;
            }
        }
        if let Some(mut tx) = tx {
            if is_new {
                tx.sessions().purge_attempts(ended)?;
            }
            tx.commit(Durability::Unsynced)?;
        }
        Ok(wait)
    }

    /// Signs in with a user name, in any letter case, and a password. An unknown name takes the time of a password check
    /// too.
    ///
    /// # Errors
    /// [`SignInError::Wrong`], which does not reveal which of the two is wrong; [`SignInError::Suspended`] with the right
    /// password of a suspended user.
    pub fn sign_in(&self, name: &str, password: &str, from: Client) -> Result<OpenedSession, SignInError> {
        let Ok(password) = PlainPassword::new(password.to_owned()) else { return Err(SignInError::Wrong) };
        let user = match OwnerName::parse(name) {
            Ok(name) => {
                let mut tx = self.0.ports.metadata.read()?;
                match tx.accounts().by_name(&name)? {
                    Some(account) => tx.users().get(account.id)?,
                    None => None,
                }
            }
            Err(_) => None,
        };
        let stored = user.as_ref().and_then(|user| user.password_hash.as_deref());
        let Some(user) = check_password(stored, &password)?.then_some(user).flatten() else {
            return Err(SignInError::Wrong);
        };
        if user.suspended_at.is_some() {
            return Err(SignInError::Suspended);
        }
        Ok(self.open(user, from)?)
    }

    /// Opens a session for a user who has just been authenticated in another way, for example by signing up.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn open(&self, user: User, from: Client) -> Result<OpenedSession, PortError> {
        let now = self.0.now();
        let secret = PlainSecret::mint_from(&mut |buffer| self.0.ports.ids.fill(buffer));
        let session = Session {
            id: SessionId::from_uuid(self.0.ports.ids.uuid(now)),
            user_id: user.id,
            hash: secret.hash(),
            created_at: now,
            expires_at: self.expiry(now, now),
            confirmed_at: now,
            last_use: from.at(now),
        };
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        tx.sessions().purge(now)?;
        for old in tx.sessions().list(user.id)?.iter().skip(Self::PER_USER - 1) {
            tx.sessions().remove(user.id, old.id)?;
        }
        tx.sessions().add(&session)?;
        tx.commit(Durability::Synced)?;
        Ok(OpenedSession { session, secret, user })
    }

    /// Returns the session of a secret and its user, or `None` if the session is unknown or has ended, or the user is
    /// suspended.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn check(&self, hash: &HashedToken) -> Result<Option<(Session, User)>, PortError> {
        let now = self.0.now();
        let found = self.0.ports.metadata.read()?.sessions().by_hash(hash)?;
        Ok(found.filter(|(session, user)| self.is_open(session, now) && user.suspended_at.is_none()))
    }

    /// Returns `true` if the session has not ended. The maximum age may have been lowered since it was last used.
    fn is_open(&self, session: &Session, now: Timestamp) -> bool {
        !session.expired(now) && now < self.last_end(session.created_at)
    }

    /// Returns when a session ends unless it is used again after `now`.
    fn expiry(&self, created_at: Timestamp, now: Timestamp) -> Timestamp {
        now.plus_seconds(self.0.limits.session_seconds).min(self.last_end(created_at))
    }

    /// Returns when a session ends however often it is used.
    fn last_end(&self, created_at: Timestamp) -> Timestamp {
        created_at.plus_seconds(self.0.limits.session_max_seconds)
    }

    /// Returns `true` if the user has entered the password in this session recently enough for what is hard to undo. A
    /// user without a password cannot enter one.
    pub fn is_confirmed(&self, session: &Session, user: &User) -> bool {
        user.password_hash.is_none() || self.0.now() < session.confirmed_at.plus_seconds(self.0.limits.confirm_seconds)
    }

    /// Checks the password of a session's user, and records that it was entered.
    ///
    /// # Errors
    /// [`SignInError::Wrong`] if it is not the password.
    pub fn confirm(&self, session: &Session, user: &User, password: &str) -> Result<(), SignInError> {
        let Ok(password) = PlainPassword::new(password.to_owned()) else { return Err(SignInError::Wrong) };
        if !check_password(user.password_hash.as_deref(), &password)? {
            return Err(SignInError::Wrong);
        }
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        tx.sessions().confirm(session.id, self.0.now())?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Records the time and origin of a use, and extends the session. Does nothing if the last recorded use is less than
    /// [`Sessions::NOTED_EVERY_SECONDS`] ago.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn touch(&self, session: &Session, from: Client) -> Result<(), PortError> {
        let now = self.0.now();
        if session.last_use.at.plus_seconds(Self::NOTED_EVERY_SECONDS) > now {
            return Ok(());
        }
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        tx.sessions().touch(session.id, &from.at(now), self.expiry(session.created_at, now))?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Returns the sessions of a user that have not ended, newest first.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn list(&self, user: &User) -> Result<Vec<Session>, PortError> {
        let now = self.0.now();
        let mut sessions = self.0.ports.metadata.read()?.sessions().list(user.id)?;
        sessions.retain(|session| self.is_open(session, now));
        Ok(sessions)
    }

    /// Ends a session of a user. Returns `true` if it existed.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn end(&self, user: &User, id: SessionId) -> Result<bool, PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let ended = tx.sessions().remove(user.id, id)?;
        tx.commit(Durability::Synced)?;
        Ok(ended)
    }

    /// Ends all sessions of a user, except for `but`.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn end_all(&self, user: &User, but: Option<SessionId>) -> Result<(), PortError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        end_sessions(tx.as_mut(), user, but)?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Replaces the password of a user without asking for the old one, for operators. Ends all sessions of the user, and deletes
    /// all tokens, keys and grants if `deletes_tokens`. Returns their number.
    ///
    /// # Errors
    /// [`PortError`].
    pub fn reset_password(&self, user: &User, new: &PasswordHash, deletes_tokens: bool) -> Result<usize, PortError> {
        let mut deleted = 0;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let gone = || PortError::Unsettled("a user whose password was reset is gone");
        let mut user = tx.users().get(user.id)?.ok_or_else(gone)?;
        user.password_hash = Some(new.as_phc().to_owned());
        tx.users().update(&user)?;
        end_sessions(tx.as_mut(), &user, None)?;
        if deletes_tokens {
            deleted = delete_tokens(tx.as_mut(), &user)?;
        }
        tx.commit(Durability::Synced)?;
        if deletes_tokens {
            self.0.revocations.announce();
        }
        Ok(deleted)
    }

    /// Changes the password of a user and ends all sessions except for `keep`. A user without a password need not provide an
    /// old one.
    ///
    /// # Errors
    /// [`SignInError::Wrong`] if the old password is wrong or was changed meanwhile.
    pub fn change_password(
        &self,
        user: &User,
        old: &str,
        new: &PasswordHash,
        keep: Option<SessionId>,
    ) -> Result<(), SignInError> {
        let gone = || PortError::Unsettled("a user who was signed in is gone");
        let before = self.0.ports.metadata.read()?.users().get(user.id)?.ok_or_else(gone)?;
        if let Some(stored) = &before.password_hash {
            let Ok(old) = PlainPassword::new(old.to_owned()) else { return Err(SignInError::Wrong) };
            if !check_password(Some(stored), &old)? {
                return Err(SignInError::Wrong);
            }
        }
        let mut tx = self.0.ports.metadata.write(&WriteKeys::account(user.id))?;
        let mut user = tx.users().get(user.id)?.ok_or_else(gone)?;
        if user.password_hash != before.password_hash {
            return Err(SignInError::Wrong);
        }
        user.password_hash = Some(new.as_phc().to_owned());
        tx.users().update(&user)?;
        end_sessions(tx.as_mut(), &user, keep)?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }
}

/// Ends all sessions of a user except for `but`. Returns their number.
pub(super) fn end_sessions(tx: &mut dyn Transaction, user: &User, but: Option<SessionId>) -> Result<usize, PortError> {
    let mut ended = 0;
    for session in tx.sessions().list(user.id)? {
        if Some(session.id) != but {
            ended += usize::from(tx.sessions().remove(user.id, session.id)?);
        }
    }
    Ok(ended)
}

/// Deletes all tokens and keys of a user, and all that the user granted to applications. Returns their number.
pub(super) fn delete_tokens(tx: &mut dyn Transaction, user: &User) -> Result<usize, PortError> {
    /// Tokens and keys that are read at once.
    const PAGE: usize = 500;
    let mut deleted = usize::try_from(tx.grants().remove_all(user.id)?).unwrap_or(usize::MAX);
    loop {
        let tokens = tx.tokens().list(user.id, None, PAGE)?;
        for token in &tokens {
            tx.tokens().remove(user.id, token.id)?;
        }
        let keys = tx.user_keys().list(user.id, None, PAGE)?;
        for key in &keys {
            tx.user_keys().remove(user.id, key.id)?;
        }
        deleted += tokens.len() + keys.len();
        if tokens.len() < PAGE && keys.len() < PAGE {
            return Ok(deleted);
        }
    }
}

/// Returns `true` if `password` is correct. Without a stored hash it returns `false` after the same time.
fn check_password(stored: Option<&str>, password: &PlainPassword) -> Result<bool, PortError> {
    match stored {
        None => Ok(PasswordHash::dummy_verify(password)),
        Some(text) => match PasswordHash::parse(text) {
            Ok(hash) => Ok(hash.verify(password)),
            Err(_) => Err(PortError::Unsettled("a stored password hash is damaged")),
        },
    }
}
