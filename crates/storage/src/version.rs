//! Whether anything has changed, told without a transaction: the header of the index of SQLite's write-ahead log, a file, changes
//! with each commit, and is what SQLite itself looks at to find out (<https://sqlite.org/walformat.html> §2.1).

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::mem::ManuallyDrop;
use std::os::unix::fs::FileExt as _;
use std::sync::Mutex;

use diesel::connection::SimpleConnection as _;
use diesel::prelude::*;

use crate::error::OpenError;
use crate::{connection, file};

/// The header, which is there twice so that a half-written one can be told.
const HEADER: usize = 48;

/// The index of the log, and a connection without which it would not stay the same file.
pub(crate) struct Version {
    /// Never closed: POSIX would give up what locks this process holds on the file, and SQLite's own are among them.
    index: Option<ManuallyDrop<File>>,
    writes_ahead: bool,
    /// Whoever closes the last connection removes the index, in this process or another. Used no more, and in no pool, which might replace it.
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
        // There is none where the file system has no shared memory and SQLite did without the log.
        let index = File::open(format!("{path}-shm")).ok().map(ManuallyDrop::new);
        Ok(Self { index, writes_ahead, _keeper: Mutex::new(keeper) })
    }

    /// Whether there is a log, which then stays the same file too.
    pub(crate) fn writes_ahead(&self) -> bool {
        self.writes_ahead
    }

    /// `None` when it cannot be told just now; whoever wants to know then looks.
    pub(crate) fn now(&self) -> Option<u64> {
        let mut both = [0; 2 * HEADER];
        self.index.as_ref()?.read_exact_at(&mut both, 0).ok()?;
        let (first, second) = both.split_at(HEADER);
        if first != second {
            return None;
        }
        // It holds a count of changes, salts, and checksums of the last frame and of itself.
        let mut hasher = DefaultHasher::new();
        hasher.write(first);
        Some(hasher.finish())
    }
}
