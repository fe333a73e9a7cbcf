//! The engine under test. `branchyard-engine-process` compiles the modules of these tests with an engine of its own.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::{
    FormatError, SessionCaller, SessionEngine as _, SessionRequest, SqlPower, SqlSession, SqliteFileTable, SqliteFiles,
};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};

use crate::hostile::Kind;
use crate::support::ada;

pub(crate) type Tested = Arc<DoltliteEngine>;

/// The ports that hostile statements are passed to, and the number of statements of a default run.
pub(crate) const TARGETS: &[(&str, Kind, usize)] = &[
    ("engine-read", Kind::Read, 4_000),
    ("engine-write", Kind::Write, 400),
    ("engine-read-session", Kind::ReadSession, 2_000),
    ("engine-write-session", Kind::WriteSession, 400),
];
/// Number of mutated pushes of a default run.
pub(crate) const PUSHES: u64 = 400;
/// How much longer than its time limit a statement may compute.
pub(crate) const GRACE: Duration = Duration::from_millis(200);
/// Whether statements run on the thread of the caller.
pub(crate) const RUNS_IN_THREAD: bool = true;

pub(crate) fn open(folder: &Path, options: EngineOptions) -> Tested {
    Arc::new(DoltliteEngine::open(folder.to_owned(), options).unwrap())
}

/// Creates a served database.
pub(crate) fn create_served(engine: &Tested, database: DatabaseId) {
    engine.create_served(database, &ada(), "Create database").unwrap();
}

/// Begins a session on a served database.
pub(crate) fn session(engine: &Tested, database: DatabaseId, power: SqlPower) -> Option<Box<dyn SqlSession>> {
    let caller = SessionCaller { name: "bob".into(), email: "bob@example.test".into() };
    let request = SessionRequest { database, branch: None, power, caller, foreign_keys: true };
    Some(engine.session(&request).unwrap())
}

pub(crate) fn open_sqlite(
    engine: &Tested,
    file: &mut dyn Read,
    table: &str,
    timeout: Duration,
) -> Result<Box<dyn SqliteFileTable>, FormatError> {
    let files: &dyn SqliteFiles = &**engine;
    files.open_sqlite(file, table, timeout)
}
