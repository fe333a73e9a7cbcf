//! The row of a database, and its segments.

use std::collections::HashSet;
use std::convert::Infallible;
use std::sync::Arc;

use branchyard_domain::ports::{DatabaseRepository as _, MetadataError, RefRepository as _, WriteKey, WriteKeys};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};
use branchyard_segments::{
    Acquired, Commit, Epoch, Extension, Generation, Holder, Known, Record, Records, RecordsError, Saved, Segment, Swap,
    Switch, Switched,
};
use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Binary, Nullable, Text};
use serde::Serialize;

use super::objects::doom_segments;
use super::{End, EngineSql, clock, column, incarnation, rest, text};
use crate::connection::AnyConnection;
use crate::convert::{Read, all, read};
use crate::error::{StoreResult, Unreadable};
use crate::prepared::{Parameter, PreparedSql};
use crate::schema::segments;
use crate::store::Store;
use crate::transaction::SqlTransaction;

/// Reads the row and locks it, with what is left of the leases of two runs of nodes: that of a run, and that of the owner. If another
/// transaction had the lock, what this statement sees of other rows may be older than the row itself.
macro_rules! lock_with_leases {
    ($clock:expr, $lock:literal) => {
        concat!(
            "SELECT generation, durable_length, epoch, owner_node, owner_incarnation, \
             (SELECT alive_until - ",
            $clock,
            " FROM nodes WHERE id = ? AND incarnation = ?), \
             (SELECT alive_until - ",
            $clock,
            " FROM nodes WHERE id = f.owner_node AND incarnation = f.owner_incarnation) \
             FROM files AS f WHERE database_id = ?",
            $lock
        )
    };
}

const LOCK_WITH_LEASES: EngineSql = EngineSql {
    postgres: lock_with_leases!(clock!(postgres), " FOR NO KEY UPDATE OF f"),
    sqlite: lock_with_leases!(clock!(sqlite), ""),
};

const LOCK: EngineSql = EngineSql {
    postgres: "SELECT generation, durable_length, epoch, owner_node, owner_incarnation FROM files WHERE database_id = ? FOR NO KEY UPDATE",
    sqlite: "SELECT generation, durable_length, epoch, owner_node, owner_incarnation FROM files WHERE database_id = ?",
};

/// What is left of the lease of a run of a node, which cannot be renewed until the transaction ends.
const HOLD_LEASE: EngineSql = EngineSql {
    postgres: concat!(
        "SELECT n.alive_until - ",
        clock!(postgres),
        " FROM (SELECT alive_until FROM nodes WHERE id = ? AND incarnation = ? FOR SHARE) AS n"
    ),
    sqlite: concat!("SELECT alive_until - ", clock!(sqlite), " FROM nodes WHERE id = ? AND incarnation = ?"),
};

/// Inserts the row as [`Record::default`] has it.
const ADD: &str = "INSERT INTO files (database_id, generation, durable_length, epoch, write_number) VALUES (?, 0, 0, 0, 0) \
    ON CONFLICT (database_id) DO NOTHING";

/// Extends the row. The condition is the whole fence: Postgres evaluates it again on the newest row if it had to wait for another change.
/// On Postgres, the statement also adds the segments, which it has as a further parameter, and so saves everything in one round trip.
///
/// Numbers of statements that are undone are left out, which does no harm: only which number is higher counts.
const EXTEND: EngineSql = EngineSql {
    postgres: "WITH extended AS (\
        UPDATE files SET durable_length = ?, write_number = nextval('write_numbers') \
        WHERE database_id = ? AND generation = ? AND epoch = ? AND durable_length = ? \
        RETURNING database_id, generation, write_number\
    ), added AS (\
        INSERT INTO segments (database_id, generation, start_at, end_at, object, object_offset, sha256) \
        SELECT e.database_id, e.generation, s.start_at, s.end_at, s.object, s.object_offset, decode(s.sha256, 'hex') \
        FROM extended AS e CROSS JOIN jsonb_to_recordset(?::jsonb) \
            AS s (start_at BIGINT, end_at BIGINT, object TEXT, object_offset BIGINT, sha256 TEXT)\
    ) SELECT write_number FROM extended",
    sqlite: "UPDATE files SET durable_length = ?, write_number = (SELECT max(write_number) + 1 FROM files) \
        WHERE database_id = ? AND generation = ? AND epoch = ? AND durable_length = ? RETURNING write_number",
};

const ADD_SEGMENTS: EngineSql = EngineSql {
    postgres: "INSERT INTO segments (database_id, generation, start_at, end_at, object, object_offset, sha256) \
        SELECT ?, ?, s.start_at, s.end_at, s.object, s.object_offset, decode(s.sha256, 'hex') \
        FROM jsonb_to_recordset(?::jsonb) \
            AS s (start_at BIGINT, end_at BIGINT, object TEXT, object_offset BIGINT, sha256 TEXT)",
    sqlite: "INSERT INTO segments (database_id, generation, start_at, end_at, object, object_offset, sha256) \
        SELECT ?, ?, r ->> 'start_at', r ->> 'end_at', r ->> 'object', r ->> 'object_offset', unhex(r ->> 'sha256') \
        FROM (SELECT value AS r FROM json_each(?))",
};

const SWITCH_ROW: EngineSql = EngineSql {
    postgres: "UPDATE files SET generation = ?, durable_length = ?, copied_from = NULL, write_number = nextval('write_numbers') \
        WHERE database_id = ? RETURNING write_number",
    sqlite: "UPDATE files SET generation = ?, durable_length = ?, copied_from = NULL, write_number = (SELECT max(write_number) + 1 FROM files) \
        WHERE database_id = ? RETURNING write_number",
};

const TAKE: &str = "UPDATE files SET epoch = ?, owner_node = ?, owner_incarnation = ? WHERE database_id = ?";

const MISSING_SEGMENTS: &str = "SELECT start_at, end_at, object, object_offset, sha256 FROM segments \
    WHERE database_id = ? AND generation = ? AND end_at > ? ORDER BY start_at";

/// [`TAKE`] and [`MISSING_SEGMENTS`] in one round trip.
const TAKE_AND_READ: &str = "WITH taken AS (\
    UPDATE files SET epoch = ?, owner_node = ?, owner_incarnation = ? WHERE database_id = ?\
) SELECT start_at, end_at, object, object_offset, sha256 FROM segments \
    WHERE database_id = ? AND generation = ? AND end_at > ? ORDER BY start_at";

/// The row with the segments that a caller lacks, from one snapshot. As by [`Record::since`], the last one is always there: it ends
/// where the durable bytes do.
macro_rules! load {
    ($least:literal) => {
        concat!(
            "SELECT f.generation, f.durable_length, f.epoch, f.owner_node, f.owner_incarnation, \
             s.start_at, s.end_at, s.object, s.object_offset, s.sha256 \
             FROM files AS f LEFT JOIN segments AS s ON s.database_id = f.database_id AND s.generation = f.generation \
             AND s.end_at > CASE WHEN f.generation = ? THEN ",
            $least,
            "(?, f.durable_length - 1) ELSE 0 END WHERE f.database_id = ? ORDER BY s.start_at"
        )
    };
}

const LOAD: EngineSql = EngineSql { postgres: load!("least"), sqlite: load!("min") };

const RELEASE: EngineSql = EngineSql::same(
    "UPDATE files SET owner_node = NULL, owner_incarnation = NULL WHERE database_id = ? AND epoch = ? RETURNING epoch",
);

/// A late request of the holder does not match the next epoch.
const WITHDRAW: EngineSql = EngineSql::same(
    "UPDATE files SET epoch = epoch + 1, owner_node = NULL, owner_incarnation = NULL WHERE database_id = ? AND epoch = ? RETURNING epoch",
);

/// Empties the row. A late request of an earlier holder matches neither number.
const CLEAR: EngineSql = EngineSql {
    postgres: "UPDATE files SET generation = generation + 1, epoch = epoch + 1, durable_length = 0, owner_node = NULL, \
        owner_incarnation = NULL, copied_from = NULL, write_number = nextval('write_numbers') WHERE database_id = ? RETURNING write_number",
    sqlite: "UPDATE files SET generation = generation + 1, epoch = epoch + 1, durable_length = 0, owner_node = NULL, \
        owner_incarnation = NULL, copied_from = NULL, write_number = (SELECT max(write_number) + 1 FROM files) \
        WHERE database_id = ? RETURNING write_number",
};

const IS_PUT_OFF: &str = "SELECT CAST(count(*) AS BIGINT) FROM files WHERE database_id = ? AND copied_from IS NOT NULL";

/// Adds a row with the durable bytes of its source, at one moment, for a copy that is put off. Which objects another row names changes nothing for them.
const SHARE: EngineSql = EngineSql {
    postgres: "WITH shared AS (\
        INSERT INTO files (database_id, generation, durable_length, epoch, write_number, copied_from) \
        SELECT ?, 0, durable_length, 0, write_number, database_id FROM files \
        WHERE database_id = ? AND durable_length > 0 AND copied_from IS NULL RETURNING database_id, copied_from\
    ) INSERT INTO segments (database_id, generation, start_at, end_at, object, object_offset, sha256) \
        SELECT c.database_id, 0, s.start_at, s.end_at, s.object, s.object_offset, s.sha256 FROM shared AS c \
        JOIN files AS f ON f.database_id = c.copied_from \
        JOIN segments AS s ON s.database_id = f.database_id AND s.generation = f.generation",
    sqlite: "INSERT INTO files (database_id, generation, durable_length, epoch, write_number, copied_from) \
        SELECT ?, 0, durable_length, 0, write_number, database_id FROM files \
        WHERE database_id = ? AND durable_length > 0 AND copied_from IS NULL",
};

/// The second half of [`SHARE`] on SQLite.
const SHARE_SEGMENTS: &str = "INSERT INTO segments (database_id, generation, start_at, end_at, object, object_offset, sha256) \
    SELECT c.database_id, 0, s.start_at, s.end_at, s.object, s.object_offset, s.sha256 FROM files AS c \
    JOIN files AS f ON f.database_id = c.copied_from \
    JOIN segments AS s ON s.database_id = f.database_id AND s.generation = f.generation WHERE c.database_id = ?";

type FileColumns = (BigInt, BigInt, BigInt, Nullable<Text>, Nullable<Text>);
type FileValues = (i64, i64, i64, Option<String>, Option<String>);
type SegmentColumns = (BigInt, BigInt, Text, BigInt, Binary);
type SegmentValues = (i64, i64, String, i64, Vec<u8>);

/// A segment as a parameter of a statement.
#[derive(Serialize)]
struct SegmentParameter<'a> {
    start_at: u64,
    end_at: u64,
    object: &'a str,
    object_offset: u64,
    sha256: String,
}

/// The locked row of a database, without its segments, and what is left of two leases in microseconds.
struct LockedRow {
    row: Record,
    /// Of the run that acquires.
    own: Option<i64>,
    /// Of the owner.
    owners: Option<i64>,
}

/// The row of a database in the metadata store. Its methods block, and return futures that are ready.
#[derive(Clone)]
pub struct SqlRecords {
    store: Arc<Store>,
    database: DatabaseId,
}

impl SqlRecords {
    pub(super) fn new(store: Arc<Store>, database: DatabaseId) -> Self {
        Self { store, database }
    }

    fn id(&self) -> Parameter {
        text(self.database.to_string())
    }

    /// Returns `true` if the file names the segments of another database until it is made.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn is_put_off(&self) -> Result<bool, RecordsError> {
        self.store.look_up("look for a copy that is put off", |conn| {
            Ok(PreparedSql::<BigInt>::new(IS_PUT_OFF, vec![self.id()]).get_result::<i64>(conn)? > 0)
        })
    }

    /// Takes the lease from its holder ([`Record::withdraw`]).
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn withdraw(&self, epoch: Epoch) -> Result<(), RecordsError> {
        self.store.change(WITHDRAW, vec![self.id(), Parameter::Number(column(epoch.0))]).map(drop)
    }

    /// Clears the row ([`Record::clear`]), if there is one. The row itself stays, so that no epoch recurs.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn clear(&self) -> Result<(), RecordsError> {
        let number = self.store.transact(&WriteKeys::none(), |tx| Ok(End::Commit(self.clear_in(tx)?)))?;
        if let Some(number) = number {
            self.store.note_write(number);
        }
        Ok(())
    }

    /// Clears the row, and returns the number of this write, if there is a row.
    pub(super) fn clear_in(&self, tx: &mut SqlTransaction) -> Result<Option<i64>, MetadataError> {
        tx.run_apart_from_rights("clear a file", |conn| {
            // Locks the row before segments are removed, so that no extension adds one meanwhile.
            let number = CLEAR.number(conn, vec![self.id()])?;
            self.remove_segments(conn)?;
            Ok(number)
        })
    }

    /// Removes all segments, and dooms their objects.
    fn remove_segments(&self, conn: &mut AnyConnection) -> StoreResult<()> {
        doom_segments(conn, self.database, 0, u64::MAX)?;
        diesel::delete(segments::table.filter(segments::database_id.eq(self.database.to_string()))).execute(conn)?;
        Ok(())
    }

    /// Reads and locks the row, without its segments.
    fn lock(&self, tx: &mut SqlTransaction) -> Result<Option<Record>, MetadataError> {
        tx.run_apart_from_rights("lock a file", |conn| {
            let statement = PreparedSql::<FileColumns>::new(LOCK.of(conn), vec![self.id()]);
            let row: Option<FileValues> = statement.get_result(conn).optional()?;
            Ok(row.map(record).transpose()?)
        })
    }

    /// Reads and locks the row, without its segments, with what is left of the leases of `holder` and of the owner.
    fn lock_with_leases(&self, conn: &mut AnyConnection, holder: &Holder) -> StoreResult<Option<LockedRow>> {
        type Columns = (FileColumns, Nullable<BigInt>, Nullable<BigInt>);
        let parameters = vec![text(&holder.node), text(incarnation(holder.incarnation)), self.id()];
        let statement = PreparedSql::<Columns>::new(LOCK_WITH_LEASES.of(conn), parameters);
        let row: Option<(FileValues, Option<i64>, Option<i64>)> = statement.get_result(conn).optional()?;
        Ok(row
            .map(|(file, own, owners)| Ok::<_, Unreadable>(LockedRow { row: record(file)?, own, owners }))
            .transpose()?)
    }

    fn acquire_in(
        &self,
        tx: &mut SqlTransaction,
        holder: &Holder,
        known: Option<Known>,
    ) -> Result<End<Acquired>, MetadataError> {
        let LockedRow { mut row, own, mut owners } = tx.run_apart_from_rights("take a file", |conn| {
            if let Some(found) = self.lock_with_leases(conn, holder)? {
                return Ok(found);
            }
            PreparedSql::<()>::new(ADD, vec![self.id()]).execute(conn)?;
            Ok(self.lock_with_leases(conn, holder)?.ok_or(diesel::result::Error::NotFound)?)
        })?;
        if rest(own).is_none() {
            return Ok(End::RollBack(Acquired::Ended));
        }
        if let Some(owner) = row.owner.as_ref().filter(|owner| *owner != holder)
            && rest(owners).is_none()
        {
            owners = tx.run_apart_from_rights("look at the lease of an owner", |conn| {
                HOLD_LEASE.number(conn, vec![text(&owner.node), text(incarnation(owner.incarnation))])
            })?;
        }
        if let Err(held) = row.acquire(holder, |_| rest(owners)) {
            return Ok(End::RollBack(Acquired::Held(held)));
        }
        tx.run_apart_from_rights("record the owner of a file", |conn| {
            let taken = [
                Parameter::Number(column(row.epoch.0)),
                text(&holder.node),
                text(incarnation(holder.incarnation)),
                self.id(),
            ];
            let missing = [self.id(), Parameter::Number(column(row.generation.0)), Parameter::Number(has(&row, known))];
            let (sql, parameters) = match conn {
                AnyConnection::Pg(_) => (TAKE_AND_READ, taken.into_iter().chain(missing).collect()),
                AnyConnection::Sqlite(_) => {
                    PreparedSql::<()>::new(TAKE, taken.into()).execute(conn)?;
                    (MISSING_SEGMENTS, missing.into())
                }
            };
            let rows: Vec<SegmentValues> = PreparedSql::<SegmentColumns>::new(sql, parameters).load(conn)?;
            row.segments = all(rows, segment)?;
            Ok(())
        })?;
        Ok(End::Commit(Acquired::Leading(row)))
    }

    fn load_from(&self, conn: &mut AnyConnection, known: Option<Known>) -> StoreResult<Record> {
        type Columns =
            (FileColumns, (Nullable<BigInt>, Nullable<BigInt>, Nullable<Text>, Nullable<BigInt>, Nullable<Binary>));
        type SegmentIfAny = (Option<i64>, Option<i64>, Option<String>, Option<i64>, Option<Vec<u8>>);
        let parameters = vec![
            Parameter::Number(known.map_or(-1, |known| column(known.generation.0))),
            Parameter::Number(known.map_or(0, |known| column(known.length))),
            self.id(),
        ];
        let rows: Vec<(FileValues, SegmentIfAny)> =
            PreparedSql::<Columns>::new(LOAD.of(conn), parameters).load(conn)?;
        let mut found = Record::default();
        for (at, (file, (start, end, object, offset, sha256))) in rows.into_iter().enumerate() {
            if at == 0 {
                found = record(file)?;
            }
            if let (Some(start), Some(end), Some(object), Some(offset), Some(sha256)) =
                (start, end, object, offset, sha256)
            {
                found.segments.push(segment((start, end, object, offset, sha256))?);
            }
        }
        Ok(found)
    }

    /// Extends the row and adds the segments on SQLite, which needs a statement for each.
    fn extend_in(&self, tx: &mut SqlTransaction, extension: &Extension) -> Result<End<Option<i64>>, MetadataError> {
        let parameters = self.extended(extension);
        let changed = tx.run_apart_from_rights("extend a file", |conn| EXTEND.number(conn, parameters))?;
        if changed.is_none() {
            return Ok(End::RollBack(None));
        }
        self.add_segments(tx, extension.generation, &extension.segments)?;
        Ok(End::Commit(changed))
    }

    /// Returns the parameters of [`EXTEND`] but for the segments.
    fn extended(&self, extension: &Extension) -> Vec<Parameter> {
        vec![
            Parameter::Number(column(extension.to())),
            self.id(),
            Parameter::Number(column(extension.generation.0)),
            Parameter::Number(column(extension.epoch.0)),
            Parameter::Number(column(extension.from)),
        ]
    }

    fn add_segments(
        &self,
        tx: &mut SqlTransaction,
        generation: Generation,
        segments: &[Segment],
    ) -> Result<(), MetadataError> {
        tx.run_apart_from_rights("add segments", |conn| {
            let parameters = vec![self.id(), Parameter::Number(column(generation.0)), json(segments)?];
            PreparedSql::<()>::new(ADD_SEGMENTS.of(conn), parameters).execute(conn)?;
            Ok(())
        })
    }

    fn swap_in(&self, tx: &mut SqlTransaction, swap: &Swap) -> Result<End<bool>, MetadataError> {
        let Some(mut row) = self.lock(tx)? else { return Ok(End::RollBack(false)) };
        let (Some(first), Some(last)) = (swap.replaced.first(), swap.replaced.last()) else {
            return Ok(End::RollBack(false));
        };
        let of_generation = segments::table
            .filter(segments::database_id.eq(self.database.to_string()))
            .filter(segments::generation.eq(column(row.generation.0)));
        let between = of_generation.filter(segments::start_at.between(column(first.start), column(last.start)));
        tx.run_apart_from_rights("read segments", |conn| {
            let columns =
                (segments::start_at, segments::end_at, segments::object, segments::object_offset, segments::sha256);
            row.segments = all(between.clone().select(columns).order(segments::start_at).load(conn)?, segment)?;
            Ok(())
        })?;
        if row.swap(swap).is_err() {
            return Ok(End::RollBack(false));
        }
        tx.run_apart_from_rights("remove segments", |conn| {
            doom_segments(conn, self.database, first.start, last.start)?;
            Ok(diesel::delete(between).execute(conn)?)
        })?;
        self.add_segments(tx, swap.generation, &swap.by)?;
        Ok(End::Commit(true))
    }

    fn switch_in(
        &self,
        tx: &mut SqlTransaction,
        switch: &Switch,
    ) -> Result<End<(Switched, Option<i64>)>, MetadataError> {
        let fenced = End::RollBack((Switched::Fenced, None));
        let Some(mut row) = self.lock(tx)? else { return Ok(fenced) };
        if row.switch(switch).is_err() {
            return Ok(fenced);
        }
        let proved: HashSet<&Commit> = switch.heads.iter().collect();
        let mut lacking = self.kept_commits(tx)?;
        lacking.retain(|commit| !proved.contains(commit));
        if !lacking.is_empty() {
            return Ok(End::RollBack((Switched::Lacking(lacking), None)));
        }
        let number = tx.run_apart_from_rights("begin a generation", |conn| {
            self.remove_segments(conn)?;
            let generation = Parameter::Number(column(row.generation.0));
            SWITCH_ROW.number(conn, vec![generation, Parameter::Number(column(row.durable_length)), self.id()])
        })?;
        self.add_segments(tx, row.generation, &row.segments)?;
        // Another number than that of the file: it counts what took commits away, for transactions that name a commit outside a lease.
        tx.next_generation(self.database)?;
        Ok(End::Commit((Switched::Switched, number)))
    }

    /// Returns all commits that the metadata name, as collections of garbage look them up. These have removed from the log of refs what
    /// is too old.
    fn kept_commits(&self, tx: &mut SqlTransaction) -> Result<Vec<Commit>, MetadataError> {
        let ever = Timestamp::from_micros(i64::MIN);
        let named = tx.kept_commits(self.database, Some(ever), None, usize::MAX)?;
        tx.run_apart_from_rights("read a named commit", |_| {
            all(named, |hash: CommitHash| {
                let bytes = HEXLOWER_PERMISSIVE.decode(hash.as_str().as_bytes());
                let bytes = bytes.map_err(|error| Unreadable { column: "a named commit", why: error.to_string() })?;
                read("a named commit", bytes)
            })
        })
    }
}

/// Makes a new database name the segments of another one, if the files of databases are in a store.
pub(crate) fn share_segments(conn: &mut AnyConnection, from: DatabaseId, to: DatabaseId) -> StoreResult<()> {
    let parameters = vec![text(to.to_string()), text(from.to_string())];
    PreparedSql::<()>::new(SHARE.of(conn), parameters).execute(conn)?;
    if let AnyConnection::Sqlite(_) = conn {
        PreparedSql::<()>::new(SHARE_SEGMENTS, vec![text(to.to_string())]).execute(conn)?;
    }
    Ok(())
}

/// Returns the end of the bytes whose segments a caller does not need: those it has, but for the last segment.
fn has(row: &Record, known: Option<Known>) -> i64 {
    let known = known.filter(|known| known.generation == row.generation).map_or(0, |known| known.length);
    column(known.min(row.durable_length.saturating_sub(1)))
}

fn record((generation, durable_length, epoch, node, incarnation): FileValues) -> Read<Record> {
    let owner = node.zip(incarnation).map(|(node, text)| {
        let incarnation = u128::from_str_radix(&text, 16)
            .map_err(|error| Unreadable { column: "files.owner_incarnation", why: error.to_string() })?;
        Ok::<_, Unreadable>(Holder { node, incarnation })
    });
    Ok(Record {
        generation: Generation(read("files.generation", generation)?),
        durable_length: read("files.durable_length", durable_length)?,
        epoch: Epoch(read("files.epoch", epoch)?),
        owner: owner.transpose()?,
        segments: Vec::new(),
    })
}

fn segment((start, end, object, offset, sha256): SegmentValues) -> Read<Segment> {
    Ok(Segment {
        start: read("segments.start_at", start)?,
        end: read("segments.end_at", end)?,
        object,
        object_offset: read("segments.object_offset", offset)?,
        sha256: read("segments.sha256", sha256)?,
    })
}

/// Returns segments as one parameter, so that a statement adds any number of them.
fn json(segments: &[Segment]) -> StoreResult<Parameter> {
    let segments: Vec<SegmentParameter<'_>> = segments
        .iter()
        .map(|segment| SegmentParameter {
            start_at: segment.start,
            end_at: segment.end,
            object: &segment.object,
            object_offset: segment.object_offset,
            sha256: HEXLOWER.encode(&segment.sha256),
        })
        .collect();
    let json = serde_json::to_string(&segments);
    Ok(Parameter::Text(json.map_err(|error| diesel::result::Error::SerializationError(Box::new(error)))?))
}

impl Records for SqlRecords {
    /// Use cases save what they change in transactions of their own.
    type Unit = ();
    type Refusal = Infallible;

    async fn acquire(&self, holder: &Holder, known: Option<Known>) -> Result<Acquired, RecordsError> {
        self.store.transact(&WriteKeys::none(), |tx| self.acquire_in(tx, holder, known))
    }

    async fn load(&self, known: Option<Known>) -> Result<Record, RecordsError> {
        self.store.look_up("read a file", |conn| self.load_from(conn, known))
    }

    async fn extend(&self, extension: &Extension, &(): &()) -> Result<Saved<Infallible>, RecordsError> {
        let changed = if self.store.target.is_sqlite() {
            self.store.transact(&WriteKeys::none(), |tx| self.extend_in(tx, extension))?
        } else {
            let mut parameters = self.extended(extension);
            parameters.push(json(&extension.segments).map_err(|error| super::unavailable(&error))?);
            self.store.change(EXTEND, parameters)?
        };
        let Some(number) = changed else { return Ok(Saved::Fenced) };
        self.store.note_write(number);
        Ok(Saved::Saved)
    }

    async fn swap(&self, swap: &Swap) -> Result<bool, RecordsError> {
        self.store.transact(&WriteKeys::none(), |tx| self.swap_in(tx, swap))
    }

    async fn heads(&self) -> Result<Vec<Commit>, RecordsError> {
        let looked = SqlTransaction::look(&self.store.readers, self.store.log.as_ref());
        looked.and_then(|mut tx| self.kept_commits(&mut tx)).map_err(|error| super::unavailable(&error))
    }

    async fn switch(&self, switch: &Switch, &(): &()) -> Result<Switched, RecordsError> {
        let keys = WriteKeys::none().and(WriteKey::Database(self.database));
        let (switched, number) = self.store.transact(&keys, |tx| self.switch_in(tx, switch))?;
        if let Some(number) = number {
            self.store.note_write(number);
        }
        Ok(switched)
    }

    async fn release(&self, epoch: Epoch) -> Result<(), RecordsError> {
        self.store.change(RELEASE, vec![self.id(), Parameter::Number(column(epoch.0))]).map(drop)
    }
}
