//! Renames and transfers of databases. The address that a database had forwards to it.

use super::databases::has_room;
use super::quotas::check_bytes;
use super::{EditDatabase, Inner};
use crate::access::ownership::{NewOwner, may_create_for};
use crate::access::visibility::{find_live, role_of};
use crate::access::{Admin, Level as _};
use crate::entities::{Database, DatabaseLocator, Role, User};
use crate::errors::{AccessError, DatabaseError, PortError};
use crate::ports::{MetadataError, Transaction, WriteKey};
use crate::values::DatabaseId;

/// The address that a database is to have.
pub(super) struct Destination {
    locator: DatabaseLocator,
    /// The new owner, if it is another one.
    new_owner: Option<NewOwner>,
}

impl Destination {
    /// Returns `true` if the database gets another owner.
    pub(super) fn is_transfer(&self) -> bool {
        self.new_owner.is_some()
    }
}

/// Returns the keys that a rename or transfer needs besides those of the database and of the pull requests from it: those of both
/// owners, which keep the number of their databases and their former names.
pub(super) fn keys(
    tx: &mut dyn Transaction,
    user: &User,
    id: DatabaseId,
    edit: &EditDatabase,
) -> Result<Vec<WriteKey>, PortError> {
    let mut keys: Vec<WriteKey> =
        find_live(tx, id)?.map(|found| WriteKey::Account(found.owner_id)).into_iter().collect();
    if let Some(owner) = &edit.owner {
        keys.extend(may_create_for(tx, user, owner)?.map(|owner| WriteKey::Account(owner.id)));
    }
    Ok(keys)
}

/// Returns where an edit moves a database, or `None` if it has that address. The user must still administer the database, and be
/// permitted to create databases for the new owner.
pub(super) fn destination(
    tx: &mut dyn Transaction,
    user: &User,
    database: &Database,
    edit: &EditDatabase,
) -> Result<Option<Destination>, DatabaseError> {
    match role_of(tx, Some(user.id), database)? {
        None => return Err(AccessError::NoSuchDatabase.into()),
        Some(role) if role < Role::Admin => return Err(AccessError::Denied(Admin::NAME).into()),
        Some(_) => {}
    }
    let present = &database.locator;
    let owner = edit.owner.as_ref().filter(|owner| !present.owner.as_str().eq_ignore_ascii_case(owner));
    let new_owner = match owner {
        None => None,
        Some(owner) => {
            let found = may_create_for(tx, user, owner)?;
            Some(found.ok_or_else(|| DatabaseError::MayNotCreateFor(owner.clone()))?)
        }
    };
    let locator = DatabaseLocator {
        owner: new_owner.as_ref().map_or(&present.owner, |owner| &owner.name).clone(),
        name: edit.name.as_ref().unwrap_or(&present.name).clone(),
    };
    Ok((locator != *present).then_some(Destination { locator, new_owner }))
}

/// Moves a database to another address, within a transaction that holds the [`keys`]. Forwards its former address.
///
/// The new owner has the rights of an owner from then on, and the former owner no longer does. Collaborators keep their roles. The
/// user who transfers the database goes on administering it, as a user does who creates one for an organization.
pub(super) fn move_to(
    inner: &Inner,
    tx: &mut dyn Transaction,
    database: &mut Database,
    destination: Destination,
    user: &User,
) -> Result<(), DatabaseError> {
    let Destination { locator, new_owner } = destination;
    let taken = || DatabaseError::NameTaken(locator.to_string());
    if tx.databases().by_name(&locator.owner, &locator.name)?.is_some_and(|other| other.id != database.id) {
        return Err(taken());
    }
    if let Some(owner) = &new_owner {
        if let Err(limit) = has_room(inner, tx, owner.id)? {
            return Err(DatabaseError::TooMany(limit));
        }
        check_bytes::<DatabaseError>(inner, tx, owner.id, u64::try_from(database.size_bytes).unwrap_or(0))?;
        database.owner_id = owner.id;
    }
    database.locator = locator.clone();
    match tx.databases().rename(database, Database::MOST_FORMER_NAMES) {
        Err(MetadataError::Taken) => return Err(taken()),
        Ok(false) => return Err(DatabaseError::Changed),
        other => other?,
    };
    database.version += 1;
    let Some(owner) = new_owner else { return Ok(()) };
    // An owner is no collaborator.
    tx.collaborators().remove(database.id, owner.id)?;
    if owner.role < Role::Admin {
        tx.collaborators().put(database.id, user.id, Role::Admin, inner.now())?;
    }
    if let Some(mut mirror) = tx.mirrors().get(database.id)? {
        // The former creator may no longer have a role, without which the mirror could not be synced.
        mirror.created_by = user.id;
        tx.mirrors().update(&mirror)?;
    }
    Ok(())
}
