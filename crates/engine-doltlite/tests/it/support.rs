//! A harness for tests: a folder, an engine, and shortcuts to use it.

use std::time::Duration;

use branchyard_domain::entities::{Cell, Signature};
use branchyard_domain::ports::{CollectedRows, Engine, EngineError, MergeOutcome, ReadQuery, SqlFailure, WriteJob};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};
use branchyard_engine_doltlite::EngineOptions;

use crate::tested::{Tested, open};

pub(crate) const LONG: Duration = Duration::from_secs(600);

pub(crate) struct EngineHarness {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) engine: Tested,
    pub(crate) base: CommitHash,
}

pub(crate) fn id(n: u8) -> DatabaseId {
    DatabaseId::parse(&format!("0199c3a7-1111-7222-8333-4444555566{n:02x}")).unwrap()
}

pub(crate) fn ada() -> Signature {
    Signature { name: "Ada".into(), email: "ada@example.test".into(), at: Timestamp::from_seconds(1_788_523_200) }
}

pub(crate) fn text(text: &str) -> Cell {
    Cell::Text(text.into())
}

impl EngineHarness {
    pub(crate) fn new() -> Self {
        Self::with(EngineOptions::default())
    }

    pub(crate) fn with(options: EngineOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = open(&folder.path().join("databases"), options);
        let base = engine.create(id(1), &ada(), "Create database").unwrap();
        Self { folder, engine, base }
    }

    /// Creates a commit on `base` in database 1.
    pub(crate) fn write(&self, base: &CommitHash, sql: &str) -> CommitHash {
        self.write_to(id(1), base, sql)
    }

    pub(crate) fn write_to(&self, database: DatabaseId, base: &CommitHash, sql: &str) -> CommitHash {
        match self.try_write(database, base, sql, LONG) {
            Ok(MergeOutcome::Head(head)) => head,
            other => panic!("{sql}: {other:?}"),
        }
    }

    pub(crate) fn try_write(
        &self,
        database: DatabaseId,
        base: &CommitHash,
        sql: &str,
        timeout: Duration,
    ) -> Result<MergeOutcome, EngineError> {
        let author = ada();
        let job =
            WriteJob { base, statements: sql, message: "Run SQL query", then_merge: None, author: &author, timeout };
        Ok(self.engine.write(database, &job)?.outcome)
    }

    pub(crate) fn write_failure(&self, base: &CommitHash, sql: &str) -> (String, u32) {
        match self.try_write(id(1), base, sql, LONG) {
            Err(EngineError::Sql { failure, statement }) => (failure.to_string(), statement),
            other => panic!("{sql}: {other:?}"),
        }
    }

    pub(crate) fn try_read(&self, at: &CommitHash, sql: &str, timeout: Duration) -> Result<CollectedRows, SqlFailure> {
        let mut taken = CollectedRows::default();
        match self.engine.read(id(1), at, &ReadQuery::new(sql, timeout), &mut taken) {
            Ok(_) => Ok(taken),
            Err(EngineError::Sql { failure, statement: 1 }) => Err(failure),
            Err(other) => panic!("{sql}: {other:?}"),
        }
    }

    pub(crate) fn read(&self, at: &CommitHash, sql: &str) -> Vec<Vec<Cell>> {
        self.try_read(at, sql, LONG).unwrap_or_else(|failure| panic!("{sql}: {failure}")).rows
    }

    pub(crate) fn read_failure(&self, at: &CommitHash, sql: &str) -> String {
        match self.try_read(at, sql, LONG) {
            Err(failure) => failure.to_string(),
            Ok(taken) => panic!("{sql}: {:?}", taken.rows),
        }
    }
}
