//! Private copies of database files, for work that has to write but must not wait for the writers of the database.
//!
//! A copy is taken without the write turn of the database. This is safe because the file only grows at its end, an
//! incomplete end is cut off when the copy is opened, and garbage collection replaces the file and leaves the old one
//! unchanged.

use std::path::{Path, PathBuf};

use branchyard_domain::ports::EngineError;
use branchyard_domain::values::{CommitHash, DatabaseId};

use crate::connection::{Connection, ConnectionUse};
use crate::engine::{DoltliteEngine, io_fault, missing};
use crate::files::{self, Temporary};
use crate::sql::errors;

/// A copy of a database file in the temporary folder, open for writing. The copy is removed when dropped.
pub(crate) struct PrivateCopy {
    // Fields are dropped in this order: the connection is closed before the file is removed.
    connection: Connection,
    /// The copy, unless another process made it and removes it.
    _file: Option<Temporary>,
    path: PathBuf,
}

impl PrivateCopy {
    /// Copies the file of `database`, which must contain all of `commits`. Returns `None` if the file is longer than
    /// `most` bytes and the file system cannot share blocks.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if the database lacks one of the commits.
    pub(crate) fn of(
        engine: &DoltliteEngine,
        database: DatabaseId,
        commits: &[&CommitHash],
        most: u64,
    ) -> Result<Option<Self>, EngineError> {
        match Self::try_of(engine, database, commits, most) {
            // The file may have been replaced or cut off during the copy.
            Err(EngineError::NoSuchCommit(_) | EngineError::Damaged(_) | EngineError::DamagedCommit { .. }) => {
                Self::try_of(engine, database, commits, most)
            }
            taken => taken,
        }
    }

    fn try_of(
        engine: &DoltliteEngine,
        database: DatabaseId,
        commits: &[&CommitHash],
        most: u64,
    ) -> Result<Option<Self>, EngineError> {
        engine.check_format(database)?;
        let (path, file) = (engine.files.path(database), engine.files.temporary());
        match files::copy_for_now(&path, file.path(), most, engine.options.share_blocks) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(_) if !path.exists() => return Err(missing(database)),
            Err(error) => return Err(io_fault("copy a database for a while", error)),
        }
        let path = file.path().to_owned();
        Self::open(engine, path, Some(file), commits).map(Some)
    }

    /// Opens a copy that another process made and provided under `path`.
    ///
    /// # Errors
    /// [`EngineError::NoSuchCommit`] if the copy lacks one of `commits`.
    pub(crate) fn provided(
        engine: &DoltliteEngine,
        path: PathBuf,
        commits: &[&CommitHash],
    ) -> Result<Self, EngineError> {
        Self::open(engine, path, None, commits)
    }

    fn open(
        engine: &DoltliteEngine,
        path: PathBuf,
        file: Option<Temporary>,
        commits: &[&CommitHash],
    ) -> Result<Self, EngineError> {
        let connection =
            engine.open_file(&path, ConnectionUse::Write).map_err(|error| errors::fault("open a copy", error))?;
        // The copy does not outlive the process, so no write has to reach the disk.
        connection
            .raw()
            .execute_batch("PRAGMA synchronous = off")
            .map_err(|error| errors::fault("set up a copy", error))?;
        for commit in commits {
            connection
                .raw()
                .query_row("SELECT 1 FROM dolt_log(?) LIMIT 1", [commit.as_str()], |_| Ok(()))
                .map_err(|error| errors::fault_at("read a copy", commit, error))?;
        }
        Ok(Self { connection, _file: file, path })
    }

    /// Returns the connection to the copy.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the path of the copy.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}
