//! The store: pools, and the transactions they give.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use branchyard_deployments::ports::{DeploymentStore, DeploymentTransaction};
use branchyard_domain::ports::{Metadata, MetadataError, Transaction};
use diesel::connection::SimpleConnection as _;

use crate::connection::{ConnectionPool, StoreTarget, TransactionKind};
use crate::error::OpenError;
use crate::file;
use crate::transaction::SqlTransaction;
use crate::version::Version;
use crate::wal_sync::WalSync;

/// How many connections, and how long to wait.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// Connections for transactions that read.
    pub readers: u32,
    /// Connections for transactions that write. SQLite has one, whatever is said here: it admits one writer at a time, and a queue
    /// for the connection is fair and wakes at once where waiting for the file's lock polls.
    pub writers: u32,
    /// The longest wait for a connection, and for other writers.
    pub wait: Duration,
    /// The longest a single statement may run (Postgres).
    pub statement: Duration,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { readers: 8, writers: 4, wait: Duration::from_secs(5), statement: Duration::from_secs(30) }
    }
}

/// The metadata store on SQLite or Postgres.
pub struct Store {
    pub(crate) readers: ConnectionPool,
    pub(crate) writers: ConnectionPool,
    version: Option<Version>,
    pub(crate) log: Option<Arc<WalSync>>,
}

impl Store {
    /// Opens the store at `sqlite://PATH`, a plain path, `postgres://…` or `postgresql://…`. A missing SQLite file is made,
    /// empty; its folder is not. Tables come with [`Store::migrate`].
    ///
    /// # Errors
    /// [`OpenError`] says what to do about it.
    pub fn open(url: &str, options: &StoreOptions) -> Result<Self, OpenError> {
        let mut target = StoreTarget::parse(url)?;
        let mut writers = options.writers;
        if let StoreTarget::Sqlite { path } = &mut target {
            file::prepare(Path::new(path))?;
            // SQLite keeps the log beside the file itself, also where this is a link to it.
            *path = file::resolved(path)?;
            writers = 1;
        }
        // The writer first: it is the one that turns a new file to WAL mode.
        let pool = |purpose, size| ConnectionPool::open(&target, purpose, size, options.wait, options.statement);
        let writers = pool(TransactionKind::Write, writers)?;
        let readers = pool(TransactionKind::Read, options.readers)?;
        // Another server on the same Postgres changes things too, and asking it is a round trip, as looking is.
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
        let store = Self { readers, writers, version, log };
        store.settle_log()?;
        Ok(store)
    }

    /// Brings into the file what a process that was killed, or whose disk failed, left in the log. From here on all that can be read is on disk.
    fn settle_log(&self) -> Result<(), OpenError> {
        let Some(log) = &self.log else { return Ok(()) };
        log.sync()?;
        let failed = |reason: String| OpenError::Connect { reason };
        let mut writer = self.writers.get().map_err(|error| failed(error.to_string()))?;
        // It waits for nobody: what others read just now is left in the log, which is on disk.
        if let Err(error) = writer.any.batch_execute("PRAGMA wal_checkpoint(PASSIVE)") {
            // So it is in a folder that can only be read. Whoever saves is told.
            tracing::warn!(%error, "the log of the metadata store could not be brought into its file");
        }
        Ok(())
    }

    pub(crate) fn transaction(&self, purpose: TransactionKind) -> Result<SqlTransaction, MetadataError> {
        let pool = if purpose == TransactionKind::Read { &self.readers } else { &self.writers };
        SqlTransaction::begin(pool, purpose, self.log.as_ref())
    }

    /// Its connections now.
    pub fn connections(&self) -> Connections {
        Connections { readers: self.readers.load(), writers: self.writers.load() }
    }
}

/// The connections of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// For transactions that read.
    pub readers: PoolLoad,
    /// For transactions that write.
    pub writers: PoolLoad,
}

/// Connections of one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolLoad {
    /// Used by a transaction.
    pub busy: u32,
    /// Kept open for the next.
    pub idle: u32,
}

impl DeploymentStore for Store {
    fn read_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>, MetadataError> {
        Ok(Box::new(self.transaction(TransactionKind::Read)?))
    }

    fn write_deployments(&self) -> Result<Box<dyn DeploymentTransaction + '_>, MetadataError> {
        Ok(Box::new(self.transaction(TransactionKind::Write)?))
    }
}

impl Metadata for Store {
    fn read(&self) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Ok(Box::new(self.transaction(TransactionKind::Read)?))
    }

    fn write(&self) -> Result<Box<dyn Transaction + '_>, MetadataError> {
        Ok(Box::new(self.transaction(TransactionKind::Write)?))
    }

    fn version(&self) -> Option<u64> {
        self.version.as_ref()?.now()
    }
}
