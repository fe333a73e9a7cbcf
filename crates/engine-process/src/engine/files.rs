//! The files of the engine, for what keeps their bytes elsewhere too.

use std::path::{Path, PathBuf};

use branchyard_domain::ports::{DatabaseFiles, EngineError};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{ends_record, io_fault};

use super::ProcessEngine;

impl DatabaseFiles for ProcessEngine {
    fn path(&self, database: DatabaseId) -> PathBuf {
        self.files.path(database)
    }

    fn new_path(&self) -> PathBuf {
        self.files.temporary_path()
    }

    fn close(&self, database: DatabaseId) -> Result<(), EngineError> {
        let turn = self.queues.enter(database);
        self.pool.end_writers(database);
        self.evict(database);
        drop(turn);
        Ok(())
    }

    fn install(&self, database: DatabaseId, new: &Path) -> Result<(), EngineError> {
        let turn = self.queues.enter(database);
        self.pool.end_writers(database);
        ProcessEngine::install(self, &turn, new)
    }

    fn put_off(&self, database: DatabaseId) -> Result<(), EngineError> {
        let turn = self.queues.enter(database);
        self.pool.end_writers(database);
        self.evict(database);
        let moved = self.files.put_off_in_place(database).map_err(|error| io_fault("put off a copy", error));
        self.evict(database);
        drop(turn);
        moved
    }

    fn ends_record(&self, database: DatabaseId, at: u64) -> Result<bool, EngineError> {
        ends_record(&self.files.path(database), at).map_err(|error| io_fault("look at the end of a database", error))
    }
}
