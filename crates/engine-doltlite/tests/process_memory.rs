//! The memory limit for all of SQLite in a process. A separate test binary, because the limit belongs to the process.
#![expect(unsafe_code, reason = "the engine's figure of memory in use has no safe wrapper")]

use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};
use rusqlite::Connection;

#[test]
fn the_process_has_its_limit_without_the_lock_of_the_engines_statistics() {
    let folder = tempfile::tempdir().unwrap();
    let options = EngineOptions { process_memory: Some(32 << 20), ..EngineOptions::default() };
    let _engine = DoltliteEngine::open(folder.path().join("databases"), options).unwrap();
    // Allocates like the metadata store, without the engine.
    let connection = Connection::open_in_memory().unwrap();
    let hold =
        |bytes: u32| connection.query_row(&format!("select length(zeroblob({bytes}) || '')"), [], |row| row.get(0));
    assert_eq!(hold(10 << 20), Ok(0));
    let refused = hold(40 << 20).unwrap_err();
    assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::OutOfMemory), "{refused}");
    assert_eq!(hold(10 << 20), Ok(0), "what was taken was given back");
    // With memory statistics, every allocation of every thread takes one lock. Without them, the engine reports no
    // memory in use.
    // SAFETY: the function returns a plain number.
    assert_eq!(unsafe { rusqlite::ffi::sqlite3_memory_used() }, 0);
}
