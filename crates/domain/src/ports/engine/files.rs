//! The files of an engine, for what keeps their bytes elsewhere too.

use std::path::{Path, PathBuf};

use super::EngineError;
use crate::values::DatabaseId;

/// The files in which an engine keeps databases. Each is a sequence of records to which commits append.
pub trait DatabaseFiles: Send + Sync {
    /// Returns the path of the file of a database.
    fn path(&self, database: DatabaseId) -> PathBuf;

    /// Returns a path for a new file, on the same file system. No other call gets the same path; files that are left there are removed
    /// when a server starts.
    fn new_path(&self) -> PathBuf;

    /// Ends all use of the file of a database and closes it everywhere. Calls that read it go on with what they have open.
    ///
    /// Closing a file that was open for writing may append to it.
    ///
    /// # Errors
    /// [`EngineError`].
    fn close(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// Makes a new file the file of a database, durably, in place of the old one. Calls that read the old one go on with it.
    ///
    /// # Errors
    /// [`EngineError`]. Either file may then be in place.
    fn install(&self, database: DatabaseId, new: &Path) -> Result<(), EngineError>;

    /// Has the file of a database made anew before its next use, of what its refs reach, as that of a copy that was put off
    /// ([`Engine::copy_later`](super::Engine::copy_later)).
    ///
    /// # Errors
    /// [`EngineError`].
    fn put_off(&self, database: DatabaseId) -> Result<(), EngineError>;

    /// Returns `true` if a record of the file ends at `at`, so that a writer may continue from there: behind a root, or at the length of a
    /// file to which nothing was added since it was collected.
    ///
    /// # Errors
    /// [`EngineError`].
    fn ends_record(&self, database: DatabaseId, at: u64) -> Result<bool, EngineError>;
}
