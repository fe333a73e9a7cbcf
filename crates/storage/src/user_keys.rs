//! The keys of users.

use branchyard_auth::{PublicKey, RemoteKeyId};
use branchyard_domain::entities::{User, UserKey};
use branchyard_domain::ports::{MetadataError, UserKeyRepository, WriteKey};
use branchyard_domain::values::{AccountId, Timestamp, UserKeyId};
use diesel::prelude::*;

use crate::accounts::{AccountRow, EmailRow, UserOf, UserRow, first_with_user, with_user};
use crate::convert::{Read, all, count, limit, one, read, time};
use crate::schema::user_keys;
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = user_keys)]
struct UserKeyRow {
    id: String,
    user_id: String,
    name: String,
    public_key: Vec<u8>,
    kid: String,
    created_at: i64,
    last_used_at: Option<i64>,
}

impl UserKeyRow {
    fn new(key: &UserKey) -> Self {
        Self {
            id: key.id.to_string(),
            user_id: key.user_id.to_string(),
            name: key.name.clone(),
            public_key: key.public_key.as_bytes().to_vec(),
            kid: key.kid.to_string(),
            created_at: key.created_at.as_micros(),
            last_used_at: key.last_used_at.map(|at| at.as_micros()),
        }
    }

    fn key(self) -> Read<UserKey> {
        let public_key = PublicKey::from_bytes(read("user_keys.public_key", self.public_key)?);
        Ok(UserKey {
            id: read("user_keys.id", self.id)?,
            user_id: read("user_keys.user_id", self.user_id)?,
            name: self.name,
            kid: public_key.id(),
            public_key,
            created_at: time(self.created_at),
            last_used_at: self.last_used_at.map(time),
        })
    }
}

impl UserKeyRepository for SqlTransaction {
    fn add(&mut self, key: &UserKey) -> Result<()> {
        self.needs(WriteKey::Account(key.user_id));
        self.run_unless_taken("add a key", |conn| {
            diesel::insert_into(user_keys::table).values(UserKeyRow::new(key)).execute(conn)?;
            Ok(())
        })
    }

    fn by_kid(&mut self, kid: &RemoteKeyId) -> Result<Option<(UserKey, User)>> {
        self.run("find a key", |conn| {
            let rows: Vec<UserOf<UserKeyRow>> = with_user!(user_keys::table, user_keys::user_id)
                .filter(user_keys::kid.eq(kid.as_str()))
                .select((
                    UserKeyRow::as_select(),
                    AccountRow::as_select(),
                    UserRow::as_select(),
                    Option::<EmailRow>::as_select(),
                ))
                .load(conn)?;
            first_with_user(rows)?.map(|(row, user)| Ok((row.key()?, user))).transpose()
        })
    }

    fn list(&mut self, user: AccountId, after: Option<UserKeyId>, most: usize) -> Result<Vec<UserKey>> {
        self.run("list keys", |conn| {
            let mut query = user_keys::table.filter(user_keys::user_id.eq(user.to_string())).into_boxed();
            if let Some(after) = after {
                query = query.filter(user_keys::id.lt(after.to_string()));
            }
            let rows =
                query.order(user_keys::id.desc()).limit(limit(most)).select(UserKeyRow::as_select()).load(conn)?;
            all(rows, UserKeyRow::key)
        })
    }

    fn count(&mut self, user: AccountId) -> Result<u64> {
        self.run("count keys", |conn| {
            let rows = user_keys::table.filter(user_keys::user_id.eq(user.to_string())).count().get_result(conn)?;
            Ok(count(rows))
        })
    }

    fn remove(&mut self, user: AccountId, key: UserKeyId) -> Result<Option<UserKey>> {
        self.needs(WriteKey::Account(user));
        self.run("remove a key", |conn| {
            let row = user_keys::table
                .filter(user_keys::id.eq(key.to_string()))
                .filter(user_keys::user_id.eq(user.to_string()))
                .select(UserKeyRow::as_select())
                .first(conn)
                .optional()?;
            if row.is_some() {
                diesel::delete(user_keys::table.find(key.to_string())).execute(conn)?;
            }
            one(row, UserKeyRow::key)
        })
    }

    fn touch(&mut self, key: UserKeyId, at: Timestamp) -> Result<()> {
        self.run("note the use of a key", |conn| {
            diesel::update(user_keys::table.find(key.to_string()))
                .set(user_keys::last_used_at.eq(at.as_micros()))
                .execute(conn)?;
            Ok(())
        })
    }
}
