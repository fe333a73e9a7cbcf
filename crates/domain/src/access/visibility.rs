//! Visibility of databases: the role of a caller, and lookups that do not reveal whether a hidden database exists.

use std::collections::{BTreeMap, BTreeSet};

use super::{Caller, DatabaseAccess, Level};
use crate::call_context;
use crate::entities::{Database, DatabaseLocator, MemberRole, Role, User, Visibility};
use crate::errors::{AccessError, PortError};
use crate::ports::{RoleSources, TargetDatabase, Transaction};
use crate::usecases::Limits;
use crate::values::{AccountId, DatabaseId, DatabaseName, OwnerName};

/// Returns the highest role of a caller on a database, or `None` if the database is hidden from the caller. A quarantined
/// database is hidden from all but the server's administrators, who have at least the read role on it.
pub(crate) fn role_of(
    tx: &mut dyn Transaction,
    caller: Option<AccountId>,
    database: &Database,
) -> Result<Option<Role>, PortError> {
    let role = unquarantined_role_of(tx, caller, database)?;
    if database.quarantined_at.is_none() {
        return Ok(role);
    }
    Ok(if is_withheld(tx, caller, database)? { None } else { role.max(Some(Role::Read)) })
}

/// Returns `true` if a database is quarantined and the viewer does not administer the server.
pub(crate) fn is_withheld(
    tx: &mut dyn Transaction,
    viewer: Option<AccountId>,
    database: &Database,
) -> Result<bool, PortError> {
    if database.quarantined_at.is_none() {
        return Ok(false);
    }
    let Some(viewer) = viewer else { return Ok(true) };
    Ok(!tx.users().get(viewer)?.is_some_and(|user| user.is_admin))
}

/// Returns a database unless it has been deleted or is withheld from the viewer by a quarantine.
pub(crate) fn find_unwithheld(
    tx: &mut dyn Transaction,
    viewer: Option<AccountId>,
    id: DatabaseId,
) -> Result<Option<Database>, PortError> {
    let Some(database) = find_live(tx, id)? else { return Ok(None) };
    Ok(if is_withheld(tx, viewer, &database)? { None } else { Some(database) })
}

/// Returns what [`role_of`] would return if the database were not quarantined.
pub(crate) fn unquarantined_role_of(
    tx: &mut dyn Transaction,
    caller: Option<AccountId>,
    database: &Database,
) -> Result<Option<Role>, PortError> {
    let Some(user) = caller else { return Ok(public_role(database)) };
    if database.owner_id == user {
        return Ok(Some(Role::Admin));
    }
    let member = match tx.members().get(database.owner_id, user)?.map(|member| member.role) {
        Some(role) => tx.organizations().get(database.owner_id)?.map(|organization| (role, organization.base_role)),
        None => None,
    };
    let collaborator = tx.collaborators().get(database.id, user)?.map(|collaborator| collaborator.role);
    Ok(role_from(database, Some(user), RoleSources { member, collaborator }))
}

/// Returns the role of a caller, as if the database were not quarantined.
pub(crate) fn role_from(database: &Database, caller: Option<AccountId>, sources: RoleSources) -> Option<Role> {
    let as_owner = (caller == Some(database.owner_id)).then_some(Role::Admin);
    let as_member = sources.member.map(|(role, base_role)| match role {
        MemberRole::Owner => Role::Admin,
        MemberRole::Member => base_role,
    });
    public_role(database).max(as_owner).max(as_member).max(sources.collaborator)
}

/// Returns the role of a user whose standing was read with the database.
pub(crate) fn role_of_user(user: &User, target: &TargetDatabase) -> Option<Role> {
    let role = role_from(&target.database, Some(user.id), target.sources);
    despite_quarantine(&target.database, role, user.is_admin)
}

/// Returns what a quarantine of the database leaves of a role.
fn despite_quarantine(database: &Database, role: Option<Role>, is_admin: bool) -> Option<Role> {
    match database.quarantined_at {
        None => role,
        Some(_) if is_admin => role.max(Some(Role::Read)),
        Some(_) => None,
    }
}

/// Returns the role of callers that have no other.
fn public_role(database: &Database) -> Option<Role> {
    (database.visibility == Visibility::Public).then_some(Role::Read)
}

/// Returns what [`role_of`] returns for each of these databases, by id, with a number of lookups that does not depend on
/// theirs. Hidden databases are left out.
pub(crate) fn roles_of(
    tx: &mut dyn Transaction,
    caller: Option<AccountId>,
    databases: &[Database],
) -> Result<BTreeMap<DatabaseId, Role>, PortError> {
    let mut roles: BTreeMap<DatabaseId, Role> = BTreeMap::new();
    let (mut from_organizations, mut as_collaborator) = (BTreeMap::new(), BTreeMap::new());
    let mut is_admin = false;
    if let Some(user) = caller {
        let others: Vec<&Database> = databases.iter().filter(|database| database.owner_id != user).collect();
        let owners: BTreeSet<AccountId> = others.iter().map(|database| database.owner_id).collect();
        if !others.is_empty() {
            from_organizations = tx.members().roles(user, &owners.into_iter().collect::<Vec<_>>())?;
            as_collaborator = tx.collaborators().roles(user, &others.iter().map(|d| d.id).collect::<Vec<_>>())?;
        }
        if databases.iter().any(|database| database.quarantined_at.is_some()) {
            is_admin = tx.users().get(user)?.is_some_and(|user| user.is_admin);
        }
    }
    for database in databases {
        let sources = RoleSources {
            member: from_organizations.get(&database.owner_id).copied(),
            collaborator: as_collaborator.get(&database.id).copied(),
        };
        let role = role_from(database, caller, sources);
        if let Some(role) = despite_quarantine(database, role, is_admin) {
            roles.insert(database.id, role);
        }
    }
    Ok(roles)
}

/// Returns a database unless it has been deleted.
pub(crate) fn find_live(tx: &mut dyn Transaction, id: DatabaseId) -> Result<Option<Database>, PortError> {
    Ok(tx.databases().get(id)?.filter(|database| database.deleted_at.is_none()))
}

/// Returns a database, or an error if it does not exist or has been deleted.
pub(crate) fn live(tx: &mut dyn Transaction, id: DatabaseId) -> Result<Database, AccessError> {
    find_live(tx, id)?.ok_or(AccessError::NoSuchDatabase)
}

/// Returns the access of a caller that sees the database with `role`.
pub(crate) fn grant_seen<L: Level>(
    limits: &Limits,
    caller: &Caller,
    database: Database,
    role: Role,
) -> Result<DatabaseAccess<L>, AccessError> {
    call_context::note_database(&database.locator);
    let needs_user = L::IS_QUERY && !(limits.anonymous_sql && database.anonymous_sql);
    if needs_user && caller.user().is_none() {
        return Err(AccessError::SignInRequired);
    }
    let is_mirror = database.is_mirror;
    let access = DatabaseAccess::grant(database, caller.clone(), role).ok_or(AccessError::Denied(L::NAME))?;
    if is_mirror && L::NEEDS == Role::Write { Err(AccessError::Mirror) } else { Ok(access) }
}

/// Returns the owner and name of a database, or `None` if it does not exist or is hidden from the viewer.
pub(crate) fn visible_locator(
    tx: &mut dyn Transaction,
    viewer: Option<AccountId>,
    id: DatabaseId,
) -> Result<Option<DatabaseLocator>, PortError> {
    let Some(database) = find_live(tx, id)? else { return Ok(None) };
    Ok(role_of(tx, viewer, &database)?.map(|_| database.locator))
}

/// Returns a database by owner and name, which may be those that it had before, with the caller's role on it. Returns `None` if the
/// database does not exist or is hidden from the caller.
pub(crate) fn role_by_name(
    tx: &mut dyn Transaction,
    caller: &Caller,
    owner: &str,
    name: &str,
) -> Result<Option<(Database, Role)>, PortError> {
    let (Ok(owner), Ok(name)) = (OwnerName::parse(owner), DatabaseName::parse(name)) else { return Ok(None) };
    let viewer = caller.user().map(|user| user.id);
    // The lookups are the same for hidden and absent databases, so that the response time does not reveal which private databases
    // exist.
    let named = tx.databases().by_name(&owner, &name)?;
    if let Some(database) = &named
        && let Some(role) = role_of(tx, viewer, database)?
    {
        return Ok(named.map(|database| (database, role)));
    }
    let former = tx.databases().by_former_name(&owner, &name)?;
    if named.is_some() {
        return Ok(None);
    }
    let Some(database) = former else {
        deny_like_a_hidden_one(tx, viewer)?;
        return Ok(None);
    };
    Ok(role_of(tx, viewer, &database)?.map(|role| (database, role)))
}

/// Returns the live database with an owner and name, or else the one that had them last. Does not look at roles.
pub(crate) fn by_address(
    tx: &mut dyn Transaction,
    owner: &OwnerName,
    name: &DatabaseName,
) -> Result<Option<Database>, PortError> {
    match tx.databases().by_name(owner, name)? {
        Some(database) => Ok(Some(database)),
        None => Ok(tx.databases().by_former_name(owner, name)?),
    }
}

/// Runs the lookups of [`role_of`] for a user without a role and discards the results.
pub(crate) fn deny_like_a_hidden_one(tx: &mut dyn Transaction, caller: Option<AccountId>) -> Result<(), PortError> {
    let Some(user) = caller else { return Ok(()) };
    tx.members().get(AccountId::from_uuid(uuid::Uuid::nil()), user)?;
    tx.collaborators().get(DatabaseId::from_uuid(uuid::Uuid::nil()), user)?;
    Ok(())
}
