//! The store: pools, and the units they give.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::{Metadata, MetadataError, Unit};

use crate::connection::{Pool, Purpose, Target};
use crate::error::OpenError;
use crate::file;
use crate::log::Log;
use crate::unit::SqlUnit;
use crate::version::Version;

/// How many connections, and how long to wait.
#[derive(Debug, Clone)]
pub struct Options {
    /// Connections for units that read.
    pub readers: u32,
    /// Connections for units that write. SQLite has one, whatever is said here: it admits one writer at a time, and a queue
    /// for the connection is fair and wakes at once where waiting for the file's lock polls.
    pub writers: u32,
    /// The longest wait for a connection, and for other writers.
    pub wait: Duration,
    /// The longest a single statement may run (Postgres).
    pub statement: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { readers: 8, writers: 4, wait: Duration::from_secs(5), statement: Duration::from_secs(30) }
    }
}

/// The metadata store on SQLite or Postgres.
pub struct Store {
    pub(crate) readers: Pool,
    pub(crate) writers: Pool,
    version: Option<Version>,
    log: Option<Arc<Log>>,
}

impl Store {
    /// Opens the store at `sqlite://PATH`, a plain path, `postgres://…` or `postgresql://…`. A missing SQLite file is made,
    /// empty; its folder is not. Tables come with [`Store::migrate`].
    ///
    /// # Errors
    /// [`OpenError`] says what to do about it.
    pub fn open(url: &str, options: &Options) -> Result<Self, OpenError> {
        let target = Target::parse(url)?;
        let mut writers = options.writers;
        if let Target::Sqlite { path } = &target {
            file::prepare(Path::new(path))?;
            writers = 1;
        }
        // The writer first: it is the one that turns a new file to WAL mode.
        let pool = |purpose, size| Pool::open(&target, purpose, size, options.wait, options.statement);
        let writers = pool(Purpose::Write, writers)?;
        let readers = pool(Purpose::Read, options.readers)?;
        // Another server on the same Postgres changes things too, and asking it is a round trip, as looking is.
        let version = match &target {
            Target::Sqlite { path } => Some(Version::open(path)?),
            Target::Postgres(_) => None,
        };
        let log = match (&target, &version) {
            (Target::Sqlite { path }, Some(version)) if version.has_log() => Some(Arc::new(Log::open(path)?)),
            _ => None,
        };
        Ok(Self { readers, writers, version, log })
    }

    pub(crate) fn unit(&self, purpose: Purpose) -> Result<SqlUnit, MetadataError> {
        let pool = if purpose == Purpose::Read { &self.readers } else { &self.writers };
        SqlUnit::begin(pool, purpose, self.log.as_ref())
    }

    /// Its connections now.
    pub fn connections(&self) -> Connections {
        Connections { readers: self.readers.load(), writers: self.writers.load() }
    }
}

/// The connections of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    /// For units that read.
    pub readers: Load,
    /// For units that write.
    pub writers: Load,
}

/// Connections of one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Used by a unit.
    pub busy: u32,
    /// Kept open for the next.
    pub idle: u32,
}

impl Metadata for Store {
    fn read(&self) -> Result<Box<dyn Unit + '_>, MetadataError> {
        Ok(Box::new(self.unit(Purpose::Read)?))
    }

    fn write(&self) -> Result<Box<dyn Unit + '_>, MetadataError> {
        Ok(Box::new(self.unit(Purpose::Write)?))
    }

    fn version(&self) -> Option<u64> {
        self.version.as_ref()?.now()
    }
}
