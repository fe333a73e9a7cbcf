//! Detection of changes without a transaction.
//!
//! The header of the index of SQLite's write-ahead log changes with each commit. SQLite itself uses it to detect
//! changes (<https://sqlite.org/walformat.html> §2.1).

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt as _;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;
use parking_lot::Mutex;

use crate::error::OpenError;
use crate::{connection, file};

/// Size of the header in bytes. The file contains the header twice, so that a half-written one is detected.
const HEADER: usize = 48;

/// Position in the header of the number of commits, in the byte order of the machine.
const COMMITS: usize = 8;

/// A state of the store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StoreVersion {
    /// Distinguishes the state from all others.
    pub(crate) hash: u64,
    /// Incremented by each commit of any process.
    pub(crate) commits: u32,
}

/// The open index of the log, and a connection that keeps the index in place.
pub(crate) struct Version {
    /// Never closed: closing it would release the POSIX locks that this process holds on the file, including SQLite's
    /// own.
    index: Option<ManuallyDrop<File>>,
    writes_ahead: bool,
    /// Keeps the index in place, because closing the last connection of any process removes it. Otherwise unused, and
    /// not part of a pool, which might replace it.
    _keeper: Mutex<SqliteConnection>,
}

impl Version {
    pub(crate) fn open(path: &str) -> Result<Self, OpenError> {
        let failed = |reason: String| OpenError::Connect { reason };
        let mut keeper = SqliteConnection::establish(&file::uri(path)).map_err(|error| failed(error.to_string()))?;
        // SQLite opens the log with the first read.
        let looked = keeper.batch_execute("PRAGMA query_only = ON; SELECT count(*) FROM sqlite_schema");
        looked.map_err(|error| failed(error.to_string()))?;
        let writes_ahead = connection::writes_ahead(&mut keeper, "PRAGMA journal_mode");
        let writes_ahead = writes_ahead.map_err(|error| failed(error.to_string()))?;
        // There is no index if the file system has no shared memory; SQLite then works without the log.
        let index = File::open(format!("{path}-shm")).ok().map(ManuallyDrop::new);
        Ok(Self { index, writes_ahead, _keeper: Mutex::new(keeper) })
    }

    /// Returns `true` if there is a log. The log then stays the same file too.
    pub(crate) fn writes_ahead(&self) -> bool {
        self.writes_ahead
    }

    /// Returns a number for the current state. Returns `None` if the header cannot be read now; the caller then has to
    /// query the store.
    pub(crate) fn now(&self) -> Option<u64> {
        self.look().map(|version| version.hash)
    }

    /// Returns the current state. `None` as for [`Version::now`].
    pub(crate) fn look(&self) -> Option<StoreVersion> {
        let mut both = [0; 2 * HEADER];
        self.index.as_ref()?.read_exact_at(&mut both, 0).ok()?;
        let (first, second) = both.split_at(HEADER);
        if first != second {
            return None;
        }
        // The header contains a change counter, salts, and checksums of the last frame and of itself.
        let mut hasher = DefaultHasher::new();
        hasher.write(first);
        let commits = first.get(COMMITS..COMMITS + 4)?;
        Some(StoreVersion { hash: hasher.finish(), commits: u32::from_ne_bytes(commits.try_into().ok()?) })
    }
}
