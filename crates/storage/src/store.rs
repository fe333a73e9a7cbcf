//! The store: its connection pools and transactions.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use branchyard_auth::HashedToken;
use branchyard_deployments::ports::{DeploymentStore, DeploymentTransaction, DeploymentWatchKey, DeploymentWatchMarks};
use branchyard_domain::ports::{
    Metadata, MetadataError, RequestFacts, RequestTarget, Transaction, WatchKey, WatchMarks, WriteKeys,
};
use diesel::RunQueryDsl as _;
use diesel::connection::SimpleConnection as _;
use diesel::deserialize::QueryableByName;

use crate::connection::{AnyConnection, ConnectionPool, Generations, StoreTarget, TransactionKind};
use crate::error::{OpenError, is_passing};
use crate::file;
use crate::rights_version::RightsVersion;
use crate::transaction::SqlTransaction;
use crate::version::Version;
use crate::wal_sync::WalSync;

/// The limits of a store.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Maximum number of connections for read-only transactions.
    pub readers: u32,
    /// Maximum number of connections for transactions that write. Always 1 on SQLite, which admits one writer at a
    /// time: a queue for the connection is fair and wakes its waiters at once, whereas waiting for the lock of the file
    /// polls.
    pub writers: u32,
    /// Maximum time to wait for a connection, or for other writers.
    pub wait: Duration,
    /// Maximum run time of a statement (Postgres only).
    pub statement: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { readers: 8, writers: 16, wait: Duration::from_secs(5), statement: Duration::from_secs(30) }
    }
}

/// How often emptying the write-ahead log is tried while a reader uses it, and the pause between two attempts.
const SCRUB_ATTEMPTS: u32 = 10;
const SCRUB_PAUSE: Duration = Duration::from_millis(200);

/// The versions of a store on SQLite.
pub(crate) struct Versions {
    pub(crate) store: Version,
    pub(crate) rights: RightsVersion,
}

/// The metadata store on SQLite or Postgres.
pub struct Store {
    pub(crate) target: StoreTarget,
    pub(crate) readers: ConnectionPool,
    pub(crate) writers: ConnectionPool,
    versions: Option<Arc<Versions>>,
    pub(crate) log: Option<Arc<WalSync>>,
    /// The highest number of a write to a file that this value saved.
    pub(crate) own_writes: AtomicU64,
}

impl Store {
    /// Opens the store at `sqlite://PATH`, a plain path, `postgres://…` or `postgresql://…`. A missing SQLite file is
    /// created empty; its folder is not created. [`Store::migrate`] creates the tables.
    ///
    /// # Errors
    /// [`OpenError`]; its text states what to do.
    ///
    /// # TLS
    /// `sslmode` and `sslrootcert` of a Postgres URL have the meaning that libpq gives them, also without a libpq that has TLS.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, OpenError> {
        let mut target = StoreTarget::parse(url)?;
        let mut writers = options.writers;
        if let StoreTarget::Sqlite { path } = &mut target {
            file::prepare(Path::new(path))?;
            // SQLite places the log beside the file itself, not beside a link to the file.
            *path = file::resolved(path)?;
            writers = 1;
        }
        // The writer comes first, because it switches a new file to WAL mode.
        let (generations, node) = (Generations::default(), Arc::default());
        let pool = |purpose, size| {
            ConnectionPool::open(&target, purpose, size, options.wait, options.statement, &generations, &node)
        };
        let writers = pool(TransactionKind::Write, writers)?;
        let readers = pool(TransactionKind::Read, options.readers)?;
        // On Postgres, other servers change the store too, and asking for a version costs as much as a query.
        let version = match &target {
            StoreTarget::Sqlite { path } => Some(Version::open(path)?),
            StoreTarget::Postgres(_) => None,
        };
        let log = match (&target, &version) {
            (StoreTarget::Sqlite { path }, Some(version)) if version.writes_ahead() => {
                Some(Arc::new(WalSync::open(path)?))
            }
            _ => None,
        };
        let versions = version.map(|store| Arc::new(Versions { store, rights: RightsVersion::default() }));
        let store = Self { target, readers, writers, versions, log, own_writes: AtomicU64::new(0) };
        store.settle_log()?;
        Ok(store)
    }

    /// Syncs the log and checkpoints what a killed process, or one whose disk failed, left there. Afterwards everything
    /// that can be read is on disk.
    fn settle_log(&self) -> Result<(), OpenError> {
        let Some(log) = &self.log else { return Ok(()) };
        log.sync()?;
        let failed = |reason: String| OpenError::Connect { reason };
        let mut writer = self.writers.get().map_err(|error| failed(error.to_string()))?;
        // Does not wait for readers. What is not checkpointed stays in the log, which is on disk.
        if let Err(error) = writer.any.batch_execute("PRAGMA wal_checkpoint(PASSIVE)") {
            // Expected in a read-only folder. A transaction that commits reports an error.
            tracing::warn!(%error, "cannot checkpoint the write-ahead log of the metadata store");
        }
        Ok(())
    }

    /// Checks that the server can lock rows for transactions that write. The store has to be migrated.
    ///
    /// # Errors
    /// [`OpenError::Locks`]; [`OpenError::Connect`].
    pub fn check_locks(&self) -> Result<(), OpenError> {
        let failed = |error: &dyn std::fmt::Display| OpenError::Connect { reason: error.to_string() };
        let mut writer = self.writers.get().map_err(|error| failed(&error))?;
        let AnyConnection::Pg(pg) = &mut writer.any else { return Ok(()) };
        let tried = pg.batch_execute(
            "BEGIN; SELECT 1 FROM server FOR NO KEY UPDATE; SELECT 1 FROM accounts WHERE id IN ('') ORDER BY id FOR SHARE",
        );
        pg.batch_execute("ROLLBACK").map_err(|error| failed(&error))?;
        match tried {
            Err(error) if is_passing(&error) => Err(failed(&error)),
            Err(error) => {
                #[derive(QueryableByName)]
                struct Server {
                    #[diesel(sql_type = diesel::sql_types::Text)]
                    version: String,
                }
                let server = diesel::sql_query("SELECT version() AS version").get_result::<Server>(pg);
                let server = server.map_err(|error| failed(&error))?.version;
                Err(OpenError::Locks { server, reason: error.to_string() })
            }
            Ok(()) => Ok(()),
        }
    }

    /// Begins a transaction that holds `keys`, or one that only reads.
    pub(crate) fn transaction(&self, keys: Option<&WriteKeys>) -> Result<SqlTransaction, MetadataError> {
        let pool = if keys.is_none() { &self.readers } else { &self.writers };
        SqlTransaction::begin(pool, keys, self.log.as_ref(), self.versions.as_ref())
    }

    /// Returns the current load of the connection pools.
    pub fn connections(&self) -> Connections {
        Connections { readers: self.readers.load(), writers: self.writers.load() }
    }
}

/// The load of a store's connection pools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// Load of the pool for read-only transactions.
    pub readers: ConnectionPoolLoad,
    /// Load of the pool for transactions that write.
    pub writers: ConnectionPoolLoad,
}

/// The load of a connection pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionPoolLoad {
    /// Number of connections in use.
    pub busy: u32,
    /// Number of idle connections.
    pub idle: u32,
}

impl DeploymentStore for Store {
    fn read_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>, MetadataError> {
        Ok(Box::new(self.transaction(None)?))
    }

    fn write_deployments(&self, keys: &WriteKeys) -> Result<Box<dyn DeploymentTransaction + '_>, MetadataError> {
        Ok(Box::new(self.transaction(Some(keys))?))
    }

    fn deployment_marks(&self, keys: &[DeploymentWatchKey]) -> Result<DeploymentWatchMarks, MetadataError> {
        self.marks_of_deployments(keys)
    }
}

impl Metadata for Store {
    fn read(&self) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Ok(Box::new(self.transaction(None)?))
    }

    fn look(&self) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Ok(Box::new(SqlTransaction::look(&self.readers, self.log.as_ref())?))
    }

    fn request_facts(
        &self,
        token: &HashedToken,
        target: Option<&RequestTarget>,
    ) -> Result<Option<RequestFacts>, MetadataError> {
        // What is kept of SQLite answers the other look-ups.
        match target.filter(|_| self.versions.is_none()) {
            Some(target) => SqlTransaction::look(&self.readers, None)?.request_facts(token, target),
            None => Ok(self.look()?.tokens().by_hash(token)?.map(RequestFacts::of_token)),
        }
    }

    fn write(&self, keys: &WriteKeys) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Ok(Box::new(self.transaction(Some(keys))?))
    }

    fn watch_marks(&self, keys: &[WatchKey]) -> Result<WatchMarks, MetadataError> {
        self.marks_of(keys)
    }

    fn version(&self) -> Option<u64> {
        self.versions.as_ref()?.store.now()
    }

    fn rights_version(&self) -> Option<u64> {
        let versions = self.versions.as_ref()?;
        versions.rights.of(versions.store.now()?)
    }

    /// On SQLite, deleted values are overwritten when the change is checkpointed (`connection`), and are in the log until
    /// then. On Postgres, they go with the next vacuum and with the write-ahead log that the server keeps.
    fn scrub(&self) -> Result<(), MetadataError> {
        if self.log.is_none() {
            return Ok(());
        }
        #[derive(QueryableByName)]
        struct Checkpoint {
            #[diesel(sql_type = diesel::sql_types::Integer)]
            busy: i32,
        }
        let fault = |source| MetadataError::Fault { context: "empty the write-ahead log", source };
        for _ in 0..SCRUB_ATTEMPTS {
            let mut writer = self.writers.get().map_err(|error| MetadataError::Unavailable(error.into()))?;
            let checkpoint = diesel::sql_query("PRAGMA wal_checkpoint(TRUNCATE)");
            let Checkpoint { busy } = checkpoint.get_result(&mut writer.any).map_err(|error| fault(error.into()))?;
            if busy == 0 {
                return Ok(());
            }
            drop(writer);
            std::thread::sleep(SCRUB_PAUSE);
        }
        Err(fault("readers of old snapshots did not end".into()))
    }
}
