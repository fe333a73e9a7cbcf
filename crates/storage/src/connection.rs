//! Connections: the choice of the engine, the setup of a connection, and the pools.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use diesel::connection::{AnsiTransactionManager, SimpleConnection};
use diesel::prelude::*;
use diesel::r2d2::R2D2Connection as _;
use parking_lot::Mutex;

use crate::error::{OpenError, is_server_gone};
use crate::file;
use crate::postgres::{PostgresConnector, PostgresError};
use crate::store::ConnectionPoolLoad;

/// A connection to either engine. [`StoreTarget`] chooses the variant. SQLite is last because it accepts any path.
#[derive(diesel::MultiConnection)]
pub(crate) enum AnyConnection {
    Pg(PgConnection),
    Sqlite(SqliteConnection),
}

/// The location of the store.
#[derive(Clone)]
pub(crate) enum StoreTarget {
    Postgres(Arc<PostgresConnector>),
    Sqlite { path: String },
}

impl StoreTarget {
    pub(crate) fn parse(url: &str) -> Result<Self, OpenError> {
        let path = match url.split_once("://") {
            Some(("postgres" | "postgresql", _)) => {
                return Ok(Self::Postgres(Arc::new(PostgresConnector::new(url)?)));
            }
            Some(("sqlite", path)) => path,
            Some((scheme, _)) => return Err(OpenError::Scheme { scheme: scheme.to_owned() }),
            None => url,
        };
        match path {
            "" => Err(OpenError::NoPath),
            ":memory:" => Err(OpenError::InMemory(path.to_owned())),
            _ => Ok(Self::Sqlite { path: path.to_owned() }),
        }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        matches!(self, Self::Sqlite { .. })
    }
}

/// Which connections of a store are older than a failure of the server.
///
/// If one connection to Postgres fails, the server may have restarted, or another one may have taken over. The other connections have
/// failed too then, or lead to a server that no longer writes. None of them is used again, in either pool, so that a call meets one of them
/// at most.
#[derive(Clone, Default)]
pub(crate) struct Generations(Arc<AtomicU64>);

impl Generations {
    fn now(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

/// A pooled connection that can be marked as unusable.
pub(crate) struct Pooled {
    pub(crate) any: AnyConnection,
    pub(crate) broken: bool,
    pub(crate) used_at: Instant,
    generations: Generations,
    generation: u64,
}

impl Pooled {
    /// Returns `true` if a connection that is not newer has failed.
    fn is_stale(&self) -> bool {
        self.generation < self.generations.now()
    }

    /// Discards this connection and, if `error` may concern them, all that are not newer.
    pub(crate) fn discard(&mut self, error: &diesel::result::Error) {
        self.broken = true;
        if matches!(self.any, AnyConnection::Pg(_)) && is_server_gone(error) {
            let next = self.generation + 1;
            // An earlier failure may have begun the next generation.
            let _ = self.generations.0.compare_exchange(self.generation, next, Ordering::AcqRel, Ordering::Acquire);
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(transparent)]
    Connect(#[from] ConnectionError),
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    #[error(transparent)]
    Query(#[from] diesel::result::Error),
    /// Not an error of an attempt to connect.
    #[error("the connection is older than a failure of the server")]
    Stale,
}

pub(crate) struct Manager {
    target: StoreTarget,
    generations: Generations,
}

impl r2d2::ManageConnection for Manager {
    type Connection = Pooled;
    type Error = ConnectError;

    fn connect(&self) -> Result<Pooled, ConnectError> {
        // Read first: a failure during the attempt may concern this connection too.
        let generation = self.generations.now();
        let any = match &self.target {
            StoreTarget::Postgres(connector) => AnyConnection::Pg(connector.connect()?),
            StoreTarget::Sqlite { path } => AnyConnection::Sqlite(SqliteConnection::establish(&file::uri(path))?),
        };
        Ok(Pooled { any, broken: false, used_at: Instant::now(), generations: self.generations.clone(), generation })
    }

    /// Does not ask the server. The `BEGIN` of a transaction does, and is repeated on another connection if it fails.
    fn is_valid(&self, conn: &mut Pooled) -> Result<(), ConnectError> {
        if conn.is_stale() { Err(ConnectError::Stale) } else { Ok(()) }
    }

    /// A thread that panics leaves its transaction open. Closing the connection ends the transaction.
    fn has_broken(&self, conn: &mut Pooled) -> bool {
        conn.broken || conn.is_stale() || std::thread::panicking() || conn.any.is_broken()
    }
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransactionKind {
    Read,
    Write,
}

/// Runs a `PRAGMA journal_mode` statement. Returns `true` if SQLite uses a write-ahead log.
pub(crate) fn writes_ahead(conn: &mut SqliteConnection, pragma: &str) -> QueryResult<bool> {
    #[derive(QueryableByName)]
    struct OpenMode {
        #[diesel(sql_type = diesel::sql_types::Text)]
        journal_mode: String,
    }
    let OpenMode { journal_mode } = diesel::sql_query(pragma).get_result(conn)?;
    Ok(journal_mode == "wal")
}

#[derive(Debug)]
struct SetUp {
    purpose: TransactionKind,
    wait: Duration,
    statement: Duration,
}

impl r2d2::CustomizeConnection<Pooled, ConnectError> for SetUp {
    fn on_acquire(&self, conn: &mut Pooled) -> Result<(), ConnectError> {
        let wait = self.wait.as_millis();
        match &mut conn.any {
            AnyConnection::Sqlite(sqlite) => {
                // The busy timeout comes first, because the following statements may meet a lock.
                sqlite.batch_execute(&format!("PRAGMA busy_timeout = {wait}; PRAGMA foreign_keys = ON"))?;
                // An acknowledged change survives a power cut. In WAL mode, that takes a sync of the log, which
                // transactions share (`wal_sync`).
                let level = if writes_ahead(sqlite, "PRAGMA journal_mode = WAL")? { "NORMAL" } else { "FULL" };
                // What is deleted or replaced is overwritten, so that it cannot be read from the file.
                sqlite.batch_execute(&format!("PRAGMA synchronous = {level}; PRAGMA secure_delete = ON"))?;
                if self.purpose == TransactionKind::Read {
                    sqlite.batch_execute("PRAGMA query_only = ON")?;
                }
            }
            AnyConnection::Pg(pg) => {
                let statement = self.statement.as_millis();
                // In English, because `error::is_passing` recognizes some errors by their text. Not every role may set
                // this.
                let _ = pg.batch_execute("SET lc_messages = 'C'");
                pg.batch_execute(&format!(
                    "SET lock_timeout = {wait}; SET statement_timeout = {statement}; SET client_min_messages = warning; \
                     SET application_name = 'branchyard'"
                ))?;
            }
        }
        Ok(())
    }
}

/// Keeps the cause of the last failed attempt to connect, because r2d2 only reports the timeout.
#[derive(Debug, Clone, Default)]
struct LastError(Arc<Mutex<Option<String>>>);

impl r2d2::HandleError<ConnectError> for LastError {
    fn handle_error(&self, error: ConnectError) {
        if matches!(error, ConnectError::Stale) {
            return;
        }
        tracing::warn!(%error, "cannot connect to the metadata store");
        *self.0.lock() = Some(error.to_string());
    }
}

/// No connection became available in time.
#[derive(Debug, thiserror::Error)]
#[error("no connection to the metadata store within {} ms: {}", .waited.as_millis(), .reason.as_deref().unwrap_or("all are in use"))]
pub(crate) struct NoConnection {
    waited: Duration,
    reason: Option<String>,
}

pub(crate) type PooledConnection = r2d2::PooledConnection<Manager>;

/// The node of a cluster that this process is, if it is one.
#[derive(Debug, Default)]
pub(crate) struct OwnNode {
    id: OnceLock<Box<str>>,
    address: OnceLock<Box<str>>,
    is_drained: AtomicBool,
}

impl OwnNode {
    /// Returns its id; an empty text if this process is no node.
    pub(crate) fn id(&self) -> &str {
        self.id.get().map_or("", |id| id)
    }

    /// Records the node that this process is. Only the first call has an effect.
    pub(crate) fn become_node(&self, id: &str) {
        let _ = self.id.set(id.into());
    }

    /// Returns the address at which other nodes reach it; an empty text if there is none.
    pub(crate) fn address(&self) -> &str {
        self.address.get().map_or("", |address| address)
    }

    /// Records the address at which other nodes reach it. Only the first call has an effect.
    pub(crate) fn set_address(&self, address: &str) {
        let _ = self.address.set(address.into());
    }

    /// Returns `true` if other nodes are to run what is queued.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained.load(Ordering::Relaxed)
    }

    /// Records whether other nodes are to run what is queued.
    pub(crate) fn set_drained(&self, is_drained: bool) {
        self.is_drained.store(is_drained, Ordering::Relaxed);
    }
}

/// A bounded pool. The wait for a connection is bounded too.
pub(crate) struct ConnectionPool {
    pool: r2d2::Pool<Manager>,
    errors: LastError,
    wait: Duration,
    node: Arc<OwnNode>,
}

impl ConnectionPool {
    pub(crate) fn open(
        target: &StoreTarget,
        purpose: TransactionKind,
        size: u32,
        wait: Duration,
        statement: Duration,
        generations: &Generations,
        node: &Arc<OwnNode>,
    ) -> Result<Self, OpenError> {
        let errors = LastError::default();
        let pool = r2d2::Pool::builder()
            .max_size(size.max(1))
            .min_idle(Some(1))
            .connection_timeout(wait)
            .test_on_check_out(true)
            .error_handler(Box::new(errors.clone()))
            .connection_customizer(Box::new(SetUp { purpose, wait, statement }));
        let pool = if target.is_sqlite() { pool.idle_timeout(None).max_lifetime(None) } else { pool };
        let pool =
            pool.build(Manager { target: target.clone(), generations: generations.clone() }).map_err(|error| {
                OpenError::Connect { reason: errors.0.lock().take().unwrap_or_else(|| error.to_string()) }
            })?;
        Ok(Self { pool, errors, wait, node: Arc::clone(node) })
    }

    /// Returns the node that this process is.
    pub(crate) fn node(&self) -> &Arc<OwnNode> {
        &self.node
    }

    pub(crate) fn get(&self) -> Result<PooledConnection, NoConnection> {
        self.pool.get().map_err(|_| NoConnection { waited: self.wait, reason: self.errors.0.lock().take() })
    }

    pub(crate) fn load(&self) -> ConnectionPoolLoad {
        let state = self.pool.state();
        ConnectionPoolLoad {
            busy: state.connections.saturating_sub(state.idle_connections),
            idle: state.idle_connections,
        }
    }
}

/// Begins a transaction with the given statement for the connection's engine.
pub(crate) fn begin(conn: &mut AnyConnection, postgres: &str, sqlite: &str) -> QueryResult<()> {
    match conn {
        AnyConnection::Pg(conn) => AnsiTransactionManager::begin_transaction_sql(conn, postgres),
        AnyConnection::Sqlite(conn) => AnsiTransactionManager::begin_transaction_sql(conn, sqlite),
    }
}
