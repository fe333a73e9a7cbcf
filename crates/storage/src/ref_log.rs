//! The log of changes of branches and tags.

use branchyard_domain::entities::{RefChange, RefKind, RefLogEntry};
use branchyard_domain::ports::{MetadataError, RefLogRepository, WriteKey};
use branchyard_domain::values::{CommitHash, DatabaseId, RefLogId, RefName, Timestamp};
use diesel::dsl::{exists, min, not};
use diesel::prelude::*;

use crate::convert::{Read, StoredWord, all, count, limit, one, read, read_if, time};
use crate::deferred::Deferred;
use crate::schema::{branches, ref_log, ref_log_start};
use crate::transaction::SqlTransaction;

type Result<T> = std::result::Result<T, MetadataError>;

#[derive(Queryable, Selectable, Insertable)]
#[diesel(table_name = ref_log)]
struct RefLogRow {
    id: String,
    database_id: String,
    kind: String,
    name: String,
    old_commit: Option<String>,
    new_commit: Option<String>,
    changed_at: i64,
    changed_by: Option<String>,
    is_left_behind: bool,
    is_erased: bool,
}

impl RefLogRow {
    fn entry(self) -> Read<RefLogEntry> {
        Ok(RefLogEntry {
            id: read("ref_log.id", self.id)?,
            kind: read("ref_log.kind", self.kind)?,
            name: read("ref_log.name", self.name)?,
            old: read_if("ref_log.old_commit", self.old_commit)?,
            new: read_if("ref_log.new_commit", self.new_commit)?,
            at: time(self.changed_at),
            by: read_if("ref_log.changed_by", self.changed_by)?,
            is_left_behind: self.is_left_behind,
            is_erased: self.is_erased,
        })
    }
}

/// The commits of a ref before and after a change.
pub(crate) type CommitsOfChange<'a> = (Option<&'a CommitHash>, Option<&'a CommitHash>);

impl SqlTransaction {
    /// Records a change of a ref that this transaction has made. Does nothing if `change` is `None`.
    pub(crate) fn log_ref(
        &mut self,
        database: DatabaseId,
        kind: RefKind,
        name: &RefName,
        (old, new): CommitsOfChange<'_>,
        change: Option<RefChange>,
    ) -> Result<()> {
        let Some(RefChange { id, at, by, is_left_behind }) = change else { return Ok(()) };
        let row = RefLogRow {
            id: id.to_string(),
            database_id: database.to_string(),
            kind: kind.word().to_owned(),
            name: name.to_string(),
            old_commit: old.map(ToString::to_string),
            new_commit: new.map(ToString::to_string),
            changed_at: at.as_micros(),
            changed_by: Some(by.to_string()),
            is_left_behind: is_left_behind && old.is_some(),
            is_erased: false,
        };
        let statement = diesel::insert_into(ref_log::table).values(row);
        self.run_deferred("record a change of a ref", Deferred::Insert("ref_log"), statement)
    }
}

impl RefLogRepository for SqlTransaction {
    fn next_change(
        &mut self,
        database: DatabaseId,
        kind: RefKind,
        name: &RefName,
        after: Timestamp,
    ) -> Result<Option<RefLogEntry>> {
        self.run_apart_from_rights("look for the next change of a ref", |conn| {
            let row = ref_log::table
                .filter(ref_log::database_id.eq(database.to_string()))
                .filter(ref_log::kind.eq(kind.word()))
                .filter(ref_log::name.eq(name.as_str()))
                .filter(ref_log::changed_at.gt(after.as_micros()))
                .order((ref_log::changed_at, ref_log::id))
                .select(RefLogRow::as_select())
                .first(conn)
                .optional()?;
            one(row, RefLogRow::entry)
        })
    }

    fn previous_change(&mut self, database: DatabaseId, entry: &RefLogEntry) -> Result<Option<RefLogEntry>> {
        self.run_apart_from_rights("look for the previous change of a ref", |conn| {
            let at = entry.at.as_micros();
            let row = ref_log::table
                .filter(ref_log::database_id.eq(database.to_string()))
                .filter(ref_log::kind.eq(entry.kind.word()))
                .filter(ref_log::name.eq(entry.name.as_str()))
                .filter(ref_log::changed_at.le(at))
                .filter(ref_log::changed_at.lt(at).or(ref_log::id.lt(entry.id.to_string())))
                .order((ref_log::changed_at.desc(), ref_log::id.desc()))
                .select(RefLogRow::as_select())
                .first(conn)
                .optional()?;
            one(row, RefLogRow::entry)
        })
    }

    fn left_behind(&mut self, database: DatabaseId, id: RefLogId) -> Result<Option<RefLogEntry>> {
        self.run_apart_from_rights("read a change of a ref", |conn| {
            let row = ref_log::table
                .filter(ref_log::database_id.eq(database.to_string()))
                .filter(ref_log::id.eq(id.to_string()))
                .filter(ref_log::is_left_behind)
                .select(RefLogRow::as_select())
                .first(conn)
                .optional()?;
            one(row, RefLogRow::entry)
        })
    }

    fn list_left_behind(
        &mut self,
        database: DatabaseId,
        since: Timestamp,
        before: Option<RefLogId>,
        most: usize,
    ) -> Result<Vec<RefLogEntry>> {
        self.run_apart_from_rights("list what refs left behind", |conn| {
            let mut query = ref_log::table
                .filter(ref_log::database_id.eq(database.to_string()))
                .filter(ref_log::is_left_behind)
                .filter(ref_log::changed_at.gt(since.as_micros()))
                .into_boxed();
            if let Some(before) = before {
                query = query.filter(ref_log::id.lt(before.to_string()));
            }
            let query = query.order(ref_log::id.desc()).limit(limit(most));
            all(query.select(RefLogRow::as_select()).load(conn)?, RefLogRow::entry)
        })
    }

    fn list_deleted_branches(
        &mut self,
        database: DatabaseId,
        since: Timestamp,
        before: Option<RefLogId>,
        most: usize,
    ) -> Result<Vec<RefLogEntry>> {
        self.run_apart_from_rights("list deleted branches", |conn| {
            let present = branches::table
                .filter(branches::database_id.eq(ref_log::database_id))
                .filter(branches::name.eq(ref_log::name));
            let mut query = ref_log::table
                .filter(ref_log::database_id.eq(database.to_string()))
                .filter(ref_log::is_left_behind)
                .filter(ref_log::kind.eq(RefKind::Branch.word()))
                .filter(ref_log::new_commit.is_null())
                .filter(ref_log::changed_at.gt(since.as_micros()))
                .filter(not(exists(present)))
                .into_boxed();
            if let Some(before) = before {
                query = query.filter(ref_log::id.lt(before.to_string()));
            }
            let query = query.order(ref_log::id.desc()).limit(limit(most));
            all(query.select(RefLogRow::as_select()).load(conn)?, RefLogRow::entry)
        })
    }

    fn first_left_behind(&mut self, database: DatabaseId) -> Result<Option<Timestamp>> {
        self.run_apart_from_rights("look for the first commit that a ref left behind", |conn| {
            let of_database = ref_log::table.filter(ref_log::database_id.eq(database.to_string()));
            let left = of_database.filter(ref_log::is_left_behind);
            let first: Option<i64> = left.select(min(ref_log::changed_at)).first(conn)?;
            Ok(first.map(time))
        })
    }

    fn update(&mut self, database: DatabaseId, entry: &RefLogEntry) -> Result<()> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("change the record of a change of a ref", |conn| {
            let row = ref_log::table
                .filter(ref_log::database_id.eq(database.to_string()))
                .filter(ref_log::kind.eq(entry.kind.word()))
                .filter(ref_log::name.eq(entry.name.as_str()))
                .filter(ref_log::changed_at.eq(entry.at.as_micros()))
                .filter(ref_log::id.eq(entry.id.to_string()));
            let values = (
                ref_log::old_commit.eq(entry.old.as_ref().map(CommitHash::as_str)),
                ref_log::is_left_behind.eq(entry.is_left_behind),
                ref_log::is_erased.eq(entry.is_erased),
            );
            diesel::update(row).set(values).execute(conn)?;
            Ok(())
        })
    }

    fn expire(&mut self, database: DatabaseId, until: Option<Timestamp>) -> Result<u64> {
        self.needs(WriteKey::Database(database));
        self.run_apart_from_rights("remove changes of refs", |conn| {
            let until = until.map_or(i64::MAX, Timestamp::as_micros);
            let ended = ref_log::table
                .filter(ref_log::database_id.eq(database.to_string()))
                .filter(ref_log::changed_at.le(until));
            let removed = diesel::delete(ended).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }

    fn purge(&mut self, until: Timestamp) -> Result<u64> {
        self.run_apart_from_rights("remove old changes of refs", |conn| {
            let ended = ref_log::table.filter(ref_log::changed_at.le(until.as_micros()));
            let removed = diesel::delete(ended).execute(conn)?;
            Ok(count(i64::try_from(removed).unwrap_or(i64::MAX)))
        })
    }

    fn complete_from(&mut self) -> Result<Option<Timestamp>> {
        self.run_apart_from_rights("read since when changes of refs are recorded", |conn| {
            let from: Option<i64> = ref_log_start::table.select(ref_log_start::complete_from).first(conn).optional()?;
            Ok(from.map(time))
        })
    }

    fn set_complete_from(&mut self, from: Timestamp) -> Result<()> {
        self.needs(WriteKey::Server);
        self.run_apart_from_rights("store since when changes of refs are recorded", |conn| {
            let from = ref_log_start::complete_from.eq(from.as_micros());
            if diesel::update(ref_log_start::table).set(from).execute(conn)? == 0 {
                diesel::insert_into(ref_log_start::table).values((ref_log_start::id.eq(1), from)).execute(conn)?;
            }
            Ok(())
        })
    }
}
