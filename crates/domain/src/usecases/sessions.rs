//! Signing in, and the sessions that come of it.

use branchyard_auth::{HashedToken, PasswordHash, PlainPassword, PlainSecret};

use super::Inner;
use crate::entities::{LastUse, Session, User};
use crate::errors::{Fault, SignInError};
use crate::ports::{Durability, Transaction};
use crate::values::{OwnerName, SessionId, Timestamp};

/// A fresh session: the secret is known only now.
#[derive(Debug)]
pub struct OpenedSession {
    /// What is kept of it.
    pub session: Session,
    /// For the cookie.
    pub secret: PlainSecret,
    /// Who is signed in.
    pub user: User,
}

/// Where a request comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Network address.
    pub address: String,
    /// What it calls itself.
    pub user_agent: String,
}

impl Client {
    pub(super) fn at(self, at: Timestamp) -> LastUse {
        LastUse { at, address: self.address, user_agent: self.user_agent }
    }
}

/// Sessions.
pub struct Sessions<'a>(&'a Inner);

impl<'a> Sessions<'a> {
    /// Sessions a user has at most; signing in once more ends the oldest.
    pub const PER_USER: usize = 50;

    /// Seconds between two notes of when and from where a session was used.
    pub const NOTED_EVERY_SECONDS: i64 = 60;

    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Signs in by name, whatever its case, and password. Takes the time of one password check also when the name is unknown.
    ///
    /// # Errors
    /// [`SignInError::Wrong`], which does not say what is wrong.
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
        Ok(self.open(user, from)?)
    }

    /// Opens a session for a user who has just proved who they are in another way, by signing up for example.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn open(&self, user: User, from: Client) -> Result<OpenedSession, Fault> {
        let now = self.0.now();
        let secret = PlainSecret::mint_from(&mut |buffer| self.0.ports.ids.fill(buffer));
        let session = Session {
            id: SessionId::from_uuid(self.0.ports.ids.uuid(now)),
            user_id: user.id,
            hash: secret.hash(),
            created_at: now,
            expires_at: now.plus_seconds(self.0.limits.session_seconds),
            last_use: from.at(now),
        };
        let mut tx = self.0.ports.metadata.write()?;
        tx.sessions().purge(now)?;
        for old in tx.sessions().list(user.id)?.iter().skip(Self::PER_USER - 1) {
            tx.sessions().remove(user.id, old.id)?;
        }
        tx.sessions().add(&session)?;
        tx.commit(Durability::Synced)?;
        Ok(OpenedSession { session, secret, user })
    }

    /// The session of this secret and whose it is; `None` when it is unknown or has ended.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn check(&self, hash: &HashedToken) -> Result<Option<(Session, User)>, Fault> {
        let now = self.0.now();
        let found = self.0.ports.metadata.read()?.sessions().by_hash(hash)?;
        Ok(found.filter(|(session, _)| !session.expired(now)))
    }

    /// Notes when and from where a session is used, and puts its end off; does nothing when that was noted a short time ago.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn touch(&self, session: &Session, from: Client) -> Result<(), Fault> {
        let now = self.0.now();
        if session.last_use.at.plus_seconds(Self::NOTED_EVERY_SECONDS) > now {
            return Ok(());
        }
        let mut tx = self.0.ports.metadata.write()?;
        tx.sessions().touch(session.id, &from.at(now), now.plus_seconds(self.0.limits.session_seconds))?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Sessions of a user that have not ended, newest first.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn list(&self, user: &User) -> Result<Vec<Session>, Fault> {
        let now = self.0.now();
        let mut sessions = self.0.ports.metadata.read()?.sessions().list(user.id)?;
        sessions.retain(|session| !session.expired(now));
        Ok(sessions)
    }

    /// Ends a session of a user; gives whether there was one.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn end(&self, user: &User, id: SessionId) -> Result<bool, Fault> {
        let mut tx = self.0.ports.metadata.write()?;
        let ended = tx.sessions().remove(user.id, id)?;
        tx.commit(Durability::Synced)?;
        Ok(ended)
    }

    /// Ends all sessions of a user, or all but one.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn end_all(&self, user: &User, but: Option<SessionId>) -> Result<(), Fault> {
        let mut tx = self.0.ports.metadata.write()?;
        end_sessions(tx.as_mut(), user, but)?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Gives a user another password, for an operator who need not know the old one; ends all sessions.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn reset_password(&self, user: &User, new: &PasswordHash) -> Result<(), Fault> {
        let mut tx = self.0.ports.metadata.write()?;
        let gone = || Fault::Unsettled("a user whose password was reset is gone");
        let mut user = tx.users().get(user.id)?.ok_or_else(gone)?;
        user.password_hash = Some(new.as_phc().to_owned());
        tx.users().update(&user)?;
        end_sessions(tx.as_mut(), &user, None)?;
        tx.commit(Durability::Synced)?;
        Ok(())
    }

    /// Changes the password of a user who knows the old one (or has none), and ends all sessions but this one.
    ///
    /// # Errors
    /// [`SignInError::Wrong`] for the old password.
    pub fn change_password(
        &self,
        user: &User,
        old: &str,
        new: &PasswordHash,
        keep: Option<SessionId>,
    ) -> Result<(), SignInError> {
        let gone = || Fault::Unsettled("a user who was signed in is gone");
        let before = self.0.ports.metadata.read()?.users().get(user.id)?.ok_or_else(gone)?;
        if let Some(stored) = &before.password_hash {
            let Ok(old) = PlainPassword::new(old.to_owned()) else { return Err(SignInError::Wrong) };
            if !check_password(Some(stored), &old)? {
                return Err(SignInError::Wrong);
            }
        }
        let mut tx = self.0.ports.metadata.write()?;
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

fn end_sessions(tx: &mut dyn Transaction, user: &User, but: Option<SessionId>) -> Result<(), Fault> {
    for session in tx.sessions().list(user.id)? {
        if Some(session.id) != but {
            tx.sessions().remove(user.id, session.id)?;
        }
    }
    Ok(())
}

/// Whether this is the password; without a stored one it never is, after the same time.
fn check_password(stored: Option<&str>, password: &PlainPassword) -> Result<bool, Fault> {
    match stored {
        None => Ok(PasswordHash::dummy_verify(password)),
        Some(text) => match PasswordHash::parse(text) {
            Ok(hash) => Ok(hash.verify(password)),
            Err(_) => Err(Fault::Unsettled("a stored password hash is damaged")),
        },
    }
}
