//! Administration of the server: suspended users, revoked credentials, quarantined databases.
//!
//! All of it takes effect on the next request, also in other processes on the same metadata store, because what they cache
//! is valid for one version of the store.

use std::sync::Arc;

use super::Inner;
use super::grants::{GrantView, views};
use super::sessions::{delete_tokens, end_sessions};
use super::write_keys::{begin_write, of_queued};
use crate::access::{Caller, ServerAdmin};
use crate::entities::{
    AccountKind, Application, Database, FailureKind, Grant, Operation, OperationFailure, OperationStatus,
    RegisteredApplication, Session, Token, User,
};
use crate::errors::{AdministrationError, PortError};
use crate::ports::{
    DatabaseFilter, Durability, OperationFilter, OperationState, Transaction, UserFilter, WriteKey, WriteKeys,
};
use crate::values::{ApplicationId, DatabaseName, GrantId, OwnerName, SessionId, Timestamp, TokenId};

/// Operations that are read at once.
const OPERATIONS_AT_ONCE: usize = 500;

/// A user as administrators see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserStanding {
    /// The user.
    pub user: User,
    /// The last recorded use of a token or session that still exists.
    pub last_seen_at: Option<Timestamp>,
}

/// Use cases of the server's administrators.
pub struct Administration<'a>(&'a Inner);

impl<'a> Administration<'a> {
    pub(super) fn new(inner: &'a Inner) -> Self {
        Self(inner)
    }

    /// Returns the proof that a caller administers the server.
    ///
    /// # Errors
    /// [`AdministrationError::NotAdministrator`].
    pub fn access(&self, caller: &Caller) -> Result<ServerAdmin, AdministrationError> {
        match caller.user() {
            Some(user) if user.is_admin && user.suspended_at.is_none() => Ok(ServerAdmin::new(Some(Arc::clone(user)))),
            _ => Err(AdministrationError::NotAdministrator),
        }
    }

    /// Returns the proof for commands on the machine of the server. Only a process that owns the server's data may call
    /// it.
    pub fn operator(&self) -> ServerAdmin {
        ServerAdmin::new(None)
    }

    /// Returns up to `limit` users, ordered by lower-case name, starting after `after`.
    ///
    /// # Errors
    /// [`AdministrationError::Port`].
    pub fn users(
        &self,
        _proof: &ServerAdmin,
        filter: &UserFilter,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<UserStanding>, AdministrationError> {
        let mut tx = self.0.ports.metadata.read()?;
        let users = tx.users().list(filter, after, limit)?;
        users.into_iter().map(|user| Ok(standing(tx.as_mut(), user)?)).collect()
    }

    /// Returns a user by name, in any letter case.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`].
    pub fn user(&self, _proof: &ServerAdmin, name: &str) -> Result<UserStanding, AdministrationError> {
        let mut tx = self.0.ports.metadata.read()?;
        let user = find(tx.as_mut(), name)?;
        Ok(standing(tx.as_mut(), user)?)
    }

    /// Suspends a user: ends their sessions and fails their queued operations. Their tokens and password are refused until
    /// they are resumed. Running operations may finish. A user who is suspended already stays so since the same time.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`]; [`AdministrationError::LastAdministrator`].
    pub fn suspend(&self, _proof: &ServerAdmin, name: &str) -> Result<User, AdministrationError> {
        let now = self.0.now();
        let mut tx = begin_write(self.0, WriteKeys::server(), |tx| -> Result<_, AdministrationError> {
            let user = find(tx, name)?.id;
            let mut keys = of_queued(tx, user)?;
            keys.push(WriteKey::Account(user));
            Ok(keys)
        })?;
        let mut user = find(tx.as_mut(), name)?;
        if user.suspended_at.is_some() {
            return Ok(user);
        }
        if user.is_admin && tx.users().count_active_admins()? <= 1 {
            return Err(AdministrationError::LastAdministrator(user.name.to_string()));
        }
        user.suspended_at = Some(now);
        tx.users().update(&user)?;
        end_sessions(tx.as_mut(), &user, None)?;
        let failed = fail_queued(tx.as_mut(), &user, now)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        failed.iter().for_each(|operation| self.0.settled.tell(operation));
        Ok(user)
    }

    /// Lifts the suspension of a user. Their tokens are accepted again; sessions and operations that ended stay ended.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`].
    pub fn resume(&self, _proof: &ServerAdmin, name: &str) -> Result<User, AdministrationError> {
        self.edit(name, |user| user.suspended_at = None)
    }

    /// Makes a user an administrator of the server.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`].
    pub fn make_admin(&self, _proof: &ServerAdmin, name: &str) -> Result<User, AdministrationError> {
        self.edit(name, |user| user.is_admin = true)
    }

    fn edit(&self, name: &str, change: impl FnOnce(&mut User)) -> Result<User, AdministrationError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let id = find(tx.as_mut(), name)?.id;
        tx.hold(&[WriteKey::Account(id)])?;
        let mut user = find(tx.as_mut(), name)?;
        change(&mut user);
        tx.users().update(&user)?;
        tx.commit(Durability::Synced)?;
        Ok(user)
    }

    /// Returns up to `limit` tokens of a user, newest first, starting after `after`.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`].
    pub fn tokens(
        &self,
        _proof: &ServerAdmin,
        user: &str,
        after: Option<TokenId>,
        limit: usize,
    ) -> Result<Vec<Token>, AdministrationError> {
        let mut tx = self.0.ports.metadata.read()?;
        let user = find(tx.as_mut(), user)?;
        Ok(tx.tokens().list(user.id, after, limit)?)
    }

    /// Deletes a token of any user.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchToken`].
    pub fn revoke_token(&self, _proof: &ServerAdmin, id: &str) -> Result<Token, AdministrationError> {
        let missing = || AdministrationError::NoSuchToken(id.to_owned());
        let parsed = TokenId::parse(id).map_err(|_| missing())?;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        let token = tx.tokens().get(parsed)?.ok_or_else(missing)?;
        tx.hold(&[WriteKey::Account(token.user_id)])?;
        tx.tokens().remove(token.user_id, token.id)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(token)
    }

    /// Deletes all tokens and keys of a user, and all that the user granted to applications. Returns their number.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`].
    pub fn revoke_tokens(&self, _proof: &ServerAdmin, user: &str) -> Result<usize, AdministrationError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let user = find(tx.as_mut(), user)?;
        tx.hold(&[WriteKey::Account(user.id)])?;
        let deleted = delete_tokens(tx.as_mut(), &user)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(deleted)
    }

    /// Returns up to `limit` grants of a user, newest first, starting after `after`.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`].
    pub fn grants(
        &self,
        _proof: &ServerAdmin,
        user: &str,
        after: Option<GrantId>,
        limit: usize,
    ) -> Result<Vec<GrantView>, AdministrationError> {
        let mut tx = self.0.ports.metadata.read()?;
        let user = find(tx.as_mut(), user)?;
        Ok(views(tx.as_mut(), user.id, self.0.now(), after, limit)?)
    }

    /// Ends a grant of a user, and returns it.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`]; [`AdministrationError::NoSuchGrant`], also if the grant belongs to another user.
    pub fn end_grant(&self, _proof: &ServerAdmin, user: &str, id: &str) -> Result<Grant, AdministrationError> {
        let missing = || AdministrationError::NoSuchGrant(id.to_owned());
        let parsed = GrantId::parse(id).map_err(|_| missing())?;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let user = find(tx.as_mut(), user)?.id;
        tx.hold(&[WriteKey::Account(user)])?;
        let grant = tx.grants().get(parsed)?.filter(|grant| grant.user_id == user).ok_or_else(missing)?;
        tx.grants().remove(user, parsed)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(grant)
    }

    /// Returns up to `limit` applications of all users, newest first, starting after `after`.
    ///
    /// # Errors
    /// [`AdministrationError::Port`].
    pub fn applications(
        &self,
        _proof: &ServerAdmin,
        after: Option<&ApplicationId>,
        limit: usize,
    ) -> Result<Vec<RegisteredApplication>, AdministrationError> {
        Ok(self.0.ports.metadata.read()?.applications().list(None, after, limit)?)
    }

    /// Deletes an application of any user, and returns it. All that users granted to it ends.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchApplication`].
    pub fn remove_application(&self, _proof: &ServerAdmin, id: &str) -> Result<Application, AdministrationError> {
        let missing = || AdministrationError::NoSuchApplication(id.to_owned());
        let parsed = ApplicationId::parse(id).map_err(|_| missing())?;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        let found = tx.applications().get(&parsed)?.ok_or_else(missing)?.application;
        let owner = found.owner.ok_or_else(missing)?;
        tx.hold(&[WriteKey::Account(owner)])?;
        tx.applications().remove(owner, &parsed)?;
        tx.commit(Durability::Synced)?;
        self.0.revocations.announce();
        Ok(found)
    }

    /// Returns the sessions of a user that have not ended, newest first.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`].
    pub fn sessions(&self, proof: &ServerAdmin, user: &str) -> Result<Vec<Session>, AdministrationError> {
        let user = self.user(proof, user)?.user;
        Ok(super::Sessions::new(self.0).list(&user)?)
    }

    /// Ends a session of any user.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchSession`].
    pub fn end_session(&self, _proof: &ServerAdmin, id: &str) -> Result<Session, AdministrationError> {
        let missing = || AdministrationError::NoSuchSession(id.to_owned());
        let parsed = SessionId::parse(id).map_err(|_| missing())?;
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        let session = tx.sessions().get(parsed)?.ok_or_else(missing)?;
        tx.hold(&[WriteKey::Account(session.user_id)])?;
        tx.sessions().remove(session.user_id, session.id)?;
        tx.commit(Durability::Synced)?;
        Ok(session)
    }

    /// Ends all sessions of a user. Returns their number.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchUser`].
    pub fn end_sessions(&self, _proof: &ServerAdmin, user: &str) -> Result<usize, AdministrationError> {
        let mut tx = self.0.ports.metadata.write(&WriteKeys::server())?;
        let user = find(tx.as_mut(), user)?;
        tx.hold(&[WriteKey::Account(user.id)])?;
        let ended = end_sessions(tx.as_mut(), &user, None)?;
        tx.commit(Durability::Synced)?;
        Ok(ended)
    }

    /// Returns up to `limit` databases, also hidden ones, ordered by lower-case owner, then name, starting after the pair
    /// `after`.
    ///
    /// # Errors
    /// [`AdministrationError::Port`].
    pub fn databases(
        &self,
        _proof: &ServerAdmin,
        filter: &DatabaseFilter,
        after: Option<(&str, &str)>,
        limit: usize,
    ) -> Result<Vec<Database>, AdministrationError> {
        Ok(self.0.ports.metadata.read()?.databases().list_all(filter, after, limit)?)
    }

    /// Quarantines a database: hides it from all but the server's administrators, and makes its queued operations,
    /// deliveries and deployments wait. Running operations may finish. A database that is quarantined already stays so since
    /// the same time.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchDatabase`].
    pub fn quarantine(&self, _proof: &ServerAdmin, owner: &str, name: &str) -> Result<Database, AdministrationError> {
        let now = self.0.now();
        let database = self.edit_database(owner, name, |at| *at = at.or(Some(now)))?;
        self.0.revocations.announce();
        Ok(database)
    }

    /// Ends the quarantine of a database. What waited goes on.
    ///
    /// # Errors
    /// [`AdministrationError::NoSuchDatabase`].
    pub fn release(&self, _proof: &ServerAdmin, owner: &str, name: &str) -> Result<Database, AdministrationError> {
        let database = self.edit_database(owner, name, |at| *at = None)?;
        self.0.wake.all();
        self.0.outbox.one();
        self.0.fetch_wake.one();
        Ok(database)
    }

    fn edit_database(
        &self,
        owner: &str,
        name: &str,
        change: impl FnOnce(&mut Option<Timestamp>),
    ) -> Result<Database, AdministrationError> {
        let missing = || AdministrationError::NoSuchDatabase(format!("{owner}/{name}"));
        let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DatabaseName::parse(name)) else { return Err(missing()) };
        let mut tx = self.0.ports.metadata.write(&WriteKeys::none())?;
        let id = tx.databases().by_name(&owner, &name)?.ok_or_else(missing)?.id;
        tx.hold(&[WriteKey::Database(id)])?;
        let mut database = tx.databases().by_name(&owner, &name)?.filter(|found| found.id == id).ok_or_else(missing)?;
        let before = database.quarantined_at;
        change(&mut database.quarantined_at);
        if database.quarantined_at == before {
            return Ok(database);
        }
        if !tx.databases().update(&database)? {
            return Err(PortError::Unsettled("a database changed within a transaction").into());
        }
        database.version += 1;
        tx.commit(Durability::Synced)?;
        Ok(database)
    }
}

fn standing(tx: &mut dyn Transaction, user: User) -> Result<UserStanding, PortError> {
    let last_seen_at = tx.users().last_seen(user.id)?;
    Ok(UserStanding { user, last_seen_at })
}

fn find(tx: &mut dyn Transaction, name: &str) -> Result<User, AdministrationError> {
    let missing = || AdministrationError::NoSuchUser(name.to_owned());
    let account = super::people::account_of(tx, name)?.filter(|account| account.kind == AccountKind::User);
    tx.users().get(account.ok_or_else(missing)?.id)?.ok_or_else(missing)
}

/// Returns the failure text of operations of a suspended user.
pub(super) fn suspended(user: &User) -> String {
    format!("{} is suspended", user.name)
}

/// Fails the queued operations of a user in all databases, and returns them.
fn fail_queued(tx: &mut dyn Transaction, user: &User, now: Timestamp) -> Result<Vec<Operation>, PortError> {
    let filter = OperationFilter { state: Some(OperationState::Queued), kinds: None };
    let mut failed = Vec::new();
    let mut before = None;
    loop {
        let page = tx.operations().list_by(user.id, filter, before, OPERATIONS_AT_ONCE)?;
        let is_last = page.len() < OPERATIONS_AT_ONCE;
        for mut operation in page {
            before = Some(operation.id);
            let failure = OperationFailure::new(FailureKind::PermissionDenied, suspended(user));
            operation.status = OperationStatus::Failed(failure);
            operation.finished_at = Some(now);
            tx.operations().settle(&operation, None)?;
            failed.push(operation);
        }
        if is_last {
            return Ok(failed);
        }
    }
}
