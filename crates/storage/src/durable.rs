//! The rows of the protocol by which nodes share the files of databases (`branchyard_segments`).
//!
//! [`SqlRecords`] is the row of a database with its segments, [`SqlNodes`] are the rows of nodes, [`SqlObjects`] are the objects that
//! segments name or named. What must hold before a change is
//! decided under a lock of the row that is changed, either by the condition of one statement, or by the methods of
//! [`Record`](branchyard_segments::Record) in a transaction. The keys of other transactions (`write_keys`) are not needed for that;
//! only [`Records::switch`](branchyard_segments::Records::switch) takes the database's, because it compares refs.
//!
//! # Times
//! They are read from the store's clock by the statement that uses them: that of the Postgres server, which all nodes share, or that of
//! this machine for SQLite.
//!
//! # Lost answers
//! A call fails with [`RecordsError::Unavailable`] if nothing was changed for certain: before a commit, or if the server said so. If
//! the answer of a commit is lost, or that of a statement which is a transaction by itself, the error is [`RecordsError::Unknown`].

mod collector;
mod data_keys;
mod losses;
mod marks;
mod node_administration;
mod nodes;
mod objects;
mod records;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{Durability, MetadataError, Transaction as _, WriteKeys};
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{Generation, Known, RecordsError};
use diesel::prelude::*;
use diesel::result::{DatabaseErrorKind, Error as DieselError};
use diesel::sql_types::{BigInt, Text};

use crate::connection::AnyConnection;
use crate::convert::{all, count, read};
use crate::error::{StoreError, StoreResult, is_server_gone, says};
use crate::prepared::{Parameter, PreparedSql};
use crate::store::Store;
use crate::transaction::{SqlTransaction, proved_connection};

pub use collector::{CollectError, Collection, Collector, Task, for_each_object, objects_of};
pub use data_keys::SqlDataKeys;
pub use losses::{losses_of, store_loss};
pub use marks::{MarkError, older_records, remove_marks, store_mark};
pub use node_administration::SqlCluster;
pub use nodes::{LiveNode, NodeRun, SqlNodes};
pub use objects::{ObjectCounts, SqlObjects};
pub use records::SqlRecords;
pub(crate) use records::share_segments;

/// The store's time in microseconds since 1970, as an expression of each engine.
macro_rules! clock {
    (postgres) => {
        "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)"
    };
    (sqlite) => {
        "CAST(unixepoch('now', 'subsec') * 1000000 AS INTEGER)"
    };
}
use clock;

/// A statement in the words of each engine, with the same parameters.
#[derive(Debug, Clone, Copy)]
struct EngineSql {
    postgres: &'static str,
    sqlite: &'static str,
}

impl EngineSql {
    const fn same(text: &'static str) -> Self {
        Self { postgres: text, sqlite: text }
    }

    fn of(self, conn: &AnyConnection) -> &'static str {
        match conn {
            AnyConnection::Pg(_) => self.postgres,
            AnyConnection::Sqlite(_) => self.sqlite,
        }
    }

    /// Runs the statement, and returns its only number, if there is a row.
    fn number(self, conn: &mut AnyConnection, parameters: Vec<Parameter>) -> StoreResult<Option<i64>> {
        Ok(PreparedSql::<BigInt>::new(self.of(conn), parameters).get_result(conn).optional()?)
    }
}

/// Files with the nodes that lead them, as text: what [`led_elsewhere`] has without its conditions.
macro_rules! files_with_leaders {
    () => {
        "files AS f JOIN nodes AS n ON n.id = f.owner_node AND n.incarnation = f.owner_incarnation"
    };
}
pub(crate) use files_with_leaders;

/// The rows of a database that another live node than this one leads. What runs in the database is to run there.
macro_rules! led_elsewhere {
    ($database:expr, $node:expr, $now:expr) => {{
        use crate::schema::{files, nodes};
        let is_of_owner = nodes::id.nullable().eq(files::owner_node);
        files::table
            .inner_join(nodes::table.on(is_of_owner.and(nodes::incarnation.nullable().eq(files::owner_incarnation))))
            .filter(files::database_id.eq($database))
            .filter(nodes::id.ne($node))
            .filter(nodes::alive_until.gt($now))
    }};
}
pub(crate) use led_elsewhere;

/// The highest number of a saved write. It is read from the rows and not from the sequence: the sequence survives a crash of the server,
/// and is in a backup, with a number that is up to 32 higher than those that were used, so it could hide that writes were lost.
const WRITE_COUNTER: &str = "SELECT coalesce(max(write_number), 0) FROM files";

const DURABLE_BYTES: &str = "SELECT database_id, generation, durable_length FROM files";

/// How a transaction ends.
enum End<T> {
    Commit(T),
    RollBack(T),
}

impl Store {
    /// Returns the row of a database for the protocol. It exists from the first acquisition on, also before the database is added.
    pub fn records(self: &Arc<Self>, database: DatabaseId) -> SqlRecords {
        SqlRecords::new(Arc::clone(self), database)
    }

    /// Returns the generations and durable lengths of all databases.
    ///
    /// # Errors
    /// [`RecordsError::Unavailable`].
    pub fn durable_bytes(&self) -> Result<HashMap<DatabaseId, Known>, RecordsError> {
        self.look_up("read what is durable", |conn| {
            let rows: Vec<(String, i64, i64)> =
                PreparedSql::<(Text, BigInt, BigInt)>::new(DURABLE_BYTES, Vec::new()).load(conn)?;
            let known = all(rows, |(id, generation, length)| {
                let generation = Generation(read("files.generation", generation)?);
                Ok((
                    read("files.database_id", id)?,
                    Known { generation, length: read("files.durable_length", length)? },
                ))
            });
            Ok(known?.into_iter().collect())
        })
    }

    /// Returns the rows of nodes for the protocol.
    pub fn nodes(self: &Arc<Self>) -> SqlNodes {
        SqlNodes::new(Arc::clone(self))
    }

    /// Returns the objects that the rows name, or named before.
    pub fn objects(self: &Arc<Self>) -> SqlObjects {
        SqlObjects::new(Arc::clone(self))
    }

    /// Returns the highest number of a write that is saved in the store. Each extension and each switch of a file has a number, higher
    /// than those of the writes that had ended when it began. The counter compares as
    /// [`Mark::counter`](branchyard_segments::Mark::counter) with [`Store::own_write_counter`] of all nodes.
    ///
    /// # Errors
    /// [`MetadataError`] if the store fails.
    pub fn write_counter(&self) -> Result<u64, MetadataError> {
        let mut tx = SqlTransaction::look(&self.readers, self.log.as_ref())?;
        tx.run_apart_from_rights("read the counter of writes", |conn| {
            let number: i64 = PreparedSql::<BigInt>::new(WRITE_COUNTER, Vec::new()).get_result(conn)?;
            Ok(count(number))
        })
    }

    /// Returns the highest number of a write that was saved through this value, and whose answer arrived; 0 if there was none.
    pub fn own_write_counter(&self) -> u64 {
        self.own_writes.load(Ordering::Acquire)
    }

    fn note_write(&self, number: i64) {
        self.own_writes.fetch_max(count(number), Ordering::AcqRel);
    }

    /// Runs a transaction that changes rows.
    fn transact<T>(
        &self,
        keys: &WriteKeys,
        steps: impl FnOnce(&mut SqlTransaction) -> Result<End<T>, MetadataError>,
    ) -> Result<T, RecordsError> {
        let mut tx = Box::new(self.transaction(Some(keys)).map_err(|error| unavailable(&error))?);
        match steps(&mut tx).map_err(|error| unavailable(&error))? {
            End::RollBack(value) => Ok(value),
            End::Commit(value) => match tx.commit(Durability::Synced) {
                Ok(()) => Ok(value),
                Err(error) => Err(unknown(&error)),
            },
        }
    }

    /// Runs a statement that changes rows as a transaction of its own, and returns its only number, if there is a row. On Postgres, this
    /// is one round trip.
    fn change(&self, sql: EngineSql, parameters: Vec<Parameter>) -> Result<Option<i64>, RecordsError> {
        if self.target.is_sqlite() {
            return self.transact(&WriteKeys::none(), |tx| {
                let changed = tx.run_apart_from_rights("change a row", |conn| sql.number(conn, parameters))?;
                Ok(End::Commit(changed))
            });
        }
        let mut conn = proved_connection(&self.writers).map_err(|error| unavailable(&error))?;
        let changed = sql.number(&mut conn.any, parameters);
        conn.used_at = Instant::now();
        changed.map_err(|error| {
            if let StoreError::Sql(error) = &error
                && is_server_gone(error)
            {
                conn.discard(error);
            }
            if is_rolled_back(&error) { unavailable(&error) } else { unknown(&error) }
        })
    }

    /// Runs steps that only read. In Postgres, each of their statements is a transaction.
    fn look_up<T>(
        &self,
        context: &'static str,
        steps: impl FnOnce(&mut AnyConnection) -> StoreResult<T>,
    ) -> Result<T, RecordsError> {
        let looked = SqlTransaction::look(&self.readers, self.log.as_ref());
        looked.and_then(|mut tx| tx.run_apart_from_rights(context, steps)).map_err(|error| unavailable(&error))
    }
}

/// Returns `true` if the error of a statement that was a transaction by itself says for certain that nothing was changed. The end of a
/// connection is no such error, also if the server reports it: the server may do so after it has committed.
fn is_rolled_back(error: &StoreError) -> bool {
    const SIGNS: &[&str] = &["lock timeout", "statement timeout", "deadlock detected"];
    let StoreError::Sql(error) = error else { return false };
    match error {
        DieselError::DatabaseError(kind, _) => match kind {
            DatabaseErrorKind::UniqueViolation
            | DatabaseErrorKind::ForeignKeyViolation
            | DatabaseErrorKind::NotNullViolation
            | DatabaseErrorKind::CheckViolation
            | DatabaseErrorKind::SerializationFailure
            | DatabaseErrorKind::ReadOnlyTransaction => true,
            DatabaseErrorKind::Unknown => says(error, SIGNS),
            _ => false,
        },
        _ => false,
    }
}

fn unavailable(error: &dyn std::error::Error) -> RecordsError {
    RecordsError::Unavailable(with_causes(error))
}

fn unknown(error: &dyn std::error::Error) -> RecordsError {
    RecordsError::Unknown(with_causes(error))
}

/// Returns the text of an error and of its causes. Errors of the protocol are values, which cannot carry the causes themselves.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        // A transparent error has the text of its cause.
        if !text.ends_with(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}

/// Returns a number as a column has it. Positions in files are far below the limit.
fn column(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a time span as columns have it, in microseconds.
fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the rest of a lease, or `None` if it has ended.
fn rest(micros: Option<i64>) -> Option<Duration> {
    let micros = u64::try_from(micros?).ok().filter(|&micros| micros > 0)?;
    Some(Duration::from_micros(micros))
}

/// Returns the number of a run of a node as columns have it.
fn incarnation(number: u128) -> String {
    format!("{number:032x}")
}

fn text(value: impl Into<String>) -> Parameter {
    Parameter::Text(value.into())
}
