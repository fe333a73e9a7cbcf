//! Renames of databases, and the addresses that they had before.

use branchyard_domain::entities::{Database, DatabaseLocator};
use branchyard_domain::ports::{MetadataError, WriteKey};
use branchyard_domain::values::{AccountId, DatabaseId, DatabaseName, OwnerName};
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::convert::{all, one, read};
use crate::databases::{DatabaseRow, search_key};
use crate::schema::{accounts, databases, former_names, pulls};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

/// Implements `DatabaseRepository::rename`.
pub(crate) fn rename(tx: &mut SqlTransaction, database: &Database, most: usize) -> Result<bool> {
    tx.needs(WriteKey::Database(database.id));
    tx.needs(WriteKey::Account(database.owner_id));
    let id = database.id.to_string();
    let stored = tx.run("read the address of a database", |conn| {
        let row: Option<(String, String, String)> = databases::table
            .filter(databases::id.eq(&id))
            .filter(databases::version.eq(database.version))
            .filter(databases::deleted_at.is_null())
            .select((databases::owner_id, databases::name_key, databases::name))
            .first(conn)
            .optional()?;
        one(row, |(owner, key, name)| Ok((read::<AccountId>("databases.owner_id", owner)?, key, name)))
    })?;
    let Some((former_owner, former_key, former_name)) = stored else { return Ok(false) };
    tx.needs(WriteKey::Account(former_owner));
    tx.run_unless_taken("rename a database", |conn| {
        let (owner, locator) = (database.owner_id.to_string(), &database.locator);
        diesel::update(databases::table.find(&id))
            .set((
                databases::owner_id.eq(&owner),
                databases::owner_name.eq(locator.owner.as_str()),
                databases::owner_key.eq(locator.owner.key()),
                databases::name.eq(locator.name.as_str()),
                databases::name_key.eq(locator.name.key()),
                databases::search_key.eq(search_key(database)),
                databases::version.eq(database.version.saturating_add(1)),
            ))
            .execute(conn)?;
        diesel::update(pulls::table.filter(pulls::from_database_id.eq(&id)))
            .set((pulls::from_owner.eq(locator.owner.as_str()), pulls::from_name.eq(locator.name.as_str())))
            .execute(conn)?;
        take_over(conn, &owner, &locator.name.key())?;
        if (former_owner, &former_key) == (database.owner_id, &locator.name.key()) {
            // Only the spelling changed, which no lookup depends on.
            return Ok(true);
        }
        let former_owner = former_owner.to_string();
        // A server of an earlier release leaves the row of an address that a database takes over.
        take_over(conn, &former_owner, &former_key)?;
        diesel::insert_into(former_names::table)
            .values((
                former_names::owner_id.eq(&former_owner),
                former_names::name_key.eq(&former_key),
                former_names::name.eq(&former_name),
                former_names::database_id.eq(&id),
                former_names::position.eq(database.version),
            ))
            .execute(conn)?;
        let kept: Vec<i64> = former_names::table
            .filter(former_names::database_id.eq(&id))
            .order(former_names::position.desc())
            .select(former_names::position)
            .load(conn)?;
        if let Some(oldest) = kept.get(most.saturating_sub(1)) {
            let older = former_names::table
                .filter(former_names::database_id.eq(&id))
                .filter(former_names::position.lt(*oldest));
            diesel::delete(older).execute(conn)?;
        }
        Ok(true)
    })
}

/// Ends the forward from an address that a database now has.
pub(crate) fn take_over(conn: &mut AnyConnection, owner_id: &str, name_key: &str) -> QueryResult<usize> {
    diesel::delete(former_names::table.find((owner_id, name_key))).execute(conn)
}

/// Ends the forwards from the addresses of an owner that is deleted.
pub(crate) fn remove_of_owner(conn: &mut AnyConnection, owner_id: &str) -> QueryResult<usize> {
    diesel::delete(former_names::table.filter(former_names::owner_id.eq(owner_id))).execute(conn)
}

/// Implements `DatabaseRepository::by_former_name`.
pub(crate) fn find(tx: &mut SqlTransaction, owner: &OwnerName, name: &DatabaseName) -> Result<Option<Database>> {
    tx.run("find a database by a former name", |conn| {
        let row = former_names::table
            .inner_join(accounts::table.on(accounts::id.eq(former_names::owner_id)))
            .inner_join(databases::table.on(databases::id.eq(former_names::database_id)))
            .filter(accounts::name_key.eq(owner.key()))
            .filter(accounts::deleted_at.is_null())
            .filter(former_names::name_key.eq(name.key()))
            .filter(databases::deleted_at.is_null())
            .select(DatabaseRow::as_select())
            .first(conn)
            .optional()?;
        one(row, DatabaseRow::database)
    })
}

/// Implements `DatabaseRepository::former_names`.
pub(crate) fn list(tx: &mut SqlTransaction, id: DatabaseId) -> Result<Vec<DatabaseLocator>> {
    tx.run("list the former names of a database", |conn| {
        let rows: Vec<(String, String)> = former_names::table
            .inner_join(accounts::table.on(accounts::id.eq(former_names::owner_id)))
            .filter(former_names::database_id.eq(id.to_string()))
            .filter(accounts::deleted_at.is_null())
            .order(former_names::position.desc())
            .select((accounts::name, former_names::name))
            .load(conn)?;
        all(rows, |(owner, name)| {
            Ok(DatabaseLocator { owner: read("accounts.name", owner)?, name: read("former_names.name", name)? })
        })
    })
}

/// Implements `DatabaseRepository::clear_former_names`.
pub(crate) fn clear(tx: &mut SqlTransaction, id: DatabaseId) -> Result<()> {
    tx.needs(WriteKey::Database(id));
    tx.run("end the forwards to a database", |conn| {
        diesel::delete(former_names::table.filter(former_names::database_id.eq(id.to_string()))).execute(conn)?;
        Ok(())
    })
}
