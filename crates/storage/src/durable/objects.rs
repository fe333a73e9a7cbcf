//! The objects that the rows name, and those that they named before.
//!
//! A transaction that removes segments dooms their objects. Objects that were never named are found by listing the store. Either kind
//! is deleted after a while, if it is still garbage then ([`Examined::is_garbage`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::entities::StoredObjects;
use branchyard_domain::ports::{WriteKey, WriteKeys};
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{DoomedObject, Epoch, Examined, Generation, Record, RecordsError};
use diesel::prelude::*;
use diesel::sql_types::{BigInt, Nullable, Text};

use super::{End, EngineSql, clock, column, micros, text, unavailable};
use crate::convert::{all, count, read, time};
use crate::error::StoreResult;
use crate::prepared::{Parameter, PreparedSql};
use crate::store::Store;

/// The parameter is a JSON array of names. An array of one statement has at most as many as a page of a listing.
const EXAMINE: EngineSql = EngineSql {
    postgres: "SELECT f.generation, f.durable_length, f.epoch, \
        CASE WHEN EXISTS (SELECT 1 FROM segments AS s WHERE s.object = k.object) THEN 1::BIGINT ELSE 0 END, \
        CASE WHEN EXISTS (SELECT 1 FROM doomed_objects AS d WHERE d.object = k.object) THEN 1::BIGINT ELSE 0 END \
        FROM jsonb_array_elements_text(?::jsonb) WITH ORDINALITY AS k (object, at) \
        LEFT JOIN files AS f ON f.database_id = split_part(k.object, '/', 1) ORDER BY k.at",
    sqlite: "SELECT f.generation, f.durable_length, f.epoch, \
        EXISTS (SELECT 1 FROM segments AS s WHERE s.object = k.value), \
        EXISTS (SELECT 1 FROM doomed_objects AS d WHERE d.object = k.value) \
        FROM json_each(?) AS k \
        LEFT JOIN files AS f ON f.database_id = substr(k.value, 1, instr(k.value, '/') - 1) ORDER BY k.key",
};

/// The parameters are the time for which the objects are kept, and their names as a JSON array.
const DOOM: EngineSql = EngineSql {
    postgres: concat!(
        "INSERT INTO doomed_objects (object, since, was_named, kept_until) SELECT k.object, ",
        clock!(postgres),
        ", 0, ",
        clock!(postgres),
        " + ? FROM jsonb_array_elements_text(?::jsonb) AS k (object) ON CONFLICT (object) DO NOTHING"
    ),
    sqlite: concat!(
        "INSERT INTO doomed_objects (object, since, was_named, kept_until) SELECT k.value, ",
        clock!(sqlite),
        ", 0, ",
        clock!(sqlite),
        " + ? FROM json_each(?) AS k WHERE true ON CONFLICT (object) DO NOTHING"
    ),
};

macro_rules! doom_segments {
    ($clock:expr) => {
        concat!(
            "INSERT INTO doomed_objects (object, since, was_named) SELECT DISTINCT object, ",
            $clock,
            ", 1 FROM segments AS s WHERE database_id = ? AND start_at BETWEEN ? AND ? AND NOT EXISTS (SELECT 1 FROM segments AS o \
             WHERE o.object = s.object AND o.database_id <> s.database_id) ON CONFLICT (object) DO NOTHING"
        )
    };
}

/// Dooms the objects of segments that are about to be removed and that no other database names. If two databases cease to name an object
/// at once, both may leave it to a listing of all objects. The parameters are the database and the range of their starts.
const DOOM_SEGMENTS: EngineSql =
    EngineSql { postgres: doom_segments!(clock!(postgres)), sqlite: doom_segments!(clock!(sqlite)) };

macro_rules! due {
    ($clock:expr) => {
        concat!(
            "SELECT object, CAST(was_named AS BIGINT) FROM doomed_objects WHERE since <= ",
            $clock,
            " - ? AND kept_until <= ",
            $clock,
            " ORDER BY since, object LIMIT ?"
        )
    };
}

const DUE: EngineSql = EngineSql { postgres: due!(clock!(postgres)), sqlite: due!(clock!(sqlite)) };

const FORGET: EngineSql = EngineSql {
    postgres: "DELETE FROM doomed_objects WHERE object IN (SELECT jsonb_array_elements_text(?::jsonb))",
    sqlite: "DELETE FROM doomed_objects WHERE object IN (SELECT value FROM json_each(?))",
};

const COUNT: &str = "SELECT (SELECT count(*) FROM segments), (SELECT count(*) FROM doomed_objects)";

macro_rules! totals {
    ($clock:expr) => {
        concat!(
            "SELECT (SELECT count(*) FROM segments), \
             (SELECT CAST(coalesce(sum(durable_length), 0) AS BIGINT) FROM files), \
             (SELECT coalesce(max(of_one.segments), 0) \
                FROM (SELECT count(*) AS segments FROM segments GROUP BY database_id) AS of_one), \
             (SELECT count(*) FROM doomed_objects), \
             (SELECT count(*) FROM doomed_objects WHERE since <= ",
            $clock,
            " - ? AND kept_until <= ",
            $clock,
            "), (SELECT min(since) FROM doomed_objects), (SELECT nullif(max(collected_at), 0) FROM store_state)"
        )
    };
}

/// The parameter is the time for which objects are kept.
const TOTALS: EngineSql = EngineSql { postgres: totals!(clock!(postgres)), sqlite: totals!(clock!(sqlite)) };

macro_rules! begin {
    ($clock:expr) => {
        concat!(
            "UPDATE store_state SET collector = ?, collector_until = ",
            $clock,
            " + ? WHERE (collector_until <= ",
            $clock,
            " OR collector = ?) AND collected_at <= ",
            $clock,
            " - ? RETURNING ",
            $clock,
            " - listed_at"
        )
    };
}

/// The parameters are the collector, the length of its turn, the collector, and the time since the last collection. Returns the time
/// since all objects were listed last.
const BEGIN: EngineSql = EngineSql { postgres: begin!(clock!(postgres)), sqlite: begin!(clock!(sqlite)) };

macro_rules! end {
    ($clock:expr) => {
        concat!(
            "UPDATE store_state SET collector = NULL, collector_until = 0, collected_at = ",
            $clock,
            ", listed_at = CASE WHEN ? = 1 THEN ",
            $clock,
            " ELSE listed_at END WHERE collector = ? RETURNING CAST(1 AS BIGINT)"
        )
    };
}

const END: EngineSql = EngineSql { postgres: end!(clock!(postgres)), sqlite: end!(clock!(sqlite)) };

macro_rules! raise_to {
    ($greatest:literal) => {
        concat!(
            "INSERT INTO files (database_id, generation, durable_length, epoch, write_number) VALUES (?, 0, 0, ?, 0) \
             ON CONFLICT (database_id) DO UPDATE SET epoch = ",
            $greatest,
            "(files.epoch, excluded.epoch)"
        )
    };
}

const RAISE_TO: EngineSql = EngineSql { postgres: raise_to!("greatest"), sqlite: raise_to!("max") };

const RAISE: &str = "UPDATE files SET epoch = epoch + 1, owner_node = NULL, owner_incarnation = NULL";

const UNUSED: &str = "SELECT database_id FROM files AS f WHERE durable_length > 0 \
    AND NOT EXISTS (SELECT 1 FROM databases AS d WHERE d.id = f.database_id) ORDER BY database_id";

const IS_USED: &str = "SELECT CAST(count(*) AS BIGINT) FROM databases WHERE id = ?";

/// How many objects the rows name, and how many wait to be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectCounts {
    /// Segments, each of which names an object.
    pub named: u64,
    /// Doomed objects.
    pub doomed: u64,
}

/// The objects that the metadata store knows of. All nodes share it. Its methods block.
#[derive(Clone)]
pub struct SqlObjects {
    store: Arc<Store>,
}

/// Returns names as one parameter.
fn names(objects: &[String]) -> StoreResult<Parameter> {
    let json = serde_json::to_string(objects);
    Ok(Parameter::Text(json.map_err(|error| diesel::result::Error::SerializationError(Box::new(error)))?))
}

/// Dooms the objects of the segments of a database that begin in a range, before these are removed.
pub(super) fn doom_segments(
    conn: &mut crate::connection::AnyConnection,
    database: DatabaseId,
    first: u64,
    last: u64,
) -> StoreResult<()> {
    let parameters =
        vec![text(database.to_string()), Parameter::Number(column(first)), Parameter::Number(column(last))];
    PreparedSql::<()>::new(DOOM_SEGMENTS.of(conn), parameters).execute(conn)?;
    Ok(())
}

impl SqlObjects {
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Returns how many objects there are, but for those that were never named.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn counts(&self) -> Result<ObjectCounts, RecordsError> {
        self.store.look_up("count objects", |conn| {
            let (named, doomed): (i64, i64) =
                PreparedSql::<(BigInt, BigInt)>::new(COUNT, Vec::new()).get_result(conn)?;
            Ok(ObjectCounts { named: count(named), doomed: count(doomed) })
        })
    }

    /// Returns how much there is in the store, but for objects that were never named. `grace` is the time for which doomed objects
    /// are kept.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn totals(&self, grace: Duration) -> Result<StoredObjects, RecordsError> {
        type Columns = (BigInt, BigInt, BigInt, BigInt, BigInt, Nullable<BigInt>, Nullable<BigInt>);
        type Values = (i64, i64, i64, i64, i64, Option<i64>, Option<i64>);
        self.store.look_up("measure the store of databases", |conn| {
            let statement = PreparedSql::<Columns>::new(TOTALS.of(conn), vec![Parameter::Number(micros(grace))]);
            let (segments, bytes, most_segments, doomed, due, doomed_since, collected_at): Values =
                statement.get_result(conn)?;
            Ok(StoredObjects {
                segments: count(segments),
                bytes: count(bytes),
                most_segments: count(most_segments),
                doomed: count(doomed),
                due: count(due),
                doomed_since: doomed_since.map(time),
                collected_at: collected_at.map(time),
            })
        })
    }

    /// Raises the epochs of all databases above those that they have, and above these. What was written in an earlier epoch can no
    /// longer come into use. Databases without a row get one.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn raise_epochs(&self, epochs: &BTreeMap<DatabaseId, u64>) -> Result<(), RecordsError> {
        self.store.transact(&WriteKeys::server(), |tx| {
            tx.run_apart_from_rights("raise epochs", |conn| {
                for (database, epoch) in epochs {
                    let parameters = vec![text(database.to_string()), Parameter::Number(column(*epoch))];
                    PreparedSql::<()>::new(RAISE_TO.of(conn), parameters).execute(conn)?;
                }
                PreparedSql::<()>::new(RAISE, Vec::new()).execute(conn)?;
                Ok(())
            })?;
            Ok(End::Commit(()))
        })
    }

    /// Returns what the rows say about objects, in the order of their names.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn examine(&self, objects: &[String]) -> Result<Vec<Examined>, RecordsError> {
        type Columns = (Nullable<BigInt>, Nullable<BigInt>, Nullable<BigInt>, BigInt, BigInt);
        type Values = (Option<i64>, Option<i64>, Option<i64>, i64, i64);
        self.store.look_up("examine objects", |conn| {
            let statement = PreparedSql::<Columns>::new(EXAMINE.of(conn), vec![names(objects)?]);
            let rows: Vec<Values> = statement.load(conn)?;
            all(rows, |(generation, length, epoch, is_named, is_doomed)| {
                let record = Record {
                    generation: Generation(read("files.generation", generation.unwrap_or_default())?),
                    durable_length: read("files.durable_length", length.unwrap_or_default())?,
                    epoch: Epoch(read("files.epoch", epoch.unwrap_or_default())?),
                    ..Record::default()
                };
                Ok(Examined { record, is_named: is_named != 0, is_doomed: is_doomed != 0 })
            })
        })
    }

    /// Dooms objects that were never named, to be kept for at least a time.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn doom(&self, objects: &[String], keep: Duration) -> Result<(), RecordsError> {
        self.change(DOOM, vec![Parameter::Number(micros(keep))], objects)
    }

    /// Returns up to `limit` objects that were doomed at least `grace` ago, the oldest first.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn due(&self, grace: Duration, limit: usize) -> Result<Vec<DoomedObject>, RecordsError> {
        self.store.look_up("look for objects to delete", |conn| {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let parameters = vec![Parameter::Number(micros(grace)), Parameter::Number(limit)];
            let rows: Vec<(String, i64)> = PreparedSql::<(Text, BigInt)>::new(DUE.of(conn), parameters).load(conn)?;
            Ok(rows.into_iter().map(|(object, was_named)| DoomedObject { object, was_named: was_named != 0 }).collect())
        })
    }

    /// Forgets doomed objects.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn forget(&self, objects: &[String]) -> Result<(), RecordsError> {
        self.change(FORGET, Vec::new(), objects)
    }

    /// Begins a collection, or prolongs it, for `turn` from now on. Returns `None` if another collector has its turn, or if the last
    /// collection ended less than `every` ago; otherwise the time since all objects were listed last.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn begin(&self, collector: &str, turn: Duration, every: Duration) -> Result<Option<Duration>, RecordsError> {
        let parameters =
            vec![text(collector), Parameter::Number(micros(turn)), text(collector), Parameter::Number(micros(every))];
        let since = self.store.change(BEGIN, parameters)?;
        Ok(since.map(|micros| Duration::from_micros(count(micros))))
    }

    /// Ends a collection. `has_listed` says that it listed all objects.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn end(&self, collector: &str, has_listed: bool) -> Result<(), RecordsError> {
        self.store.change(END, vec![Parameter::Number(i64::from(has_listed)), text(collector)]).map(drop)
    }

    /// Returns the databases that have bytes although they were never added, or were removed.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn unused(&self) -> Result<Vec<String>, RecordsError> {
        self.store.look_up("look for unused bytes", |conn| {
            let ids = PreparedSql::<Text>::new(UNUSED, Vec::new()).load(conn)?;
            Ok(ids)
        })
    }

    /// Clears the row of a database that has bytes although it was never added, or was removed. Returns `false` if there is such a
    /// database.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn clear_unused(&self, database: &str) -> Result<bool, RecordsError> {
        let database = DatabaseId::parse(database).map_err(|error| unavailable(&error))?;
        let keys = WriteKeys::none().and(WriteKey::Database(database));
        let (is_cleared, number) = self.store.transact(&keys, |tx| {
            let used = tx.run_apart_from_rights("look for a database", |conn| {
                Ok(PreparedSql::<BigInt>::new(IS_USED, vec![text(database.to_string())]).get_result::<i64>(conn)?)
            })?;
            if used > 0 {
                return Ok(End::RollBack((false, None)));
            }
            Ok(End::Commit((true, self.store.records(database).clear_in(tx)?)))
        })?;
        if let Some(number) = number {
            self.store.note_write(number);
        }
        Ok(is_cleared)
    }

    /// Returns the number of segments of all databases.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn named(&self) -> Result<u64, RecordsError> {
        Ok(self.counts()?.named)
    }

    /// Returns the highest number of a write that is saved.
    ///
    /// # Errors
    /// [`RecordsError`].
    pub fn write_counter(&self) -> Result<u64, RecordsError> {
        self.store.write_counter().map_err(|error| unavailable(&error))
    }

    /// Runs a statement whose last parameter is a list of objects.
    fn change(&self, sql: EngineSql, mut parameters: Vec<Parameter>, objects: &[String]) -> Result<(), RecordsError> {
        parameters.push(names(objects).map_err(|error| unavailable(&error))?);
        self.store.transact(&WriteKeys::none(), |tx| {
            tx.run_apart_from_rights("change doomed objects", |conn| {
                PreparedSql::<()>::new(sql.of(conn), parameters).execute(conn)?;
                Ok(())
            })?;
            Ok(End::Commit(()))
        })
    }
}
