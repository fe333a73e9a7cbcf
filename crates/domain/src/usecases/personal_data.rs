//! Export of what is stored about a user.

use super::grants::{GrantView, views};
use super::people::People;
use super::user_deletion::owned_databases;
use crate::entities::{
    Activity, AuthoredPull, Database, DatabaseLocator, Delivery, Hook, Invitation, MemberRole, Operation, Organization,
    PullComment, RegisteredApplication, Role, Session, Token, User, UserKey,
};
use crate::errors::PeopleError;
use crate::ports::{OperationFilter, Transaction};
use crate::values::{AccountId, PullNumber, Timestamp};

/// Number of rows that one read returns.
const PAGE: usize = 100;

/// All that is stored about a user, except for the content of databases. Secrets are stored as hashes only; adapters leave
/// them out.
#[derive(Debug, Clone)]
pub struct PersonalData {
    /// The user with profile and email addresses.
    pub user: User,
    /// API tokens, newest first.
    pub tokens: Vec<Token>,
    /// Keys of clients of the engine, newest first.
    pub keys: Vec<UserKey>,
    /// What the user granted to applications, newest first.
    pub grants: Vec<GrantView>,
    /// Applications that the user registered, newest first.
    pub applications: Vec<RegisteredApplication>,
    /// Sessions, newest first.
    pub sessions: Vec<Session>,
    /// Invitations that the user created.
    pub invitations: Vec<Invitation>,
    /// Organizations with the user's role.
    pub memberships: Vec<(Organization, MemberRole)>,
    /// Databases on which the user is a collaborator, and since when.
    pub collaborations: Vec<(DatabaseLocator, Role, Timestamp)>,
    /// Starred databases.
    pub stars: Vec<(DatabaseLocator, Timestamp)>,
    /// Databases that the user owns, with their webhooks.
    pub databases: Vec<(Database, Vec<Hook>)>,
    /// Pull requests that the user created.
    pub pulls: Vec<AuthoredPull>,
    /// Comments that the user wrote, with the base database and the number of the pull request.
    pub comments: Vec<(DatabaseLocator, PullNumber, PullComment)>,
    /// The user's activity, releases included.
    pub activities: Vec<(DatabaseLocator, Activity)>,
    /// Operations that the user created, with their SQL texts, newest first.
    pub operations: Vec<Operation>,
}

impl People<'_> {
    /// Returns all that is stored about a user, as of one moment.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`].
    pub fn personal_data(&self, user: AccountId) -> Result<PersonalData, PeopleError> {
        let mut tx = self.0.ports.metadata.read()?;
        let tx = tx.as_mut();
        let user = tx.users().get(user)?.ok_or_else(|| PeopleError::NoSuchUser(user.to_string()))?;
        let id = user.id;
        let tokens = pages(|last: Option<&Token>| tx.tokens().list(id, last.map(|token| token.id), PAGE))?;
        let keys = pages(|last: Option<&UserKey>| tx.user_keys().list(id, last.map(|key| key.id), PAGE))?;
        let now = self.0.now();
        let grants = pages(|last: Option<&GrantView>| views(tx, id, now, last.map(|view| view.grant.id), PAGE))?;
        let applications = pages(|last: Option<&RegisteredApplication>| {
            tx.applications().list(Some(id), last.map(|one| &one.application.id), PAGE)
        })?;
        let memberships = pages(|last: Option<&(Organization, MemberRole)>| {
            tx.organizations().list(id, last.map(|(organization, _)| organization.name.key()).as_deref(), PAGE)
        })?;
        let operations = pages(|last: Option<&Operation>| {
            tx.operations().list_by(id, OperationFilter::default(), last.map(|operation| operation.id), PAGE)
        })?;
        let mut databases = Vec::new();
        for database in owned_databases(tx, &user, &user.name)? {
            let hooks = hooks(tx, &database)?;
            databases.push((database, hooks));
        }
        let mut invitations = tx.invitations().list()?;
        invitations.retain(|invitation| invitation.created_by == Some(id));
        Ok(PersonalData {
            tokens,
            keys,
            grants,
            applications,
            sessions: tx.sessions().list(id)?,
            invitations,
            memberships,
            collaborations: tx.personal_data().list_collaborations(id)?,
            stars: tx.personal_data().list_stars(id)?,
            databases,
            pulls: tx.personal_data().list_pulls(id)?,
            comments: tx.personal_data().list_comments(id)?,
            activities: tx.personal_data().list_activities(id)?,
            operations,
            user,
        })
    }
}

fn hooks(tx: &mut dyn Transaction, database: &Database) -> Result<Vec<Hook>, PeopleError> {
    let listed = pages(|last: Option<&(Hook, Option<Delivery>)>| {
        tx.hooks().list(database.id, last.map(|(hook, _)| hook.id), PAGE)
    })?;
    Ok(listed.into_iter().map(|(hook, _)| hook).collect())
}

/// Reads page after page, each after the last item of the one before.
fn pages<T, E>(mut page: impl FnMut(Option<&T>) -> Result<Vec<T>, E>) -> Result<Vec<T>, E> {
    let mut all = Vec::new();
    loop {
        let next = page(all.last())?;
        if next.is_empty() {
            return Ok(all);
        }
        all.extend(next);
    }
}
