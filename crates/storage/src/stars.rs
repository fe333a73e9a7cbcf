//! Stars.

use branchyard_domain::entities::Star;
use branchyard_domain::ports::{MetadataError, StarRepository, WriteKey};
use branchyard_domain::values::{AccountId, DatabaseId, Timestamp};
use diesel::dsl::exists;
use diesel::prelude::*;

use crate::connection::AnyConnection;
use crate::convert::{Read, all, limit, one, read, time};
use crate::schema::{accounts, databases, stars};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;
type StarRow = (String, String, i64);

fn star((user_id, name, starred_at): StarRow) -> Read<Star> {
    Ok(Star {
        user_id: read("stars.user_id", user_id)?,
        username: read("accounts.name", name)?,
        starred_at: time(starred_at),
    })
}

/// Adds `stars`, which may be negative, to the star count of a database.
fn add_to_count(conn: &mut AnyConnection, database: DatabaseId, stars: i64) -> QueryResult<()> {
    diesel::update(databases::table.find(database.to_string()))
        .set(databases::star_count.eq(databases::star_count + stars))
        .execute(conn)?;
    Ok(())
}

impl StarRepository for SqlTransaction {
    fn add(&mut self, database: DatabaseId, user: AccountId, at: Timestamp) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        self.run("add a star", |conn| {
            let key = (database.to_string(), user.to_string());
            if diesel::select(exists(stars::table.find(key.clone()))).get_result(conn)? {
                return Ok(false);
            }
            diesel::insert_into(stars::table)
                .values((stars::database_id.eq(key.0), stars::user_id.eq(key.1), stars::starred_at.eq(at.as_micros())))
                .execute(conn)?;
            add_to_count(conn, database, 1)?;
            Ok(true)
        })
    }

    fn remove(&mut self, database: DatabaseId, user: AccountId) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        self.run("remove a star", |conn| {
            let removed = diesel::delete(stars::table.find((database.to_string(), user.to_string()))).execute(conn)?;
            if removed > 0 {
                add_to_count(conn, database, -1)?;
            }
            Ok(removed > 0)
        })
    }

    fn get(&mut self, database: DatabaseId, user: AccountId) -> Result<Option<Star>> {
        self.run("read a star", |conn| {
            let row: Option<StarRow> = stars::table
                .inner_join(accounts::table.on(accounts::id.eq(stars::user_id)))
                .filter(stars::database_id.eq(database.to_string()))
                .filter(stars::user_id.eq(user.to_string()))
                .select((stars::user_id, accounts::name, stars::starred_at))
                .first(conn)
                .optional()?;
            one(row, star)
        })
    }

    fn list(&mut self, database: DatabaseId, after: Option<&str>, most: usize) -> Result<Vec<Star>> {
        self.run("list stars", |conn| {
            let mut query = stars::table
                .inner_join(accounts::table.on(accounts::id.eq(stars::user_id)))
                .filter(stars::database_id.eq(database.to_string()))
                .into_boxed();
            if let Some(after) = after {
                query = query.filter(accounts::name_key.gt(after.to_owned()));
            }
            let rows: Vec<StarRow> = query
                .order(accounts::name_key)
                .limit(limit(most))
                .select((stars::user_id, accounts::name, stars::starred_at))
                .load(conn)?;
            all(rows, star)
        })
    }

    fn clear(&mut self, database: DatabaseId) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.run("remove the stars of a database", |conn| {
            diesel::delete(stars::table.filter(stars::database_id.eq(database.to_string()))).execute(conn)?;
            diesel::update(databases::table.find(database.to_string()))
                .set(databases::star_count.eq(0))
                .execute(conn)?;
            Ok(())
        })
    }
}
