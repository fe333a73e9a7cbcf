//! The engine under test, for the tests of `branchyard-engine-doltlite` that this crate compiles too.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use branchyard_domain::ports::{FormatError, SqlPower, SqlSession, SqliteFileTable, SqliteFiles as _};
use branchyard_domain::values::DatabaseId;
use branchyard_engine_doltlite::EngineOptions;
use branchyard_engine_process::{ProcessEngine, ProcessOptions, ProcessSqliteFiles};

use crate::hostile::Kind;
use crate::support::command;

pub(crate) type Tested = Arc<ProcessEngine>;

/// The ports that hostile statements are passed to, and the number of statements of a default run. Workers serve no
/// sessions.
pub(crate) const TARGETS: &[(&str, Kind, usize)] =
    &[("process-read", Kind::Read, 2_000), ("process-write", Kind::Write, 300)];
/// Number of mutated pushes of a default run.
pub(crate) const PUSHES: u64 = 150;
/// How much longer than its time limit a statement may run: until its worker is killed, with the delays of a busy
/// machine.
pub(crate) const GRACE: Duration = Duration::from_millis(700);
/// Whether statements run on the thread of the caller.
pub(crate) const RUNS_IN_THREAD: bool = false;

pub(crate) fn open(folder: &Path, options: EngineOptions) -> Tested {
    let options = ProcessOptions { engine: options, ..ProcessOptions::new(command()) };
    Arc::new(ProcessEngine::open(folder.to_owned(), options).unwrap())
}

/// Creates a served database, if the engine has some.
pub(crate) fn create_served(_: &Tested, _: DatabaseId) {}

/// Begins a session on a served database, if the engine has some.
pub(crate) fn session(_: &Tested, _: DatabaseId, _: SqlPower) -> Option<Box<dyn SqlSession>> {
    None
}

pub(crate) fn open_sqlite(
    engine: &Tested,
    file: &mut dyn Read,
    table: &str,
    timeout: Duration,
) -> Result<Box<dyn SqliteFileTable>, FormatError> {
    ProcessSqliteFiles(Arc::clone(engine)).open_sqlite(file, table, timeout)
}
