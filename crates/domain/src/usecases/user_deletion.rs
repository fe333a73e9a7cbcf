//! Deletion of users by the operator.

use super::databases;
use super::people::People;
use super::write_keys::{begin_write, of_pulls_from, of_queued};
use crate::entities::{
    AccountKind, Database, DatabaseLocator, FailureKind, MemberRole, OperationFailure, OperationStatus, Organization,
    User,
};
use crate::errors::{DatabaseError, PeopleError, PortError};
use crate::ports::{DatabaseFilter, Durability, OperationFilter, OperationState, Transaction, WriteKey, WriteKeys};
use crate::values::{DatabaseId, OwnerName, Timestamp};

/// Number of rows that one read returns.
const PAGE: usize = 100;

/// How to delete a user.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeleteUser {
    /// Whether to delete the databases of the user too, and the organizations that have no other member.
    pub with_databases: bool,
    /// Whether to erase the personal data in rows that stay.
    pub erase: bool,
}

/// What was deleted with a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedUser {
    /// Name of the user.
    pub name: OwnerName,
    /// The deleted databases.
    pub databases: Vec<DatabaseLocator>,
    /// The deleted organizations.
    pub organizations: Vec<OwnerName>,
    /// Number of queued operations that were canceled.
    pub canceled_operations: u64,
}

impl People<'_> {
    /// Deletes a user in one transaction. Tokens, keys, grants, applications, sessions, invitations, memberships, stars and roles end, and
    /// queued operations of the user are canceled. Pull requests, comments and releases stay. With `erase`, the user may have been
    /// deleted before.
    ///
    /// # Errors
    /// [`PeopleError::NoSuchUser`]; [`PeopleError::LastAdministrator`]; [`PeopleError::OwnsThings`] if the user owns
    /// databases, or is the only owner of organizations, that may not be deleted; [`PeopleError::OnlyOwner`] if such an
    /// organization has other members; [`PeopleError::OwnsOthers`].
    pub fn delete_user(&self, name: &OwnerName, wanted: DeleteUser) -> Result<DeletedUser, PeopleError> {
        let inner = self.0;
        let now = inner.now();
        let mut tx = begin_write(inner, WriteKeys::server(), |tx| keys_of(tx, name))?;
        let missing = || PeopleError::NoSuchUser(name.to_string());
        let account = tx.accounts().by_name(name)?.filter(|account| account.kind == AccountKind::User);
        let Some(account) = account else {
            let deleted = tx.accounts().retired(name)?.filter(|retired| wanted.erase && retired.by.is_none());
            tx.users().erase(deleted.ok_or_else(missing)?.id)?;
            tx.commit(Durability::Synced)?;
            let name = name.clone();
            return Ok(DeletedUser { name, databases: Vec::new(), organizations: Vec::new(), canceled_operations: 0 });
        };
        let user = tx.users().get(account.id)?.ok_or_else(missing)?;
        if user.is_admin && tx.users().count_active_admins()? < 2 {
            return Err(PeopleError::LastAdministrator(user.name.to_string()));
        }
        let organizations = owned_alone(tx.as_mut(), &user)?;
        let mut owned = owned_databases(tx.as_mut(), &user, &user.name)?;
        if !(wanted.with_databases || owned.is_empty() && organizations.is_empty()) {
            return Err(owns_things(&user, &owned, &organizations));
        }
        for organization in &organizations {
            if tx.members().list(organization.id, None, 2)?.len() > 1 {
                let organization = organization.name.to_string();
                return Err(PeopleError::OnlyOwner { user: user.name.to_string(), organization });
            }
            owned.extend(owned_databases(tx.as_mut(), &user, &organization.name)?);
        }
        let owners = organizations.iter().map(|organization| (organization.id, &organization.name));
        for (id, owner) in std::iter::once(user.named()).chain(owners) {
            if let Some(what) = tx.organizations().owns_others(id)? {
                return Err(PeopleError::OwnsOthers { owner: owner.to_string(), what });
            }
        }

        let files: Vec<DatabaseId> = owned.iter().map(|database| database.id).collect();
        let databases = owned.iter().map(|database| database.locator.clone()).collect();
        for database in owned {
            databases::end(inner, tx.as_mut(), database, &user, now).map_err(ending_failed)?;
        }
        for organization in &organizations {
            tx.organizations().remove(organization.id, now, user.id)?;
        }
        let canceled_operations = cancel_queued(tx.as_mut(), &user, now)?;
        tx.users().remove(user.id, now)?;
        if wanted.erase {
            tx.users().erase(user.id)?;
        }
        tx.commit(Durability::Synced)?;
        inner.revocations.announce();
        inner.outbox.one();
        inner.collection_wake.one();
        for file in files {
            // The next start of the server removes what stays.
            let _ = databases::remove_content(inner, file);
        }
        Ok(DeletedUser {
            name: user.name,
            databases,
            organizations: organizations.into_iter().map(|organization| organization.name).collect(),
            canceled_operations,
        })
    }
}

/// Returns the organizations of which a user is the only owner.
fn owned_alone(tx: &mut dyn Transaction, user: &User) -> Result<Vec<Organization>, PortError> {
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = tx.organizations().list(user.id, after.as_deref(), PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(found) };
        after = Some(last.name.key());
        for (organization, role) in page {
            if role == MemberRole::Owner && tx.members().count_owners(organization.id)? == 1 {
                found.push(organization);
            }
        }
    }
}

/// Returns all live databases of an owner, which is the user or an organization of the user.
pub(super) fn owned_databases(
    tx: &mut dyn Transaction,
    user: &User,
    owner: &OwnerName,
) -> Result<Vec<Database>, PortError> {
    let filter = DatabaseFilter { owner: Some(owner.clone()), ..DatabaseFilter::default() };
    let mut found: Vec<Database> = Vec::new();
    loop {
        let after = found.last().map(|database| (database.locator.owner.key(), database.locator.name.key()));
        let after = after.as_ref().map(|(owner, name)| (owner.as_str(), name.as_str()));
        let page = tx.databases().list(Some(user.id), &filter, after, PAGE)?;
        if page.is_empty() {
            return Ok(found);
        }
        found.extend(page);
    }
}

fn owns_things(user: &User, databases: &[Database], organizations: &[Organization]) -> PeopleError {
    /// Number of names that the error shows.
    const SHOWN: usize = 10;
    let databases = databases.iter().map(|database| database.locator.to_string());
    let organizations = organizations.iter().map(|organization| organization.name.to_string());
    let all: Vec<String> = databases.chain(organizations).collect();
    let mut owned = all[..all.len().min(SHOWN)].join(", ");
    if all.len() > SHOWN {
        owned.push_str(&format!(" and {} more", all.len() - SHOWN));
    }
    PeopleError::OwnsThings { user: user.name.to_string(), owned }
}

/// Cancels the queued operations that a user created in any database. Running ones end by themselves, because their
/// creator no longer has a role.
fn cancel_queued(tx: &mut dyn Transaction, user: &User, now: Timestamp) -> Result<u64, PortError> {
    let queued = OperationFilter { state: Some(OperationState::Queued), ..OperationFilter::default() };
    let mut canceled = 0;
    loop {
        let page = tx.operations().list_by(user.id, queued, None, PAGE)?;
        if page.is_empty() {
            return Ok(canceled);
        }
        for mut operation in page {
            let failure = OperationFailure::new(FailureKind::Canceled, "the account of its creator was deleted");
            operation.status = OperationStatus::Failed(failure);
            operation.finished_at = Some(now);
            if !tx.operations().settle(&operation, None)? {
                return Err(PortError::Unsettled("an operation could not be canceled"));
            }
            canceled += 1;
        }
    }
}

fn ending_failed(error: DatabaseError) -> PeopleError {
    match error {
        DatabaseError::Port(fault) => fault.into(),
        _ => PortError::Unsettled("a database could not be deleted with its owner").into(),
    }
}

/// Returns the keys of all that goes with a user, or ends.
fn keys_of(tx: &mut dyn Transaction, name: &OwnerName) -> Result<Vec<WriteKey>, PeopleError> {
    let account = tx.accounts().by_name(name)?.map(|account| account.id);
    let deleted = tx.accounts().retired(name)?.map(|retired| retired.id);
    let Some(id) = account.or(deleted) else { return Ok(Vec::new()) };
    let mut keys = of_queued(tx, id)?;
    keys.push(WriteKey::Account(id));
    let Some(user) = tx.users().get(id)? else { return Ok(keys) };
    let organizations = owned_alone(tx, &user)?;
    keys.extend(organizations.iter().map(|organization| WriteKey::Account(organization.id)));
    for owner in organizations.iter().map(|organization| &organization.name).chain([&user.name]) {
        for database in owned_databases(tx, &user, owner)? {
            keys.push(WriteKey::Database(database.id));
            keys.extend(of_pulls_from(tx, database.id)?);
        }
    }
    Ok(keys)
}
