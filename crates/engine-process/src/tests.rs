//! Tests of the server's side against workers that crash, hang and lie.

mod descriptors;
mod escape;
mod faults;
mod fuzz;
mod lies;
mod log;
mod pool;
pub(crate) mod sample;
mod started_reads;
mod wire;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use branchyard_domain::entities::Signature;
use branchyard_domain::ports::{
    CollectedRows, Engine as _, EngineError, MergeOutcome, ReadQuery, SqlFailure, WriteJob,
};
use branchyard_domain::values::{CommitHash, DatabaseId, Timestamp};
use uuid::Uuid;

use crate::worker::tests::{DEED, command};
use crate::{ProcessEngine, ProcessOptions};

/// A limit that no call reaches.
const AMPLE: Duration = Duration::from_secs(60);
/// The limit of a call that shall reach it, and the longest time that the call may take longer.
const LIMIT: Duration = Duration::from_millis(400);
const BEYOND: Duration = Duration::from_millis(700);

/// An engine over played workers, in a folder of its own.
struct Harness {
    folder: tempfile::TempDir,
    engine: Arc<ProcessEngine>,
}

/// A database with a table `t(v)` of one row, `'x'`.
#[derive(Debug, Clone)]
struct Db {
    id: DatabaseId,
    first: CommitHash,
    head: CommitHash,
}

fn author() -> Signature {
    Signature { name: "Ada".into(), email: "ada@example.org".into(), at: Timestamp::from_micros(1_700_000_000_000_000) }
}

fn deed(text: &str) -> String {
    format!("{DEED}{text}\nSELECT v FROM t")
}

impl Harness {
    fn new() -> Self {
        Self::with("", |_| ())
    }

    /// Two workers have a database at a time, so that two lost ones are noticed.
    fn with(at_start: &str, set: impl FnOnce(&mut ProcessOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Workers may have another user.
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let count = folder.path().join("count");
        std::fs::write(&count, "").unwrap();
        std::fs::set_permissions(&count, Permissions::from_mode(0o666)).unwrap();
        let mut options = ProcessOptions::new(command(&count, at_start));
        options.workers = 2;
        options.blank_workers = 2;
        options.worker_wait = Duration::from_secs(30);
        set(&mut options);
        let engine = Arc::new(ProcessEngine::open(folder.path().join("databases"), options).unwrap());
        Self { folder, engine }
    }

    fn database(&self, number: u128) -> Db {
        self.try_database(number).unwrap()
    }

    fn try_database(&self, number: u128) -> Result<Db, EngineError> {
        let id = DatabaseId::from_uuid(Uuid::from_u128(number));
        let first = self.engine.create(id, &author(), "first")?;
        let mut db = Db { id, first: first.clone(), head: first };
        db.head = self.write(&db, "CREATE TABLE t(v); INSERT INTO t VALUES ('x')")?;
        Ok(db)
    }

    fn write(&self, db: &Db, sql: &str) -> Result<CommitHash, EngineError> {
        self.write_within(db, sql, AMPLE)
    }

    fn write_within(&self, db: &Db, sql: &str, timeout: Duration) -> Result<CommitHash, EngineError> {
        let author = author();
        let job =
            WriteJob { base: &db.head, statements: sql, message: "write", then_merge: None, author: &author, timeout };
        match self.engine.write(db.id, &job)?.outcome {
            MergeOutcome::Head(head) => Ok(head),
            MergeOutcome::Conflicts(_) => panic!("nothing was merged"),
        }
    }

    fn read(&self, db: &Db, sql: &str) -> Result<Vec<String>, EngineError> {
        self.read_within(db, sql, AMPLE)
    }

    fn read_within(&self, db: &Db, sql: &str, timeout: Duration) -> Result<Vec<String>, EngineError> {
        let mut rows = CollectedRows::default();
        self.engine.read(db.id, &db.head, &ReadQuery::new(sql, timeout), &mut rows)?;
        Ok(rows.lines())
    }

    /// Checks that the engine works on, with all its places for workers.
    fn works(&self, databases: &[&Db]) {
        for db in databases {
            assert_eq!(self.read(db, "SELECT v FROM t").unwrap(), ["x"]);
            self.write(db, "INSERT INTO t VALUES ('y')").unwrap();
        }
        let load = self.engine.workers();
        assert!(load.busy == 0 && load.idle <= 2, "{load:?}");
    }
}

/// Runs a call whose limit is [`LIMIT`], and checks the time that it took.
fn in_time<T>(call: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = call();
    let took = start.elapsed();
    println!("took {took:?} with a limit of {LIMIT:?}");
    assert!(took < LIMIT + BEYOND, "took {took:?}");
    result
}

fn is_timeout(error: &EngineError) -> bool {
    matches!(error, EngineError::Sql { failure: SqlFailure::TimedOut(_), .. } | EngineError::TimedOut(_))
}

/// Returns the text of a failure that is blamed on the statement.
fn blamed(error: EngineError) -> String {
    match error {
        EngineError::Sql { failure: SqlFailure::Engine(text), .. } => text,
        other => panic!("{other:?}"),
    }
}
