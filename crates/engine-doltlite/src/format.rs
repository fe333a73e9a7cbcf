//! The format of database files, and its check before a file is opened.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::sync::{Arc, OnceLock};

use branchyard_domain::ports::{EngineError, RecordedFormats};
use branchyard_domain::values::DatabaseId;
use parking_lot::RwLock;

use crate::engine::{io_fault, missing};

/// The format of the files that the engine writes, and the only one that it opens (`CHUNK_STORE_VERSION` of DoltLite).
pub const NEWEST_FORMAT: u32 = 12;
/// The first bytes of a file; the format follows as a number of four bytes, the lowest first.
const MAGIC: &[u8; 4] = b"CTLD";
/// Maximum number of databases whose check is remembered. Beyond it, all are checked again.
const MOST: usize = 100_000;

/// Returns the format of a file, or `None` if the file is not one of the engine or is not complete.
///
/// # Errors
/// An error if the file cannot be read.
pub fn format_of(path: &Path) -> io::Result<Option<u32>> {
    let (mut magic, mut format) = ([0; MAGIC.len()], [0; 4]);
    let mut file = File::open(path)?;
    match file.read_exact(&mut magic).and_then(|()| file.read_exact(&mut format)) {
        Ok(()) => Ok((&magic == MAGIC).then(|| u32::from_le_bytes(format))),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns an error if `format` is newer than the formats that the engine opens.
///
/// # Errors
/// [`EngineError::UnknownFormat`].
pub fn refuse_newer(format: Option<u32>) -> Result<(), EngineError> {
    match format.filter(|format| *format > NEWEST_FORMAT) {
        Some(found) => Err(EngineError::UnknownFormat { found, newest: NEWEST_FORMAT }),
        None => Ok(()),
    }
}

/// Checks the formats of databases, each once until its file is replaced.
#[derive(Default)]
pub struct FormatCheck {
    recorded: OnceLock<Arc<dyn RecordedFormats>>,
    passed: RwLock<HashSet<DatabaseId>>,
}

impl std::fmt::Debug for FormatCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FormatCheck").field("passed", &self.passed.read().len()).finish_non_exhaustive()
    }
}

impl FormatCheck {
    /// Makes the checks look up what is recorded. Only the first call has an effect.
    pub fn look_up_in(&self, recorded: Arc<dyn RecordedFormats>) {
        self.recorded.get_or_init(|| recorded);
    }

    /// Checks the format in the file of a database, and the one that is recorded.
    ///
    /// # Errors
    /// [`EngineError::UnknownFormat`] if one of them is newer than those that the engine opens; other errors if the
    /// record cannot be read.
    pub fn check(&self, database: DatabaseId, path: &Path) -> Result<(), EngineError> {
        if self.has_passed(database) {
            return Ok(());
        }
        match format_of(path) {
            Ok(format) => refuse_newer(format)?,
            // Opening the file reports it.
            Err(_) => return Ok(()),
        }
        if let Some(recorded) = self.recorded.get() {
            let recorded = recorded.recorded(database)?;
            refuse_newer(recorded)?;
            if recorded.is_none() {
                // The database is being created.
                return Ok(());
            }
        }
        let mut passed = self.passed.write();
        if passed.len() >= MOST {
            passed.clear();
        }
        passed.insert(database);
        Ok(())
    }

    /// Returns `true` if the database has passed [`Self::check`]. Never blocks for long.
    pub fn has_passed(&self, database: DatabaseId) -> bool {
        self.passed.read().contains(&database)
    }

    /// Checks the database again before it is opened next, because its file is replaced.
    pub fn forget(&self, database: DatabaseId) {
        self.passed.write().remove(&database);
    }

    /// Returns the format of the file of a database.
    ///
    /// # Errors
    /// [`EngineError::Damaged`] if the database has no file or the file has no format.
    pub fn format(&self, database: DatabaseId, path: &Path) -> Result<u32, EngineError> {
        let format = format_of(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => missing(database),
            _ => io_fault("read the format of a database", error),
        })?;
        format.ok_or_else(|| EngineError::Damaged(format!("the file of database {database} has no format")))
    }
}
