//! A copy of a database as a file, for what is no node: a backup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use branchyard_domain::ports::{DatabaseFiles, DatabaseStore, EngineError, Ids};
use branchyard_domain::values::DatabaseId;
use branchyard_segments::{DatabaseFile, Limits, Ports, Records as _, run};
use parking_lot::Mutex;

use crate::engine::{RecordSource, of_protocol};
use crate::local_file::NodeFile;
use crate::objects::{RandomNonces, StoredObjects};

/// The one file that is written.
struct OneFile {
    path: PathBuf,
    ends_record: fn(&Path, u64) -> io::Result<bool>,
}

impl DatabaseFiles for OneFile {
    fn path(&self, _database: DatabaseId) -> PathBuf {
        self.path.clone()
    }

    fn new_path(&self) -> PathBuf {
        self.path.with_extension("new")
    }

    fn close(&self, _database: DatabaseId) -> Result<(), EngineError> {
        Ok(())
    }

    fn install(&self, _database: DatabaseId, new: &Path) -> Result<(), EngineError> {
        let failed = |error: io::Error| EngineError::Unavailable(format!("write a copy of a database: {error}"));
        fs::File::open(new).and_then(|file| file.sync_all()).map_err(failed)?;
        fs::rename(new, &self.path).map_err(failed)
    }

    fn ends_record(&self, _database: DatabaseId, at: u64) -> Result<bool, EngineError> {
        (self.ends_record)(&self.path, at)
            .map_err(|error| EngineError::Unavailable(format!("look at the end of a copy of a database: {error}")))
    }
}

/// Writes the durable bytes of a database to a new file at `path`, and returns their number. `ends_record` is that of the engine's
/// [files](DatabaseFiles::ends_record), for a file at any path.
///
/// # Errors
/// [`EngineError::Damaged`] if the store does not have the bytes, or there are none; [`EngineError::Unavailable`].
pub fn download(
    records: &impl RecordSource,
    store: &Arc<dyn DatabaseStore>,
    ids: &Arc<dyn Ids>,
    database: DatabaseId,
    path: &Path,
    ends_record: fn(&Path, u64) -> io::Result<bool>,
) -> Result<u64, EngineError> {
    let files = Arc::new(OneFile { path: path.to_owned(), ends_record });
    let mut file = DatabaseFile::new(Ports {
        database: database.to_string(),
        records: records.records(database),
        objects: StoredObjects(Arc::clone(store)),
        file: NodeFile { files, database, collected: Mutex::default() },
        nonces: RandomNonces(Arc::clone(ids)),
        limits: Limits::default(),
    });
    let row = run(file.ports().records.load(None)).map_err(|error| of_protocol(error.into()))?;
    if row.durable_length == 0 {
        return Err(EngineError::Damaged(format!("the store has no bytes of database {database}")));
    }
    run(file.follow(&row.position())).map_err(of_protocol)?;
    // It may have become longer meanwhile.
    fs::metadata(path).map(|found| found.len()).map_err(|error| EngineError::Unavailable(error.to_string()))
}
