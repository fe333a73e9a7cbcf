//! Collaborators.

use std::collections::BTreeMap;

use branchyard_domain::entities::{Collaborator, Role};
use branchyard_domain::ports::{CollaboratorRepository, MetadataError, WriteKey};
use branchyard_domain::values::{AccountId, DatabaseId, Timestamp};
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::convert::{Read, StoredWord, all, limit, one, read, time};
use crate::error::StoreError;
use crate::schema::{accounts, collaborators};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;
pub(crate) type CollaboratorRow = (String, String, String, i64);

fn collaborator((user_id, name, role, added_at): CollaboratorRow) -> Read<Collaborator> {
    Ok(Collaborator {
        user_id: read("collaborators.user_id", user_id)?,
        username: read("accounts.name", name)?,
        role: read("collaborators.role", role)?,
        added_at: time(added_at),
    })
}

fn get(
    conn: &mut AnyConnection,
    database: DatabaseId,
    user: AccountId,
) -> std::result::Result<Option<Collaborator>, StoreError> {
    let row: Option<CollaboratorRow> = collaborators::table
        .inner_join(accounts::table.on(accounts::id.eq(collaborators::user_id)))
        .filter(collaborators::database_id.eq(database.to_string()))
        .filter(collaborators::user_id.eq(user.to_string()))
        .select((collaborators::user_id, accounts::name, collaborators::role, collaborators::added_at))
        .first(conn)
        .optional()?;
    one(row, collaborator)
}

impl CollaboratorRepository for SqlTransaction {
    fn put(&mut self, database: DatabaseId, user: AccountId, role: Role, at: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        self.run("put a collaborator", |conn| {
            let changed = diesel::update(collaborators::table.find((database.to_string(), user.to_string())))
                .set(collaborators::role.eq(role.word()))
                .execute(conn)?;
            if changed > 0 {
                return Ok(false);
            }
            diesel::insert_into(collaborators::table)
                .values((
                    collaborators::database_id.eq(database.to_string()),
                    collaborators::user_id.eq(user.to_string()),
                    collaborators::role.eq(role.word()),
                    collaborators::added_at.eq(at.as_micros()),
                ))
                .execute(conn)?;
            Ok(true)
        })
    }

    fn get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>> {
        self.run_apart_from_rights("read a collaborator", |conn| get(conn, database, user))
    }

    fn roles(&mut self, user: AccountId, databases: &[DatabaseId]) -> Result<BTreeMap<DatabaseId, Role>> {
        self.run("read the roles of a collaborator", |conn| {
            let rows: Vec<(String, String)> = collaborators::table
                .filter(collaborators::user_id.eq(user.to_string()))
                .filter(collaborators::database_id.eq_any(databases.iter().map(ToString::to_string)))
                .select((collaborators::database_id, collaborators::role))
                .load(conn)?;
            let roles = all(rows, |(database, role)| {
                Ok((read("collaborators.database_id", database)?, read("collaborators.role", role)?))
            })?;
            Ok(roles.into_iter().collect())
        })
    }

    fn remove(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Collaborator>> {
        self.needs(WriteKey::Database(database));
        self.run("remove a collaborator", |conn| {
            let found = get(conn, database, user)?;
            if found.is_some() {
                diesel::delete(collaborators::table.find((database.to_string(), user.to_string()))).execute(conn)?;
            }
            Ok(found)
        })
    }

    fn list(&mut self, database: DatabaseId, after: Option<&str>, most: usize) -> Result<Vec<Collaborator>> {
        self.run("list collaborators", |conn| {
            let mut query = collaborators::table
                .inner_join(accounts::table.on(accounts::id.eq(collaborators::user_id)))
                .filter(collaborators::database_id.eq(database.to_string()))
                .into_boxed();
            if let Some(after) = after {
                query = query.filter(accounts::name_key.gt(after.to_owned()));
            }
            let rows: Vec<CollaboratorRow> = query
                .order(accounts::name_key)
                .limit(limit(most))
                .select((collaborators::user_id, accounts::name, collaborators::role, collaborators::added_at))
                .load(conn)?;
            all(rows, collaborator)
        })
    }
}
