//! Mirrors.

use branchyard_auth::PublicKey;
use branchyard_domain::entities::{Mirror, Sealed};
use branchyard_domain::ports::{MetadataError, MirrorRepository, WriteKey};
use branchyard_domain::values::{DatabaseId, Timestamp};
use diesel::dsl::count_star;
use diesel::prelude::*;

use crate::convert::{Read, all, count, limit, one, read, time};
use crate::schema::mirrors;
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = mirrors, primary_key(database_id), treat_none_as_null = true)]
struct MirrorRow {
    database_id: String,
    url: String,
    interval_seconds: i64,
    seed_key_id: String,
    seed_sealed: Vec<u8>,
    public_key: Vec<u8>,
    created_by: String,
    last_sync_at: Option<i64>,
    last_error: Option<String>,
    failures: i64,
    next_sync_at: Option<i64>,
}

impl MirrorRow {
    fn new(mirror: &Mirror) -> Self {
        Self {
            database_id: mirror.database_id.to_string(),
            url: mirror.url.clone(),
            interval_seconds: mirror.interval_seconds,
            seed_key_id: mirror.seed.key_id.clone(),
            seed_sealed: mirror.seed.bytes.clone(),
            public_key: mirror.public_key.as_bytes().to_vec(),
            created_by: mirror.created_by.to_string(),
            last_sync_at: mirror.last_sync_at.map(Timestamp::as_micros),
            last_error: mirror.last_error.clone(),
            failures: mirror.failures.into(),
            next_sync_at: mirror.next_sync_at.map(Timestamp::as_micros),
        }
    }

    fn mirror(self) -> Read<Mirror> {
        Ok(Mirror {
            database_id: read("mirrors.database_id", self.database_id)?,
            url: self.url,
            interval_seconds: self.interval_seconds,
            seed: Sealed { key_id: self.seed_key_id, bytes: self.seed_sealed },
            public_key: PublicKey::from_bytes(read("mirrors.public_key", self.public_key)?),
            created_by: read("mirrors.created_by", self.created_by)?,
            last_sync_at: self.last_sync_at.map(time),
            last_error: self.last_error,
            failures: read("mirrors.failures", self.failures)?,
            next_sync_at: self.next_sync_at.map(time),
        })
    }
}

impl MirrorRepository for SqlTransaction {
    fn add(&mut self, mirror: &Mirror) -> Result<()> {
        self.needs(WriteKey::Database(mirror.database_id));
        self.run_unless_taken("add a mirror", |conn| {
            diesel::insert_into(mirrors::table).values(MirrorRow::new(mirror)).execute(conn)?;
            Ok(())
        })
    }

    fn get(&mut self, database: DatabaseId) -> Result<Option<Mirror>> {
        self.run_apart_from_rights("read a mirror", |conn| {
            let row =
                mirrors::table.find(database.to_string()).select(MirrorRow::as_select()).first(conn).optional()?;
            one(row, MirrorRow::mirror)
        })
    }

    fn update(&mut self, mirror: &Mirror) -> Result<bool> {
        self.needs(WriteKey::Database(mirror.database_id));
        self.run_apart_from_rights("change a mirror", |conn| {
            let row = MirrorRow::new(mirror);
            let changed = diesel::update(mirrors::table.find(row.database_id.clone())).set(row).execute(conn)?;
            Ok(changed > 0)
        })
    }

    fn remove(&mut self, database: DatabaseId) -> Result<bool> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("remove a mirror", |conn| {
            Ok(diesel::delete(mirrors::table.find(database.to_string())).execute(conn)? > 0)
        })
    }

    fn due(&mut self, now: Timestamp, most: usize) -> Result<Vec<Mirror>> {
        self.run_apart_from_rights("find mirrors that are due", |conn| {
            let rows = mirrors::table
                .filter(mirrors::next_sync_at.assume_not_null().le(now.as_micros()))
                .filter(mirrors::next_sync_at.is_not_null())
                .order((mirrors::next_sync_at, mirrors::database_id))
                .limit(limit(most))
                .select(MirrorRow::as_select())
                .load(conn)?;
            all(rows, MirrorRow::mirror)
        })
    }

    fn list_sealed_otherwise(&mut self, key_id: &str, after: Option<DatabaseId>, most: usize) -> Result<Vec<Mirror>> {
        self.run_apart_from_rights("find mirrors by their key", |conn| {
            let mut query = mirrors::table.filter(mirrors::seed_key_id.ne(key_id)).into_boxed();
            if let Some(after) = after {
                query = query.filter(mirrors::database_id.gt(after.to_string()));
            }
            let rows =
                query.order(mirrors::database_id).limit(limit(most)).select(MirrorRow::as_select()).load(conn)?;
            all(rows, MirrorRow::mirror)
        })
    }

    fn count_by_key(&mut self) -> Result<Vec<(String, u64)>> {
        self.run_apart_from_rights("count mirrors by their keys", |conn| {
            let rows: Vec<(String, i64)> = mirrors::table
                .group_by(mirrors::seed_key_id)
                .select((mirrors::seed_key_id, count_star()))
                .order(mirrors::seed_key_id)
                .load(conn)?;
            Ok(rows.into_iter().map(|(key, rows)| (key, count(rows))).collect())
        })
    }
}
