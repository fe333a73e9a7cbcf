//! Garbage collections of databases.

use branchyard_domain::entities::CollectionRecord;
use branchyard_domain::ports::{CollectionRepository, DueCollection, MetadataError, OperationState, WriteKey};
use branchyard_domain::values::{DatabaseId, Timestamp};
use diesel::dsl::{exists, not};
use diesel::prelude::*;

use crate::convert::{Read, StoredWord, all, limit, one, read, time};
use crate::durable::led_elsewhere;
use crate::schema::{collections, databases, operations};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable, AsChangeset)]
#[diesel(table_name = collections, treat_none_as_null = true)]
struct CollectionRow {
    database_id: String,
    due_at: Option<i64>,
    is_urgent: bool,
    requests: i64,
    failures: i64,
    retry_at: Option<i64>,
    lease_holder: Option<String>,
    lease_until: Option<i64>,
    history_from: Option<i64>,
}

impl CollectionRow {
    fn new(database: DatabaseId, record: &CollectionRecord) -> Self {
        let (lease_holder, lease_until) = record.lease.clone().unzip();
        Self {
            database_id: database.to_string(),
            due_at: record.due_at.map(Timestamp::as_micros),
            is_urgent: record.is_urgent,
            requests: i64::try_from(record.requests).unwrap_or(i64::MAX),
            failures: i64::from(record.failures),
            retry_at: record.retry_at.map(Timestamp::as_micros),
            lease_holder,
            lease_until: lease_until.map(Timestamp::as_micros),
            history_from: record.history_from.map(Timestamp::as_micros),
        }
    }

    fn record(self) -> Read<CollectionRecord> {
        Ok(CollectionRecord {
            due_at: self.due_at.map(time),
            is_urgent: self.is_urgent,
            requests: read("collections.requests", self.requests)?,
            failures: read("collections.failures", self.failures)?,
            retry_at: self.retry_at.map(time),
            lease: self.lease_holder.zip(self.lease_until.map(time)),
            history_from: self.history_from.map(time),
        })
    }
}

impl CollectionRepository for SqlTransaction {
    fn get(&mut self, database: DatabaseId) -> Result<CollectionRecord> {
        self.run_apart_from_rights("read the record of collections", |conn| {
            let row = collections::table
                .find(database.to_string())
                .select(CollectionRow::as_select())
                .first(conn)
                .optional()?;
            Ok(one(row, CollectionRow::record)?.unwrap_or_default())
        })
    }

    fn put(&mut self, database: DatabaseId, record: &CollectionRecord) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("record a collection", |conn| {
            let row = CollectionRow::new(database, record);
            let changed = diesel::update(collections::table.find(database.to_string())).set(&row).execute(conn)?;
            if changed == 0 {
                diesel::insert_into(collections::table).values(row).execute(conn)?;
            }
            Ok(())
        })
    }

    fn due(&mut self, holder: &str, now: Timestamp, most: usize) -> Result<Vec<DueCollection>> {
        if self.node.is_drained() {
            return Ok(Vec::new());
        }
        let node = self.node.id().to_owned();
        self.run_apart_from_rights("list due collections", |conn| {
            let now = now.as_micros();
            let running = operations::table
                .filter(operations::database_id.eq(collections::database_id))
                .filter(operations::finished_at.is_null())
                .filter(operations::state.eq(OperationState::Running.word()));
            let rows: Vec<(String, bool)> = collections::table
                .inner_join(databases::table.on(databases::id.eq(collections::database_id)))
                .filter(databases::deleted_at.is_null())
                .filter(collections::due_at.le(now))
                .filter(collections::retry_at.is_null().or(collections::retry_at.le(now)))
                .filter(
                    collections::lease_until
                        .is_null()
                        .or(collections::lease_until.le(now))
                        .or(collections::lease_holder.eq(holder)),
                )
                .filter(not(exists(led_elsewhere!(collections::database_id, node, now))))
                .order((collections::is_urgent.desc(), collections::due_at, collections::database_id))
                .limit(limit(most))
                .select((collections::database_id, exists(running)))
                .load(conn)?;
            all(rows, |(id, is_busy)| Ok(DueCollection { database_id: read("collections.database_id", id)?, is_busy }))
        })
    }

    fn recover(&mut self, node: &str) -> Result<u64> {
        self.run_apart_from_rights("recover the leases of collections", |conn| {
            let rows: Vec<(String, Option<String>)> = collections::table
                .filter(collections::lease_holder.is_not_null())
                .select((collections::database_id, collections::lease_holder))
                .load(conn)?;
            let of_node = format!("{node}/");
            let mut ended = 0;
            for (id, _) in rows.iter().filter(|(_, holder)| holder.as_ref().is_some_and(|h| h.starts_with(&of_node))) {
                diesel::update(collections::table.find(id))
                    .set((collections::lease_holder.eq(None::<String>), collections::lease_until.eq(None::<i64>)))
                    .execute(conn)?;
                ended += 1;
            }
            Ok(ended)
        })
    }
}
